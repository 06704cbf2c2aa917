"""`mpgd` and `python -m mpgd_lab`: version and a short help at once, all else in `mpgd_lab.cli`.

This file imports nothing that an extra brings, so it answers in an installation without one.
"""

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from mpgd import __version__

HELP = f"""mpgd {__version__}: gradient descent with chaotic, heavy-tailed perturbations.

From Python:  from mpgd import MPGD, perturb

The commands reproduce, report, lab, noise, info and completion need the extra `lab`:
  pip install "mpgd[lab]"

Works without it:
  mpgd --version
  mpgd --help
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments == ["--version"]:
        print(f"mpgd {__version__}")
        return 0
    if find_spec("tyro") is None:
        if arguments in ([], ["-h"], ["--help"]):
            print(HELP, end="")
            return 0
        needs = f'mpgd {arguments[0]} needs the extra `lab`: pip install "mpgd[lab]"'
        print(needs, file=sys.stderr)
        return 1
    try:
        from mpgd_lab import cli
    except KeyboardInterrupt:  # while tyro and numpy are imported, a second at most
        print("mpgd: interrupted", file=sys.stderr)
        return 130
    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
