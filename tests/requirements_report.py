"""`make requirements`: every requirement id with the tests that name it; fails when one that is due has none.

The ids come from `tests/requirements.yml`; those of finished issues are listed in `tests/requirements_done.txt`.
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import yaml

HERE = Path(__file__).parent


def collect() -> dict[str, list[str]]:
    """Ask pytest which tests carry which ids; soak and agent tests count too."""
    code = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "requirements_plugin", "-m", "", str(HERE)],
        capture_output=True,
        text=True,
        cwd=HERE.parent,
        check=False,
    )
    if code.returncode != 0:
        sys.exit(f"collecting the tests failed:\n{code.stdout[-3000:]}\n{code.stderr[-3000:]}")
    found: dict[str, list[str]] = defaultdict(list)
    for requirement, test in re.findall(r"^REQUIREMENT (\S+) (.+)$", code.stdout, re.M):
        found[requirement].append(test)
    return found


def main() -> int:
    known = {key for wing in yaml.safe_load((HERE / "requirements.yml").read_text("utf-8")).values() for key in wing}
    done = set((HERE / "requirements_done.txt").read_text("utf-8").split())
    found = collect()
    for key in sorted(known):
        tests = found.get(key, [])
        state = "ok " if tests else ("MISSING" if key in done else "later")
        print(f"{key}  {state:8} {len(tests):3}  {tests[0] if tests else ''}")
        for test in tests[1:]:
            print(f"{'':20}{test}")
    unknown, missing = sorted(set(found) - known), sorted(done - set(found))
    print(f"\n{len(done)} ids of finished issues, {len(missing)} without a test; {len(found)} ids named by tests")
    if unknown:
        print("tests name ids that do not exist:", ", ".join(unknown))
    if missing:
        print("no test names:", ", ".join(missing))
    return 1 if unknown or missing else 0


if __name__ == "__main__":
    sys.exit(main())
