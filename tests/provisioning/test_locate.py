"""Finding an official server that is on the machine."""

import os
import sys
from pathlib import Path

import pytest
from helpers.installs import put, release

from antigravity_provisioning import releases
from antigravity_provisioning.errors import ProvisioningError
from antigravity_provisioning.locate import LocateError, OfficialServer, is_server_name, locate
from antigravity_provisioning.store import Store

posix_only = pytest.mark.skipif(os.name == "nt", reason="file modes")


def program(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    path.chmod(mode)
    return path


def server(folder: Path, name: str = "agy_acp_server.par", harness: str = "localharness_external") -> Path:
    program(folder / harness)
    return program(folder / name).resolve()


def find(
    home: Path, explicit: str = "", platform: str = "linux", path: list[Path] | None = None, **environ: str
) -> OfficialServer:
    separator = ";" if platform == "win32" else ":"
    environ["PATH"] = separator.join(map(str, path or []))
    return locate(explicit, environ=environ, platform=platform, home=home)


def test_the_order_is_explicit_variable_path_folders(tmp_path: Path) -> None:
    home = tmp_path / "home"
    places = {name: server(tmp_path / name) for name in ("explicit", "environment", "path")}
    folder = server(home / ".local" / "bin")
    named = {"AGY_ACP_BIN": str(places["environment"])}
    on_path = [tmp_path / "empty", tmp_path / "path"]
    assert find(home, str(places["explicit"]), path=on_path, **named).path == places["explicit"]
    assert find(home, path=on_path, **named).path == places["environment"]
    assert find(home, path=on_path).path == places["path"]
    assert find(home).path == folder
    assert [find(home, path=on_path).source, find(home).source] == ["path", "folder"]


@pytest.mark.parametrize(
    ("platform", "name", "args"),
    [
        ("linux", "agy_acp_server.par", ("--uid=",)),
        ("linux", "agy_acp_server", ("--uid=",)),
        ("darwin", "agy_acp_server.par", ()),
        ("win32", "agy_acp_server.exe", ()),
    ],
)
def test_names_and_arguments_belong_to_the_platform(
    tmp_path: Path, platform: str, name: str, args: tuple[str, ...]
) -> None:
    harness = "localharness_external.exe" if platform == "win32" else "localharness_external"
    path = server(tmp_path / "s", name, harness)
    found = find(tmp_path / "home", path=[tmp_path / "s"], platform=platform)
    assert (found.path, found.args, found.harness) == (path, args, path.parent / harness)


@pytest.mark.parametrize(
    ("folder", "platform"),
    [
        (".local/bin", "linux"),
        (".local/share/agy_acp_server", "darwin"),
        (".local/opt/agy-acp-server-1.3.0-linux-x86_64", "linux"),
        ("AppData/Local/agy_acp_server", "win32"),
        ("AppData/Local/agy/bin", "win32"),
    ],
)
def test_known_folders_of_the_user_are_searched(tmp_path: Path, folder: str, platform: str) -> None:
    windows = platform == "win32"
    names = (
        ("agy_acp_server.exe", "localharness_external.exe")
        if windows
        else ("agy_acp_server.par", "localharness_external")
    )
    path = server(tmp_path / folder, *names)
    assert find(tmp_path, platform=platform).path == path


def test_a_folder_may_be_named_instead_of_the_program(tmp_path: Path) -> None:
    path = server(tmp_path / "unpacked")
    assert find(tmp_path, str(tmp_path / "unpacked")).path == path


@posix_only
def test_a_link_on_path_leads_to_the_sibling(tmp_path: Path) -> None:
    path = server(tmp_path / "opt")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "agy_acp_server").symlink_to(path)
    assert find(tmp_path / "home", path=[tmp_path / "bin"]).path == path


def broken(home: Path, explicit: str = "", **environ: str) -> LocateError:
    with pytest.raises(LocateError) as caught:
        find(home, explicit, **environ)
    return caught.value


def test_an_explicit_server_that_is_broken_is_an_error_and_not_replaced(tmp_path: Path) -> None:
    server(tmp_path / ".local" / "bin")
    alone = program(tmp_path / "alone" / "agy_acp_server.par")
    for error in (
        broken(tmp_path, str(tmp_path / "none")),
        broken(tmp_path, str(alone)),
        broken(tmp_path, AGY_ACP_BIN=str(alone)),
        broken(tmp_path, AGY_ACP_BIN=str(tmp_path)),
    ):
        assert error.explicit
    assert "localharness_external" in str(broken(tmp_path, str(alone)))
    assert "AGY_ACP_BIN" in str(broken(tmp_path, AGY_ACP_BIN=str(alone)))
    assert str(tmp_path) not in str(broken(tmp_path, str(alone)))


@posix_only
def test_programs_without_the_executable_bit_are_named(tmp_path: Path) -> None:
    path = server(tmp_path / "a")
    (tmp_path / "a" / "localharness_external").chmod(0o644)
    assert "chmod" in str(broken(tmp_path, str(path)))
    path.chmod(0o644)
    assert "not executable" in str(broken(tmp_path, str(path)))


@pytest.mark.parametrize("name", ["agy", "agy.exe", "AGY"])
def test_agy_is_the_wrong_program(tmp_path: Path, name: str) -> None:
    program(tmp_path / name)
    error = broken(tmp_path, str(tmp_path / name))
    assert error.explicit
    assert "does not speak ACP" in str(error)


def test_a_half_copy_that_was_merely_found_is_skipped_and_mentioned(tmp_path: Path) -> None:
    program(tmp_path / "p" / "agy_acp_server")
    error = None
    with pytest.raises(LocateError) as caught:
        find(tmp_path / "home", path=[tmp_path / "p"])
    error = caught.value
    assert not error.explicit
    assert "passed over" in str(error)
    assert "localharness_external" in str(error)
    whole = server(tmp_path / "q")
    assert find(tmp_path / "home", path=[tmp_path / "p", tmp_path / "q"]).path == whole


def test_nothing_found_names_every_place(tmp_path: Path) -> None:
    error = broken(tmp_path)
    assert not error.explicit
    assert error.searched[0] == "AGY_ACP_BIN"
    for place in error.searched:
        assert place in str(error)
    assert str(tmp_path) not in str(error)


def test_the_current_directory_is_not_an_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server(tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(LocateError):
        locate("", environ={"PATH": f":{tmp_path / 'none'}:"}, platform="linux", home=tmp_path / "home")


@pytest.mark.parametrize("entry", [".", "here", "./here"])
def test_a_relative_entry_of_path_is_not_an_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    server(tmp_path)
    server(tmp_path / "here")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LocateError):
        find(tmp_path / "home", path=[Path(entry)])


def unreachable(folder: Path) -> list[Path]:
    """Folders that cannot be looked into; the superuser, whom no permission stops, meets the last ones."""
    closed = folder / "closed"
    (closed / "inner").mkdir(parents=True)
    closed.chmod(0)
    (folder / "loop").symlink_to(folder / "loop")
    return [closed / "inner", folder / "loop" / "inner", folder / ("x" * 5000)]


@posix_only
@pytest.mark.parametrize("number", range(3))
def test_a_folder_that_cannot_be_entered_is_passed_over(tmp_path: Path, number: int) -> None:
    folder = unreachable(tmp_path / "places")[number]
    whole = server(tmp_path / "q")
    assert find(tmp_path / "home", path=[folder, tmp_path / "q"]).path == whole
    assert find(folder, path=[tmp_path / "q"]).path == whole
    assert not broken(folder).explicit
    for error in (broken(tmp_path, str(folder / "agy_acp_server.par")), broken(tmp_path, AGY_ACP_BIN=str(folder))):
        assert error.explicit
        assert "cannot be reached" in str(error)
    (tmp_path / "places" / "closed").chmod(0o700)


def test_the_home_of_a_user_that_is_not_there_is_a_wrong_path(tmp_path: Path) -> None:
    assert broken(tmp_path, AGY_ACP_BIN="~nobody-of-this-name/agy_acp_server.par").explicit


@pytest.mark.skipif(sys.platform != "linux", reason="where a home is asked for differs")
def test_without_a_home_nothing_of_the_current_directory_is_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pwd

    def nobody(_: int) -> None:
        raise KeyError

    given = release(tmp_path / "archives")
    monkeypatch.setattr(releases, "pinned", lambda: given.asset)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    # A folder that somebody else has made, such as a repository that was cloned.
    server(tmp_path / "~" / ".local" / "bin")
    put(Store(tmp_path / "~" / ".cache" / "antigravity-acp"), given)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LocateError, match=r"\(unsafe\).* Set HOME") as caught:
        locate("", environ={"PATH": ""})
    assert not caught.value.explicit
    with pytest.raises(ProvisioningError, match="Set HOME"):
        Store().prepare()


@posix_only
def test_agy_on_path_is_told_from_a_server(tmp_path: Path) -> None:
    program(tmp_path / "p" / "agy")
    with pytest.raises(LocateError, match="`agy` on PATH is Antigravity's command line"):
        find(tmp_path / "home", path=[tmp_path / "p"])
    assert "`agy` on PATH" not in str(broken(tmp_path / "home"))


def test_names_are_recognised_in_any_case() -> None:
    assert all(map(is_server_name, ("agy_acp_server", "agy_acp_server.par", "AGY_ACP_SERVER.EXE")))
    assert not any(map(is_server_name, ("agy", "agy_acp_server.zip", "localharness_external", "")))


@posix_only
@pytest.mark.requirement("A-052")
def test_our_own_cache_comes_last_and_only_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = release(tmp_path / "archives")
    monkeypatch.setattr(releases, "pinned", lambda: given.asset)
    store = Store(tmp_path / "root")
    home = tmp_path / "home"

    def look() -> OfficialServer:
        return locate("", environ={"PATH": ""}, home=home, store=store)

    with pytest.raises(LocateError, match="antigravity-acp install"):
        look()
    installed = put(store, given)
    assert look() == OfficialServer(installed.server, installed.harness, given.asset.args, "cache")
    # Without a home of somebody else the user's own cache is the one.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(home))
    if sys.platform == "linux":
        store.root.rename(tmp_path / "antigravity-acp")
        assert locate("", environ={"PATH": ""}).path == tmp_path / "antigravity-acp" / installed.server.relative_to(
            store.root
        )
        (tmp_path / "antigravity-acp").rename(store.root)
    installed.harness.unlink()
    with pytest.raises(LocateError, match=r"What lies in the cache cannot be used \(damaged\)") as caught:
        look()
    assert not caught.value.explicit
    folder = server(home / ".local" / "bin")
    assert look().path == folder


def test_a_platform_without_a_release_has_nothing_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: str | None = None) -> None:
        raise ProvisioningError("platform", "platform", "no release")

    monkeypatch.setattr(releases, "pinned", none)
    with pytest.raises(LocateError, match="none was found"):
        locate("", environ={"PATH": ""}, home=tmp_path, store=Store(tmp_path / "root"))
