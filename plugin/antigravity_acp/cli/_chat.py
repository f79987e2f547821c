"""One conversation on the command line.

Owns: a host with this project's plugin and every other one that is installed, an agent loop on the workspace, and who
is asked about tool calls. Ends with the command; the agent and everything the host started end with it.
Never: keeps a conversation; it lives in this process only.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from antigravity_acp.contract import AbortController, LlmError
from antigravity_acp.governing import Governor, Records
from antigravity_acp.host import (
    AgentLoop,
    Approvals,
    GovernedApprover,
    Host,
    LineReader,
    LoopLimits,
    ModelChoice,
    TerminalApprover,
    TurnResult,
    Workspace,
    WorkspaceError,
)
from antigravity_acp.host.events import LoopEvent, ToolDecided
from antigravity_acp.manifest import manifest
from antigravity_acp.settings import Settings
from antigravity_control import Rules, RulesError

from ._setup import advise
from .failures import CliError
from .options import AgentFlags
from .output import Output, count, open_output, plain
from .running import Interrupts

SYSTEM: Final = """\
You are an assistant that works in one directory, the workspace, with the tools you are given. Paths are relative to it.
Look before you change something. When a call is refused, say so and go on without it."""


@dataclass(frozen=True)
class Chat:
    """What the command line asks for."""

    agent: AgentFlags
    model: str | None
    workspace: str
    rules: str
    max_steps: int | None
    as_json: bool


async def run_chat(chat: Chat, prompt: str | None, interrupts: Interrupts) -> int:
    """Run the conversation.

    :returns: the exit code.
    :raises CliError: what cannot begin. :raises LlmError: likewise.
    """
    values = chat.agent.settings()
    settings = Settings.from_mapping(values)
    rules, workspace = _rules(chat.rules), _workspace(chat.workspace)
    if prompt is not None and not prompt.strip():
        raise CliError("USAGE", "The prompt is empty.")
    output = open_output(as_json=chat.as_json, aside=True)
    headless = not (sys.stdin.isatty() and sys.stderr.isatty())
    reader = LineReader()
    records = Records(settings, host="chat")
    files = _settings_files(chat)
    governor = _governed(chat, lambda: Governor(
        settings, workspace.root, attended=not headless, names=rules, records=records, confines=True,
        settings_files=files,
    ))  # fmt: skip
    async with Host({manifest().id: values}) as host:
        # Its rules hold here whether `control` is on or off; the plugin's own hook finds it and leaves it at that.
        host.ctx.effect(governor.aclose, "records")
        host.ctx.provide("governor", governor)
        host.ctx.provide("notices", lambda notice: output.show({"event": "notice", **msgspec.to_builtins(notice)}))
        await host.start()
        _known(rules, host)
        model = _model(host, chat.model)
        listener = _Listener(chat, output, governor)
        await governor.ready()
        _tell_faults(governor, output)
        _tell_settings(governor, host, output)
        loop = AgentLoop(
            host.ctx,
            model=model,
            workspace=workspace,
            approver=Approvals(
                GovernedApprover(governor), None if headless else TerminalApprover(reader, governor=governor)
            ),
            system=SYSTEM,
            listener=listener,
            limits=LoopLimits(max_steps=chat.max_steps) if chat.max_steps else None,
        )
        output.show({"event": "start", "model": str(model), "workspace": str(workspace.root), "headless": headless})
        talk = _Talk(loop, listener, interrupts, settings)
        return await talk.once(prompt) if prompt is not None else await talk.read_on(reader, prompted=not headless)


class _Talk:
    """Turns of one conversation."""

    def __init__(self, loop: AgentLoop, listener: "_Listener", interrupts: Interrupts, settings: Settings) -> None:
        self._loop = loop
        self._listener = listener
        self._output = listener.output
        self._interrupts = interrupts
        self._settings = settings

    async def once(self, prompt: str) -> int:
        """One turn; its failure is the command's."""
        result = await self._turn(prompt)
        if result.failure is None:
            self._output.show({"event": "end", "ok": True, "text": f"done in {count(result.steps, 'step')}"})
            return 0
        raise self._failure(result)

    async def read_on(self, reader: LineReader, *, prompted: bool) -> int:
        """Turns until the input ends; a turn that fails is told and the conversation goes on.

        :returns: the exit code of the last turn: who pipes prompts in wants to know.
        """
        status = 0
        while (line := await self._read(reader, prompted=prompted)) is not None:
            if line in ("/exit", "/quit"):
                break
            if line:
                result = await self._turn(line)
                status = 0
                if result.failure is not None:
                    failure = self._failure(result)
                    status = failure.status
                    _tell(self._output, failure)
        return status

    async def _turn(self, prompt: str) -> TurnResult:
        controller = AbortController()
        self._listener.on_reader_gone = lambda: controller.abort("nobody reads the output")
        with self._interrupts.first(lambda: controller.abort("Ctrl-C")):
            result = await self._loop.run(prompt, signal=controller.signal)
        if self._listener.reader_gone:
            raise BrokenPipeError
        return result

    async def _read(self, reader: LineReader, *, prompted: bool) -> str | None:
        def hint() -> None:
            sys.stderr.write("\nCtrl-C again leaves; /exit does, too.\n> ")
            sys.stderr.flush()

        if prompted:
            sys.stderr.write("> ")
            sys.stderr.flush()
        with self._interrupts.first(hint):
            line = await reader.readline()
        if line is None and prompted:
            sys.stderr.write("\n")
        return None if line is None else line.strip()

    def _failure(self, result: TurnResult) -> CliError:
        failure = result.failure
        if failure is None:
            return CliError("UNKNOWN", "The turn ended without saying why.")
        return advise(CliError(failure.code, failure.message), self._settings)


class _Listener:
    """Shows the loop's events, and says how a call that nobody could approve would be allowed: in the transcript in the
    line about the refusal, with ``--json`` on a line of stderr."""

    def __init__(self, chat: Chat, output: Output, governor: Governor) -> None:
        self.output = output
        self.on_reader_gone: Callable[[], None] = lambda: None
        #: Whoever read stdout has closed it.
        self.reader_gone = False
        self._as_json = chat.as_json
        self._written = chat.rules.strip()
        self._place = chat.agent.settings_file or str(governor.rules_file)

    def __call__(self, event: LoopEvent) -> None:
        if self.reader_gone:
            return
        wire = event.to_wire()
        soft = isinstance(event, ToolDecided) and event.soft
        line = self._advice(event) if isinstance(event, ToolDecided) and event.soft else ""
        try:
            self.output.show({**wire, "reason": line} if soft and not self._as_json else wire)
        except BrokenPipeError:
            # Raised into the loop it would only be logged; the turn has no reason to go on.
            self.reader_gone = True
            self.on_reader_gone()
            return
        if soft and self._as_json:
            print(f"antigravity-acp: {line}", file=sys.stderr, flush=True)

    def _advice(self, event: ToolDecided) -> str:
        """Why, and what would help, on one line."""
        remedy = ""
        # Only where no rule had a say: one that asks, or a plugin that does, stays in force beside one that allows.
        if event.remedies:
            head = "Rule" if len(event.remedies) == 1 else "Rules, all of them"
            remedy = f" {head}: {'; '.join(event.remedies)}. In: {self._place}."
            # A tool that runs commands would be open to every one of them.
            if not any(each.startswith(("command(", "unsandboxed(")) for each in event.remedies):
                names = ",".join(filter(None, (self._written, event.name)))
                remedy += f" Or here: --yes '{names}'."
        return " ".join(plain(f"{event.reason}{remedy}").split("\n"))


def _governed(chat: Chat, make: Callable[[], Governor]) -> Governor:
    """The governor; what is wrong with a rule of the settings is said with their file's name."""
    try:
        return make()
    except LlmError as error:
        if chat.agent.settings_file is None:
            raise
        raise CliError(error.code, f"{chat.agent.settings_file}: {error.message}") from None


def _settings_files(chat: Chat) -> list[str]:
    """The file that the model's calls must not change unasked."""
    return [os.path.abspath(chat.agent.settings_file)] if chat.agent.settings_file else []


def _known(rules: Rules, host: Host) -> None:
    """Refuse rules of --yes that name no tool: a denial with a letter too few would deny nothing.

    :raises CliError: ``USAGE``.
    """
    # Late: only a mistake needs it.
    from difflib import get_close_matches

    tools = [tool.name for tool in host.ctx.tools.schemas()]
    for name in sorted((rules.allow | rules.ask | rules.deny) - {"*", *tools}):
        near = get_close_matches(name, tools, n=1)
        meant = f"; did you mean `{near[0]}`?" if near else "."
        raise CliError("USAGE", f"--yes: there is no tool `{name}`{meant} The tools are {', '.join(tools)}.")


def _tell_settings(governor: Governor, host: Host, output: Output) -> None:
    """What of the settings in force a person should know before anything runs."""
    settings, mode = governor.settings, governor.mode.split()
    texts = []
    if "skip" in mode:
        texts.append(
            "The escape hatch is open (`dangerouslySkipPermissions`): what would be asked about runs. Only denials and "
            "the floor hold."
        )
    if settings.tool_permission == "proceed-in-sandbox" and "sandbox" not in mode:
        texts.append(
            "`toolPermission` is `proceed-in-sandbox` and `enableTerminalSandbox` is off: commands are asked about, as "
            "with `request-review`."
        )
    tools = {"*", *(tool.name for tool in host.ctx.tools.schemas())}
    for kind in ("allow", "ask", "deny"):
        for place, text in enumerate(getattr(settings.permissions, kind)):
            if "(" not in text and text.strip() not in tools:
                texts.append(
                    f"Setting `permissions.{kind}[{place}]` names no tool of this host and does nothing here; a rule "
                    "about commands is written `command(…)`."
                )
    for text in texts:
        output.show({"event": "notice", "code": "RULES", "level": "warning", "message": text})


def _tell_faults(governor: Governor, output: Output) -> None:
    for fault in governor.faults():
        output.show({"event": "notice", "code": "RULES", "level": "warning", "message": f"Rules: {fault}"})


def _tell(output: Output, failure: CliError) -> None:
    output.show({"event": "error", "code": failure.code, "message": failure.message})
    print(f"antigravity-acp: {failure}", file=sys.stderr, flush=True)


def _rules(text: str) -> Rules:
    try:
        return Rules.parse(text)
    except RulesError as error:
        where = " Rules such as `command(git status)` stand under `permissions` of a settings file." * ("(" in text)
        raise CliError("USAGE", f"--yes: {error}.{where}") from None


def _workspace(path: str) -> Workspace:
    try:
        return Workspace(os.path.expanduser(path))
    except WorkspaceError as error:
        raise CliError("USAGE", f"--workspace: {error}") from None


def _model(host: Host, wanted: str | None) -> ModelChoice:
    route = manifest().provider
    if route not in {info.id for info in host.ctx.llm.list_providers()}:
        reason = next((f" {each.reason}." for each in host.failures if each.plugin == manifest().id), "")
        raise LlmError(
            "NO_ADAPTER", f"The plugin `{manifest().id}` is not mounted.{reason} Install this package again."
        )
    if wanted is None:
        return host.choose_model()
    provider, slash, _ = wanted.partition("/")
    served = {info.id for info in host.ctx.llm.list_providers()}
    return ModelChoice.parse(wanted, provider=None if slash and provider in served else route, where="--model")
