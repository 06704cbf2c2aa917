"""Check the parts of mpgd that need no torch on every other Python found on this computer.

    python -m tools.pythons 3.12 3.13 3.14

Each gets an environment `.venv-3.12` with numpy, mpmath and the package, without its other
dependencies, and runs `tests/without_torch.py`. Interpreters on the path and those of pyenv count.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PIP: Final = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


def find(version: str) -> str | None:
    """Return an interpreter of this version that starts, or None."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))]
    for python in filter(None, candidates):
        try:
            asked = [python, "-c", "import sys; print('{}.{}'.format(*sys.version_info))"]
            answer = subprocess.run(asked, capture_output=True, text=True)
        except OSError:
            continue
        if answer.stdout.strip() == version:  # pyenv's shims are on the path and may refuse
            return str(python)
    return None


def check(version: str, python: str) -> None:
    """Make the environment and run the check there; raise if either fails."""
    folder = ROOT / f".venv-{version}"
    subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
    here = [folder / "bin" / "python"]
    constraints = ["--constraint", ROOT / "constraints.txt"]
    subprocess.run([*here, *PIP, *constraints, "numpy", "mpmath"], check=True)
    subprocess.run([*here, *PIP, "--no-deps", ROOT], check=True)
    # -P: the folder of the script is not searched for modules.
    subprocess.run([*here, "-P", "-W", "error", ROOT / "tests" / "without_torch.py"], check=True)


def main(*versions: str) -> int:
    """Check every version that is found; return 1 if none is."""
    pythons = {version: find(version) for version in versions}
    for version, python in pythons.items():
        if python:
            check(version, python)
        else:
            print(f"Python {version}: not found", flush=True)
    return 0 if any(pythons.values()) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
