"""The records of a store, sorted by experiment, and the files that are none."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpgd.experiments.cifar10_checkpoint import run_in
from mpgd.experiments.store import Record, Run, Store


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
    run = record.run
    named = [run.experiment, run.protocol, run.scheme]
    if not all(isinstance(name, str) for name in named) or not isinstance(run.seed, int):
        return "corrupt: experiment, protocol and scheme must be texts, the seed an integer"
    for part in ("hyperparameters", "metrics", "curves", "versions"):
        held = run.hyperparameters if part == "hyperparameters" else getattr(record, part)
        if not isinstance(held, Mapping):
            return f"corrupt: {part} must be names with values"
    for part in ("metrics", "curves"):
        for name, value in getattr(record, part).items():
            if not _is_numeric(value):
                return f"corrupt: {name!r} of its {part} is no number or list of numbers"
    return None if _is_numeric(record.seconds) else "corrupt: its seconds are no number"


def _is_numeric(value: Any) -> bool:
    if isinstance(value, list):
        return all(_is_numeric(each) for each in value)
    return value is None or isinstance(value, int | float)


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
