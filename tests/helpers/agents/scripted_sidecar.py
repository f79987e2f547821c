"""The sidecar process around an adapter that plays what the last message says, a JSON list of steps.

``{"say": TEXT, "times": N}`` deltas of one text block · ``{"big": N}`` one delta of N
characters · ``{"raise": CODE, "retry": MS, "status": N}`` an LlmError ·
``{"crash": TEXT}`` any other exception · ``{"finish": KIND, "code": CODE}`` the finish · ``{"wait": true}`` until the
signal fires, then ABORTED · ``{"print": TEXT}`` a stray print and write to descriptor 1 · ``{"log": TEXT}`` a warning
of ours, and one of a library · ``{"notice": TEXT, "times": N}`` notices · ``{"read": true}`` reads stdin by habit.

Models: `list_models` of an adapter whose settings have the argument ``models:CODE`` fails with that code; with
``models:wait`` it never answers.
"""

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

from antigravity_acp.contract import (
    BlockEnd,
    BlockStart,
    Failure,
    Finish,
    FinishReason,
    GenerateOptions,
    LlmError,
    ModelInfo,
    Notice,
    ResolvedModelInfo,
    StreamChunk,
    TextBlock,
    TextDelta,
)
from antigravity_acp.settings import Settings
from antigravity_acp.sidecar.__main__ import main


class Scripted:
    """The adapter."""

    def __init__(self, settings: Settings, *, notify: Any) -> None:
        self.settings = settings
        self.notify = notify
        self.pulled = 0
        self.aborted = 0

    async def list_models(self, provider: str) -> list[ModelInfo]:
        for argument in self.settings.args:
            if argument == "models:wait":
                await asyncio.Event().wait()
            if argument.startswith("models:"):
                raise LlmError(argument.partition(":")[2])
        return [ModelInfo(provider, "m1", "Model 1", input_modalities=("text",)), ModelInfo(provider, "m2", "Model 2")]

    async def resolve_model(self, provider: str, model: str) -> ResolvedModelInfo:
        return ResolvedModelInfo(provider, model, model)

    async def stream(self, options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        if options.signal is not None:
            options.signal.add_listener(self._abort)
        for step in json.loads(options.messages[-1].text):
            async for chunk in self.play(step, options):
                self.pulled += 1
                yield chunk

    def _abort(self) -> None:
        self.aborted += 1

    async def play(self, step: dict[str, Any], options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        assert options.signal is not None
        if "say" in step:
            yield BlockStart(0, "text")
            for _ in range(step.get("times", 1)):
                if options.signal.aborted:
                    yield BlockEnd(0, TextBlock(""))
                    raise LlmError("ABORTED")
                yield TextDelta(0, step["say"])
            yield BlockEnd(0, TextBlock(step["say"]))
        elif "big" in step:
            yield BlockStart(0, "text")
            yield TextDelta(0, "x" * step["big"])
        elif "raise" in step:
            raise LlmError(step["raise"], retry_after_ms=step.get("retry"), status=step.get("status"))
        elif "crash" in step:
            raise RuntimeError(step["crash"])
        elif "finish" in step:
            failure = Failure("as it is", step["code"]) if "code" in step else None
            yield Finish(FinishReason(step["finish"], failure))
        elif "wait" in step:
            await options.signal.wait()
            raise LlmError("ABORTED")
        else:
            self.act(step)

    def act(self, step: dict[str, Any]) -> None:
        if "print" in step:
            print(step["print"], flush=True)
            os.write(1, step["print"].encode() + b"\n")
        elif "log" in step:
            logging.getLogger("antigravity_acp.test").warning(step["log"])
            logging.getLogger("somebody.else").error(step["log"])
        elif "read" in step:
            assert sys.stdin.read() == ""
        elif "notice" in step:
            for _ in range(step.get("times", 1)):
                self.notify(Notice("install.download", step["notice"], progress=0.5))

    def update(self, settings: Settings) -> None:
        self.settings = settings

    def diagnostics(self) -> dict[str, int]:
        return {"pulled": self.pulled, "aborted": self.aborted, "timeout_ms": self.settings.timeout_ms}

    async def dispose(self) -> None:
        pass


if __name__ == "__main__":
    sys.exit(main(lambda: Scripted))
