"""Thirty kills by signal 9: of sweeps, of workers, of a pool's parent, at random moments."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.mpgd_lab.runner.test_killed_sweeps import kill_and_complete, let_children_import

ALONE, POOLS = 12, (2,)  # 12 + 3 kills, twice


def attack(seed: int) -> Iterator[str | None]:
    """Kill two sweeps fifteen times each; the tables must be those of sweeps never killed."""
    os.environ["PYTHONPATH"] = let_children_import()
    for part in range(2):
        kills = ALONE + sum(POOLS) + len(POOLS)
        with tempfile.TemporaryDirectory() as folder:
            rng = random.Random(f"{seed} {part}")
            try:
                found, expected = kill_and_complete(Path(folder), rng, ALONE, POOLS)
                problem = None if found == expected else "the table has other bits"
            except AssertionError as wrong:
                problem = f"sweep {part}: {wrong}"
        yield from [problem] + [None] * (kills - 1)
