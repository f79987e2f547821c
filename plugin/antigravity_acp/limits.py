"""Every bound of the plugin in one place, each with its reason.

Times that a user may change live in :mod:`antigravity_acp.settings`; what is here holds for everyone.
Hitting a bound is an explicit, typed failure of that request and of nothing else.
"""

from typing import Final

#: Tools of one turn. Google's harness takes 800 functions, hosts have 25 to 31; more is a catalogue nobody chooses from.
MAX_TOOLS: Final = 256
#: One tool definition as JSON, in bytes.
MAX_TOOL_BYTES: Final = 128 * 1024
#: One request body at the bridge, in bytes.
MAX_BODY_BYTES: Final = 1024 * 1024
#: Tool calls of one turn that wait for the host at the same time.
MAX_PARKED_CALLS: Final = 64
#: One ACP frame, in bytes. An agent that sends more is broken or hostile.
MAX_FRAME_BYTES: Final = 32 * 1024 * 1024
#: Length of an exported tool name with the agent's prefix counted (``^[a-zA-Z0-9_-]{1,64}$`` at Google and OpenAI).
MAX_EXPORTED_NAME: Final = 64
#: Lines on an agent's stdout that are not JSON objects, one after another, before it is no ACP agent.
MAX_CONSECUTIVE_NOISE: Final = 1_000
#: Updates that wait for the host to read them. Beyond it the agent's stdout is no longer read (back-pressure).
MAX_QUEUED_UPDATES: Final = 4_096
#: Bytes of an agent's stderr that are kept for `doctor`; the rest is drained and dropped.
STDERR_TAIL_BYTES: Final = 16 * 1024
#: Seconds between keep-alive comments on a parked call. Node's fetch gives up after 300 s without a byte.
KEEP_ALIVE_S: Final = 15.0
#: Seconds after which a call that is still parked is answered as an event stream, so that headers reach the client
#: long before any client's own limit (60 s is the shortest seen). Earlier answers are plain JSON.
STREAM_AFTER_S: Final = 1.0
#: Seconds given to each step of ending a process after its grace (SIGTERM, SIGKILL).
KILL_STEP_S: Final = 2.0
