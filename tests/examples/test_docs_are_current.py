"""What is written from a source is what the source says, and what the docs name is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.cli import run_cli

from antigravity_acp.contract import ERRORS
from antigravity_acp.manifest import manifest
from antigravity_control.outputs.detectors import DETECTORS

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CHANGELOG.md", "plugin/README.md", "examples/README.md")),
    *(ROOT / "docs" / name for name in ("cli.md", "control.md", "settings.md", "errors.md", "sidecar.md")),
]


def test_the_generated_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"run `python docs/generate.py`: {done.stdout}{done.stderr}"


def test_every_setting_and_every_error_code_has_its_place() -> None:
    settings = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    errors = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert all(f"\n## `{name}`\n" in settings for name in manifest().settings["properties"])
    assert all(f"\n| `{code}` |" in errors for code in ERRORS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_inside_the_repository_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if not target.startswith(("http://", "https://"))]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_every_kind_of_secret_is_named_and_no_other() -> None:
    page = (ROOT / "docs" / "control.md").read_text(encoding="utf-8")
    section = page.partition("\n## Secrets in results\n")[2].partition("\n## ")[0]
    named = re.findall(r"`([a-z]+(?:-[a-z]+)*)`", section)
    assert sorted(set(named)) == sorted({each.kind for each in DETECTORS})
    assert len(named) == len(set(named))


def test_flags_that_the_docs_use_exist() -> None:
    known = set(re.findall(r"--[a-z][a-z-]*", "".join(run_cli(name, "--help").stdout for name in ("chat", "demo"))))
    for page in (ROOT / "README.md", ROOT / "docs" / "cli.md"):
        for line in page.read_text(encoding="utf-8").splitlines():
            if "antigravity-acp chat" in line or "antigravity-acp demo" in line:
                used = set(re.findall(r"(?<![=\w-])--[a-z][a-z-]*", line))
                assert used <= known, line
