"""The file tools: confined, bounded, atomic, and clear when they refuse."""

import asyncio
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from antigravity_acp.contract import AbortController, LlmError
from antigravity_acp.hooks import ToolError, ToolResult
from antigravity_acp.host import Context, ToolContext, ToolRegistry, Workspace, WorkspaceError, builtin_tools
from antigravity_acp.limits import MAX_DIR_ENTRIES, MAX_EDIT_BYTES, MAX_SEARCH_MATCHES, MAX_TOOL_TEXT_BYTES

TOOLS = {tool.name: tool for tool in builtin_tools()}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A workspace with a stranger's folder beside it."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("hunter2\n")
    (workspace / "link-file").symlink_to(tmp_path / "outside" / "secret.txt")
    (workspace / "link-dir").symlink_to(tmp_path / "outside")
    (tmp_path / "work-twin").mkdir()
    (tmp_path / "work-twin" / "x").write_text("hunter2")
    return workspace


async def use(place: Path, name: str, **arguments: Any) -> str:
    tool = TOOLS[name]
    registry = ToolRegistry()
    registry.register(tool)
    entry = registry.get(name)
    assert entry is not None
    assert entry.schema.faults(arguments) == []
    context = ToolContext(workspace=Workspace(place), signal=AbortController().signal)
    result: ToolResult = await tool.run(arguments, context)
    return result.text


ESCAPES = [
    "..",
    "../outside/secret.txt",
    "a/../../outside",
    "/etc/passwd",
    "link-file",
    "link-dir/secret.txt",
    "../work-twin/x",
]
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {}),
    ("write_file", {"content": "x"}),
    ("edit_file", {"old": "hunter2", "new": "x"}),
    ("list_dir", {}),
    ("search", {"pattern": "hunter2"}),
]


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[name for name, _ in CALLS])
async def test_no_path_leads_outside(place: Path, name: str, arguments: dict[str, Any]) -> None:
    for path in ESCAPES:
        with pytest.raises(ToolError, match="outside the workspace"):
            await use(place, name, path=path, **arguments)
    assert (place.parent / "outside" / "secret.txt").read_text() == "hunter2\n"
    assert sorted(each.name for each in (place.parent / "outside").iterdir()) == ["secret.txt"]


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[name for name, _ in CALLS])
def test_a_path_that_leads_out_is_refused_before_anybody_is_asked(
    place: Path, name: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the home folder is the home folder, as it is to the rules."""
    monkeypatch.setenv("HOME", str(place.parent / "outside"))
    registry = ToolRegistry()
    registry.register(TOOLS[name])
    entry = registry.get(name)
    assert entry is not None
    context = ToolContext(workspace=Workspace(place), signal=AbortController().signal)
    for path in [*ESCAPES, "~", "~/secret.txt"]:
        refusal = entry.refusal({"path": path, **arguments}, context)
        assert refusal is not None
        assert refusal.startswith("The path leads outside the workspace.")
        assert path not in refusal
    for path in ("a.txt", "missing/below", "./~/secret.txt", str(place / "b")):
        assert entry.refusal({"path": path, **arguments}, context) is None
    if name in ("list_dir", "search"):
        assert entry.refusal(arguments, context) is None


async def test_the_home_folder_within_the_workspace_can_be_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(place))
    (place / "notes").write_text("seven")
    assert await use(place, "read_file", path="~/notes") == "seven"
    await use(place, "write_file", path="./~/notes", content="eight")
    assert (place / "~" / "notes").read_text() == "eight"
    assert (place / "notes").read_text() == "seven"


async def test_a_new_file_below_a_link_that_leads_out_is_refused(place: Path) -> None:
    with pytest.raises(WorkspaceError, match="outside"):
        await use(place, "write_file", path="link-dir/new/deep.txt", content="x")


@pytest.mark.parametrize("path", ["a\0b", "\0"])
async def test_a_nul_is_no_path(place: Path, path: str) -> None:
    with pytest.raises(WorkspaceError, match="NUL"):
        await use(place, "read_file", path=path)


async def test_paths_inside_may_be_absolute_or_go_up_and_down(place: Path) -> None:
    (place / "a.txt").write_text("hello")
    (place / "inner").symlink_to(place / "a.txt")
    for path in (str(place / "a.txt"), "x/../a.txt", "./a.txt", "inner"):
        assert await use(place, "read_file", path=path) == "hello"


@pytest.mark.parametrize(("name", "arguments"), CALLS[:3], ids=[name for name, _ in CALLS[:3]])
async def test_a_pipe_is_refused_instead_of_waited_for(place: Path, name: str, arguments: dict[str, Any]) -> None:
    os.mkfifo(place / "pipe")
    with pytest.raises(WorkspaceError, match="no regular file"):
        await use(place, name, path="pipe", **arguments)


async def test_bytes_that_are_not_utf8_are_shown_and_never_edited(place: Path) -> None:
    (place / "odd.txt").write_bytes(b"caf\xe9 au lait\n")
    assert await use(place, "read_file", path="odd.txt") == "caf\ufffd au lait\n"
    with pytest.raises(ToolError, match="not UTF-8"):
        await use(place, "edit_file", path="odd.txt", old="lait", new="noir")
    assert (place / "odd.txt").read_bytes() == b"caf\xe9 au lait\n"


async def test_a_long_file_is_cut_at_a_line_and_can_be_read_on(place: Path) -> None:
    lines = [f"line {number} {'x' * 90}" for number in range(1, 2001)]
    (place / "long.txt").write_text("\n".join(lines))
    offset, got = 1, []
    for _ in range(10):
        text = await use(place, "read_file", path="long.txt", offset=offset)
        assert len(text.encode()) < MAX_TOOL_TEXT_BYTES + 100
        body, _, note = text.rpartition("\n[")
        if "read on with offset" not in note:
            got += text.split("\n")
            break
        got += body.rstrip("\n").split("\n")
        offset = int(note.rstrip("]").rpartition(" ")[2])
    assert got == lines


async def test_some_lines_can_be_asked_for(place: Path) -> None:
    (place / "a.txt").write_text("1\n2\n3\n4\n")
    assert (
        await use(place, "read_file", path="a.txt", offset=2, limit=2)
        == "2\n3\n\n[more follows; read on with offset 4]"
    )
    assert await use(place, "read_file", path="a.txt", offset=3, limit=2) == "3\n4\n"
    assert "ends before line 9" in await use(place, "read_file", path="a.txt", offset=9)


async def test_a_line_without_end_is_cut_with_a_note(place: Path) -> None:
    (place / "one.txt").write_text("x" * (MAX_TOOL_TEXT_BYTES * 2))
    text = await use(place, "read_file", path="one.txt")
    assert len(text) < MAX_TOOL_TEXT_BYTES + 100
    assert "line 1 alone is longer" in text


async def test_missing_things_are_named_without_a_place_of_this_machine(place: Path) -> None:
    for name, arguments in CALLS:
        if name != "write_file":
            with pytest.raises(ToolError) as caught:
                await use(place, name, path="nothing/here", **arguments)
            assert str(place) not in str(caught.value)


async def test_writing_makes_folders_keeps_the_mode_and_leaves_nothing_beside(place: Path) -> None:
    assert "Created deep/er/a.sh" in await use(place, "write_file", path="deep/er/a.sh", content="één\n")
    target = place / "deep" / "er" / "a.sh"
    assert target.read_bytes() == "één\n".encode()
    target.chmod(0o750)
    assert "Replaced" in await use(place, "write_file", path="deep/er/a.sh", content="two")
    assert (target.read_text(), stat.S_IMODE(target.stat().st_mode)) == ("two", 0o750)
    assert os.listdir(target.parent) == ["a.sh"]


async def test_a_write_that_fails_leaves_the_old_content_and_nothing_beside(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "a.txt").write_text("old")

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ToolError, match="no space left"):
        await use(place, "write_file", path="a.txt", content="new")
    assert (place / "a.txt").read_text() == "old"
    assert not [name for name in os.listdir(place) if name.endswith(".tmp")]


async def test_a_reader_never_sees_half_a_write(place: Path) -> None:
    target = place / "a.txt"
    target.write_text("a" * 200_000)
    seen: set[str] = set()
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            text = target.read_text()
            seen.add(f"{text[0]}{len(text)}{len(set(text))}")

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for letter in "bcdefgh":
            await use(place, "write_file", path="a.txt", content=letter * 200_000)
    finally:
        stop.set()
        reader.join(10)
    assert all(each[1:] == "2000001" for each in seen)


async def test_a_cancelled_write_is_reported_only_when_it_is_over(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, go = threading.Event(), threading.Event()
    replace = os.replace

    def slow(source: str, target: str) -> None:
        entered.set()
        assert go.wait(10)
        replace(source, target)

    monkeypatch.setattr(os, "replace", slow)
    task = asyncio.create_task(use(place, "write_file", path="a.txt", content="new"))
    await asyncio.to_thread(entered.wait, 10)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (place / "a.txt").read_text() == "new"
    assert sorted(os.listdir(place)) == ["a.txt", "link-dir", "link-file"]


@pytest.mark.parametrize(
    ("old", "words"), [("nowhere", "does not occur"), ("two", "more than once"), ("aba", "more than once")]
)
async def test_an_edit_that_is_not_exactly_one_place_changes_nothing(place: Path, old: str, words: str) -> None:
    content = "one\r\ntwo\r\nthree two ababa\r\n"
    (place / "a.txt").write_bytes(content.encode())
    with pytest.raises(ToolError, match=words):
        await use(place, "edit_file", path="a.txt", old=old, new="x")
    assert (place / "a.txt").read_bytes() == content.encode()


async def test_an_edit_replaces_one_place_and_keeps_every_other_byte(place: Path) -> None:
    (place / "a.txt").write_bytes("\ufeffone\r\ntwo\nthree".encode())
    assert await use(place, "edit_file", path="a.txt", old="two\nt", new="2\r\nT") == "Edited a.txt at line 2."
    assert (place / "a.txt").read_bytes() == "\ufeffone\r\n2\r\nThree".encode()


async def test_content_beyond_the_bound_is_refused(place: Path) -> None:
    with pytest.raises(ToolError, match="larger than"):
        await use(place, "write_file", path="big", content="x" * (MAX_EDIT_BYTES + 1))
    (place / "big").write_bytes(b"x" * (MAX_EDIT_BYTES + 1))
    with pytest.raises(ToolError, match="larger than"):
        await use(place, "edit_file", path="big", old="y", new="z")


async def test_half_a_surrogate_does_not_break_a_write(place: Path) -> None:
    await use(place, "write_file", path="a.txt", content="a\ud800b")
    assert (place / "a.txt").read_text() == "a?b"


async def test_a_listing_is_sorted_marked_and_bounded(place: Path) -> None:
    (place / "folder").mkdir()
    (place / "file").write_text("12345")
    assert await use(place, "list_dir") == "file  5\nfolder/\nlink-dir@\nlink-file@"
    assert await use(place, "list_dir", path="folder") == "[the directory is empty]"
    for number in range(MAX_DIR_ENTRIES + 5):
        (place / "folder" / f"{number:05}").touch()
    text = await use(place, "list_dir", path="folder")
    assert len(text.split("\n")) == MAX_DIR_ENTRIES + 1
    assert "[cut: more than" in text


async def test_search_finds_lines_and_skips_what_is_not_text(place: Path) -> None:
    (place / ".git").mkdir()
    (place / ".git" / "config").write_text("needle")
    (place / "binary").write_bytes(b"needle\0needle")
    (place / "src").mkdir()
    (place / "src" / "a.py").write_text("x\nNeedle = 1\nneedle = 2\r\n")
    (place / "b.txt").write_text("a needle\n")
    assert await use(place, "search", pattern=r"needle\b") == "b.txt:1: a needle\nsrc/a.py:3: needle = 2\n"
    assert await use(place, "search", pattern="NEEDLE", glob="*.py", ignore_case=True, path="src") == (
        "src/a.py:2: Needle = 1\nsrc/a.py:3: needle = 2\n"
    )
    assert await use(place, "search", pattern="needle", path="b.txt") == "b.txt:1: a needle\n"
    # Neither link is followed: the text that they lead to is not in the workspace.
    assert await use(place, "search", pattern="hunter2") == "[no match]"


async def test_search_is_bounded_in_matches_and_in_the_length_of_a_line(place: Path) -> None:
    (place / "many").write_text("hit\n" * (MAX_SEARCH_MATCHES * 2))
    text = await use(place, "search", pattern="hit")
    assert text.count("many:") == MAX_SEARCH_MATCHES
    assert "there are more matches" in text
    (place / "many").write_text("a" * 100_000 + "hit" + "b" * 100_000)
    text = await use(place, "search", pattern="hit")
    assert "hit" in text
    assert len(text) < 500


async def test_a_pattern_that_is_none_is_said_to_be_none(place: Path) -> None:
    with pytest.raises(ToolError, match="not a regular expression"):
        await use(place, "search", pattern="(")


async def test_a_pattern_that_backtracks_for_ever_is_ended_and_blocks_nobody(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antigravity_acp.host.tools.search.SEARCH_TIMEOUT_S", 0.5)
    (place / "a.txt").write_text("a" * 60 + "!")
    searching = asyncio.create_task(use(place, "search", pattern="(a+)+$"))
    ticks = 0
    while not searching.done():
        await asyncio.sleep(0.01)
        ticks += 1
    with pytest.raises(ToolError, match="longer than"):
        await searching
    assert ticks > 10


async def test_a_tool_module_of_the_workspace_is_not_imported_by_the_search(place: Path) -> None:
    (place / "json.py").write_text("raise SystemExit(3)")
    (place / "a.txt").write_text("needle")
    assert await use(place, "search", pattern="needle", path="a.txt") == "a.txt:1: needle\n"


def test_a_workspace_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="not a directory"):
        Workspace(tmp_path / "missing")


class Odd:
    def __init__(self, name: Any = "odd", parameters: Any = None) -> None:
        self.name = name
        self.description = "An odd tool."
        self.parameters = {} if parameters is None else parameters

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult.of("odd")


@pytest.mark.parametrize(
    "tool",
    [
        object(),
        Odd(""),
        Odd("a b"),
        Odd(5),
        Odd(parameters={"type": "nonsense"}),
        Odd(parameters={"$ref": "http://127.0.0.1:9/schema"}),
    ],
)
def test_a_tool_that_cannot_be_offered_is_refused_when_it_is_registered(tool: Any) -> None:
    registry = ToolRegistry()
    with pytest.raises(LlmError) as caught:
        registry.register(tool)
    assert caught.value.code == "ACP_TOOL_CATALOG_INVALID"
    assert registry.schemas() == ()


async def test_tools_go_with_their_scope_and_a_name_has_one_owner() -> None:
    ctx = Context()
    ctx.provide("tools", ToolRegistry())
    plugin = ctx.child("plugin")
    plugin.tools.register(Odd())
    with pytest.raises(LlmError, match="already registered"):
        ctx.tools.register(Odd())
    await plugin.dispose()
    assert ctx.tools.get("odd") is None
    withdraw = ctx.tools.register(Odd())
    withdraw()
    ctx.tools.register(Odd())
    withdraw()
    assert ctx.tools.get("odd") is not None
    await ctx.dispose()


def test_the_schemas_of_the_builtin_tools_refuse_what_they_do_not_know() -> None:
    registry = ToolRegistry()
    for tool in builtin_tools():
        registry.register(tool)
    names = [schema.name for schema in registry.schemas()]
    assert names == ["read_file", "write_file", "edit_file", "list_dir", "search", "run_command"]
    for name in names:
        entry = registry.get(name)
        assert entry is not None
        faults = entry.schema.faults({"surprise": "hunter2", "path": 7})
        assert faults
        assert "hunter2" not in " ".join(faults)
