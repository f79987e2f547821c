"""`antigravity-engine`: the command line. Everything heavy is imported after the arguments are understood."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from antigravity_engine import __version__, limits
from antigravity_engine.options import DEFAULT_SYSTEM, Options, UsageError

EXIT_USAGE = 2

_EPILOG = """\
Without a flag the back end is chosen by the environment: GOOGLE_GENAI_USE_VERTEXAI=true, else GEMINI_API_KEY.
Sub-agents are always off: no policy reaches the calls that they make.
"""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Speaks ACP on stdin and stdout until stdin ends. Exit codes: 0 ended, 2 the command line or set-up is wrong."""
    try:
        options, check = _parse(sys.argv[1:] if argv is None else argv)
        code = _check(options) if check else _serve(options)
    except UsageError as error:
        sys.stderr.write(f"antigravity-engine: {error}\n")
        code = EXIT_USAGE
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: it would wait for a reader of stdin and for threads of the SDK, which may be stuck for minutes.
    os._exit(code)


def _parse(argv: Sequence[str]) -> tuple[Options, bool]:
    parser = argparse.ArgumentParser(
        prog="antigravity-engine",
        description="An ACP agent on Google's Antigravity SDK that works with the tools its client lends it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"antigravity-engine {__version__}")
    parser.add_argument("--check", action="store_true", help="say in one line whether it can run, and end (0, or 2)")
    model = parser.add_argument_group("model")
    model.add_argument("--backend", choices=("gemini", "vertex", "openai", "script"), help="where the model is")
    model.add_argument("--gemini-base-url", metavar="URL", help="a Gemini-compatible end point (key: GEMINI_API_KEY)")
    model.add_argument("--openai-base-url", metavar="URL", help="an OpenAI-compatible end point, e.g. Ollama's")
    model.add_argument(
        "--openai-api-key-env",
        metavar="NAME",
        help="variable with that end point's key (default: OPENAI_API_KEY, for https only)",
    )
    model.add_argument("--script", type=Path, metavar="FILE", help="a scripted model, offline: see the README")
    model.add_argument(
        "--script-log", type=Path, metavar="FILE", help="write what the scripted model receives, as JSON"
    )
    model.add_argument("--model", action="append", default=[], metavar="ID", help="offer this model; may be repeated")
    model.add_argument(
        "--model-retries", type=_count, default=0, metavar="N", help="retries of a 429 or 503 (default 0: the client's)"
    )
    model.add_argument(
        "--max-model-calls", type=_count, default=0, metavar="N", help="model calls of one turn (default 0: no limit)"
    )
    work = parser.add_argument_group("work")
    work.add_argument("--system", type=Path, metavar="FILE", help="replace the system text")
    work.add_argument(
        "--native-tools", choices=("none", "all"), default="none", help="the harness's own tools (default none)"
    )
    work.add_argument(
        "--mcp-timeout",
        type=_seconds,
        default=limits.MCP_TIMEOUT_S,
        metavar="S",
        help="limit of one tool call, seconds; 0 for the harness's own (180)",
    )
    work.add_argument("--state", type=Path, metavar="DIR", help="keep transcripts, in clear text, in DIR")
    given = parser.parse_args(argv)
    options = Options(
        backend=given.backend,
        gemini_base_url=given.gemini_base_url,
        openai_base_url=given.openai_base_url,
        openai_api_key_env=given.openai_api_key_env,
        script=given.script,
        script_log=given.script_log,
        models=tuple(given.model),
        system_text=_system_text(given.system),
        native_tools=given.native_tools == "all",
        mcp_timeout_s=given.mcp_timeout,
        model_retries=given.model_retries,
        max_model_calls=given.max_model_calls,
        state=given.state,
        environment=dict(os.environ),
    )
    return options, given.check


def _count(text: str) -> int:
    if not text.isdigit() or int(text) > 10_000:
        raise argparse.ArgumentTypeError("a number from 0 to 10000 is needed")
    return int(text)


def _seconds(text: str) -> int:
    if not text.isdigit() or int(text) > 86_400:
        raise argparse.ArgumentTypeError("whole seconds from 0 to 86400 are needed")
    return int(text)


def _system_text(path: Path | None) -> str:
    if path is None:
        return DEFAULT_SYSTEM
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"--system: {path} cannot be read as text") from None
    if not text.strip():
        raise UsageError(f"--system: {path} is empty")
    return text


def _check(options: Options) -> int:
    """One line: what would be used, or what is missing. Asks no network."""
    from antigravity_engine import backends
    from antigravity_engine.install import find_harness

    backend = backends.choose(options)
    if backend is None:
        raise UsageError(backends.NO_BACKEND)
    if backend.script is not None:
        _load(backend.script)
    version = find_harness(options.environment)
    sys.stdout.write(f"ready: {backend.label}; google-antigravity {version}\n")
    return 0


def _load(script: Path) -> None:
    from antigravity_engine.script.rules import ScriptError, load_script

    try:
        load_script(script)
    except ScriptError as error:
        raise UsageError(str(error)) from None


def _serve(options: Options) -> int:
    import asyncio

    from antigravity_engine import agent, backends, wire
    from antigravity_engine.logs import configure

    backend = backends.choose(options)
    if backend is not None and backend.script is not None:
        _load(backend.script)
    configure()
    stdin, stdout = wire.take_stdio()
    backends.with_loopback(os.environ)
    asyncio.run(agent.serve(options, backend, stdin, stdout))
    return 0


if __name__ == "__main__":
    main()
