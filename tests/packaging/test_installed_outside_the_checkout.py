"""The wheel, built from the sdist, works in a fresh environment that does not know this checkout."""

import email
import json
import os
import re
import socket
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
#: Programs that npm runs by itself when somebody installs a package.
NPM_HOOKS = {"preinstall", "install", "postinstall", "prepare", "prepublish", "preprepare", "postprepare"}


class Network:
    """A proxy that nobody may ask."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setblocking(False)
        url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        self.environment = {**kept, "HTTP_PROXY": url, "HTTPS_PROXY": url, "ALL_PROXY": url}

    def was_asked(self) -> bool:
        try:
            self._socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    watched = Network()
    yield watched
    watched.close()


@pytest.fixture(scope="module")
def built(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`python -m build`: the sdist from the checkout, the wheel from the sdist."""
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, timeout=100, check=False, env=network.environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    [found] = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def sdist(built: Path) -> Path:
    [found] = built.glob("*.tar.gz")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, network: Network, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel. The dependencies are lent by path, so that the test needs no network."""
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, timeout=100, env=network.environment)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    # A path that comes from a .pth file is not searched for further .pth files: the editable install stays unknown.
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return home


def run(home: Path, *command: str) -> str:
    return subprocess.run(
        [str(home / "bin" / command[0]), *command[1:]], capture_output=True, text=True, timeout=60, check=True, cwd=home
    ).stdout


@pytest.mark.requirement("A-002")
def test_the_plugin_is_found_by_its_entry_point_and_has_its_manifest(installed: Path) -> None:
    code = """
import json, antigravity_acp
from antigravity_acp.host import discover
from antigravity_acp.manifest import manifest
found = [one for one in discover() if one.name == "antigravity-acp"]
print(json.dumps([len(found), found[0].error, manifest().provider, manifest().default_model, antigravity_acp.__file__]))
"""
    count, error, provider, model, where = json.loads(run(installed, "python", "-c", code))
    assert (count, error, provider, model) == (1, None, "antigravity-acp", "server-default")
    assert Path(where).is_relative_to(installed)


def test_both_programs_start(installed: Path) -> None:
    assert "demo" in run(installed, "antigravity-acp", "--help")
    assert "--script" in run(installed, "antigravity-engine", "--help")


def test_the_demo_runs_from_the_wheel(installed: Path) -> None:
    assert run(installed, "antigravity-acp", "demo").splitlines()[-1].startswith("ok: ")


#: What the programs read beside their code.
DATA = (
    "antigravity_acp/sidecar/frames.json",
    "antigravity_acp/cli/demo.yaml",
    "antigravity_provisioning/releases.json",
)


def test_the_wheel_carries_types_data_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    wings = ("antigravity_acp", "antigravity_provisioning", "antigravity_control", "antigravity_engine")
    for name in (*(f"{wing}/py.typed" for wing in wings), "antigravity_acp/manifest.json", *DATA):
        assert name in names
    assert not [name for name in names if name.startswith(("tests/", "bench/", "plugin/"))]
    assert {name.split("/")[0] for name in names} - set(wings) == {
        name.split("/")[0] for name in names if ".dist-info/" in name
    }


def contents(package: Path) -> dict[str, bytes]:
    """Every file of a wheel or sdist by its name."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}
    found = {}
    with tarfile.open(package) as sdist:
        for member in sdist:
            file = sdist.extractfile(member)
            assert file is not None or member.isdir(), member.name
            if file is not None:
                found[member.name.partition("/")[2]] = file.read()
    return found


def is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


@pytest.mark.requirement("A-053")
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_no_package_holds_a_program_of_anybody_else(kind: str, wheel: Path, sdist: Path) -> None:
    files = contents(wheel if kind == "wheel" else sdist)
    assert len(files) > 100
    assert [name for name, data in files.items() if not is_text(data)] == []
    # The smallest program of Google's archives has 81 MB; nothing of ours comes near the smallest bundle of one.
    assert max(map(len, files.values())) < 1_000_000
    names = {PurePosixPath(name).name for name in files}
    assert not [name for name in names if re.match(r"agy_acp_server|localharness", name)]


@pytest.mark.requirement("A-053")
def test_installing_a_package_runs_nothing_of_ours_and_asks_no_network(
    wheel: Path, sdist: Path, installed: Path, network: Network
) -> None:
    source, packed = contents(sdist), contents(wheel)
    # Whoever builds from the sdist runs hatchling, and nothing that comes with the sdist.
    project = tomllib.loads(source["pyproject.toml"].decode())
    assert project["build-system"] == {"requires": ["hatchling>=1.27"], "build-backend": "hatchling.build"}
    assert "hooks" not in json.dumps(project["tool"]["hatch"])
    assert not {"setup.py", "setup.cfg", "hatch_build.py"} & source.keys()
    # Whoever installs the wheel copies files. A .pth file would be run by every Python that starts there.
    assert not [name for name in packed if name.endswith(".pth") or ".data/" in name]
    [metadata] = [data for name, data in packed.items() if name.endswith(".dist-info/METADATA")]
    needed = email.message_from_bytes(metadata).get_all("Requires-Dist") or []
    assert needed
    assert not [requirement for requirement in needed if "@" in requirement]
    for name in source:
        if PurePosixPath(name).name == "package.json":
            assert not NPM_HOOKS & json.loads(source[name]).get("scripts", {}).keys(), name
    site = Path(sysconfig.get_path("purelib", vars={"base": str(installed), "platbase": str(installed)}))
    ours = {path.relative_to(site).as_posix() for path in site.glob("antigravity_*/**/*") if path.is_file()}
    assert {name for name in ours if "__pycache__" not in name} == {n for n in packed if ".dist-info/" not in n}
    assert not network.was_asked()
