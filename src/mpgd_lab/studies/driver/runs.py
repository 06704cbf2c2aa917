"""What is simulated for Figure 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mpgd_lab.schema import Needs
from mpgd_lab.store import Run

GAMMA: Final = 0.6
BETAS: Final = (0.1, 0.5)  # the first is the figure's
FIRST_SIGN: Final = {"fresh": "drawn", "product": "positive"}  # the sign rules compared
NEEDS: Final = {  # of each part
    "orbit": Needs(curves=(("y", "v"),)),
    "sums": Needs(
        ("ks_limit", "ks_symmetric", "ks_of_exact_draws"),
        (("quantile", "limit_quantile"), ("density",), ("edges",)),
    ),
    "tail": Needs(("visits",), (("n", "longer", "measured", "exact"),)),
    "start": Needs(
        ("sampling",), (("k", "sums", "points"),), choices={"start": ("invariant", "uniform")}
    ),
}
PARTS: Final = Needs(choices={"part": tuple(NEEDS)})


@dataclass(frozen=True)
class Sizes:
    """How much is simulated."""

    shown: int = 300  # steps of the orbit in the figure
    steps: tuple[int, ...] = (1000, 20_000)  # lengths of the sums; the first is the figure's
    count: int = 40_000  # sums of each kind
    orbits: int = 100_000  # orbits whose laminar phases are measured
    rounds: int = 1000  # steps of each of them
    begun: int = 10_000  # orbits of the map from each of two starts
    begun_steps: int = 1000


FULL: Final = Sizes()


def tasks(protocol: str, seeds: Sequence[int], sizes: Sizes = FULL) -> list[Run]:
    """Return every run; there is one protocol, and one seed."""
    runs = [
        _run(signs, part="sums", beta=beta, steps=steps, count=sizes.count)
        for steps in sizes.steps
        for beta in BETAS
        for signs in FIRST_SIGN
    ]
    for signs in FIRST_SIGN:
        runs.append(_run(signs, part="orbit", beta=BETAS[0], steps=sizes.shown))
    tail = {"part": "tail", "beta": 0.0, "steps": sizes.rounds, "orbits": sizes.orbits}
    begun = {"part": "start", "beta": 0.0, "steps": sizes.begun_steps, "count": sizes.begun}
    starts = [_run("fresh", **begun, start=start) for start in ("invariant", "uniform")]
    return [*runs, _run("fresh", **tail), *starts]


def _run(signs: str, **hyperparameters: Any) -> Run:
    fixed = {"gamma": GAMMA, "first_sign": FIRST_SIGN[signs]}
    return Run("noise", "paper", signs, fixed | hyperparameters, seed=0)


def label(task: Run) -> str:
    """Return how a run is named in the progress."""
    h = task.hyperparameters
    return f"{h['part']}, {task.scheme} signs, beta {h['beta']}, {h['steps']} steps"
