"""Every benchmark of this folder: ``python -m bench [NAME …]``.

A benchmark is a module that defines ``NAME`` and ``run() -> dict``. The dictionary has ``ratios`` (name to number),
``bounds`` for those that may be at most so much and ``at_least`` for those that must be; the rest is kept as it is.
Ratios are taken in one run on one machine, so they can be compared where seconds cannot. Writes
``results/<name>.json``; exit code 1 when a bound is missed.
"""

import importlib
import json
import pkgutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent


def benchmarks() -> list[ModuleType]:
    """The modules of this folder that are benchmarks, by name."""
    names = sorted(item.name for item in pkgutil.iter_modules([str(HERE)]) if not item.name.startswith("_"))
    modules = [importlib.import_module(f"bench.{name}") for name in names]
    return [module for module in modules if hasattr(module, "NAME") and hasattr(module, "run")]


def missed(result: dict[str, Any]) -> set[str]:
    """Names of the ratios that miss a bound; a bound without its ratio is missed too."""
    ratios = result.get("ratios", {})
    return {name for name, most in result.get("bounds", {}).items() if not ratios.get(name, float("inf")) <= most} | {
        name for name, least in result.get("at_least", {}).items() if not ratios.get(name, 0.0) >= least
    }


def main(wanted: list[str]) -> int:
    """Run what is wanted, everything when nothing is named."""
    chosen = [module for module in benchmarks() if not wanted or module.NAME in wanted]
    if unknown := set(wanted) - {module.NAME for module in chosen}:
        print(f"no such benchmark: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    failed = False
    for module in chosen:
        result = module.run()
        (HERE / "results" / f"{module.NAME}.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        late = missed(result)
        failed = failed or bool(late)
        for name, value in result.get("ratios", {}).items():
            bound = "".join(
                f"  ({word} {result[key][name]:g})"
                for key, word in (("bounds", "at most"), ("at_least", "at least"))
                if name in result.get(key, {})
            )
            print(f"{module.NAME:12} {name:44} {value:8.3f}{bound}{'  MISSED' if name in late else ''}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
