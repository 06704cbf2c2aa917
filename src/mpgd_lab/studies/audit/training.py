"""How the audit's runs are trained: as those of their studies."""

from collections.abc import Iterable
from pathlib import Path

from mpgd_lab.batched_training import Result
from mpgd_lab.store import Run
from mpgd_lab.studies.audit.runs import STUDIES, study_of
from mpgd_lab.studies.valley import switches


def train(runs: list[Run], data: Path | None = None) -> Iterable[Result]:
    """Return metrics and curves of runs of one study; the valley has a motion for deviations."""
    name = study_of(runs[0])
    if name == "valley" and runs[0].experiment == "audit":
        return switches.train(runs)
    return STUDIES[name].experiment.train(runs, data=data)


def max_batch(run: Run) -> int:
    """Return how many runs may be trained with this one; ECG5000's tables want much memory."""
    own = STUDIES[study_of(run)].experiment.max_batch(run)
    return min(10, own) if study_of(run) == "ecg" else own
