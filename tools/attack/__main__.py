"""Run the attacks: `python -m tools.attack [--seed N] [names ...]`; exit code 1 on a failure."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable

from tools.attack import checkpoints, files, kills, memory, numbers, requests, sequences, tables

Attack = Callable[[int], Iterable[str | None]]

ATTACKS: dict[str, Attack] = {
    "kills of a sweep": kills.attack,
    "damaged tables": tables.attack,
    "damaged checkpoints": checkpoints.attack,
    "sequences of operations": sequences.attack,
    "memory cases": memory.attack,
    "hostile requests": requests.attack,
    "requests, memory flat": requests.flat,
    "hostile files": files.attack,
    "extreme numbers": numbers.attack,
}
SHOWN = 5  # failures of an attack


def main() -> int:
    """Run the attacks whose names contain a word given, all if there is none."""
    parser = argparse.ArgumentParser(prog="python -m tools.attack", description=__doc__)
    parser.add_argument("names", nargs="*", help="words of the attacks to run, such as 'tables'")
    parser.add_argument("--seed", type=int, default=0, help="other damage: by default 0")
    asked = parser.parse_args()
    failed = 0
    print(f"{'attack':<26}{'tries':>8}{'failures':>10}{'seconds':>9}", flush=True)
    for name, attack in ATTACKS.items():
        if asked.names and not any(word in name for word in asked.names):
            continue
        began = time.perf_counter()
        found = list(attack(asked.seed))
        wrong = [text for text in found if text is not None]
        seconds = time.perf_counter() - began
        print(f"{name:<26}{len(found):>8,}{len(wrong):>10,}{seconds:>9.0f}", flush=True)
        for text in wrong[:SHOWN]:
            print(f"    {text}", flush=True)
        failed += len(wrong)
    return 1 if failed else 0


if __name__ == "__main__":  # children that are spawned import this file too
    sys.exit(main())
