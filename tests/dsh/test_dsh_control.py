"""The control of tool calls in the host: it may refuse and ask, and never widens what the host itself would do."""

from collections.abc import Iterator
from typing import Any

import pytest
from helpers.dsh import Dsh, Sdk, home, plain, sdk

pytestmark = pytest.mark.dsh

#: The host asks before it does what somebody wants to be asked about, and has no sandbox in the way.
ASKING = (
    {"id": "approval", "config": {"policy": "ask"}},
    {
        "id": "permission",
        "config": {
            "presets": {"asking": {"sandbox": "danger-full-access", "approval": "ask"}},
            "defaultPreset": "asking",
        },
    },
)


#: One rule of each kind; every tool can make a file.
PERMISSIONS = {"deny": ["bash"], "ask": ["write"], "allow": ["edit"]}


def rules(dsh: Dsh) -> list[dict[str, Any]]:
    """A model that makes a file by the tool it is told to use, and says what came of it."""
    made = str(dsh.workspace / "made.txt")
    tools: dict[str, dict[str, Any]] = {
        "bash": {"command": f"touch {made}", "description": "make it"},
        "write": {"file_path": made, "content": "{{user}}"},
        "edit": {"file_path": made, "old_string": "before", "new_string": "{{user}}"},
    }
    calls = [
        {"when": {"user": f"use {name}", "round": 0}, "calls": [{"name": name, "arguments": arguments}]}
        for name, arguments in tools.items()
    ]
    read = {"name": "read", "arguments": {"file_path": made}}
    return [
        # The host lets nobody edit a file that was not read.
        {"when": {"user": "use edit", "round": 0}, "calls": [read]},
        {"when": {"user": "use edit", "round": 1}, "calls": calls.pop()["calls"]},
        *calls,
        {"text": "it said {{result.1}}{{result.2}}"},
    ]


class Desk:
    """A host with the control on, and somebody who may answer it."""

    def __init__(self, dsh: Dsh, host: Sdk) -> None:
        self.dsh = dsh
        self.made = dsh.workspace / "made.txt"
        self._host = host
        self._turns = 0

    def say(self, text: str) -> str:
        """One turn of a fresh session; what the model was told."""
        self.made.unlink(missing_ok=True)
        if "edit" in text:
            self.made.write_text("before\n", encoding="utf-8")
        self.dsh.forget()
        self._turns += 1
        turn = self._host.run(text, f"t{self._turns}")
        assert turn["finish"] == "completed", turn
        return str(turn["final"])


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Somebody answers, rejects what holds the word REJECT, and denies what holds FORBIDDEN."""
    with home(tmp_path_factory.mktemp("control") / "dsh") as dsh:
        row = dsh.desk(answer="allowed-once", reject="REJECT", deny="FORBIDDEN")
        dsh.ready("sdk", rules(dsh), *ASKING, row, control=True, permissions=PERMISSIONS)
        with sdk(dsh) as host:
            yield Desk(dsh, host)


@pytest.mark.requirement("X-003")
def test_what_a_rule_denies_does_not_run_and_the_model_sees_why(desk: Desk) -> None:
    assert "denies this tool" in desk.say("use bash")
    assert not desk.made.exists()
    assert desk.dsh.seen("run") == []
    assert desk.dsh.seen("asked") == []


@pytest.mark.requirement("X-003")
@pytest.mark.parametrize("word", ["please", "REJECT"])
def test_what_a_rule_asks_about_goes_to_the_hosts_own_approval(desk: Desk, word: str) -> None:
    said = desk.say(f"use write {word}")
    asked = desk.dsh.seen("asked")
    assert [line["name"] for line in asked] == ["write"]
    assert "write" in asked[0]["reason"]
    assert desk.made.exists() is (word == "please"), said


def test_an_allow_does_not_widen_what_others_refuse(desk: Desk) -> None:
    assert "the desk says no" in desk.say("use edit FORBIDDEN")
    assert desk.made.read_text(encoding="utf-8") == "before\n"


def test_an_ask_does_not_hide_what_others_refuse(desk: Desk) -> None:
    assert "the desk says no" in desk.say("use write FORBIDDEN")
    assert desk.dsh.seen("asked") == []
    assert not desk.made.exists()


def test_an_allowed_call_runs_and_a_call_that_no_rule_names_is_asked_about(desk: Desk) -> None:
    said = desk.say("use edit please")
    assert "use edit please" in desk.made.read_text(encoding="utf-8"), said
    assert [line["name"] for line in desk.dsh.seen("asked")] == ["read"]


def test_without_an_answerer_an_ask_is_a_denial(dsh: Dsh) -> None:
    dsh.ready("sdk", rules(dsh), *ASKING, control=True, permissions=PERMISSIONS)
    with sdk(dsh) as host:
        nobody = Desk(dsh, host)
        assert "write" in nobody.say("use write please")
        assert not nobody.made.exists()


@pytest.mark.parametrize("attended", [True, False])
def test_a_sidecar_that_cannot_be_asked_leaves_it_to_a_person_or_denies(dsh: Dsh, attended: bool) -> None:
    # Another provider's model makes the call: the control is there for every tool call of the host.
    program = dsh.folder / "antigravity-acp"
    program.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    program.chmod(0o755)
    dsh.install("sdk")
    rows = [*ASKING, dsh.desk(**({"answer": "allowed-once"} if attended else {})), plain()]
    dsh.configure("sdk", *rows, python=str(program), control=True, permissions={"allow": ["*"]})
    made = dsh.workspace / "made.txt"
    with sdk(dsh, provider="plain", model="plain") as host:
        turn = host.run(f"call touch {made}")
        asked = dsh.seen("asked")
        if attended:
            assert "cannot be asked" in asked[0]["reason"]
            assert made.exists()
        else:
            assert asked == []
            assert "cannot be asked" in turn["final"]
            assert not made.exists()


def test_what_holds_the_rules_of_the_host_is_not_changed_unasked_in_any_mode(dsh: Dsh) -> None:
    places = {"rules": dsh.profile("sdk") / "made.txt", "work": dsh.workspace / "made.txt"}
    script = [
        {
            "when": {"user": f"use {name}", "round": 0},
            "calls": [{"name": "bash", "arguments": {"command": f"touch {place}", "description": "make it"}}],
        }
        for name, place in places.items()
    ]
    settings = {"toolPermission": "always-proceed", "permissions": {"allow": ["*", "command(touch)", "write_file(*)"]}}
    dsh.ready("sdk", [*script, {"text": "it said {{result.1}}"}], *ASKING, control=True, **settings)
    with sdk(dsh) as host:
        host.run("use work", "t1")
        host.run("use rules", "t2")
    assert {name: place.exists() for name, place in places.items()} == {"rules": False, "work": True}


REWRITES = [
    pytest.param({"deny": ["command(touch)"]}, False, id="denied"),
    pytest.param({}, False, id="asked about"),
    pytest.param({"allow": ["command(true)", "command(touch)"]}, True, id="allowed"),
]


@pytest.mark.parametrize("at", ["pre-execute", "execute"])
@pytest.mark.parametrize(("permissions", "runs"), REWRITES)
def test_what_another_plugin_makes_of_a_call_is_decided_too(
    dsh: Dsh, at: str, permissions: dict[str, list[str]], runs: bool
) -> None:
    made = dsh.workspace / "made.txt"
    call = {"name": "bash", "arguments": {"command": f"true {made}", "description": "nothing"}}
    script = [{"when": {"user": "go", "round": 0}, "calls": [call]}, {"text": "it said {{result.1}}"}]
    row = dsh.desk(rewrite={"at": at, "word": "true", "to": "touch"})
    dsh.ready("sdk", script, row, control=True, permissions={"allow": ["command(true)"], **permissions})
    with sdk(dsh) as host:
        said = host.run("go")["final"]
    assert made.exists() is runs, said
    assert len(dsh.seen("rewrote")) == 1
    assert ("changed after it was decided" in said) is not runs
