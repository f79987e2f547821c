"""A host that starts a sidecar with a running turn, says its process id, and lives until it is killed.

Arguments: the settings and the options of the generation, as JSON. The sidecar's stdin is this process's pipe alone.
"""

import json
import subprocess
import sys


def main() -> None:
    settings, options = (json.loads(argument) for argument in sys.argv[1:])
    process = subprocess.Popen(
        [sys.executable, "-m", "antigravity_acp.sidecar"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    client = {"name": "parent", "version": "0"}
    for key, method, params in (
        (1, "initialize", {"protocol": 1, "client": client, "settings": settings, "attended": False}),
        (2, "stream/start", {"stream": "s", "options": options}),
    ):
        frame = {"jsonrpc": "2.0", "id": key, "method": method, "params": params}
        process.stdin.write(json.dumps(frame).encode() + b"\n")
    process.stdin.flush()
    while b'"text-delta"' not in process.stdout.readline():
        pass
    print(process.pid, flush=True)
    process.wait()


if __name__ == "__main__":
    main()
