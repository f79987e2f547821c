"""The doctor tells the truth: on whole commands, with a home, a cache and a PATH of their own, and real agents."""

import json
import shlex
import stat
from pathlib import Path
from typing import Any

import pytest
from helpers.archives import HARNESS, SERVER
from helpers.cli import events
from helpers.machine import Machine
from helpers.official import official_folder, server_program

#: Every row, in its order.
ROWS = [
    *("python", "platform", "cpu", "disk", "proxy"),
    *("server", "pair", "receipt"),
    *("initialize", "version", "auth", "signed-in", "models", "mcp"),
    *("engine", "dsh", "hook"),
]
ASKED = {"initialize", "version", "auth", "signed-in", "models", "mcp"}
#: One of each kind that people have pasted into public trackers.
SECRETS = {
    "env": "hunter2-in-env",
    "argument": "hunter3-in-args",
    "proxy": "hunter4@in:proxy",
    "key": "AIzaSyD-planted-key-0123456789abcdefgh",
    "token": "ya29.a0AfPlantedToken-0123456789",
    "mail": "jane.roe@example.com",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJqYW5lIn0.c2lnbmF0dXJl",
    "code": "4/0AdPlantedCode0123456789",
}


def doctor(machine: Machine, *arguments: str, status: int, alone: bool = False) -> dict[str, dict[str, Any]]:
    """The rows of a run by name, each exactly once and in order."""
    done = machine.run("doctor", "--json", *arguments, alone=alone)
    assert "Traceback" not in done.stderr
    found = events(done.stdout)
    assert [row["name"] for row in found] == ROWS, done.stderr
    assert all(row["event"] == "check" and row["text"] for row in found)
    assert all(row["advice"] for row in found if row["state"] == "fail")
    assert done.returncode == status, done.stdout
    return {row["name"]: row for row in found}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Machine:
    return Machine(tmp_path, monkeypatch, capsys)


def states(rows: dict[str, dict[str, Any]], *names: str) -> dict[str, str]:
    return {name: rows[name]["state"] for name in names}


def not_asked(rows: dict[str, dict[str, Any]]) -> set[str]:
    return {name for name, row in rows.items() if row["state"] == "skip" and row["text"].startswith("not asked")}


def test_on_a_machine_with_nothing_it_says_what_to_install_and_fails(machine: Machine) -> None:
    rows = doctor(machine, status=1, alone=True)
    assert {name for name, row in rows.items() if row["state"] == "fail"} == {"server"}
    assert "antigravity-acp install" in rows["server"]["advice"]
    assert not_asked(rows) == ASKED | {"pair"}
    assert (rows["receipt"]["state"], rows["engine"]["state"]) == ("skip", "warn")
    # Looking changes nothing.
    assert not machine.cache.exists()
    assert not list(machine.home.iterdir())
    table = machine.run("doctor")
    assert table.returncode == 1
    lines = [line for line in table.stdout.splitlines() if not line.startswith(" ")]
    assert [line.split()[1] for line in lines] == ROWS
    assert {line.split()[0] for line in lines} <= {"ok", "warn", "fail", "-"}
    assert [line.split()[1] for line in lines if line.startswith("fail")] == ["server"]


@pytest.mark.parametrize("named", [True, False])
def test_half_an_installation_is_told_from_none(machine: Machine, tmp_path: Path, named: bool) -> None:
    server = official_folder(tmp_path / "half" if named else machine.bin, without=HARNESS)
    if named:
        machine.set(AGY_ACP_BIN=str(server))
    rows = doctor(machine, status=1, alone=named)
    assert states(rows, "server", "pair") == {"server": "fail", "pair": "fail"}
    assert HARNESS in rows["pair"]["text"]
    assert not_asked(rows) >= ASKED


def test_what_is_left_of_a_broken_installation_is_a_receipt_that_fails(machine: Machine) -> None:
    from antigravity_provisioning import releases

    asset = releases.pinned()
    official_folder(
        machine.cache / "antigravity-acp" / "servers" / f"{asset.version}-{asset.platform}", without=HARNESS
    )
    rows = doctor(machine, status=1)
    assert states(rows, "server", "receipt") == {"server": "fail", "receipt": "fail"}
    assert "antigravity-acp install" in rows["receipt"]["advice"]


def test_the_command_line_instead_of_the_server_is_named_as_the_wrong_program(machine: Machine) -> None:
    agy = machine.bin / "agy"
    agy.write_bytes(server_program())
    agy.chmod(0o755)
    rows = doctor(machine, "--command", str(agy), status=1)
    assert rows["server"]["state"] == "fail"
    assert "`agy`" in rows["server"]["text"]
    assert "`agy`" in doctor(machine, "--engine", "official", status=1)["server"]["text"]


def test_another_agent_under_the_servers_name_is_named_and_not_asked_further(machine: Machine) -> None:
    official_folder(machine.bin, server_program(name="other-agent"))
    rows = doctor(machine, status=1, alone=True)
    assert states(rows, "server", "pair", "initialize") == {"server": "ok", "pair": "ok", "initialize": "fail"}
    assert "`other-agent`" in rows["initialize"]["text"]
    assert "wrong program" in rows["initialize"]["text"]
    assert not_asked(rows) == ASKED - {"initialize"}


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ("exit 3", "exit status 3"),
        ("kill -ILL $$", "SIGILL"),
        ("exit 132", "SIGILL"),
        ("echo 'FATAL: tcmalloc: MmapAligned() failed' >&2; exit 1", "39-bit"),
    ],
)
def test_a_server_that_dies_at_once_is_told_with_its_cause(machine: Machine, shell: str, words: str) -> None:
    official_folder(machine.bin, server_program(shell=shell))
    rows = doctor(machine, status=1, alone=words == "exit status 3")
    assert rows["initialize"]["state"] == "fail"
    assert words in rows["initialize"]["text"]
    assert not_asked(rows) == ASKED - {"initialize"}
    # What stands beside it is looked at all the same.
    assert states(rows, "engine", "dsh", "hook") == {"engine": "skip", "dsh": "skip", "hook": "skip"}
    assert "sign out" not in json.dumps(rows)


def test_a_server_that_never_answers_ends_within_the_limit_and_leaves_nothing(machine: Machine, tmp_path: Path) -> None:
    official_folder(machine.bin, server_program(init_hangs=True, ignore_term=True))
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"startupTimeoutMs": 1500, "disposeGraceMs": 100}))
    rows = doctor(machine, "--settings", str(settings), status=1)
    assert rows["initialize"]["state"] == "fail"
    assert "1500 ms" in rows["initialize"]["text"]


def test_the_embedded_engine_alone_is_enough(machine: Machine, tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("models: [small, large]\nrules: [{text: hello}]\n")
    rows = doctor(machine, "--script", str(script), status=0, alone=True)
    wanted = dict.fromkeys((*ASKED, "server", "engine"), "ok")
    assert states(rows, *wanted) == wanted
    assert "small, large" in rows["models"]["text"]
    assert states(rows, "pair", "receipt") == {"pair": "skip", "receipt": "skip"}


@pytest.mark.parametrize(("automatic", "state"), [(True, "warn"), (False, "ok")])
def test_an_engine_that_stands_in_for_a_missing_server_is_said_to_do_so(
    machine: Machine, tmp_path: Path, automatic: bool, state: str
) -> None:
    script, settings = tmp_path / "script.yaml", tmp_path / "settings.json"
    script.write_text("rules: [{text: hello}]\n")
    settings.write_text(json.dumps({"args": ["--script", str(script)], "autoInstall": automatic}))
    rows = doctor(machine, "--settings", str(settings), status=0)
    assert states(rows, "server", "initialize") == {"server": state, "initialize": "ok"}
    assert "not installed" in rows["server"]["text"]
    assert ("downloads it" in rows["server"]["text"]) is automatic


def test_the_embedded_engine_without_a_model_fails_with_what_to_set(machine: Machine) -> None:
    rows = doctor(machine, "--engine", "embedded", status=1)
    assert states(rows, "initialize", "signed-in", "engine") == {
        "initialize": "ok",
        "signed-in": "fail",
        "engine": "fail",
    }
    assert "GEMINI_API_KEY" in rows["engine"]["advice"]


def test_a_server_nobody_has_signed_in_to_is_a_warning_and_no_sign_in_begins(machine: Machine, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    official_folder(
        machine.home / ".local" / "bin", server_program(auth_needed=True, version="1.1.1", record=str(record))
    )
    rows = doctor(machine, status=0)
    assert states(rows, "server", "version", "signed-in", "models", "mcp") == {
        "server": "ok",
        "version": "warn",
        "signed-in": "warn",
        "models": "skip",
        "mcp": "ok",
    }
    assert rows["server"]["text"].startswith(f"~/.local/bin/{SERVER}")
    assert "antigravity-acp login" in rows["signed-in"]["advice"]
    methods = [json.loads(line).get("method") for line in record.read_text().splitlines()]
    # One start, two questions.
    assert methods == ["initialize", "session/new"]


def test_no_secret_leaves_in_the_table_in_json_or_in_the_bundle(machine: Machine, tmp_path: Path) -> None:
    said = " ".join([*SECRETS.values(), f"Authorization: Bearer {SECRETS['env']}", str(machine.home / "notes.txt")])
    official_folder(
        machine.bin,
        server_program(shell=f"printf '%s\\n' {shlex.quote(said)} 'plain words' >&2", auth=["oauth-personal"]),
    )
    machine.set(HTTPS_PROXY=f"http://jane:{SECRETS['proxy']}@proxy.corp:3128", GEMINI_API_KEY=SECRETS["key"])
    settings = tmp_path / "settings.json"
    args = ["--api-key", SECRETS["argument"], f"--token={SECRETS['token']}", "--user", SECRETS["mail"], "--plain"]
    settings.write_text(json.dumps({"env": {"MY_VALUE": SECRETS["env"], "PIN": "1234"}, "args": args}))
    bundle = tmp_path / "report.json"
    flags = ("doctor", "--settings", str(settings))
    shown = [machine.run(*flags, alone=True), machine.run(*flags, "--json")]
    shown.append(machine.run(*flags, "--bundle", str(bundle)))
    text = bundle.read_text(encoding="ascii")
    for everything in (*(done.stdout for done in shown), text):
        assert "http://proxy.corp:3128" in everything
        assert not [name for name, secret in SECRETS.items() if secret in everything]
        assert "hunter" not in everything
        assert str(machine.home) not in everything
    report = json.loads(text)
    assert (report["status"], [row["name"] for row in report["rows"]]) == (0, ROWS)
    assert report["versions"]["dsh-antigravity-acp"]
    assert report["settings"]["env"] == {"MY_VALUE": "[hidden]", "PIN": "[hidden]"}
    assert report["settings"]["args"] == [
        *("--api-key", "[hidden]", "--token=[hidden]", "--user", "[hidden]", "--plain"),
    ]
    assert "plain words" in report["stderr"]
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o600


def test_a_bundle_of_a_dead_server_holds_the_end_of_its_stderr(machine: Machine, tmp_path: Path) -> None:
    official_folder(machine.bin, server_program(shell="echo 'the reason is in here' >&2; exit 7"))
    bundle = tmp_path / "report.json"
    assert machine.run("doctor", "--bundle", str(bundle)).returncode == 1
    assert json.loads(bundle.read_text())["stderr"] == ["the reason is in here"]


def test_a_bundle_never_takes_the_place_of_a_file_unless_told_so(machine: Machine, tmp_path: Path) -> None:
    bundle = tmp_path / "mine.json"
    bundle.write_text("mine")
    done = machine.run("doctor", "--bundle", str(bundle))
    assert (done.returncode, done.stdout, bundle.read_text()) == (2, "", "mine")
    assert machine.run("doctor", "--bundle", str(tmp_path / "none" / "x.json")).returncode == 2
    assert machine.run("doctor", "--force").returncode == 2
    assert machine.run("doctor", "--bundle", str(bundle), "--force").returncode == 1
    assert json.loads(bundle.read_text())["format"] == 1
    assert [path.name for path in tmp_path.iterdir() if "mine" in path.name] == ["mine.json"]


def test_settings_that_are_not_valid_are_wrong_usage(machine: Machine, tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"engine": "nonsense"}))
    done = machine.run("doctor", "--settings", str(settings))
    assert done.returncode == 2
    assert "INVALID_SETTINGS" in done.stderr


def test_a_terminal_gets_no_escape_sequence_from_an_agent(machine: Machine) -> None:
    official_folder(machine.bin, server_program(version="1.3.0\x1b]0;owned\x07\n2", model_ids=["a\x1b[2J", "b" * 500]))
    done = machine.run("doctor")
    assert "\x1b" not in done.stdout
    assert "b" * 100 not in done.stdout
    assert sum(line.split()[1:2] == ["version"] for line in done.stdout.splitlines()) == 1
