"""Help costs next to nothing: it loads none of the libraries that the commands work with."""

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.cli import COMMAND, environment, run_cli

ROOT = Path(__file__).parents[2]
COMMANDS = ("demo", "chat", "models", "probe", "status", "login", "logout", "doctor", "install", "where", "uninstall")
CONTROL = ("check", "explain", "decide", "floor", "lint", "test")
HEAVY = (
    "mcp",
    "acp",
    "rich",
    "pydantic",
    "google",
    "msgspec",
    "anyio",
    "httpx2",
    "filelock",
    "tree_sitter",
    "yaml",
    "antigravity_control",
    "antigravity_provisioning",
    "antigravity_acp.adapter",
    "antigravity_acp.host",
)

_PROGRAM = """
import sys
from antigravity_acp.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("LOADED", *sys.modules)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["-h"],
        *([name, "--help"] for name in (*COMMANDS, "control")),
        *(["control", name, "--help"] for name in CONTROL),
    ],
)
def test_help_loads_none_of_the_heavy_libraries(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments], capture_output=True, text=True, env=environment(), check=True
    )
    help_text, _, loaded = done.stdout.partition("LOADED")
    assert help_text.startswith("Usage: ")
    assert not set(HEAVY) & set(loaded.split())


def test_help_names_every_command_and_every_command_has_json() -> None:
    assert all(name in run_cli("--help").stdout for name in COMMANDS)
    assert all("--json" in run_cli(name, "--help").stdout for name in COMMANDS)


def test_the_bound_against_import_mcp_holds() -> None:
    program = "import bench.cli_start as bench; found = bench.run(1); print(found['ratios'], found['bounds'])\n"
    program += "assert all(found['ratios'][name] <= bound for name, bound in found['bounds'].items())"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_version_is_the_manifests() -> None:
    from antigravity_acp.manifest import manifest

    assert run_cli("--version").stdout == f"antigravity-acp {manifest().version}\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["chat", "--engine", "nonsense"], ["demo", "extra"]])
def test_wrong_usage_is_exit_code_2_without_a_traceback(arguments: list[str]) -> None:
    done = run_cli(*arguments)
    assert done.returncode == 2
    assert "Usage: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


def test_the_installed_script_and_the_module_are_the_same_command() -> None:
    import sysconfig

    script = Path(sysconfig.get_path("scripts")) / "antigravity-acp"
    texts = [
        subprocess.run([*argv, "--help"], capture_output=True, text=True, env=environment(), check=True).stdout
        for argv in ([str(script)], COMMAND)
    ]
    assert texts[0] == texts[1]
