"""The records of a store, sorted by experiment, and the files that are none."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np

from mpgd.experiments.cifar10_checkpoint import run_in
from mpgd.experiments.store import Record, Run, Store, size

DUE: Final[Mapping[str, tuple[str, str]]] = {  # metrics a section needs, curves of one length
    "noise orbit": ("", "y v"),
    "noise sums": ("ks_limit ks_symmetric ks_of_exact_draws", "quantile limit_quantile"),
    "noise tail": ("visits", "n longer measured exact"),
    "limit driver": ("ks", ""),
    "limit law": ("ks", "grid cdf limit_cdf"),
    "limit rotation": ("marcus ito", "radius marcus_radius ito_radius"),
    "limit jump": ("", "n x y gap"),
    "valley": ("trace", "step trace"),
    "valley landscape": ("", "u v"),
    "airfoil": ("test_rmse gap released_gap", ""),
    "ecg": ("test_accuracy", "accuracy_step test_accuracy"),
    "cifar10": ("val_accuracy accuracy_gap", "step val_accuracy"),
    "digits": ("test_accuracy test_loss gap", ""),
    "implicit": ("measured completed printed stderr", "epsilon D stderr"),
    "generalization": ("", "train test worst_gap late_gap dimension hessian_trace"),
}
CURVELESS: Final = ("valley", "ecg", "cifar10")  # the audit and earlier versions kept no curves
NUMBERS: Final = {"steps", "stop", "beta", "gamma", "m", "mu0", "sigma0", "train", "seeds"}


@dataclass(frozen=True)
class Shelf:
    """What a store holds.

    Attributes:
        experiments: the records of each experiment.
        unusable: names of files that are no usable record, with the reason.
        unfinished: the runs that go on from a checkpoint.
    """

    experiments: Mapping[str, Sequence[Record]]
    unusable: Mapping[str, str]
    unfinished: Sequence[Run] = ()

    def __getitem__(self, experiment: str) -> list[Record]:
        """Return the records of an experiment, none if it was not run."""
        return list(self.experiments.get(experiment, ()))

    @property
    def records(self) -> list[Record]:
        """All records."""
        return [record for each in self.experiments.values() for record in each]


def read(folder: Path) -> Shelf:
    """Return the records in ``folder/runs``."""
    if not (folder / "runs").is_dir():
        raise FileNotFoundError(
            f"no results in {folder}: it has no folder 'runs'; `mpgd reproduce --out {folder}` "
            "makes one"
        )
    store = Store(folder / "runs", report=lambda text: None)  # the page names them
    experiments: dict[str, list[Record]] = defaultdict(list)
    unusable = {}
    for record in store.records():
        if problem := _problem(record):
            unusable[store.path(record.run).name] = problem
        else:
            experiments[record.run.experiment].append(record)
    unusable |= {path.name: reason for path, reason in store.unreadable.items()}
    unfinished = []
    for path in sorted((folder / "checkpoints").glob("*")):
        try:
            size(path)
            unfinished.append(run_in(path))
        except FileNotFoundError:
            continue  # its run has just been finished
        except (ValueError, OSError) as problem:
            unusable[f"checkpoints/{path.name}"] = str(problem)
    for records in experiments.values():
        records.sort(key=lambda record: (record.run.protocol, record.run.seed))
    return Shelf(experiments, dict(sorted(unusable.items())), unfinished)


def _problem(record: Record) -> str | None:
    """Return what makes a record unusable: it must hold texts and numbers where they belong."""
    run, h = record.run, record.run.hyperparameters
    named = [run.experiment, run.protocol, run.scheme]
    if not all(isinstance(name, str) for name in named) or type(run.seed) is not int:
        return "corrupt: experiment, protocol and scheme must be texts, the seed an integer"
    parts = {"hyperparameters": h, "metrics": record.metrics, "curves": record.curves,
             "versions": record.versions}  # fmt: skip
    for part, held in parts.items():
        if not isinstance(held, Mapping):
            return f"corrupt: {part} must be names with values"
    numbers = {name: h[name] for name in sorted(NUMBERS & h.keys())}
    for part, held in {"hyperparameters": numbers, "metrics": record.metrics}.items():
        for name, value in held.items():
            if _shape(value) != ():
                return f"corrupt: {name!r} of its {part} is no number"
    for name, value in record.curves.items():
        if not _shape(value):
            return f"corrupt: {name!r} of its curves is no list of numbers"
    if _shape(record.seconds) != () or not isfinite(record.seconds):
        return "corrupt: its seconds are no number"
    return _lack(record)


def _lack(record: Record) -> str | None:
    """Return what a record lacks of what the section of its experiment shows."""
    h = record.run.hyperparameters
    kind = h.get("study") if record.run.experiment == "audit" else record.run.experiment
    kind = f"{kind} {h['part']}" if h.get("part") else f"{kind}"
    metrics, curves = (names.split() for names in DUE.get(kind, ("", "")))
    if kind in CURVELESS and not record.curves.keys() & set(curves):
        curves = []
    for part, names in (("metrics", metrics), ("curves", curves)):
        if missing := [name for name in names if name not in getattr(record, part)]:
            return f"corrupt: {', '.join(missing)} missing in its {part}"
    lengths = {_shape(record.curves[name]) for name in curves}
    if curves and lengths != {(len(record.curves[curves[0]]) or 1,)}:
        return f"corrupt: {', '.join(curves)} of its curves must be numbers in lists of one length"
    return None


def _shape(value: Any) -> tuple[int, ...] | None:
    """Return the shape of numbers, that of one number being (), or None if they are none."""
    try:
        held = np.asarray(value)
    except ValueError:  # lists of unlike lengths
        return None
    return held.shape if held.dtype.kind in "iuf" else None


def commonest(records: Iterable[Record], *names: str) -> list[Record]:
    """Return the records that agree in these hyperparameters, with the values most have."""
    records = list(records)
    kinds = [_values(record.run, names) for record in records]
    if not kinds:
        return []
    ((kind, _),) = Counter(kinds).most_common(1)
    return [record for record, own in zip(records, kinds, strict=True) if own == kind]


def known(records: Iterable[Record], schemes: Container[str]) -> list[Record]:
    """Return the records of these schemes with the seed that most of them have."""
    mine = [record for record in records if record.run.scheme in schemes]
    seeds = Counter(record.run.seed for record in mine).most_common(1)
    return [record for record in mine if record.run.seed == seeds[0][0]]


def _values(run: Run, names: Iterable[str]) -> str:
    return repr([run.hyperparameters.get(name) for name in names])


def part(records: Iterable[Record], **wanted: Any) -> list[Record]:
    """Return the records whose hyperparameters have these values; None asks for absence."""
    return [
        record
        for record in records
        if all(record.run.hyperparameters.get(name) == value for name, value in wanted.items())
    ]


def chosen(records: Iterable[Record], tasks: Iterable[Run]) -> list[Record]:
    """Return the records of ``tasks``, in their order."""
    found = {record.run.key: record for record in records}
    return [found[task.key] for task in tasks if task.key in found]
