"""Put the real DeepSeek Harness and its tools beside the tests: `python tests/dsh/install.py`.

Everything lands in `tests/dsh/.host` and `tests/dsh/node_modules`:
    .host/venv     the host from its PyPI wheel, in an environment of its own
    .host/wheels   what the plugin's private environment is made of, so that tests make one without a network
    .host/sandbox  bubblewrap, which the host's shell wants, if this machine has none
    node_modules   pnpm, which the host installs plugins by, and the type checker of the bundle
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HOST = HERE / ".host"
SDK = "deepseek-harness-sdk==0.2.1rc2"

sys.path.insert(0, str(HERE.parent / "node"))


def install_host() -> None:
    """The host's wheels."""
    venv = HOST / "venv"
    python = venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", SDK, "psutil>=7"], check=True)


def build_wheels() -> None:
    """Every library of the plugin and of its build, as wheels."""
    wheels = HOST / "wheels"
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--wheel-dir",
        str(wheels),
        ".[engine]",
        "hatchling>=1.27",
    ]
    subprocess.run(command, cwd=ROOT, check=True)


def install_sandbox() -> None:
    """Bubblewrap without being root, from the distribution's package."""
    target = HOST / "sandbox"
    if shutil.which("bwrap") or (target / "usr" / "bin" / "bwrap").exists():
        return
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        print("No bubblewrap here: the test of the host's own sandbox will say so.")
        return
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "download", "--quiet", "bubblewrap"], cwd=target, check=True)
    for package in target.glob("bubblewrap*.deb"):
        subprocess.run(["dpkg", "-x", package.name, "."], cwd=target, check=True)
        package.unlink()


def main() -> int:
    import install as node

    # tests/node/install.py, found by the path above: this file is run by its path and is `__main__`.
    # Mostly they wait for the network, each for another part of it.
    with ThreadPoolExecutor() as steps:
        for step in [
            steps.submit(node.install, HERE),
            *map(steps.submit, (install_host, build_wheels, install_sandbox)),
        ]:
            step.result()
    (HOST / ".ready").touch()
    return 0


if __name__ == "__main__":
    sys.exit(main())
