"""The wheel, built from the sdist, works in a fresh environment that does not know this checkout."""

import json
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`python -m build`: the sdist from the checkout, the wheel from the sdist."""
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert len(list(out.glob("*.tar.gz"))) == 1
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel. The dependencies are lent by path, so that the test needs no network."""
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, timeout=100)
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
