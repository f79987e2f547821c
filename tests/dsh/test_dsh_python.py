"""Where the bundle's Python comes from: the setting, a program on PATH, a private environment, or a clear error."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from helpers.dsh import HOST, ROOT, Dsh, copy_bundle, home

from antigravity_acp.manifest import manifest

pytestmark = [pytest.mark.dsh, pytest.mark.timeout(600)]

RULES = [{"text": "heard you"}]
#: Making an environment unpacks some sixty wheels.
SETUP = 400.0


def alone(dsh: Dsh, *programs: str) -> None:
    """A PATH with nothing on it but these; wheels stand in for the package index."""
    folder = dsh.folder / "bin"
    folder.mkdir()
    real = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    for name in programs:
        (folder / name).symlink_to(real)
    dsh.variables |= {
        "PATH": str(folder),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(HOST / "wheels"),
        "PIP_CONFIG_FILE": "/dev/null",
    }


def unset(dsh: Dsh, profile: str, package: Path) -> None:
    """The bundle from a folder of its own, with the setting `python` left empty."""
    dsh.install(profile, package)
    dsh.configure(profile, **{**dsh.scripted(RULES), "python": ""})


def environments(dsh: Dsh) -> list[Path]:
    """The complete private environments."""
    return sorted((dsh.home / "cache" / "antigravity-acp").glob("*/ready.json"))


def test_two_hosts_at_the_same_moment_make_one_environment_and_a_changed_bundle_replaces_it(tmp_path: Path) -> None:
    # A home as people have them: pip, venv and the host's own processes meet the space and the letters.
    with home(tmp_path / "Büro Ω mit Platz") as dsh:
        bundle = copy_bundle(dsh.folder / "bundle")
        # A version control of somebody who ignores everything must not empty the installation.
        (dsh.folder / ".gitignore").write_text("*\n", encoding="utf-8")
        unset(dsh, "headless", bundle)
        alone(dsh, "python3")
        with ThreadPoolExecutor(2) as hosts:
            done = list(hosts.map(lambda _: dsh.run("headless", "go", timeout=SETUP), range(2)))
        for one in done:
            assert "heard you" in one.stdout, one.stderr
        (ready,) = environments(dsh)
        assert ready.parent.name.startswith(f"{manifest().version}-")
        assert len(list(ready.parent.glob("env-*"))) == 1
        assert not (ready.parent / "lock").exists()
        made = ready.stat().st_mtime_ns
        again = dsh.run("headless", "go")
        assert "heard you" in again.stdout, again.stderr
        assert environments(dsh) == [ready]
        assert ready.stat().st_mtime_ns == made

        with (bundle / "plugin" / "antigravity_acp" / "limits.py").open("a", encoding="utf-8") as file:
            file.write("# another release\n")
        # The embedded engine is the large part; an agent of one's own does without.
        agent = Path(__file__).parents[1] / "helpers" / "agents" / "loopback.py"
        options = json.dumps({"steps": [{"say": "heard you too"}]})
        dsh.configure("headless", command=sys.executable, args=["-I", "-S", str(agent), options])
        changed = dsh.run("headless", "go", timeout=SETUP)
        assert "heard you too" in changed.stdout, changed.stderr
        (new,) = environments(dsh)
        assert new.parent != ready.parent
        assert not ready.parent.exists()
        assert not list(new.parent.glob("users/*"))


def test_without_a_python_the_chat_says_what_to_install(dsh: Dsh) -> None:
    unset(dsh, "headless", ROOT)
    alone(dsh)
    done = dsh.run("headless", "go")
    said = f"{done.stdout}{done.stderr}"
    assert "ACP_BINARY_MISSING" in said
    assert "Install Python 3.11 or newer" in said
    assert done.returncode != 0
    assert environments(dsh) == []


def test_a_package_index_that_cannot_be_reached_is_one_clear_error(dsh: Dsh) -> None:
    unset(dsh, "headless", ROOT)
    alone(dsh, "python3")
    dsh.variables["PIP_FIND_LINKS"] = str(dsh.folder)
    done = dsh.run("headless", "go", timeout=SETUP)
    said = f"{done.stdout}{done.stderr}"
    assert "ACP_INSTALL_FAILED" in said
    (log,) = (dsh.home / "cache" / "antigravity-acp").glob("*/install.log")
    assert str(log) in said
    assert environments(dsh) == []
    assert not list(log.parent.glob("env-*"))
    assert not (log.parent / "lock").exists()


def test_a_program_that_was_configured_and_is_not_there_is_not_replaced(dsh: Dsh) -> None:
    dsh.install("headless")
    dsh.configure("headless", **{**dsh.scripted(RULES), "python": "/nowhere/python3"})
    done = dsh.run("headless", "go")
    said = f"{done.stdout}{done.stderr}"
    assert "ACP_BINARY_MISSING" in said
    assert "`python`" in said


@pytest.mark.parametrize("matches", [True, False])
def test_a_program_on_path_is_used_if_its_version_matches(dsh: Dsh, matches: bool) -> None:
    unset(dsh, "headless", ROOT)
    alone(dsh)
    version = manifest().version if matches else "0.0.1"
    program = dsh.folder / "bin" / "antigravity-acp"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "antigravity-acp {version}"; exit; }}\n'
        f"exec {sys.executable} -m antigravity_acp.sidecar\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    done = dsh.run("headless", "go")
    assert ("heard you" in done.stdout) is matches, done.stderr
    assert ("ACP_BINARY_MISSING" in f"{done.stdout}{done.stderr}") is not matches


def test_keys_of_the_agent_reach_it_and_the_hosts_own_do_not(dsh: Dsh) -> None:
    seen = dsh.folder / "seen.json"
    program = dsh.folder / "antigravity-acp"
    script = f"import json, os; json.dump(sorted(os.environ), open({str(seen)!r}, 'w'))"
    program.write_text(f"#!{sys.executable}\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    dsh.install("headless")
    dsh.configure("headless", python=str(program))
    dsh.variables |= {
        "GEMINI_API_KEY": "x",
        "GOOGLE_API_KEY": "x",
        "DEEPSEEK_API_KEY": "x",
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }
    dsh.run("headless", "go")
    names: list[Any] = json.loads(seen.read_text(encoding="utf-8"))
    assert {"GEMINI_API_KEY", "GOOGLE_API_KEY", "HTTPS_PROXY"} <= set(names)
    assert not [name for name in names if name.startswith("DSH_") or name == "DEEPSEEK_API_KEY"]
