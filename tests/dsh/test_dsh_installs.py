"""The bundle goes into the host in every way that the host offers, without a warning or an exemption."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from helpers.dsh import BUNDLE, ROOT, ROW, Dsh, node_folder

pytestmark = pytest.mark.dsh

BAD_WORDS = ("warn", "incompatib", "exempt", "skipping", "deprecat", "error", "unmet")


def rows_of(dsh: Dsh, profile: str) -> dict[str, dict[str, object]]:
    """The composed rows of a profile, by id."""
    done = dsh.run("--profile", profile, "--dump-config")
    assert done.returncode == 0, done.stderr
    assert not [word for word in BAD_WORDS if word in done.stderr.lower()], done.stderr
    yaml.SafeLoader.add_constructor("tag:yaml.org,2002:js", lambda loader, node: loader.construct_scalar(node))
    return {row["id"]: row for row in yaml.safe_load(done.stdout) if "id" in row}


def check_row(dsh: Dsh, profile: str) -> None:
    rows = rows_of(dsh, profile)
    assert rows[ROW]["name"] == BUNDLE
    assert rows["agent-default-model"]["config"] == {"provider": "antigravity-acp", "model": "server-default"}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What npm would publish."""
    folder = tmp_path_factory.mktemp("packed")
    npm = node_folder().parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    command = [str(node_folder() / "node"), str(npm), "pack", str(ROOT), "--json", "--ignore-scripts"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return folder / str(json.loads(done.stdout)[0]["filename"])


@pytest.mark.parametrize("how", ["checkout", "tarball"])
def test_one_command_installs_it(dsh: Dsh, packed: Path, how: str) -> None:
    source = ROOT if how == "checkout" else packed
    done = dsh.run("plugin", "--profile", "web", "add", str(source))
    said = f"{done.stdout}{done.stderr}".lower()
    assert done.returncode == 0, said
    assert not [word for word in BAD_WORDS if word in said], said
    check_row(dsh, "web")


def test_a_symlink_installs_it_without_a_package_manager(dsh: Dsh) -> None:
    dsh.install("headless")
    check_row(dsh, "headless")


def test_the_tarball_carries_what_python_needs_and_nothing_else(packed: Path) -> None:
    names = subprocess.run(["tar", "-tzf", str(packed)], capture_output=True, text=True, check=True).stdout.split()
    files = {name.removeprefix("package/") for name in names}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    wings = {name for name in tracked if name.startswith(("plugin/", "provisioning/", "control/", "engine/"))}
    assert wings <= files
    assert {"pyproject.toml", "manifest.json", "LICENSE", "README.md", "dsh/index.js", "dsh/cordis.patch.yml"} <= files
    top = {name.split("/")[0] for name in files}
    assert not top & {"tests", "bench", "docs", "examples", ".ci", ".venv"}
    assert not [name for name in files if "__pycache__" in name or name.endswith(".pyc")]


def test_the_package_asks_for_nothing_and_runs_nothing_at_install_time() -> None:
    package = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    assert not package.keys() & {"dependencies", "scripts", "bundledDependencies", "optionalDependencies"}
    assert all(meta["optional"] for meta in package["peerDependenciesMeta"].values())
    assert package["peerDependenciesMeta"].keys() == package["peerDependencies"].keys()
    manifest = json.loads((ROOT / "manifest.json").read_text(encoding="utf-8"))
    assert package["version"] == manifest["version"]
