"""The stable error codes of the adapter and what each one means.

Owns: the list of codes, one row each. Hosts route on the code and never on a message. ``docs/errors.md``
is generated from this table, so the two cannot drift apart.
Never: carries remote text; the texts here are the only ones a code has by default.
"""

from typing import Final, NamedTuple


class ErrorRow(NamedTuple):
    """One row of the table: what happened, what to do next, and whether the same request may simply be repeated."""

    happened: str
    remedy: str
    retryable: bool = False


#: Every code that this plugin raises or puts into a terminal ``finish``.
ERRORS: Final[dict[str, ErrorRow]] = {
    "ABORTED": ErrorRow("The request was cancelled by its signal or its consumer.", "Nothing; start a new request."),
    "UNSUPPORTED_OPTION": ErrorRow(
        "The request asks for something that ACP cannot carry.",
        "Leave out the option that the message names, or choose another provider for this request.",
    ),
    "EMPTY_RESPONSE": ErrorRow(
        "The agent ended its turn without text, thought or tool call.", "Repeat the request.", retryable=True
    ),
    "DUPLICATE_ADAPTER": ErrorRow(
        "Another adapter already owns a provider route.", "Dispose the other registration first, or drop one plugin."
    ),
    "ACP_BINARY_MISSING": ErrorRow(
        "No agent program was found.", "Set `command`, or install the agent; the message names the places searched."
    ),
    "ACP_INSTALL_FAILED": ErrorRow("The official server could not be installed.", "See the message for the stage."),
    "ACP_PLATFORM_UNSUPPORTED": ErrorRow(
        "The agent does not exist for this platform, or this host has no way to start it.",
        "Set `command` to an agent that runs here, or mend what the message names.",
    ),
    "ACP_STARTUP_TIMEOUT": ErrorRow(
        "The agent did not answer `initialize` in time.", "Raise `startupTimeoutMs`, or look at the agent itself."
    ),
    "ACP_VERSION_MISMATCH": ErrorRow(
        "The agent speaks another ACP version than 1.", "Use a release of the agent that speaks ACP v1."
    ),
    "ACP_AUTH_REQUIRED": ErrorRow(
        "The agent wants a sign-in that has not happened.", "Sign in with the agent, then repeat the request."
    ),
    "ACP_AUTH_UNSUPPORTED": ErrorRow(
        "The agent offers no sign-in method that this plugin can use.", "Set `authMethod` to one the agent announces."
    ),
    "ACP_INVALID_MODEL": ErrorRow(
        "The agent does not announce this model, or did not select it.", "Choose a model from the live catalogue."
    ),
    "ACP_MCP_UNSUPPORTED": ErrorRow(
        "The agent cannot use MCP servers over HTTP, or never asked for its tools, so it cannot be lent the host's.",
        "Use an agent that announces `mcpCapabilities.http`, or send the request without tools.",
    ),
    "ACP_NATIVE_TOOLS_UNSUPPORTED": ErrorRow(
        "The agent tried to use a tool of its own.", "Switch the agent's native tools off; the process was ended."
    ),
    "ACP_TOOL_CATALOG_INVALID": ErrorRow(
        "A tool definition cannot be exported to the agent.", "Mend the tool that the message names."
    ),
    "ACP_TOOL_RESULTS_MISSING": ErrorRow(
        "A continuation did not carry exactly one result for each open tool call.",
        "Send every result once, under the id of its call.",
    ),
    "ACP_TOOL_TIMEOUT": ErrorRow(
        "The host did not return the tool results in time.", "Raise `toolTimeoutMs`, or answer sooner."
    ),
    "ACP_SESSION_LIMIT": ErrorRow(
        "Too many unfinished tool turns.", "Finish or abort one, or raise `maxActiveToolSessions`.", retryable=True
    ),
    "ACP_SESSION_BUSY": ErrorRow(
        "This session has a generation running.", "Wait for it, or abort it, before the next one.", retryable=True
    ),
    "ACP_TIMEOUT": ErrorRow(
        "The agent did not answer in time.", "Raise the limit that the message names.", retryable=True
    ),
    "ACP_QUOTA": ErrorRow(
        "The account's quota or rate limit is used up.",
        "Wait until it resets; `providerRetryAfterMs` of the failure says how long, if the agent did.",
    ),
    "ACP_CONTEXT_LIMIT": ErrorRow(
        "The conversation is longer than the model takes.", "Shorten the history, or choose a model that takes more."
    ),
    "ACP_REFUSAL": ErrorRow("The model refused to answer.", "Change the request."),
    "ACP_TURN_LIMIT": ErrorRow(
        "The agent stopped at its own limit of model requests.", "Ask for less in one turn, or raise the agent's limit."
    ),
    "ACP_UNKNOWN_STOP": ErrorRow(
        "The agent ended the turn with a reason that ACP v1 does not know.", "Update this plugin or the agent."
    ),
    "ACP_RPC_ERROR": ErrorRow("The agent answered a request with an error.", "See the method and number named."),
    "ACP_PROTOCOL_ERROR": ErrorRow(
        "The agent broke the protocol.", "Check that `command` starts an ACP agent and prints nothing else on stdout."
    ),
    "ACP_DISCONNECTED": ErrorRow(
        "The agent process ended or closed its output.", "Repeat the request; a new process is started.", retryable=True
    ),
    "ACP_TEARDOWN_FAILED": ErrorRow(
        "A process of the agent could not be ended.", "End it by hand; the message names the process id."
    ),
    "ACP_DISPOSED": ErrorRow("The adapter was disposed.", "Mount the plugin again."),
    # Raised by the registry and the settings of the Python host, which speak the same vocabulary.
    "NO_ADAPTER": ErrorRow("No adapter serves this provider route.", "Install or enable the plugin of that provider."),
    "INVALID_ADAPTER": ErrorRow(
        "An adapter describes itself wrongly.", "Its provider_info must keep the route as id and have a name."
    ),
    "REGISTRATION_DISPOSED": ErrorRow("This registration is disposed.", "Register the adapter again."),
    "INVALID_SETTINGS": ErrorRow("A setting is not valid.", "Mend the field that the message names."),
    "INVALID_REQUEST": ErrorRow(
        "The request does not have the host's shape.", "Mend the field that the message names."
    ),
    "UNKNOWN": ErrorRow("Something failed that has no code of its own.", "Report it with the output of `doctor`."),
}
