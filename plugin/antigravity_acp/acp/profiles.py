"""Agent profiles: what differs from agent to agent, as data.

Owns: :data:`PROFILES` and the strict default. A profile says how an agent is recognised by its ``agentInfo.name``,
how it shows that a request concerns our tool, what it calls an exported tool, which sign-in it takes by default and
what its process needs. Adding an agent is adding one entry, with the version it was measured on; no code elsewhere
knows an agent by name.
"""

import math
import re
from typing import Any, Final

import msgspec

from ..limits import MAX_EXPORTED_NAME


class NameRule(msgspec.Struct, frozen=True):
    """Recognition by an id that the agent itself builds from the names of server and tool.

    ``{server}`` and ``{tool}`` are filled in. The title is not looked at: a shell command can have any title (measured
    in four agents), and a call of ours has the text of its argument ``command`` for a title, where it has one (Gemini
    CLI 0.61.0). Only the agent chooses the id.

    :param id_prefix: what ``toolCallId`` begins with. :param kind: ACP tool kind of a permission request.
    """

    id_prefix: str
    kind: str


class AgentProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One agent. Every field has the strict default.

    :param id: our name for it. :param names: the ``agentInfo.name`` values it reports. :param measured: versions.
    :param programs: stems of its programs' file names, for what must be known before the process answers.
    :param env: environment that its process needs. :param auth_method: sign-in method when none is configured.
    :param logout_prompt: a prompt that signs out, for agents that take commands in prompts and no ACP ``logout``.
    :param name_rule: recognition by name; ``None``: ``_meta.mcp = {server, tool}`` alone.
    :param allow_option: exact id of the option to choose; ``None``: the only one of kind ``allow_once``.
    :param tool_name_prefix: what the agent puts before an exported tool name in the model's request.
    :param question_prefix: ``toolCallId`` values that begin so are questions to the user.
    :param call_limit_s: seconds after which it gives up on an MCP call, whatever the server does; what a process
        announces itself wins, see :func:`profile_for`. The default is that of the clients with the least patience.
    """

    id: str
    names: tuple[str, ...] = ()
    measured: str = ""
    programs: tuple[str, ...] = ()
    env: dict[str, str] = {}
    auth_method: str | None = None
    logout_prompt: str | None = None
    name_rule: NameRule | None = None
    allow_option: str | None = None
    tool_name_prefix: str = "mcp__{server}__"
    question_prefix: str = "interaction_"
    call_limit_s: float = 60.0

    def tool_prefix(self, server_name: str) -> str:
        """What stands before an exported name in the 64 characters that the model's API allows."""
        return self.tool_name_prefix.format(server=server_name)

    def name_budget(self, server_name: str) -> int:
        """Characters that are left for an exported name."""
        return MAX_EXPORTED_NAME - len(self.tool_prefix(server_name))


#: Our name for Google's own server.
OFFICIAL: Final = "official"

PROFILES: Final[tuple[AgentProfile, ...]] = (
    AgentProfile(
        id=OFFICIAL,
        names=("antigravity-acp",),
        measured="1.0.0 to 1.3.0, from recorded traffic",
        programs=("agy_acp_server",),
        auth_method="oauth-personal",
        # It takes prompts that begin with a slash itself; they never reach a model (recorded on 1.0.0).
        logout_prompt="/logout",
        # Reports differ on the id of its one option of kind `allow_once`: `allow_once`, and `allow` in 1.3.0.
        tool_name_prefix="mcp_{server}_",
        # The default of the harness that it carries (measured on 0.1.22 beside the engine).
        call_limit_s=180.0,
    ),
    AgentProfile(
        id="engine",
        names=("antigravity-engine",),
        measured="with this release",
        programs=("antigravity-engine",),
        allow_option="allow_once",
        tool_name_prefix="mcp_{server}_",
        # That of a start without options; the engine announces what it was really started with.
        call_limit_s=1800.0,
    ),
    AgentProfile(
        id="gemini-cli",
        names=("gemini-cli",),
        measured="0.61.0",
        programs=("gemini", "gemini-cli"),
        # Without the first, MCP servers of the client are dropped in a new folder; without the second a relaunched
        # child ignores SIGTERM and outlives its parent.
        env={"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true"},
        auth_method="gemini-api-key",
        # It puts the name of the called function before every id, also where the model's API supplies one.
        name_rule=NameRule(id_prefix="mcp_{server}_{tool}__", kind="other"),
        allow_option="proceed_once",
        tool_name_prefix="mcp_{server}_",
        call_limit_s=600.0,
    ),
)

#: Where an agent may announce its limit for an MCP call, within ``agentCapabilities``: ``_meta``, this, ``LIMIT_KEY``.
META_KEY: Final = "antigravity-acp"
#: Seconds, a positive number.
LIMIT_KEY: Final = "mcpCallLimitSeconds"

#: Every agent without an entry of its own.
STRICT: Final = AgentProfile(id="unknown")


def profile_for(agent_name: str, capabilities: dict[str, Any] | None = None) -> AgentProfile:
    """The profile of an agent by the name that it reports in ``initialize``.

    :param capabilities: its ``agentCapabilities``. Options may change the limit for an MCP call, so a process may say
        in ``_meta`` what holds for it; anything but a positive number is ignored.
    """
    profile = next((profile for profile in PROFILES if agent_name in profile.names), STRICT)
    limit = _announced_limit(capabilities or {})
    return profile if limit is None else msgspec.structs.replace(profile, call_limit_s=limit)


def _announced_limit(capabilities: dict[str, Any]) -> float | None:
    value: Any = capabilities
    for key in ("_meta", META_KEY, LIMIT_KEY):
        value = value.get(key) if isinstance(value, dict) else None
    if type(value) not in (int, float):
        return None
    try:
        limit = float(value)
    except OverflowError:
        return None
    return limit if math.isfinite(limit) and limit > 0 else None


def environment_for(argv: tuple[str, ...]) -> dict[str, str]:
    """What a command's process needs, as far as its program is known by its file name.

    Scripts are started through an interpreter (``node …/gemini.js``), so every argument that is a path counts.
    """
    stems = {re.split(r"[\\/]", item)[-1].rsplit(".", 1)[0].lower() for item in argv}
    found: dict[str, str] = {}
    for profile in PROFILES:
        if stems & set(profile.programs):
            found.update(profile.env)
    return found
