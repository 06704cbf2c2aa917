"""Print the benchmark tables; ``--write FILE`` keeps them, ``--quick`` takes fewer rounds."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterator
from datetime import date
from importlib.metadata import version
from pathlib import Path

from benchmarks import bfloat16, counter, driver, gpu, limits, step, training

TABLES = [
    *driver.TABLES,
    *step.TABLES,
    *bfloat16.TABLES,
    *counter.TABLES,
    *gpu.TABLES,
    *limits.TABLES,
    *training.TABLES,
]  # a further module of tables is one more list here
ROUNDS, QUICK = 21, 5


def main() -> None:
    """Measure every table, print it at once, and write the file at the end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the tables in this file")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} rounds instead of {ROUNDS}")
    options = parser.parse_args()
    parts = []
    for part in report(QUICK if options.quick else ROUNDS):
        print(part, flush=True)
        parts.append(part)
    if options.write:
        options.write.write_text("\n".join(parts), encoding="utf-8")


def report(rounds: int) -> Iterator[str]:
    """Yield the heading and then table after table, in Markdown."""
    yield heading(rounds)
    for table in TABLES:
        yield table(rounds).markdown()


def heading(rounds: int) -> str:
    """Return what was measured, where and when."""
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "numpy", "scipy"))
    command = "make bench" if rounds == ROUNDS else "python -m benchmarks --quick"
    return f"""# Benchmarks

Written by `{command}`; every row of a table is measured in the same run, {rounds} rounds, the cases
taking turns, after one call that does not count. Ratios are medians over rounds of the ratio within
a round. gamma = {driver.GAMMA}, beta = {driver.BETA}. SHORT marks a figure that misses its bound.

- {date.today().isoformat()}, {processor()}, {os.cpu_count()} cores, load {load} at the start
- Python {platform.python_version()}, {packages}
"""


def processor() -> str:
    """Return the processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
