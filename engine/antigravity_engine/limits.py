"""Every bound of the engine, each with its reason. Seconds unless the name says otherwise."""

# ---- the wire --------------------------------------------------------------------------------------------------------
#: One JSON-RPC frame. A prompt carries a whole history and images; beyond this something is wrong.
MAX_FRAME_BYTES = 32 * 1024 * 1024
#: Sessions of one process. Idle ones cost only their files, but nobody needs this many.
MAX_SESSIONS = 1024

# ---- the harness -----------------------------------------------------------------------------------------------------
#: Spawn, handshake and websocket take 0.15 s; a cold disk or a loaded machine takes longer.
START_S = 45.0
#: From sending a prompt to the first sign of the harness. It echoes the prompt as soon as the MCP servers are loaded,
#: and it gives a server that hangs long; a prompt that got lost shows no sign at all.
FIRST_SIGN_S = 120.0
#: Silence in the middle of a turn while no tool runs and no permission is open: the model is not answering any more.
SILENCE_S = 900.0
#: From a cancel to the end of the turn. The host has a grace of its own (1.5 s), this must fit into it.
CANCEL_S = 1.0
#: A harness closes in 15 ms; one that does not is killed.
CLOSE_S = 1.5
#: After a kill: reaping and the end of the thread that owns the harness.
KILL_S = 3.0
#: Harnesses that wait for a next prompt, per process (about 70 MB each). Older ones are closed and resumed from disk.
MAX_IDLE_HARNESSES = 2
#: The SDK's own starts serialise on the CPU (0.1 s each); more at once only makes all of them slow.
MAX_CONCURRENT_STARTS = 4

# ---- the model -------------------------------------------------------------------------------------------------------
#: Empty answers of the model in one turn. The harness asks again at once and without end.
MAX_EMPTY_OUTPUTS = 3
#: Unusable answers of any kind in one turn. The harness bounds some kinds itself (four retries), not all.
MAX_BAD_OUTPUTS = 12
#: Asking a back end for its models; afterwards the defaults are offered.
LIST_MODELS_S = 4.0
#: Answer of a model list.
MAX_MODEL_LIST_BYTES = 8 * 1024 * 1024

# ---- tools -----------------------------------------------------------------------------------------------------------
#: Default limit of one MCP call; the host waits up to 900 s for a person and its tool.
MCP_TIMEOUT_S = 1800
#: The harness's own limit of one MCP call, where none is set (0.1.22, measured).
HARNESS_MCP_TIMEOUT_S = 180
#: MCP output above this is written to a file that the model cannot read; the harness's own limit is 4 KiB. It holds for
#: media. Text beyond 48 KiB of one result is cut by harness 0.1.22 whatever is configured, and the model is told so.
MCP_MAX_OUTPUT_BYTES = 16 * 1024 * 1024
#: Tool output in a tool_call_update; the client that lent the tool has all of it.
MAX_UPDATE_CHARACTERS = 32 * 1024

# ---- shutdown --------------------------------------------------------------------------------------------------------
#: Everything after the client has gone: sessions, servers, directories.
SHUTDOWN_S = 6.0
#: A leftover directory without a lock is swept only when it is this old: its owner may be about to lock it.
SWEEP_AGE_S = 600.0
