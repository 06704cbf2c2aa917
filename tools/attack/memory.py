"""The cases in which a kernel could touch memory that is not its own: those of the test suite."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ("optim/test_memory.py", "optim/test_temporaries.py", "optim/test_gradients.py")


class Outcomes:
    """Keeps what became of every test."""

    def __init__(self) -> None:
        self.found: list[str | None] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test's own outcome, and what failed before or after it."""
        if report.when == "call" or report.failed:
            self.found.append(f"{report.nodeid}: {report.longrepr}" if report.failed else None)


def attack(seed: int) -> Iterator[str | None]:
    """Run them in this process; they have no seed."""
    outcomes = Outcomes()
    paths = [str(ROOT / "tests" / file) for file in FILES]
    with redirect_stdout(io.StringIO()):
        pytest.main(["--quiet", f"--rootdir={ROOT}", *paths], [outcomes])
    yield from outcomes.found
