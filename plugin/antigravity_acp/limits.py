"""Every bound of the plugin in one place, each with its reason.

Times that a user may change live in :mod:`antigravity_acp.settings`; what is here holds for everyone.
Hitting a bound is an explicit, typed failure of that request and of nothing else.
"""

from typing import Final

#: Tools of one turn. Google's harness takes 800 functions and hosts have about 30; from more than this nobody chooses.
MAX_TOOLS: Final = 256
#: One tool definition as JSON, in bytes.
MAX_TOOL_BYTES: Final = 128 * 1024
#: One request body at the bridge, in bytes.
MAX_BODY_BYTES: Final = 1024 * 1024
#: Tool calls of one turn that wait for the host at the same time.
MAX_PARKED_CALLS: Final = 64
#: Native tools of one turn that are refused while it goes on. An agent that still asks after that does nothing else.
MAX_REFUSALS: Final = 64
#: One ACP frame, in bytes. An agent that sends more is broken or hostile.
MAX_FRAME_BYTES: Final = 32 * 1024 * 1024
#: Length of an exported tool name with the agent's prefix counted (``^[a-zA-Z0-9_-]{1,64}$`` at Google and OpenAI).
MAX_EXPORTED_NAME: Final = 64
#: Lines on an agent's stdout that are not JSON objects, one after another, before it is no ACP agent.
MAX_CONSECUTIVE_NOISE: Final = 1_000
#: Updates that wait for the host to read them. Beyond it the agent's stdout is no longer read (back-pressure).
MAX_QUEUED_UPDATES: Final = 4_096
#: Characters in them: what an agent says while its host runs a tool waits in the memory of the host.
MAX_QUEUED_CHARACTERS: Final = 8 * 1024 * 1024
#: Bytes of an agent's stderr that are kept for `doctor`; the rest is drained and dropped.
STDERR_TAIL_BYTES: Final = 16 * 1024
#: Seconds between keep-alive comments on a parked call. Node's fetch gives up after 300 s without a byte.
KEEP_ALIVE_S: Final = 15.0
#: Seconds after which a call that is still parked is answered as an event stream, so that headers reach the client
#: long before any client's own limit (60 s is the shortest seen). Earlier answers are plain JSON.
STREAM_AFTER_S: Final = 1.0
#: Agent processes that wait idle. Each costs 70 to 330 MB; a host rarely has more than two turns end close together.
MAX_IDLE_PROCESSES: Final = 2
#: Seconds given to each step of ending a process after its grace (SIGTERM, SIGKILL).
KILL_STEP_S: Final = 2.0
#: Characters kept free in an exported tool name for the prefix that an agent puts before it. The longest known scheme,
#: ``mcp__<server>__`` with our 11-character server name, takes 18.
AGENT_PREFIX_RESERVE: Final = 24

# The Python host: hooks, agent loop and workspace tools.

#: Seconds for one asynchronous hook of a plugin, and for one step of undoing one. Starts and ends of agents fit in.
HOOK_TIMEOUT_S: Final = 30.0
#: Model calls of one turn. A loop without a bound has filled a disk in a minute.
MAX_LOOP_STEPS: Final = 50
#: Tool calls of one message that run at the same time; the others wait for a place.
MAX_PARALLEL_TOOLS: Final = 8
#: Attempts at one model call, when the failure says that it may be repeated and nothing was streamed.
MAX_MODEL_ATTEMPTS: Final = 3
#: Seconds before the second attempt; doubled for each further one.
RETRY_DELAY_S: Final = 0.5
#: Seconds that a repeat is put off at most, also when the provider asks for more.
MAX_RETRY_DELAY_S: Final = 30.0
#: Seconds for one run of a tool.
TOOL_RUN_TIMEOUT_S: Final = 600.0
#: Seconds that a person has to answer an approval; silence is a denial.
APPROVAL_TIMEOUT_S: Final = 600.0
#: Seconds that an adapter has to end its stream after the signal has fired, before its generator is interrupted.
ABORT_GRACE_S: Final = 10.0
#: Text of one tool result, in characters; longer results are cut with a note.
MAX_RESULT_CHARS: Final = 512 * 1024
#: Text that read_file, list_dir and search return, in bytes. A model reads on with an offset.
MAX_TOOL_TEXT_BYTES: Final = 64 * 1024
#: The largest file that write_file, edit_file and search touch, in bytes.
MAX_EDIT_BYTES: Final = 8 * 1024 * 1024
#: Entries of one list_dir.
MAX_DIR_ENTRIES: Final = 1_000
#: Matches of one search.
MAX_SEARCH_MATCHES: Final = 200
#: Files that one search looks at.
MAX_SEARCH_FILES: Final = 20_000
#: Seconds for one search. A pattern of the model may backtrack for ever; the search is a process that can be ended.
SEARCH_TIMEOUT_S: Final = 20.0
#: Seconds for one run_command when the model names none, and the most that it may name.
COMMAND_TIMEOUT_S: Final = 120.0
MAX_COMMAND_TIMEOUT_S: Final = 540.0
#: Output of one command that is kept, in bytes: half from its beginning, half from its end.
MAX_COMMAND_OUTPUT_BYTES: Final = 48 * 1024
#: Seconds between SIGTERM and SIGKILL for a command, and for its pipes to close after it exited.
COMMAND_GRACE_S: Final = 1.0
#: Nesting of one tool's parameter schema. Deeper ones exhaust the recursion of validators, ours and the agent's.
MAX_SCHEMA_DEPTH: Final = 100
#: Checks of one value that a schema may ask for through ``allOf``, ``$ref`` and their like. Every validator repeats a
#: shared branch each time it is named, so a schema of 2 KiB can ask for 2^60 checks; this many take about 2 ms.
MAX_REPEATED_CHECKS: Final = 100_000
#: Schemas in the form of one tool that is shown to an agent. A definition of 128 KiB has room for some 20000; one that
#: spells a reference to the same part in a thousand ways would be a thousand times as large.
MAX_FLAT_SCHEMAS: Final = 50_000
#: The same form as JSON, in bytes.
MAX_FLAT_BYTES: Final = 1024 * 1024
#: Problems of one call's arguments that the model is told of; more does not help it.
MAX_ARGUMENT_PROBLEMS: Final = 8
#: Results whose client had hung up, kept for a client that sends the same request again, in one endpoint.
MAX_LATE_RESULTS: Final = 8
#: Seconds before an agent's own limit for one MCP call at which a call that still waits is answered with a ticket: the
#: answer has to be written and read before the agent gives up, on a machine that is busy. Never more than this share
#: of the limit.
CALL_MARGIN_S: Final = 10.0
CALL_MARGIN_SHARE: Final = 0.25
#: Seconds that an installation of the official server may take: 334 MB over a line of 1 Mbit/s.
INSTALL_LIMIT_S: Final = 3_600.0
#: Seconds for which an installation that failed is not tried again where another engine can answer.
INSTALL_RETRY_S: Final = 300.0
#: Seconds a client may take to send one request body.
BODY_TIMEOUT_S: Final = 30.0
#: Seconds a connection may idle between requests. Go's client drops idle connections after 90 s; being later than
#: every client keeps a request from meeting a connection that is just being closed.
IDLE_CONNECTION_S: Final = 120
#: Seconds without news after which the calls of a turn count as complete. Clients that send two calls at once need
#: about 0.3 ms for the second one; a missed one is no loss, it leaves with the next round.
GATHER_QUIET_S: Final = 0.0004
#: The same for an agent that has had two calls open at once. Google's harness never does and pays nothing.
PARALLEL_QUIET_S: Final = 0.0015
#: Seconds for which calls are collected after the first one at most, while more keep coming.
GATHER_S: Final = 0.005
#: Connections to the bridge that have not shown a bearer yet. One more, and the oldest is cut: anybody on the machine
#: can open connections, and each takes a file descriptor of the host. An agent makes at most MAX_PARKED_CALLS at once.
MAX_STRANGERS: Final = 128
#: Seconds that answers under way get when the bridge closes, before their connections are cut.
BRIDGE_CLOSE_S: Final = 0.15

# The sidecar: the adapter for a host in another process.

#: Chunks of one stream that the host has not acknowledged. Beyond it that stream is pulled no further; others go on.
SIDECAR_WINDOW: Final = 256
#: Chunks in one frame, and bytes after which a frame is not filled further. Frames are only filled with what is there.
SIDECAR_BATCH: Final = 64
SIDECAR_BATCH_BYTES: Final = 256 * 1024
#: Requests that a host may have open; one more is refused, so that acknowledgements and cancels are always read.
SIDECAR_REQUESTS: Final = 256
#: Bytes of answers for a host that asks on and does not read. Beyond it the sidecar reads no further either.
SIDECAR_UNREAD_BYTES: Final = 1024 * 1024
#: Notices and log lines that wait for a host that does not read; further ones are dropped and counted.
SIDECAR_UNREAD_NOTICES: Final = 64
#: Signals of tool turns that are kept while their host runs tools, the oldest forgotten first.
SIDECAR_KEPT_SIGNALS: Final = 64
#: Seconds for the last frames to be read, and for requests to end after everything that they use has ended.
SIDECAR_FLUSH_S: Final = 1.0
#: Seconds for the adapter's disposal beside the graces that the settings give its agents.
SIDECAR_DISPOSE_S: Final = 15.0
