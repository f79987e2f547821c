"""An ACP agent that times its own tool calls: each call to the bridge beside one to a bare MCP server.

Plain stdlib. Argument: URL of the bare server. A prompt that holds ``calls=N`` makes it call the first tool N times at
the bridge and as often at the bare server, in turns, on kept connections; it answers with two lists of seconds.
"""

import json
import re
import socket
import sys
import time
from typing import Any
from urllib.parse import urlsplit


class Mcp:
    """A keep-alive MCP client of the legacy era on a raw socket: one write a request, one JSON answer."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        where = urlsplit(url)
        self.host, self.path = f"{where.hostname}:{where.port}", where.path
        self.headers = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.socket = socket.create_connection((where.hostname, where.port or 80))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.next = 0

    def request(self, method: str, params: dict[str, Any]) -> Any:
        self.next += 1
        body = json.dumps({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}).encode()
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: {self.host}\r\n{self.headers}Content-Type: application/json\r\n"
            "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-06-18\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self.socket.sendall(head.encode() + body)
        return self.answer()["result"]

    def answer(self) -> Any:
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.more()
        head, _, data = data.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head, re.I)
        if not length:
            raise SystemExit(f"not a plain JSON answer: {head[:60]!r}")
        while len(data) < int(length[1]):
            data += self.more()
        return json.loads(data)

    def more(self) -> bytes:
        part = self.socket.recv(1 << 20)
        if not part:
            raise SystemExit("connection closed")
        return part


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def timed(client: Mcp, name: str) -> float:
    begin = time.perf_counter()
    client.request("tools/call", {"name": name, "arguments": {"n": 1}})
    return time.perf_counter() - begin


def play(endpoint: dict[str, Any], calls: int) -> dict[str, list[float]]:
    headers = {item["name"]: item["value"] for item in endpoint["headers"]}
    clients = {"bridge": Mcp(endpoint["url"], headers), "bare": Mcp(sys.argv[1], {})}
    names = {
        key: next(tool["name"] for tool in client.request("tools/list", {})["tools"] if tool["name"].startswith("echo"))
        for key, client in clients.items()
    }
    times: dict[str, list[float]] = {"bridge": [], "bare": []}
    for _ in range(calls):
        for key, client in clients.items():
            times[key].append(timed(client, names[key]))
    return times


def main() -> None:
    endpoint: dict[str, Any] = {}
    sessions = 0
    for line in sys.stdin:
        message = json.loads(line)
        method, key = message.get("method"), message.get("id")
        if method == "initialize":
            info = {"name": "stopwatch", "version": "1"}
            capabilities = {"mcpCapabilities": {"http": True}}
            send(id=key, result={"protocolVersion": 1, "agentInfo": info, "agentCapabilities": capabilities})
        elif method == "session/new":
            endpoint = message["params"]["mcpServers"][0]
            sessions += 1
            send(id=key, result={"sessionId": f"s{sessions}"})
        elif method == "session/prompt":
            text = "".join(block.get("text", "") for block in message["params"]["prompt"])
            calls = int(re.findall(r"calls=(\d+)", text)[-1])
            content = {"type": "text", "text": json.dumps(play(endpoint, calls))}
            update = {"sessionUpdate": "agent_message_chunk", "content": content}
            send(method="session/update", params={"sessionId": f"s{sessions}", "update": update})
            send(id=key, result={"stopReason": "end_turn"})


main()
