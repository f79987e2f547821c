"""The adapter and the control for hosts that are not Python: JSON-RPC 2.0 over stdio, one object a line.

Owns: the process that a host in another language starts (``antigravity-acp sidecar``), its frames and their schema
(``frames.json``), its streams and its end. Ends with the host: at the end of its input everything is disposed.
Never: writes anything but frames to stdout; holds more than a bounded amount for a host that does not read.

``docs/sidecar.md`` describes the protocol for those who write a host.
"""
