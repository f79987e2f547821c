"""Runs the host through its Python SDK, in the host's own environment; commands and events are JSON lines.

    {"op": "prompt", "session": …, "text": …}   → {"session", "event"} … {"done", "final", "finish"}
    {"op": "close"}                             closes the SDK and leaves

Turns of different sessions run beside each other.
"""

import json
import sys
import threading
import time
from typing import Any

from deepseek_harness import DeepSeekHarness

_lock = threading.Lock()


def say(**line: Any) -> None:
    with _lock:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def prompt(harness: DeepSeekHarness, session: str, text: str) -> None:
    def on_notification(notification: Any) -> None:
        payload = notification.payload
        if notification.method == "session.event":
            say(session=payload.get("sessionId"), event=payload.get("event"), at=time.monotonic())

    try:
        result = harness.run(text, session_id=session, on_notification=on_notification)
        say(done=session, final=result.final_response, finish=result.finish_reason)
    except Exception as error:
        say(done=session, error=f"{type(error).__name__}: {error}")


def main() -> None:
    # The host takes two seconds to start, and many on a busy machine.
    bounds = {"initialize_timeout_seconds": 90.0, "shutdown_timeout_seconds": 10.0}
    job = {"provider": "antigravity-acp", "model": "server-default", **bounds}
    job |= json.loads(sys.argv[1])
    harness = DeepSeekHarness(**job)
    try:
        harness.start()
    except Exception as error:
        say(failed=f"{error}")
        raise
    say(ready=harness.client._proc.pid)
    for line in sys.stdin:
        command = json.loads(line)
        if command["op"] == "close":
            break
        threading.Thread(target=prompt, args=(harness, command["session"], command["text"]), daemon=True).start()
    since = time.monotonic()
    harness.close()
    say(closed=time.monotonic() - since)


if __name__ == "__main__":
    main()
