"""A complete ACP v1 agent in plain Python: it calls the first tool it is lent and says what came back.

It knows nothing of this project. Everything it does is in the two protocols: ACP on stdin and stdout, MCP over HTTP.
"""

import itertools
import json
import sys
import urllib.request

ids = itertools.count(1)
server = {}


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(name, /, **fields):
    send(method="session/update", params={"sessionId": "s1", "update": {"sessionUpdate": name, **fields}})


def say(text):
    update("agent_message_chunk", content={"type": "text", "text": text})


def mcp(method, number=None, **params):
    """One MCP request, or a notification when it has no number. An answer that took long comes as an event stream."""
    body = {"jsonrpc": "2.0", "method": method, "params": params} | ({"id": number} if number else {})
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    headers |= {"MCP-Protocol-Version": "2025-06-18", **server["headers"]}
    request = urllib.request.Request(server["url"], json.dumps(body).encode(), headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=600) as answer:
        text = answer.read().decode()
        if answer.headers.get_content_type() == "text/event-stream":
            # Comments keep the connection alive; the last event with data is the answer.
            text = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()][-1]
    return json.loads(text)["result"] if number else {}


def prompt(blocks):
    mcp(
        "initialize",
        next(ids),
        protocolVersion="2025-06-18",
        capabilities={},
        clientInfo={"name": "tiny", "version": "1"},
    )
    mcp("notifications/initialized")
    tool = mcp("tools/list", next(ids))["tools"][0]["name"]
    last = blocks[-1]["text"].strip().splitlines()[-1]
    say(f"I will ask for '{last}'.\n")
    # How an agent shows that a call is for an MCP server of its client, and not a tool of its own.
    meta = {"mcp": {"server": server["name"], "tool": tool}}
    update("tool_call", toolCallId="c1", title=tool, kind="other", status="in_progress", _meta=meta)
    result = mcp("tools/call", next(ids), name=tool, arguments={"text": last})
    update("tool_call_update", toolCallId="c1", status="failed" if result.get("isError") else "completed")
    say(f"The host said: {result['content'][0]['text']}\n")


for line in sys.stdin:
    request = json.loads(line)
    method, params, answer = request.get("method"), request.get("params", {}), {}
    if method == "initialize":
        info = {"name": "tiny", "version": "1"}
        answer = {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": {"mcpCapabilities": {"http": True}}}
    elif method == "session/new":
        server = params["mcpServers"][0] if params["mcpServers"] else {}
        server["headers"] = {item["name"]: item["value"] for item in server.get("headers", [])}
        answer = {"sessionId": "s1"}
    elif method == "session/prompt":
        prompt(params["prompt"])
        answer = {"stopReason": "end_turn"}
    if "id" in request:
        send(id=request["id"], result=answer)
