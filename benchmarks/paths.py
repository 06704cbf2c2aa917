"""Paths of MPGD and of its equation again, on orbits that no earlier number rests on.

    python -m benchmarks.paths [--seed 7] [--paths 160]

It prints the powers of m with which SM1 and J1 distances fall, from m = 300 on and over all m. The
start at 300 was chosen after the 40 paths of `mpgd reproduce limit` had been seen; here it stood
before the paths did.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from mpgd_lab.store import Record, Run
from mpgd_lab.studies.limit.extensions import of_paths
from mpgd_lab.studies.limit.extensions_section import FROM, rate
from mpgd_lab.studies.limit.runs import FULL, LOSSES


def record(loss: str, m: int, seed: int, paths: int) -> Record:
    """Return what `mpgd reproduce limit` measures of paths, of another number of them."""
    f = FULL.further
    h: dict[str, Any] = {"part": "paths", "loss": loss, "m": m, "paths": paths, "read": f.read}
    h |= {"sample": 2, "sample_read": f.sample_read, "steps": FULL.steps}
    run = Run("limit", "paper", "fresh", h, seed)
    return Record(run, *of_paths(run), 0.0, {}, None)


def rates(loss: str, seed: int, paths: int) -> None:
    """Print slopes and their 95 % intervals, from `FROM` on and over all m."""
    found = [record(loss, m, seed, paths) for m in FULL.further.coupled_m]
    late = [each for each in found if each.run.hyperparameters["m"] >= FROM]
    for name in ("sm1", "j1"):
        print(loss, name, *(_text(rate(each, name)) for each in (late, found)), flush=True)


def _text(found: Sequence[float]) -> str:
    return "{:+.2f} [{:+.2f}, {:+.2f}]".format(*found)


def main() -> None:
    """Do what the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--paths", type=int, default=160)
    args = parser.parse_args()
    for loss in LOSSES:
        rates(loss, args.seed, args.paths)


if __name__ == "__main__":
    main()
