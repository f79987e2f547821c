"""The scene of the faulty agent: a small, sound ACP v1 agent that comes to named stages. Plain stdlib.

Every turn is the same: a thought, "one ", one call of the first tool it is lent, the result and "end". At each stage it
comes to :meth:`Agent.at`. The plan in its first argument, ``{"stage", "fault", "home", "words"}``, says whether
something goes wrong there. While the file ``armed`` is in the folder ``home`` it does, and the one who finds it takes
it away: a fault happens once, however many processes are started, and what comes after it is sound again.

Nothing waits for time to pass. A fault that needs the host to be somewhere waits for a byte in the FIFO ``gate``. What
happened is written into ``journal``, one line each: ``pid N`` of every process, ``came METHOD``, ``begun`` and ``done``
around the fault, and what some faults add.

Stages in the order of a turn: spawn, initialize, authenticate, session/new, set_config_option, prompt, first update,
mid-stream, permission, tools/call, parked (the host has the call), after the result, final response, after the end; and
cancel and shutdown. What it prints that is no text of the model holds WORDS, which may appear nowhere at the host.
"""

import json
import os
import socket
import sys
import threading

PLAN = json.loads(sys.argv[1])
HOME = PLAN["home"]
#: Held by all that it prints and that is no text of the model.
WORDS = PLAN["words"]


def journal(line):
    handle = os.open(f"{HOME}/journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, line.encode() + b"\n")
    os.close(handle)


def wait_at_the_gate():
    handle = os.open(f"{HOME}/gate", os.O_RDONLY)
    os.read(handle, 1)
    os.close(handle)


def hang():
    threading.Event().wait()


class EndOfTurn(Exception):
    """The turn's thread has nothing more to do."""


class Mcp:
    """The least of an MCP client: one connection for each request, HTTP/1.0, JSON or one event."""

    def __init__(self, server):
        self.name = server["name"]
        self.host, _, rest = server["url"].removeprefix("http://").partition("/")
        self.path = "/" + rest
        self.headers = "".join(f"{item['name']}: {item['value']}\r\n" for item in server["headers"])
        self.keys = 0
        self.tools = []

    def open(self, method, params, key=None):
        if key is None:
            self.keys += 1
            key = self.keys
        body = json.dumps({"jsonrpc": "2.0", "id": key, "method": method, "params": params}).encode()
        head = (
            f"POST {self.path} HTTP/1.0\r\nHost: {self.host}\r\n{self.headers}Content-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        name, _, port = self.host.partition(":")
        connection = socket.create_connection((name, int(port)))
        connection.sendall(head.encode() + body)
        return connection

    @staticmethod
    def read(connection):
        with connection, connection.makefile("rb") as answer:
            head, _, body = answer.read().partition(b"\r\n\r\n")
        if b"event-stream" in head:
            body = next((line[5:] for line in body.splitlines() if line.startswith(b"data:")), b"{}")
        if head.split(b" ")[1:2] != [b"200"]:
            return {"status": head.split(b" ")[1:2]}
        return json.loads(body)

    def ask(self, method, params, key=None):
        return self.read(self.open(method, params, key))


class Agent:
    """The ACP side: the main thread reads, the one turn at a time has a thread of its own."""

    def __init__(self, faults):
        self.fault = faults.get(PLAN["fault"])
        self.lock = threading.Lock()
        self.sessions = {}
        self.session = "no-session-yet"
        self.signed_in = not PLAN.get("auth")
        self.model = "m1"
        self.prompt_id = None
        self.mcp = None
        self.asked = 0
        self.answers = {}
        self.cancelled = threading.Event()
        self.exit = lambda: os._exit(0)

    # ---- the wire ---------------------------------------------------------------------------------------------------
    def write(self, data):
        try:
            with self.lock:
                while data:
                    data = data[os.write(1, data) :]
        except OSError:
            raise EndOfTurn from None

    def send(self, message):
        self.write(frame(message))

    def update(self, update, session=None):
        self.send(self.chunk(update, session))

    def chunk(self, update, session=None):
        return {"method": "session/update", "params": {"sessionId": session or self.session, "update": update}}

    def text(self, text, kind="agent_message_chunk"):
        return self.chunk({"sessionUpdate": kind, "content": {"type": "text", "text": text}})

    def say(self, text):
        self.send(self.text(text))

    def ask(self, params, method="session/request_permission"):
        """A request to the client; its answer."""
        self.asked += 1
        key = f"ask-{self.asked}"
        box = self.answers[key] = [threading.Event(), None]
        self.send({"id": key, "method": method, "params": params})
        box[0].wait()
        return box[1]

    def at(self, stage, pending=None):
        """A stage: the fault if it is planned here, then what was to be sent."""
        if take(stage):
            if stage == "parked":
                wait_at_the_gate()
            journal("begun")
            replaced = self.fault(self, pending)
            journal("done")
            if replaced:
                return
        if pending is not None:
            self.send(pending)

    # ---- requests ---------------------------------------------------------------------------------------------------
    def serve(self):
        while line := sys.stdin.buffer.readline():
            message = json.loads(line)
            if "method" not in message:
                box = self.answers.pop(message["id"], [threading.Event(), None])
                box[1] = message.get("result")
                box[0].set()
                continue
            journal(f"came {message['method']}")
            try:
                self.handle(message["method"], message.get("params") or {}, message.get("id"))
            except EndOfTurn:
                # Nobody reads any more; the end of stdin is still to come.
                continue
        self.exit()

    def handle(self, method, params, key):
        if method == "session/prompt":
            self.prompt_id, self.session = key, params["sessionId"]
            self.mcp = self.sessions[self.session]
            self.cancelled.clear()
            threading.Thread(target=self.run, daemon=True).start()
        elif method == "session/cancel":
            self.cancelled.set()
            if armed("cancel") and self.prompt_id is not None:
                self.finish("cancel", "cancelled")
        else:
            stage, answer = {
                "initialize": self.on_initialize,
                "authenticate": self.on_authenticate,
                "session/new": self.on_new,
                "session/set_config_option": self.on_config,
            }[method](params)
            self.at(stage, {"id": key, **answer})

    def on_initialize(self, params):
        result = {
            "protocolVersion": 1,
            "agentInfo": {"name": "faulty", "version": "1"},
            "agentCapabilities": {"mcpCapabilities": {"http": True}},
            "authMethods": [{"id": "door", "name": "The door"}],
        }
        return "initialize", {"result": result}

    def on_authenticate(self, params):
        self.signed_in = True
        return "authenticate", {"result": {}}

    def on_new(self, params):
        if not self.signed_in:
            return "first session/new", {"error": {"code": -32000, "message": f"Authentication required {WORDS}"}}
        servers = params.get("mcpServers") or [None]
        self.session = f"session-{os.getpid()}-{len(self.sessions)}"
        self.sessions[self.session] = Mcp(servers[0]) if servers[0] else None
        return "session/new", {"result": {"sessionId": self.session, **self.config()}}

    def on_config(self, params):
        self.model = params["value"]
        return "set_config_option", {"result": self.config()}

    def config(self):
        options = [{"value": model, "name": model} for model in ("m1", "m2")]
        option = {"id": "model", "name": "Model", "type": "select", "currentValue": self.model, "options": options}
        return {"configOptions": [option]}

    # ---- the turn ---------------------------------------------------------------------------------------------------
    def run(self):
        try:
            self.turn()
        except EndOfTurn:
            return

    def turn(self):
        self.at("prompt")
        if self.mcp:
            version = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "f", "version": "1"}}
            self.mcp.ask("initialize", version)
            self.mcp.tools = [tool["name"] for tool in self.mcp.ask("tools/list", {})["result"]["tools"]]
        self.at("first update", self.text("hm ", "agent_thought_chunk"))
        self.at("mid-stream", self.text("one "))
        if armed("cancel") and not PLAN.get("late"):
            # The main thread answers.
            self.cancelled.wait()
            return
        if self.mcp:
            self.call()
        self.say("end")
        self.finish("final response", "end_turn")
        self.at("after the end")

    def finish(self, stage, reason):
        key, self.prompt_id = self.prompt_id, None
        if key is None:
            raise EndOfTurn
        self.at(stage, {"id": key, "result": {"stopReason": reason}})

    def call(self):
        identity = {"mcp": {"server": self.mcp.name, "tool": self.mcp.tools[0]}}
        call = {"toolCallId": "c1", "title": "The tool", "kind": "other", "status": "pending", "_meta": identity}
        self.update({"sessionUpdate": "tool_call", **call})
        self.asked += 1
        key = f"ask-{self.asked}"
        box = self.answers[key] = [threading.Event(), None]
        once = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
        params = {"sessionId": self.session, "toolCall": call, "options": once}
        self.at("permission", {"id": key, "method": "session/request_permission", "params": params})
        box[0].wait()
        journal(f"permission {json.dumps(box[1])}")
        self.result = None
        self.at("tools/call", None)
        if self.result is None:
            connection = self.mcp.open("tools/call", self.tool_call())
            self.at("parked")
            self.result = self.mcp.read(connection)
        self.update({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed"})
        self.at("after the result", self.text(self.told(self.result)))

    def tool_call(self, number=1):
        return {"name": self.mcp.tools[0], "arguments": {"n": number}}

    @staticmethod
    def told(answer):
        return "".join(item["text"] for item in answer["result"]["content"]) + " "


def frame(message):
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def armed(stage):
    return PLAN["stage"] == stage and os.path.exists(f"{HOME}/armed")


def take(stage):
    if PLAN["stage"] != stage:
        return False
    try:
        os.unlink(f"{HOME}/armed")
    except FileNotFoundError:
        return False
    return True
