"""The control of tool calls in the host: it may refuse and ask, and never widens what the host itself would do."""

from typing import Any

import pytest
from helpers.dsh import Dsh, plain, sdk, sidecar_of

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


def touches(dsh: Dsh) -> list[dict[str, Any]]:
    """A model that makes a file, and says what came of it."""
    command = {"command": f"touch {dsh.workspace / 'made.txt'} && echo made", "description": "make it"}
    return [{"when": {"round": 0}, "calls": [{"name": "bash", "arguments": command}]}, {"text": "it said {{result.1}}"}]


def made(dsh: Dsh) -> bool:
    return (dsh.workspace / "made.txt").exists()


def run(dsh: Dsh, *rows: dict[str, Any], **config: Any) -> str:
    """One turn; what the model was told."""
    with sdk(dsh.ready("sdk", touches(dsh), *rows, control=True, **config)) as host:
        turn = host.run("go")
    assert turn["finish"] == "completed", turn
    return str(turn["final"])


@pytest.mark.requirement("X-003")
def test_what_a_rule_denies_does_not_run_and_the_model_sees_why(dsh: Dsh) -> None:
    said = run(dsh, *ASKING, dsh.desk(answer="allowed-once"), permissions={"allow": ["*"], "deny": ["bash"]})
    assert "denies this tool" in said
    assert not made(dsh)
    assert dsh.seen("run") == []
    assert dsh.seen("asked") == []


@pytest.mark.requirement("X-003")
@pytest.mark.parametrize("answer", ["allowed-once", "rejected"])
def test_what_a_rule_asks_about_goes_to_the_hosts_own_approval(dsh: Dsh, answer: str) -> None:
    said = run(dsh, *ASKING, dsh.desk(answer=answer), permissions={"ask": ["bash"]})
    asked = dsh.seen("asked")
    assert [line["name"] for line in asked] == ["bash"]
    assert "bash" in asked[0]["reason"]
    assert made(dsh) is (answer == "allowed-once"), said


def test_without_an_answerer_an_ask_is_a_denial(dsh: Dsh) -> None:
    said = run(dsh, *ASKING, permissions={"ask": ["bash"]})
    assert not made(dsh), said
    assert "bash" in said


def test_an_allow_does_not_widen_what_others_refuse(dsh: Dsh) -> None:
    said = run(dsh, *ASKING, dsh.desk(deny="touch"), permissions={"allow": ["*"]})
    assert "the desk says no" in said
    assert not made(dsh)


def test_an_ask_does_not_hide_what_others_refuse(dsh: Dsh) -> None:
    said = run(dsh, *ASKING, dsh.desk(deny="touch", answer="allowed-once"), permissions={"ask": ["bash"]})
    assert "the desk says no" in said
    assert dsh.seen("asked") == []
    assert not made(dsh)


def test_an_allowed_call_runs(dsh: Dsh) -> None:
    assert "made" in run(dsh, *ASKING, permissions={"allow": ["bash"]})
    assert made(dsh)


@pytest.mark.parametrize("attended", [True, False])
def test_a_sidecar_that_cannot_be_asked_leaves_it_to_a_person_or_denies(dsh: Dsh, attended: bool) -> None:
    # Another provider's model makes the call: the control is there for every tool call of the host.
    rows = [*ASKING, dsh.desk(**({"answer": "allowed-once"} if attended else {})), plain()]
    dsh.ready("sdk", [], *rows, control=True, permissions={"allow": ["*"]})
    dsh.killed = True
    with sdk(dsh, provider="plain", model="plain") as host:
        sidecar = sidecar_of(host.host)
        sidecar.suspend()
        turn = host.run(f"call touch {dsh.workspace / 'made.txt'}")
        asked = dsh.seen("asked")
        if attended:
            assert "cannot be asked" in asked[0]["reason"]
            assert made(dsh)
        else:
            assert asked == []
            assert "cannot be asked" in turn["final"]
            assert not made(dsh)
        sidecar.resume()
