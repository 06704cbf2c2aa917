"""The wells, sizes and runs of the study of exits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mpgd.theory.phases.laminar import levels, unit
from mpgd_lab.schema import Needs
from mpgd_lab.store import Run
from mpgd_lab.studies.escape.well_shapes import WELLS

GAMMA: Final = 0.6
SIGMA: Final = 0.3
SEED: Final = 1
KINDS: Final = ("mpgd", "gaussian", "stable")
ROTATIONS: Final = ("aligned", "rotated")
DIMENSIONS: Final = (2, 10)
ETAS: Final = (0.05, 0.02, 0.01, 0.005, 0.002)
FORCES: Final = (1.2, 1.7, 2.4, 3.4, 4.8, 7.0)  # in the two wells
BROAD: Final = 0.6  # sigma in the two wells


@dataclass(frozen=True)
class Sizes:
    """How much is simulated."""

    exits: int = 10_000  # of the walkers in the table of step sizes
    fewer: int = 3_000  # of all others
    walkers: int = 4_000
    time: float = 400.0  # units of it, after which a count ends anyway
    patience: float = 2_500.0  # the same in the table of step sizes
    shared: int = 1_500  # walkers in the two wells
    horizon: float = 300.0  # units of time there
    rows: int = 25  # of the map, and its columns


FULL: Final = Sizes()

COUNTED: Final = ("rate", "low", "high", "exits", "force", "levy")
NEEDS: Final = {
    "rate": Needs(
        (*COUNTED, "kramers", "threshold", "burst"),
        choices={"well": tuple(WELLS), "kind": KINDS},
    ),
    "share": Needs(("share", "low", "high", "force"), choices={"kind": KINDS}),
    "dimension": Needs(
        (*COUNTED, "one_phase"),
        choices={"rotation": ROTATIONS, "dimension": DIMENSIONS},
    ),
    "map": Needs(curves=(("eta",), ("sigma",))),
}
CHAOTIC: Final = {  # what theory adds for MPGD
    "rate": ("theory", "one_phase"),
    "share": ("theory", "long_run", "by_rates", "levy"),
}
PARTS: Final = Needs(choices={"part": tuple(NEEDS)})


def needs(run: Run) -> Needs:
    """Return what the record of a run must hold."""
    part = str(run.hyperparameters.get("part"))
    result = NEEDS.get(part, PARTS)
    further = CHAOTIC.get(part, ()) if run.hyperparameters.get("kind") == "mpgd" else ()
    return replace(result, metrics=result.metrics + further)


def tasks(protocol: str, seeds: Sequence[int], sizes: Sizes = FULL) -> list[Run]:
    """Return every run; there is one protocol, and one seed."""
    runs = [*_rates(sizes), *_shares(sizes), *_dimensions(sizes), _map(sizes)]
    return list({run.key: run for run in runs}.values())


def _run(kind: str, **h: Any) -> Run:
    return Run("escape", "paper", kind, {"kind": kind} | h, SEED)


def _rates(sizes: Sizes) -> Iterator[Run]:
    usual = {"part": "rate", "well": "quadratic", "gamma": GAMMA, "sigma": SIGMA, "beta": 0.0}
    usual |= {"longest": None, "walkers": sizes.walkers, "time": sizes.time}
    few = usual | {"exits": sizes.fewer}
    for gamma in (0.6, 0.7):
        for eta in ETAS:
            h = {"gamma": gamma, "eta": eta, "exits": sizes.exits, "time": sizes.patience}
            yield _run("mpgd", **usual | h)
    for force in (0.7, 0.85, 1.0, 1.15, 1.3, 1.6, 2.0, 3.0):
        sigma = round(levels(lr=0.005, gamma=GAMMA, force=force).sigma, 6)
        yield _run("mpgd", **few | {"eta": 0.005, "sigma": sigma})
    for sigma in (0.3, 0.6):
        for eta in (0.01, 0.005, 0.002, 0.001):
            yield _run("mpgd", **few | {"well": "cosine", "sigma": sigma, "eta": eta})
    for beta in (0.5, 1.0):
        yield _run("mpgd", **few | {"beta": beta, "eta": 0.005})
    for longest in (100, 200, 300, 1000):
        yield _run("mpgd", **few | {"longest": longest, "eta": 0.005})
    for kind in ("gaussian", "stable"):
        for sigma in (0.3, 0.6, 1.0):
            for eta in (0.02, 0.005):
                yield _run(kind, **few | {"sigma": sigma, "eta": eta, "time": sizes.time / 4})
    for sigma in (0.6, 1.0):
        for eta in (0.02, 0.005):
            yield _run("mpgd", **few | {"sigma": sigma, "eta": eta})


def step_size(force: float) -> float:
    """Return the step at which sigma = `BROAD` has this force."""
    return float((BROAD * unit(1.0, GAMMA) / force) ** (1.0 / (1.0 - GAMMA)))


def _shares(sizes: Sizes) -> Iterator[Run]:
    usual = {"part": "share", "gamma": GAMMA, "sigma": BROAD, "beta": 0.0}
    usual |= {"walkers": sizes.shared, "time": sizes.horizon}
    for force in FORCES:
        # The others are there to be compared; at the smallest steps they only take long.
        for kind in KINDS if force < 4.0 else KINDS[:1]:
            yield _run(kind, **usual | {"eta": round(step_size(force), 8)})


def _dimensions(sizes: Sizes) -> Iterator[Run]:
    usual = {"part": "dimension", "gamma": GAMMA, "sigma": SIGMA, "beta": 0.0}
    usual |= {"exits": sizes.fewer, "time": sizes.time / 2}
    for dimension in DIMENSIONS:
        walkers = max(1, sizes.walkers // (2 * dimension))
        for rotation in ROTATIONS:
            for eta in (0.005, 0.002, 0.001):
                h = {"dimension": dimension, "rotation": rotation, "walkers": walkers}
                yield _run("mpgd", **usual | h | {"eta": eta})


def _map(sizes: Sizes) -> Run:
    return _run("mpgd", part="map", gamma=GAMMA, rows=sizes.rows)


def label(task: Run) -> str:
    """Return how a run is named in the progress."""
    h = task.hyperparameters
    names = [h["part"], task.scheme, h.get("well"), h.get("rotation")]
    given = ("dimension", "gamma", "sigma", "eta", "beta", "longest")
    return ", ".join([*filter(None, names), *(f"{n} {h[n]:g}" for n in given if h.get(n))])
