"""Takes the pictures of `docs/pictures` from the real host: `python tests/dsh/pictures.py`, or `make pictures`.

`dsh web` runs with the bundle installed by its own command; the model is the embedded engine with a script, and the
shell, the file and what is said of it are real. Chromium works the page without a screen (`pictures.mjs`). Everything
is in a temporary directory and on loopback, and is gone at the end.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.dsh import HOST, ROOT, TESTS, Dsh, node_folder, wait_for, web

OUT = ROOT / "docs" / "pictures"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: In seconds, for all of the browser's work; it takes about 15.
BROWSER_S = 300
#: A picture belongs into a README: more than this is a mistake.
LARGEST = 250_000

WORKSPACE = "weather-station"
READINGS = "day,high\nMonday,19\nTuesday,21\nWednesday,24\nThursday,27\nFriday,22\n"
PROMPT = "Which two days in readings.csv were the hottest?"
TITLE = "Hottest days of the week"
TOOL = "Show the two hottest days"
COMMAND = "sort -t, -k2 -rn readings.csv | head -2"
#: The answer's words are the script's; its days and numbers are what the host's shell printed.
RULES: list[dict[str, Any]] = [
    {"when": {"user": {"regex": "(?i)session title|title for"}}, "text": TITLE},
    {
        "when": {"round": 0},
        "text": "I sort the readings by temperature.",
        "calls": [{"name": "bash", "arguments": {"command": COMMAND, "description": TOOL}}],
    },
    {
        "when": {"result": {"regex": r"(?P<day>\w+),(?P<high>\d+)\s+(?P<second>\w+),(?P<next>\d+)"}},
        "text": [
            "**{{match.day}}** was the hottest day, with {{match.high}} °C, ",
            "and **{{match.second}}** comes second, with {{match.next}} °C.",
        ],
        "pause_ms": 100,
    },
]


def browser() -> str:
    """The Chromium of this machine."""
    asked = os.environ.get("CHROMIUM")
    found = shutil.which(asked) if asked else next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        raise SystemExit(
            f"{asked or 'Chromium'} was not found, so no pictures are taken. On Debian and Ubuntu: "
            "`apt-get install chromium`. CHROMIUM=/path/to/chrome names another one."
        )
    return found


def take(folder: Path, bundle: Path, out: Path) -> None:
    """Run the host with the bundle, and the browser against it."""
    dsh = Dsh(folder)
    # As a person would have it: the host's own sandbox around the tools.
    sandbox = HOST / "sandbox" / "usr" / "bin"
    dsh.variables |= {
        "DSH_PERMISSION_MODE": "workspace-write",
        "PATH": f"{sandbox}{os.pathsep}{dsh.environment['PATH']}",
    }
    added = dsh.run("plugin", "--profile", "web", "add", str(bundle))
    if added.returncode:
        raise SystemExit(f"the bundle was not installed:\n{added.stderr}")
    workspaces = {"insert": [{"id": "workspaces", "name": str(TESTS / "plugins" / "workspaces.mjs")}]}
    dsh.configure("web", workspaces, **dsh.scripted(RULES))
    workspace = dsh.user / WORKSPACE
    workspace.mkdir()
    (workspace / "readings.csv").write_text(READINGS, encoding="utf-8")
    with web(dsh) as page:
        # The host serves before its last plugins are there; once there is a workspace, the page makes none of its own.
        wait_for(lambda: "workspace" in page.call("workspace/create", request={"path": str(workspace)}))
        job = {
            "url": page.url,
            "chromium": browser(),
            "workspace": WORKSPACE,
            "prompt": PROMPT,
            "tool": TOOL,
            "command": COMMAND,
            "title": TITLE,
            "model": "scripted-2",
            "out": str(out),
        }
        work(job, dsh.environment)


def work(job: dict[str, Any], environment: dict[str, str]) -> None:
    """Run the browser's half; nothing of it stays, whatever happens."""
    process = subprocess.Popen(
        [str(node_folder() / "node"), str(TESTS / "pictures.mjs")], stdin=subprocess.PIPE, env=environment, text=True
    )
    try:
        process.communicate(json.dumps(job), timeout=BROWSER_S)
    finally:
        if process.poll() is None:
            # At SIGTERM it closes the browser first.
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    if process.returncode:
        raise SystemExit("the pictures could not be taken; the browser's error is above")


@contextlib.contextmanager
def _demo_folder() -> Iterator[str]:
    """A folder that goes at the end; its path is in a picture, so a plain one where it is free."""
    plain = Path(tempfile.gettempdir()) / "demo"
    try:
        plain.mkdir()
    except FileExistsError:
        with tempfile.TemporaryDirectory(prefix="demo-") as folder:
            yield folder
        return
    try:
        yield str(plain)
    finally:
        shutil.rmtree(plain, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Take the pictures of docs/pictures from the real host.")
    parser.add_argument("--bundle", type=Path, default=ROOT, help="the bundle, as a folder or packed (this checkout)")
    parser.add_argument("--out", type=Path, default=OUT, help="where the pictures go (docs/pictures)")
    options = parser.parse_args()
    browser()
    if not (HOST / ".ready").exists() or not (TESTS / "node_modules" / "playwright-core").exists():
        raise SystemExit("the host is not installed: run `python tests/dsh/install.py`")
    options.out.mkdir(parents=True, exist_ok=True)
    # So that a stop from outside cleans up too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with _demo_folder() as folder:
        take(Path(folder), options.bundle.resolve(), options.out.resolve())
    for path in sorted(options.out.glob("dsh-*.png")):
        size = path.stat().st_size
        print(f"{path.name}: {size:,} bytes")
        if size > LARGEST:
            raise SystemExit(f"{path.name} is larger than {LARGEST:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
