"""Every example runs as it stands, and shows what its README says."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.cli import BOUND, environment

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run(name: str, tmp_path: Path, **variables: str) -> list[str]:
    """The lines that an example prints, started from elsewhere."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=tmp_path,
        env=environment(**variables),
        timeout=BOUND,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.requirement("A-009", "A-010", "X-001")
def test_the_adapter_in_30_lines_answers_from_the_result_that_was_made_by_hand(tmp_path: Path) -> None:
    assert run("adapter_in_30_lines.py", tmp_path) == [
        "I will look at the weather.",
        "[weather -> Graz: rain until noon, 7 °C]",
        'The forecast says "Graz: rain until noon, 7 °C". So yes, take one.',
    ]


def test_the_adapter_in_30_lines_has_no_more() -> None:
    text = (EXAMPLES / "adapter_in_30_lines.py").read_text(encoding="utf-8")
    skipped = {
        number
        for node in ast.parse(text).body
        if isinstance(node, (ast.Import, ast.ImportFrom)) or (isinstance(node, ast.Expr) and node.lineno == 1)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if line.strip() and number not in skipped]
    assert len(lines) <= 30


def test_a_plugin_adds_a_tool_and_refuses_a_call(tmp_path: Path) -> None:
    lines = run("host_plugin.py", tmp_path)
    assert "[count_words: 7 words]" in lines
    assert "[count_words: deny by hook:words]" in lines
    assert "not for you" not in "\n".join(lines)
    assert lines[-1].startswith("The poem has 7 words. Of the other file I was told: ")
    assert lines[-1].endswith("Files named private are not for the model.")


def test_a_host_under_rules_says_of_each_call_what_was_decided_and_why(tmp_path: Path) -> None:
    home = str(tmp_path)
    *decided, last = run("governed_host.py", tmp_path, HOME=home, XDG_CONFIG_HOME=home, XDG_STATE_HOME=home)
    asks = "needs an approval and nobody can be asked here; a rule under `permissions.allow` of the settings would"
    assert sorted(decided) == [
        "deploy: allow: The rule `mcp(host/deploy)` allows this tool.",
        "read_file: deny: The rule `read_file(.env)` denies this file.",
        "run_command: allow: The rule `command(echo)` allows this command.",
        f"run_command: deny: `run_command` {asks} allow it. [command(touch)]",
    ]
    assert last.startswith("It is deployed to staging. About `.env`: ")


@pytest.mark.requirement("X-004")
def test_a_foreign_agent_by_command_uses_the_hosts_tool(tmp_path: Path) -> None:
    assert run("foreign_agent/run.py", tmp_path) == ["I will ask for 'good morning'.", "The host said: GOOD MORNING"]


def test_the_foreign_agent_is_plain_python_and_knows_nothing_of_this_project() -> None:
    tree = ast.parse((EXAMPLES / "foreign_agent" / "agent.py").read_text(encoding="utf-8"))
    imported = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    imported |= {str(node.module).split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= sys.stdlib_module_names


def test_a_provider_of_ones_own_works_under_the_same_loop(tmp_path: Path) -> None:
    assert run("own_adapter.py", tmp_path) == ["librarian/shelf: On the shelf: dubliners.txt, emma.txt (stop, 2 steps)"]


def test_the_readme_names_every_example() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    names = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py")}
    missing = {name for name in names if name not in text and Path(name).name not in text}
    assert not missing
