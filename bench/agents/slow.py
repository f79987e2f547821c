"""A stand-in ACP agent with the delays of a real one, a tenth of what was measured at the official server.

0.8 s to initialise, 0.45 s for ``session/new``, 0.28 s to change the model. It answers a prompt with the time at which
the prompt arrived (the machine's monotonic clock, which all processes share), and lists its tools first. A prompt that
holds ``call`` makes it call the first tool and wait for the result.
"""

import json
import sys
import time
import urllib.request
from typing import Any

INITIALIZE, SESSION, MODEL = 0.8, 0.45, 0.28


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def mcp(endpoint: dict[str, Any], method: str, params: dict[str, Any]) -> Any:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = {item["name"]: item["value"] for item in endpoint["headers"]}
    headers |= {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(endpoint["url"], data=body, headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=600) as response:
        text = response.read().decode()
    return json.loads(text[text.index("{") :])["result"]


def options(current: str) -> list[dict[str, Any]]:
    choices = [{"value": name, "name": name} for name in ("first", "second")]
    return [{"type": "select", "id": "model", "name": "Model", "currentValue": current, "options": choices}]


def main() -> None:
    endpoint: dict[str, Any] | None = None
    sessions = 0
    for line in sys.stdin:
        arrived = time.monotonic()
        message = json.loads(line)
        method, key, params = message.get("method"), message.get("id"), message.get("params", {})
        if method == "initialize":
            time.sleep(INITIALIZE)
            info = {"name": "stand-in", "version": "1"}
            capabilities = {"mcpCapabilities": {"http": True}}
            send(id=key, result={"protocolVersion": 1, "agentInfo": info, "agentCapabilities": capabilities})
        elif method == "session/new":
            time.sleep(SESSION)
            endpoint = (params.get("mcpServers") or [None])[0]
            sessions += 1
            send(id=key, result={"sessionId": f"s{sessions}", "configOptions": options("first")})
        elif method == "session/set_config_option":
            time.sleep(MODEL)
            send(id=key, result={"configOptions": options(params["value"])})
        elif method == "session/prompt":
            prompt = params["prompt"][0]["text"]
            if endpoint:
                tool = mcp(endpoint, "tools/list", {})["tools"][0]["name"]
                if prompt.rstrip().endswith("call"):
                    mcp(endpoint, "tools/call", {"name": tool, "arguments": {}})
            content = {"type": "text", "text": json.dumps(arrived)}
            update = {"sessionUpdate": "agent_message_chunk", "content": content}
            send(method="session/update", params={"sessionId": params["sessionId"], "update": update})
            send(id=key, result={"stopReason": "end_turn"})


main()
