"""The problems and step sizes at which descent is followed."""

from collections.abc import Sequence
from typing import Any, Final

from mpgd_lab.data.sources import AIRFOIL, Source, is_available
from mpgd_lab.runner import Context
from mpgd_lab.schema import Needs
from mpgd_lab.schemes import Scheme
from mpgd_lab.store import Run
from mpgd_lab.studies.airfoil.runs import FIXED as AIRFOIL_FIXED

SEEDS: Final = 10
PROBLEMS: Final[dict[str, dict[str, Any]]] = {
    "valley": {"steps": 2000, "height": 0.1},  # v at the start: at 0 nothing ever moves
    "airfoil": {"steps": 3000, "widths": AIRFOIL_FIXED["widths"]},
}
ETAS: Final = {  # the paper's own are 0.01 and 0.1
    "valley": (0.003, 0.01, 0.02, 0.03, 0.05),
    "airfoil": (0.03, 0.1, 0.3, 0.5, 0.7, 1.0),
}


def tasks(protocol: str, seeds: Sequence[int]) -> list[Run]:
    """Return descent at every step size; there is one protocol only."""
    return [
        Run("lyapunov", "own", str(Scheme()), {"data": name, "eta": eta, **fixed}, seed)
        for name, fixed in PROBLEMS.items()
        for eta in ETAS[name]
        for seed in seeds
        if seed <= SEEDS
    ]


def sources(run: Run) -> tuple[Source, ...]:
    """Return the data sets of a run."""
    return (AIRFOIL,) if run.hyperparameters["data"] == "airfoil" else ()


def select_runs(context: Context) -> list[Run]:
    """Return the runs whose data is found."""
    every = tasks("own", range(1, context.seeds + 1))
    return [run for run in every if all(is_available(one, context.data) for one in sources(run))]


def needs(run: Run) -> Needs:
    """Return what the record of a run must hold."""
    return Needs(("exponent",), choices={"data": tuple(PROBLEMS)})
