"""run_command: a shell line in the workspace.

Owns: the description that the model reads and the shape of the result. The line is given to ``bash -c`` as it is, with
the workspace as working directory, no input, and an environment without variables whose names look like credentials.
It can do what the user can; whether it may run is the approver's to say. When the call ends, everything that the line
started is ended too.
With a plan for a sandbox the line runs inside one, with the environment that the sandbox makes; a sandbox that cannot
be had is an error, and the line does not run. Who makes the plans decides which lines may do without.
"""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Literal

from antigravity_acp.hooks.calls import ToolError, ToolResult
from antigravity_acp.limits import COMMAND_TIMEOUT_S, MAX_COMMAND_OUTPUT_BYTES, MAX_COMMAND_TIMEOUT_S
from antigravity_control.sandbox import SandboxError, SandboxPlan, sandboxed

from ._threads import in_thread
from .process import run_process, scrubbed_environment
from .registry import ToolContext
from .workspace import reason

#: The sandbox for a line and its working directory; ``None`` where it may run without one.
SandboxFor = Callable[[str, Path], SandboxPlan | None]


class RunCommand:
    """Runs a shell line.

    :param sandbox_for: asked for every line, and must not block; no line is sandboxed when left out.
    """

    name: Final = "run_command"
    kind: Literal["execute"] = "execute"
    description: Final = (
        "Run a shell line with `bash -c` in the workspace directory. It has no input. stdout and stderr come together; "
        "long output is cut in the middle. Processes left in the background are ended when the line ends."
    )
    parameters: Final[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1, "description": "The line to run."},
            "timeout_s": {
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": MAX_COMMAND_TIMEOUT_S,
                "description": f"Seconds after which it is ended, {COMMAND_TIMEOUT_S:g} by default.",
            },
        },
        "required": ["command"],
        "additionalProperties": False,
    }

    def __init__(self, sandbox_for: SandboxFor | None = None) -> None:
        self._sandbox_for = sandbox_for

    @property
    def confines(self) -> bool:
        """Whether lines can run in a sandbox here."""
        return self._sandbox_for is not None

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run it; a line that fails is a result with its exit code, one that ran too long is an error.

        :raises ToolError: when it cannot be started, or not in the sandbox that it is to run in.
        """
        command, timeout_s = arguments["command"], arguments.get("timeout_s", COMMAND_TIMEOUT_S)
        if "\0" in command:
            raise ToolError("A command cannot hold a NUL character.")
        root = context.workspace.root
        plan = None if self._sandbox_for is None else self._sandbox_for(command, root)
        # What the sandbox has laid out is taken away after everything that ran in it has ended.
        with ExitStack() as stack:
            try:
                argv, env = await self._prepared(command, root, plan, stack)
                ended = await run_process(
                    argv, cwd=root, env=env, timeout_s=timeout_s, max_output=MAX_COMMAND_OUTPUT_BYTES
                )
            except SandboxError as error:
                raise ToolError(f"The command was not run, since its sandbox cannot be had. {error.message}") from None
            except (OSError, UnicodeEncodeError) as error:
                text = reason(error) if isinstance(error, OSError) else "it cannot be encoded"
                raise ToolError(f"The command cannot be started: {text}.") from None
        output = ended.output.decode("utf-8", "replace")
        gap = "" if not output or output.endswith("\n") else "\n"
        if ended.code is None:
            return ToolResult.of(f"{output}{gap}[ended after {timeout_s:g} s, with all it had started]", is_error=True)
        how = f"exit code {ended.code}" if ended.code >= 0 else f"ended by signal {-ended.code}"
        return ToolResult.of(f"{output}{gap}[{how}]")

    async def _prepared(
        self, command: str, root: Path, plan: SandboxPlan | None, stack: ExitStack
    ) -> tuple[Sequence[str], Mapping[str, str]]:
        """What to start, and its environment. :raises SandboxError: :raises ToolError: there is no bash."""
        if plan is not None:
            # On the stack from within the thread: a cancelled caller still cleans up what was laid out.
            laid = await in_thread(lambda: stack.enter_context(sandboxed(["bash", "-c", command], plan, cwd=root)))
            return laid.argv, laid.env
        bash = _bash(root)
        if bash is None:
            raise ToolError("There is no bash on this machine.")
        return [bash, "-c", command], scrubbed_environment()


def _bash(root: Path) -> str | None:
    """The first on ``PATH`` that does not lie in the workspace, where whoever writes files could have put one: an
    environment of the workspace is often the first there."""
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        found = shutil.which("bash", path=entry) if os.path.isabs(entry) else None
        if found and not any(Path(os.path.realpath(each)).is_relative_to(root) for each in (entry, found)):
            return found
    return None
