"""Where there is no ``/proc``, as on macOS, processes are found through ``ps``: the same cases, by this system's."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from helpers.family import family, gone

from antigravity_acp.acp._supervisor import tree

OPTIONS_OF_MACOS = ("-A", "-E", "-ww", "-o", "pid=,command=")


@pytest.fixture
def by_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "PROC", False)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    one = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        yield one
    finally:
        one.kill()
        one.wait(10)


def test_both_ways_see_the_same(sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    own = (os.getpid(), sleeper.pid)
    by_proc = [row for row in tree.living() if row[0] in own]
    monkeypatch.setattr(tree, "PROC", False)
    assert [row for row in tree.living() if row[0] in own] == by_proc
    assert len(by_proc) == 2


@pytest.mark.usefixtures("by_ps")
def test_a_start_time_is_the_same_at_every_look_and_empty_for_the_dead(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tree.stamp(sleeper.pid)
    assert first
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert tree.stamp(sleeper.pid) == first
    sleeper.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert tree.stamp(sleeper.pid) == "", "a zombie has ended"
    sleeper.wait(10)
    assert tree.stamp(sleeper.pid) == ""


@pytest.mark.usefixtures("by_ps")
async def test_a_whole_tree_is_killed_through_ps() -> None:
    async with family("group", "setsid", "subgroup", "family", ignore_eof=True, ignore_term=True) as one:
        # This way alone, without the supervisor's help: it is stopped, as if it were not there.
        os.kill(one.supervisor, signal.SIGSTOP)
        began = tree.stamp(one.process.pid)
        assert await asyncio.to_thread(tree.kill_tree, one.process.pid, began, b"/none", 5.0)
        assert gone(*one.everyone) == set(one.everyone)
        os.kill(one.supervisor, signal.SIGCONT)


@pytest.mark.usefixtures("by_ps")
def test_a_mark_is_read_from_the_environment_that_macos_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        b"  501 /usr/bin/agent --acp HOME=/Users/u TMPDIR=/private/t/antigravity-acp-agent-abcdefgh/tmp SHELL=/bin/zsh",
        b"  502 sleep 600 TMP=/private/t/antigravity-acp-agent-abcdefgh/tmp",
        b"  503 vim /private/t/antigravity-acp-agent-abcdefgh/tmp",
        b"  504 zsh OLDPWD=/private/t/antigravity-acp-agent-abcdefgh/tmp",
        b"  505 agent TMPDIR=/private/t/antigravity-acp-agent-abcdefgh/tmp2",
        b"  506 agent TMPDIR=/private/t/antigravity-acp-agent-zzzzzzzz/tmp",
        b"garbage",
        b"",
    ]
    asked: list[tuple[str, ...]] = []

    def ps(*arguments: str) -> list[bytes]:
        asked.append(arguments)
        return lines

    monkeypatch.setattr(tree, "_ps", ps)
    assert tree.marked(b"/private/t/antigravity-acp-agent-abcdefgh/tmp") == {501, 502}
    assert asked == [OPTIONS_OF_MACOS]


@pytest.mark.usefixtures("by_ps")
def test_a_system_without_ps_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", nothing)
    assert tree.living() == []
    assert tree.stamp(os.getpid()) == ""
    assert tree.place() == ""
