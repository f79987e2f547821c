"""A stand-in ACP agent whose sign-in waits for a loopback redirect, plain stdlib, for tests. Starts in about 40 ms.

It signs in as the official server does: `authenticate` opens a listener on 127.0.0.1 with a random port, prints a link
on stderr and waits. One GET with the right ``state`` and a ``code`` signs in; any other GET, a bare one too, aborts. A
sign-in is a flag file, so that a later process has it.

OPTIONS (one JSON object as first argument)

``flag`` PATH            the sign-in; ``record`` PATH  every request that came in, one JSON line each, and every GET as
                         ``{"http": <request line>, "host": <Host header>}``
``name`` ("antigravity-acp"), ``auth`` (["oauth-personal", "oauth-business"])
``wording`` STR          how the link is printed, see WORDINGS
``host``, ``path``       of the redirect; ``state`` false leaves the state out
``browser`` true         it opens "a browser" that ends at the redirect by itself
``on_auth`` STR          "wait" (default), "hang" (no link, no answer), "die" (after the link), "child" (waits, with
                         a child that left its group)
``stumble`` true         the first GET is answered with 503 and changes nothing
``hold`` true            the answer of a good GET is sent, but `authenticate` is never answered
``broken_after`` ERROR   `session/new` answers this once it is signed in
``session_signs_in`` true  `session/new` begins the sign-in by itself and is answered once that has succeeded
``session_error`` ERROR  `session/new` answers this always; ``session_hangs`` true  or nothing
``logout`` STR           "method" (announces ACP's own), "prompt" (default), "memory" (the running process stays signed
                         in), "deaf" (nothing changes), "error" (the prompt is answered with an error), "hang"
"""

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from urllib.parse import parse_qs, quote, urlsplit

OPTIONS = json.loads(sys.argv[1])
LOCK = threading.Lock()
PROVIDER = "https://accounts.example.com/o/oauth2/v2/auth"

WORDINGS = {
    "plain": "Open the following link to authenticate the ACP server: {}\n",
    "ansi": "\x1b[1mPlease visit\x1b[0m \x1b[4;34m{}\x1b[0m to continue (expires in 5 minutes).\r\n",
    "hyperlink": "Sign in: \x1b]8;;{}\x1b\\click here\x1b]8;;\x1b\\\n",
    "quoted": "I0101 auth.py:12] browser url='{}'. Waiting\n",
    "markdown": "[Sign in]({}), then come back.\n",
    "log": '{{"level":"info","url":"{}","next":"wait"}}\n',
    "twice": "{0}\nIf that did not work: <{0}>.\n",
    "unfinished": "Go to {} ",
    "decoys": "Docs: https://example.com/help?redirect_uri=https%3A%2F%2Fexample.com\nListening on http://127.0.0.1:1/\n"
    "https://127.0.0.1:9/auth?redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2F\n"
    + "x" * 40_000
    + " https://a.example/?\n{}\n",
}


class Agent:
    def __init__(self):
        self.held = os.path.exists(OPTIONS["flag"])
        self.stumbles = bool(OPTIONS.get("stumble"))
        self.sessions = 0

    def signed_in(self):
        return self.held if OPTIONS.get("logout") == "memory" else os.path.exists(OPTIONS["flag"])

    def handle(self, message):
        method, key = message.get("method"), message.get("id")
        record({"method": method, "params": message.get("params")})
        if method == "initialize":
            auth = {"auth": {"logout": {}}} if OPTIONS.get("logout") == "method" else {}
            methods = [{"id": each, "name": each} for each in OPTIONS.get("auth", ["oauth-personal", "oauth-business"])]
            answer(
                key,
                {
                    "protocolVersion": 1,
                    "agentInfo": {"name": OPTIONS.get("name", "antigravity-acp"), "version": "1.3.0"},
                    "agentCapabilities": {"mcpCapabilities": {"http": True}, **auth},
                    "authMethods": methods,
                },
            )
        elif method == "session/new":
            self.session(key)
        elif method == "authenticate":
            threading.Thread(target=self.authenticate, args=(key,), daemon=True).start()
        elif method == "logout" and OPTIONS.get("logout") == "method":
            self.forget()
            answer(key, {})
        elif method == "session/prompt":
            self.prompt(key, message["params"]["prompt"][0]["text"])
        elif key is not None:
            fail(key, -32601, "no such method")

    def session(self, key):
        error = OPTIONS.get("session_error")
        if OPTIONS.get("session_hangs"):
            return
        if error is None and self.signed_in():
            error = OPTIONS.get("broken_after")
        if error is not None:
            fail(key, error["code"], error["message"])
        elif not self.signed_in() and OPTIONS.get("session_signs_in"):
            threading.Thread(target=self.authenticate, args=(key, self.session), daemon=True).start()
        elif not self.signed_in():
            fail(key, -32000, "Authentication required", {"message": "Sign in as somebody@example.com first"})
        else:
            self.sessions += 1
            models = [{"modelId": each, "name": each} for each in ("fast", "slow")]
            state = {"currentModelId": "fast", "availableModels": models}
            answer(key, {"sessionId": f"s{self.sessions}", "models": state})

    def prompt(self, key, text):
        how = OPTIONS.get("logout", "prompt")
        if how == "error":
            fail(key, -32603, "cannot reach somebody@example.com")
        elif how != "hang":
            if text == "/logout" and how != "deaf":
                self.forget(memory=how != "memory")
            answer(key, {"stopReason": "end_turn"})

    def forget(self, *, memory=True):
        os.unlink(OPTIONS["flag"])
        self.held = self.held and not memory

    def authenticate(self, key, then=None):
        how = OPTIONS.get("on_auth", "wait")
        if how == "hang":
            return
        host = OPTIONS.get("host", "127.0.0.1")
        family = socket.AF_INET6 if host == "::1" else socket.AF_INET
        listener = socket.create_server(("::1" if host == "::1" else "127.0.0.1", 0), family=family)
        port, state = listener.getsockname()[1], secrets.token_urlsafe(16)
        redirect = f"http://{f'[{host}]' if ':' in host else host}:{port}{OPTIONS.get('path', '/oauth2callback')}"
        link = f"{PROVIDER}?client_id=stand-in&redirect_uri={quote(redirect, safe='')}&scope=a%20b"
        link += f"&state={state}" if OPTIONS.get("state", True) else ""
        if how == "child":
            subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(120)"], start_new_session=True)
        text = WORDINGS[OPTIONS.get("wording", "plain")].format(link).encode()
        for start in range(0, len(text), 4096 if len(text) > 4096 else 7):
            os.write(2, text[start : start + (4096 if len(text) > 4096 else 7)])
        if how == "die":
            os._exit(7)
        if OPTIONS.get("browser"):
            threading.Thread(target=visit, args=(port, redirect, state), daemon=True).start()
        self.wait(key, listener, state if OPTIONS.get("state", True) else None, then or (lambda key: answer(key, {})))

    def wait(self, key, listener, state, then):
        while True:
            connection, _ = listener.accept()
            with connection:
                head = b""
                while b"\r\n\r\n" not in head and (data := connection.recv(4096)):
                    head += data
                line, *headers = head.decode("latin-1").split("\r\n")
                hosts = [item[5:].strip() for item in headers if item.lower().startswith("host:")]
                record({"http": line, "host": hosts[0] if hosts else None})
                if self.stumbles:
                    self.stumbles = False
                    connection.sendall(b"HTTP/1.1 503 Busy\r\nConnection: close\r\n\r\n")
                    continue
                query = parse_qs(urlsplit([*line.split(" "), ""][1]).query)
                good = "code" in query and (state is None or query.get("state") == [state])
                status = b"200 OK" if good else b"400 Bad Request"
                connection.sendall(b"HTTP/1.1 " + status + b"\r\nConnection: close\r\n\r\nYou may close this window.")
            break
        listener.close()
        if not good:
            fail(key, -32000, "Authentication aborted for somebody@example.com")
        elif not OPTIONS.get("hold"):
            with open(OPTIONS["flag"], "w") as file:
                file.write("signed in")
            self.held = True
            then(key)


def visit(port, redirect, state):
    with socket.create_connection(("127.0.0.1", port)) as browser:
        path = urlsplit(redirect).path
        browser.sendall(f"GET {path}?code=4%2Fabc&state={state} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        while browser.recv(4096):
            pass


def answer(key, result):
    send({"jsonrpc": "2.0", "id": key, "result": result})


def fail(key, code, message, data=None):
    send({"jsonrpc": "2.0", "id": key, "error": {"code": code, "message": message, "data": data}})


def send(message):
    with LOCK:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def record(entry):
    if OPTIONS.get("record"):
        with open(OPTIONS["record"], "a") as file:
            file.write(json.dumps(entry) + "\n")


def main():
    agent = Agent()
    for line in sys.stdin:
        agent.handle(json.loads(line))


if __name__ == "__main__":
    main()
    os._exit(0)
