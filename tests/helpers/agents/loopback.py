"""A scriptable ACP v1 agent over stdio, plain stdlib, for tests and benchmarks. Starts in about 40 ms.

It is a real agent process: it speaks ACP, connects to the MCP endpoint that ``session/new`` gives it and calls tools
there over HTTP. What it does in a turn is written into the prompt, so that a test reads like the scene it plays.

How a turn is chosen, first match wins:

1. The last ``@loopback [STEP, ...]`` anywhere in the prompt's text blocks (plain, JSON-escaped or HTML-escaped).
2. The next entry of the option ``turns``, a list of step lists.
3. The option ``steps``; by default ``[{"say": "ok"}]``.

STEPS (an object with one of these keys; other keys of the same object are its options)

``say`` STR|[STR]        one ``agent_message_chunk`` each             ``think`` STR|[STR]   the same as thoughts
``flood`` N              N message chunks, pre-encoded; ``text`` STR, ``thoughts`` true for thought chunks
``call`` CALL            one MCP tool call; CALL is {"name": ..., "arguments": {...}}
``calls`` [CALL]         several; ``parallel`` true sends them at once, each on a connection of its own
                         options of both: ``permission`` SHAPE or false (default: option ``permission``),
                         ``announce`` false leaves out the ``tool_call`` update, ``times`` N sends that update N times,
                         word for word; ``resend`` N sends the tools/call request N times with one JSON-RPC id,
                         ``hang_up`` SECONDS closes the connection while the call waits,
                         ``ignore_refusal`` true calls although the permission was refused, ``id`` STR the toolCallId,
                         ``exact`` true takes the name as it is. Says ``result:<name>:<text>`` or
                         ``error:<name>:<text>`` for each unless ``quiet`` is true.
``list`` true            asks ``tools/list`` and says ``tools:<names as JSON>``
``mcp`` {method,params}  any MCP request; says ``mcp:<result or error as JSON>``
``ask`` SHAPE            a permission request without a call; options as below; says ``outcome:<JSON of outcome>``
``native`` {...}         a ``tool_call`` update of a tool of its own: fields override {title, kind, status, toolCallId}
``update`` {...}         any session update, as it is; ``session`` STR another session id
``notify`` {method,params}   any notification     ``request`` {method,params}   any request; says ``answer:<JSON>``
``raw`` STR              a line on stdout as it is; ``hex`` STR the same from bytes; ``times`` N
``long_line`` N          one text chunk of N characters in a single line
``stderr`` N             N bytes on stderr before going on; ``text`` STR that text instead
``tell`` "prompt"|"cwd"|"env"|"initialize"|"session"|"requests"|"pid"   says it as JSON (``names`` [STR]
                         for env); "requests" lists every request and notification method that came in
``sleep`` SECONDS        ``wait_cancel`` SECONDS  waits for ``session/cancel``, then the turn ends as cancelled
``grandchild`` "plain"|"setsid"   starts a child that sleeps and holds stdout; says ``grandchild:<pid>``
``stop`` STR             stop reason (default end_turn)      ``usage`` {...}       goes into the response as it is
``error`` {code,message,data}  the prompt is answered with this error
``late`` [UPDATE]        updates sent right after the response, in the same write
``no_answer`` true       the prompt is never answered        ``exit`` CODE         the process ends here
``half_exit`` true       answers without the final newline, then ends

Permission SHAPES: ``official`` (``_meta.mcp`` on tool_call and request, allow_once/reject_once), ``gemini`` (no
tool_call before it, id ``mcp_<S>_<T>__…``, proceed_* options), ``title_only`` (right title, nothing else),
``other_server``, ``other_tool``, ``contradiction`` (the tool_call was native, the request claims our server),
``always_only`` (no allow_once), ``two_once`` (two allow_once options), ``question`` (id ``interaction_…``), ``shell``
(Gemini's native shell with the title of our tool), ``malformed``. A call of a SHAPE uses the call's tool; ``ask`` uses
the tool named by ``tool`` (default: the first one listed).

OPTIONS (one JSON object as first argument)

``name`` ("loopback"), ``version``, ``protocol`` (1), ``http`` (true), ``images`` (false), ``auth`` (ids of methods),
``auth_needed`` (session/new answers -32000 until authenticate), ``auth_hangs``, ``auth_fails``, ``auth_useless``
(authenticate succeeds, session/new still refuses), ``models`` ("config"|"grouped"|"set_model"|null),
``model_ids`` (["loop-1", "loop-2"]), ``model_lies`` (the answer keeps the old value), ``model_error`` (error object),
``early_updates`` (updates of the session sent before the session/new response), ``session_error`` (error object),
``session_hangs``, ``init_hangs``, ``init_exit`` CODE, ``init_lines`` (raw lines before the answer), ``init_stderr`` N,
``init_result`` (merged over the answer), ``cancel`` ("cancelled"|"end_turn"|"error"|"ignore"), ``permission``
("official"|"gemini"|false), ``list_at`` ("prompt"|"session"|"call"), ``ignore_term``, ``ignore_eof``, ``turns``,
``steps``, ``mcp_version`` ("2025-06-18"), ``record`` PATH (every message that came in, one JSON line each).
"""

import html
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

OPTIONS = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
MARK = "@loopback"


class Turn(Exception):
    """Ends a turn; carries the answer of the prompt."""

    def __init__(self, result=None, error=None, tail=(), silent=False):
        self.result, self.error, self.tail, self.silent = result, error, tail, silent


class Wire:
    """stdout as frames, and the requests that wait for the client's answer."""

    def __init__(self):
        self.out = sys.stdout.buffer
        self.lock = threading.Lock()
        self.waiting = {}
        self.next = 0

    def write(self, data):
        with self.lock:
            self.out.write(data)
            self.out.flush()

    def send(self, **message):
        self.write(encode(message) + b"\n")

    def request(self, method, params):
        with self.lock:
            self.next += 1
            key = f"loop-{self.next}"
            box = self.waiting[key] = [threading.Event(), None]
        self.send(id=key, method=method, params=params)
        box[0].wait(120)
        return box[1] or {"error": {"code": 0, "message": "no answer"}}

    def answered(self, message):
        box = self.waiting.pop(message.get("id"), None)
        if box:
            box[1] = {key: message[key] for key in ("result", "error") if key in message}
            box[0].set()


def encode(message):
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8", "replace"
    )


WIRE = Wire()


class Mcp:
    """A small MCP client over HTTP: one kept connection for each thread, JSON or event-stream answers."""

    def __init__(self, server):
        from urllib.parse import urlsplit

        self.name = server["name"]
        self.where = urlsplit(server["url"])
        self.headers = {item["name"]: item["value"] for item in server.get("headers", [])}
        self.local = threading.local()
        self.tools = None
        self.ready = False
        self.next = 0
        self.lock = threading.Lock()

    def connection(self):
        import http.client

        if getattr(self.local, "http", None) is None:
            self.local.http = http.client.HTTPConnection(self.where.hostname, self.where.port, timeout=1200)
        return self.local.http

    def close(self):
        if getattr(self.local, "http", None) is not None:
            self.local.http.close()
            self.local.http = None

    def post(self, message):
        http = self.connection()
        try:
            self.send(http, message)
            return self.parse(http.getresponse(), message)
        except OSError as error:
            self.close()
            return failure(error)

    def send(self, http, message):
        headers = {
            **self.headers,
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        if self.ready:
            headers["MCP-Protocol-Version"] = OPTIONS.get("mcp_version", "2025-06-18")
        http.request("POST", self.where.path, json.dumps(message).encode(), headers)

    @staticmethod
    def parse(response, message):
        body = response.read()
        if "event-stream" in (response.headers.get("Content-Type") or ""):
            found = {}
            for event in body.decode().replace("\r\n", "\n").split("\n\n"):
                data = "\n".join(line[5:].lstrip() for line in event.split("\n") if line.startswith("data:"))
                if data and json.loads(data).get("id") == message.get("id"):
                    found = json.loads(data)
            return found
        if not body.strip():
            return {"status": response.status}
        try:
            return json.loads(body)
        except ValueError:
            return {"error": {"code": response.status, "message": "not JSON"}}

    def together(self, requests):
        """Send several requests at once, each on a connection of its own; returns a reader for each answer."""
        import socket

        opened = []
        for method, params in requests:
            message = self.message(method, params)
            body = json.dumps(message).encode()
            headers = {
                **self.headers,
                "Host": self.where.netloc,
                "Content-Type": "application/json",
                "Content-Length": len(body),
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": OPTIONS.get("mcp_version", "2025-06-18"),
            }
            head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            data = f"POST {self.where.path} HTTP/1.1\r\n{head}\r\n".encode() + body
            sock = socket.create_connection((self.where.hostname, self.where.port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.append((sock, data, message))
        # All connections stand and all bytes are ready before the first is sent: together means together.
        for sock, data, _ in opened:
            sock.sendall(data)
        return [self.reader(sock, message) for sock, _, message in opened]

    def reader(self, sock, message):
        import http.client

        def read():
            try:
                response = http.client.HTTPResponse(sock, method="POST")
                response.begin()
                return self.parse(response, message)
            except OSError as error:
                return failure(error)
            finally:
                sock.close()

        return read

    def message(self, method, params=None, key=None):
        if key is None:
            with self.lock:
                self.next += 1
                key = self.next
        return {"jsonrpc": "2.0", "id": key, "method": method, "params": params or {}}

    def rpc(self, method, params=None, key=None):
        return self.post(self.message(method, params, key))

    def open(self):
        if not self.ready:
            version = OPTIONS.get("mcp_version", "2025-06-18")
            info = {"name": "loopback", "version": "1"}
            self.rpc("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": info})
            self.ready = True
            self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def list(self):
        self.open()
        answer = self.rpc("tools/list")
        self.tools = answer.get("result", {}).get("tools", [])
        return self.tools

    def exported(self, wanted):
        """The exported tool for a host's tool name: exact, by stem, or by the description."""
        tools = self.tools if self.tools is not None else self.list()
        names = [tool["name"] for tool in tools]
        if wanted in names:
            return wanted
        stem = re.sub(r"[^a-z0-9]+", "_", wanted.lower()).strip("_")
        close = [name for name in names if name.startswith(stem)] or [name for name in names if stem in name]
        if len(close) > 1:
            close = [min(close, key=len)]
        if not close:
            close = [tool["name"] for tool in tools if wanted in (tool.get("description") or "")]
        return close[0] if close else wanted


def failure(error):
    return {"error": {"code": -1, "message": f"http: {type(error).__name__}"}}


class Session:
    """One ACP session: its endpoint, its model and the turn that runs."""

    def __init__(self, params):
        self.id = uuid.uuid4().hex
        self.params = params
        servers = [item for item in params.get("mcpServers", []) if item.get("type") == "http"]
        self.mcp = Mcp(servers[0]) if servers else None
        self.model = (OPTIONS.get("model_ids") or ["loop-1"])[0]
        self.cancelled = threading.Event()
        self.prompt = []
        self.usage = None
        self.stop = "end_turn"
        self.tail = []
        self.calls = 0

    # ---- what it says ---------------------------------------------------------------------------------------------
    def frame(self, update, session=None):
        params = {"sessionId": session or self.id, "update": update}
        return encode({"method": "session/update", "params": params}) + b"\n"

    def update(self, update, session=None):
        WIRE.write(self.frame(update, session))

    def say(self, text, kind="agent_message_chunk"):
        self.update({"sessionUpdate": kind, "content": {"type": "text", "text": text}})

    # ---- one turn -------------------------------------------------------------------------------------------------
    def run(self, key, prompt):
        self.prompt, self.usage, self.stop, self.tail = prompt, None, "end_turn", []
        end = Turn()
        try:
            if self.mcp and OPTIONS.get("list_at", "prompt") == "prompt" and self.mcp.tools is None:
                self.mcp.list()
            for step in steps_of(prompt):
                if self.cancelled.is_set() and OPTIONS.get("cancel") != "ignore":
                    raise self.cancel_answer()
                self.step(step)
        except Turn as turn:
            end = turn
        finally:
            if self.mcp:
                self.mcp.close()
        if end.silent:
            return
        body = {"error": end.error} if end.error else {"result": end.result or self.result()}
        WIRE.write(encode({"id": key, **body}) + b"\n" + b"".join(self.frame(item) for item in self.tail))

    def result(self):
        return {"stopReason": self.stop, **({"usage": self.usage} if self.usage is not None else {})}

    def cancel_answer(self):
        how = OPTIONS.get("cancel", "cancelled")
        if how == "error":
            return Turn(error={"code": -32000, "message": "context canceled"})
        return Turn(result={"stopReason": how if how == "end_turn" else "cancelled"})

    def step(self, step):
        for name, action in STEPS.items():
            if name in step:
                action(self, step[name], step)
                return
        raise Turn(error={"code": -32602, "message": f"loopback: unknown step {sorted(step)}"})

    def do_say(self, value, _):
        for text in [value] if isinstance(value, str) else value:
            self.say(text)

    def do_think(self, value, _):
        for text in [value] if isinstance(value, str) else value:
            self.say(text, "agent_thought_chunk")

    def do_flood(self, count, step):
        kind = "agent_thought_chunk" if step.get("thoughts") else "agent_message_chunk"
        text = step.get("text", "twenty bytes of text")
        line = self.frame({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
        block = line * 200
        for _ in range(count // 200):
            WIRE.write(block)
        WIRE.write(line * (count % 200))

    def do_call(self, call, step):
        self.do_calls([call], step)

    def do_calls(self, calls, step):
        if not self.mcp:
            raise Turn(error={"code": -32603, "message": "loopback: no MCP endpoint was given"})
        if not step.get("parallel"):
            for call in calls:
                self.one_call(call, step)
            return
        # Asked one after another, as agents do, then sent together.
        ready = [prepared for prepared in (self.prepare(call, step) for call in calls) if prepared]
        readers = self.mcp.together(
            [("tools/call", {"name": tool, "arguments": call.get("arguments", {})}) for call, tool, _ in ready]
        )
        threads = [
            threading.Thread(target=lambda i=item, r=read: self.report(i[0], i[2], r(), step), daemon=True)
            for item, read in zip(ready, readers, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.02)
                if self.cancelled.is_set() and OPTIONS.get("cancel") != "ignore":
                    raise self.cancel_answer()

    def one_call(self, call, step):
        prepared = self.prepare(call, step)
        if not prepared:
            return
        thread = threading.Thread(target=self.perform, args=(*prepared, step), daemon=True)
        if step.get("direct"):
            self.perform(*prepared, step)
            return
        thread.start()
        while thread.is_alive():
            thread.join(0.005)
            if self.cancelled.is_set() and OPTIONS.get("cancel") != "ignore":
                raise self.cancel_answer()

    def prepare(self, call, step):
        tool = call["name"] if step.get("exact") else self.mcp.exported(call["name"])
        shape = step.get("permission", OPTIONS.get("permission", "official"))
        self.calls += 1
        call_id = step.get("id") or (
            f"mcp_{self.mcp.name}_{tool}__{self.calls}" if shape == "gemini" else f"call_{self.calls}"
        )
        if shape != "gemini":
            for _ in range(int(step.get("announce", True))):
                self.announce(call_id, tool)
        if shape:
            outcome = self.permission(shape, tool, call_id, step)
            refused = outcome.get("outcome") != "selected" or "reject" in outcome.get("optionId", "")
            if refused and not step.get("ignore_refusal"):
                self.update({"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": "failed"})
                self.say(f"refused:{call['name']}:{json.dumps(outcome, sort_keys=True)}")
                return None
        return call, tool, call_id

    def announce(self, call_id, tool, status="pending"):
        meta = {"mcp": {"server": self.mcp.name, "tool": tool}}
        title = f"{self.mcp.name}_{tool}"
        self.update(
            {
                "sessionUpdate": "tool_call",
                "toolCallId": call_id,
                "title": title,
                "kind": "other",
                "status": status,
                "_meta": meta,
            }
        )

    def perform(self, call, tool, call_id, step):
        times = step.get("resend", 1)
        key = f"req-{call_id}" if times > 1 else None
        params = {"name": tool, "arguments": call.get("arguments", {})}
        if "hang_up" in step:
            threading.Timer(step["hang_up"], self.hang_up, [self.mcp.connection()]).start()
        if times > 1:
            answers = [None] * times
            threads = [
                threading.Thread(target=lambda i=i: answers.__setitem__(i, self.mcp.rpc("tools/call", params, key)))
                for i in range(times)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        else:
            answers = [self.mcp.rpc("tools/call", params)]
        for answer in answers:
            self.report(call, call_id, answer, step)
        if threading.current_thread() is not threading.main_thread():
            self.mcp.close()

    @staticmethod
    def hang_up(http):
        import socket

        if http.sock is not None:
            http.sock.shutdown(socket.SHUT_RDWR)

    def report(self, call, call_id, answer, step):
        result = answer.get("result")
        failed = not result or result.get("isError")
        if step.get("announce", True):
            status = "failed" if failed else "completed"
            self.update({"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": status})
        if step.get("quiet"):
            return
        if result:
            text = "".join(item.get("text", f"<{item.get('type')}>") for item in result.get("content", []))
        else:
            text = json.dumps(answer.get("error", answer), sort_keys=True)
        self.say(f"{'error' if failed else 'result'}:{call['name']}:{text}")

    # ---- permissions ----------------------------------------------------------------------------------------------
    def permission(self, shape, tool, call_id, step):
        server = self.mcp.name if self.mcp else "none"
        once = [
            {"optionId": "allow_once", "name": "Allow", "kind": "allow_once"},
            {"optionId": "reject_once", "name": "Reject", "kind": "reject_once"},
        ]
        call = {"toolCallId": call_id, "title": f"{server}_{tool}", "kind": "other", "status": "pending"}
        meta = {"mcp": {"server": server, "tool": tool}}
        options = once
        if shape == "gemini":
            call.update(toolCallId=call_id, title=f"{tool} ({server} MCP Server)", content=[], locations=[])
            options = gemini_options()
        elif shape == "shell":
            call.update(toolCallId="run_shell_command__1", title=f"{tool} ({server} MCP Server)", kind="execute")
            options = gemini_options()
        elif shape == "other_server":
            call["_meta"] = {"mcp": {"server": "somebodyelse", "tool": tool}}
            call["toolCallId"] = "foreign-1"
        elif shape == "other_tool":
            call["_meta"] = {"mcp": {"server": server, "tool": "not_exported"}}
            call["toolCallId"] = "foreign-2"
        elif shape == "contradiction":
            native = {"sessionUpdate": "tool_call", "toolCallId": "native-1", "title": "Run ls", "kind": "execute"}
            self.update(native)
            call.update(toolCallId="native-1", _meta=meta)
        elif shape == "title_only":
            call["toolCallId"] = "title-1"
        elif shape == "question":
            call.update(toolCallId="interaction_1", title="Which colour?", _meta=meta)
        elif shape == "always_only":
            call["_meta"] = meta
            options = [{"optionId": "allow_always", "name": "Always", "kind": "allow_always"}, once[1]]
        elif shape == "two_once":
            call["_meta"] = meta
            options = [*once, {"optionId": "again", "name": "Allow too", "kind": "allow_once"}]
        elif shape == "malformed":
            return (
                WIRE.request("session/request_permission", {"sessionId": self.id, "toolCall": 7})
                .get("result", {})
                .get("outcome", {})
            )
        else:
            call["_meta"] = meta
        params = {"sessionId": step.get("session", self.id), "toolCall": call, "options": step.get("options", options)}
        answer = WIRE.request("session/request_permission", params)
        return answer.get("result", {}).get("outcome", {"outcome": "error", "error": answer.get("error")})

    def do_ask(self, shape, step):
        tool = step.get("tool")
        if self.mcp and not step.get("exact"):
            tool = (
                self.mcp.exported(tool)
                if tool
                else (self.mcp.tools or self.mcp.list() or [{"name": "none"}])[0]["name"]
            )
        tool = tool or "none"
        self.calls += 1
        call_id = step.get("id") or (
            f"mcp_{self.mcp.name}_{tool}__{self.calls}" if shape == "gemini" and self.mcp else f"ask_{self.calls}"
        )
        if shape == "official" and step.get("announce", True) and self.mcp:
            self.announce(call_id, tool)
        self.say("outcome:" + json.dumps(self.permission(shape, tool, call_id, step), sort_keys=True))

    # ---- the rest -------------------------------------------------------------------------------------------------
    def do_list(self, _, step):
        self.say("tools:" + json.dumps([tool["name"] for tool in self.mcp.list()]))

    def do_mcp(self, value, _):
        self.mcp.open()
        answer = self.mcp.rpc(value["method"], value.get("params"))
        self.say("mcp:" + json.dumps(answer.get("result", answer.get("error", answer)), sort_keys=True))

    def do_native(self, value, _):
        base = {
            "sessionUpdate": "tool_call",
            "toolCallId": "native-1",
            "title": "Run ls",
            "kind": "execute",
            "status": "in_progress",
        }
        self.update({**base, **(value if isinstance(value, dict) else {})})

    def do_update(self, value, step):
        self.update(value, step.get("session"))

    def do_notify(self, value, _):
        WIRE.send(method=value["method"], params=value.get("params"))

    def do_request(self, value, _):
        self.say("answer:" + json.dumps(WIRE.request(value["method"], value.get("params")), sort_keys=True))

    def do_raw(self, value, step):
        WIRE.write((value.encode("utf-8", "surrogateescape") + b"\n") * step.get("times", 1))

    def do_hex(self, value, step):
        WIRE.write((bytes.fromhex(value) + b"\n") * step.get("times", 1))

    def do_long_line(self, count, _):
        self.say("x" * count)

    def do_stderr(self, count, step):
        flood_stderr(count, step.get("text"))

    def do_tell(self, what, step):
        told = {
            "prompt": lambda: self.prompt,
            "cwd": lambda: {"process": os.getcwd(), "session": self.params.get("cwd"), "tmp": os.environ.get("TMPDIR")},
            "env": lambda: {name: os.environ.get(name) for name in step.get("names", sorted(os.environ))},
            "initialize": lambda: AGENT.initialize,
            "session": lambda: self.params,
            "requests": lambda: AGENT.seen,
            "pid": os.getpid,
        }[what]()
        self.say(json.dumps(told, sort_keys=True))

    def do_sleep(self, seconds, _):
        self.cancelled.wait(seconds)

    def do_wait_cancel(self, seconds, _):
        cancelled = self.cancelled.wait(60 if seconds is True else seconds)
        if OPTIONS.get("cancel") == "ignore":
            time.sleep(600)
        elif cancelled:
            raise self.cancel_answer()

    def do_grandchild(self, how, _):
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"],
            stdin=subprocess.DEVNULL,
            start_new_session=how == "setsid",
        )
        self.say(f"grandchild:{child.pid}")

    def do_stop(self, value, _):
        self.stop = value

    def do_usage(self, value, _):
        self.usage = value

    def do_error(self, value, _):
        raise Turn(error=value)

    def do_late(self, value, _):
        self.tail = value

    def do_no_answer(self, _, __):
        raise Turn(silent=True)

    def do_exit(self, code, _):
        WIRE.out.flush()
        os._exit(code)

    def do_half_exit(self, _, __):
        WIRE.write(encode({"id": AGENT.prompt_id, "result": self.result()}))
        os._exit(0)


STEPS = {name[3:]: action for name, action in vars(Session).items() if name.startswith("do_")}


def gemini_options():
    rows = (
        ("proceed_always_server", "allow_always"),
        ("proceed_always_tool", "allow_always"),
        ("proceed_once", "allow_once"),
    )
    return [{"optionId": key, "name": key, "kind": kind} for key, kind in (*rows, ("cancel", "reject_once"))]


def flood_stderr(count, text=None):
    sys.stderr.write(text if text is not None else ("noise on stderr " * (count // 16 + 1))[:count])
    sys.stderr.flush()


def steps_of(prompt):
    text = "\n".join(block.get("text", "") for block in prompt if block.get("type") == "text")
    at = text.rfind(MARK)
    if at >= 0:
        rest = text[at + len(MARK) :].lstrip()
        for read in (lambda: rest, lambda: unescape(rest), lambda: html.unescape(rest)):
            try:
                return json.JSONDecoder().raw_decode(read())[0]
            except ValueError:
                continue
        return [{"error": {"code": -32602, "message": "loopback: the directive is not JSON"}}]
    turns = OPTIONS.get("turns")
    if turns:
        return turns.pop(0)
    return OPTIONS.get("steps", [{"say": "ok"}])


def unescape(text):
    """The inside of a JSON string, up to its closing quote."""
    return json.JSONDecoder().raw_decode('"' + text)[0]


class Agent:
    """The ACP side: one thread reads, each prompt runs in a thread of its own."""

    def __init__(self):
        self.sessions = {}
        self.initialize = None
        self.signed_in = False
        self.seen = []
        self.prompt_id = None
        self.record = OPTIONS.get("record")

    def serve(self):
        for line in sys.stdin.buffer:
            try:
                message = json.loads(line)
            except ValueError:
                WIRE.send(id=None, error={"code": -32700, "message": "parse error"})
                continue
            if self.record:
                with Path(self.record).open("a", encoding="utf-8") as record:
                    record.write(json.dumps(message) + "\n")
            if "method" not in message:
                WIRE.answered(message)
                continue
            self.seen.append(message["method"])
            self.handle(message)
        if OPTIONS.get("ignore_eof"):
            threading.Event().wait()
        os._exit(0)

    def handle(self, message):
        method, params, key = message["method"], message.get("params") or {}, message.get("id")
        if method == "session/cancel":
            session = self.sessions.get(params.get("sessionId"))
            if session:
                session.cancelled.set()
            return
        if method == "session/prompt":
            session = self.sessions.get(params.get("sessionId"))
            if session is None:
                WIRE.send(id=key, error={"code": -32602, "message": "no such session"})
                return
            self.prompt_id = key
            threading.Thread(target=session.run, args=(key, params["prompt"]), daemon=True).start()
            return
        handler = {
            "initialize": self.on_initialize,
            "authenticate": self.on_authenticate,
            "session/new": self.on_new,
            "session/set_config_option": self.on_config,
            "session/set_model": self.on_model,
        }.get(method)
        if handler is None:
            if key is not None:
                WIRE.send(id=key, error={"code": -32601, "message": "Method not found"})
            return
        answer = handler(params)
        if answer is not None:
            WIRE.send(id=key, **answer)

    def on_initialize(self, params):
        self.initialize = params
        if OPTIONS.get("init_stderr"):
            flood_stderr(OPTIONS["init_stderr"])
        for line in OPTIONS.get("init_lines", []):
            WIRE.write(line.encode("utf-8", "surrogateescape") + b"\n")
        if "init_exit" in OPTIONS:
            os._exit(OPTIONS["init_exit"])
        if OPTIONS.get("init_hangs"):
            return None
        result = {
            "protocolVersion": OPTIONS.get("protocol", 1),
            "agentInfo": {"name": OPTIONS.get("name", "loopback"), "version": OPTIONS.get("version", "1.0.0")},
            "agentCapabilities": {
                "loadSession": False,
                "mcpCapabilities": {"http": OPTIONS.get("http", True), "sse": False},
                "promptCapabilities": {"image": OPTIONS.get("images", False)},
            },
            "authMethods": [{"id": method, "name": method} for method in OPTIONS.get("auth", [])],
        }
        return {"result": {**result, **OPTIONS.get("init_result", {})}}

    def on_authenticate(self, params):
        if OPTIONS.get("auth_hangs"):
            return None
        if OPTIONS.get("auth_fails"):
            return {"error": {"code": -32603, "message": "sign-in failed for somebody@example.com"}}
        self.signed_in = not OPTIONS.get("auth_useless")
        return {"result": {}}

    def on_new(self, params):
        if OPTIONS.get("session_hangs"):
            return None
        if OPTIONS.get("session_error"):
            return {"error": OPTIONS["session_error"]}
        if OPTIONS.get("auth_needed") and not self.signed_in:
            data = {"message": "Please visit https://accounts.example/secret?code=123 to sign in"}
            return {"error": {"code": -32000, "message": "Authentication required", "data": data}}
        session = Session(params)
        self.sessions[session.id] = session
        for update in OPTIONS.get("early_updates", []):
            session.update(update)
        if session.mcp and OPTIONS.get("list_at") == "session":
            session.mcp.list()
        return {"result": {"sessionId": session.id, **self.models(session)}}

    def models(self, session):
        style = OPTIONS.get("models", "config")
        ids = OPTIONS.get("model_ids", ["loop-1", "loop-2"])
        if style == "set_model":
            available = [{"modelId": model, "name": model.title()} for model in ids]
            return {"models": {"availableModels": available, "currentModelId": session.model}}
        if style is None:
            return {}
        values = [{"value": model, "name": model.title()} for model in ids]
        if style == "grouped":
            values = [{"group": "g", "name": "Group", "options": values}]
        option = {"id": "model", "name": "Model", "category": "model", "type": "select"}
        other = {
            "id": "mode",
            "name": "Mode",
            "type": "select",
            "currentValue": "a",
            "options": [{"value": "a", "name": "A"}],
        }
        return {"configOptions": [other, {**option, "currentValue": session.model, "options": values}]}

    def choose(self, params, model):
        session = self.sessions.get(params.get("sessionId"))
        if OPTIONS.get("model_error"):
            return None, {"error": OPTIONS["model_error"]}
        if session is None or model not in OPTIONS.get("model_ids", ["loop-1", "loop-2"]):
            return None, {"error": {"code": -32602, "message": "no such model"}}
        if not OPTIONS.get("model_lies"):
            session.model = model
        return session, None

    def on_config(self, params):
        session, error = self.choose(params, params.get("value"))
        return error or {"result": {"configOptions": self.models(session).get("configOptions", [])}}

    def on_model(self, params):
        _, error = self.choose(params, params.get("modelId"))
        return error or {"result": {}}


if __name__ == "__main__":
    if OPTIONS.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    AGENT = Agent()
    AGENT.serve()
