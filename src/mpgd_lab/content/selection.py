"""Selections of records: by hyperparameters, by scheme, by run, or the most common setting."""

from collections import Counter
from collections.abc import Container, Iterable
from typing import Any

from mpgd_lab.store import Record, Run


def most_common(records: Iterable[Record], *names: str) -> list[Record]:
    """Return the records that agree in these hyperparameters, with the values most have."""
    records = list(records)
    kinds = [repr([record.run.hyperparameters.get(name) for name in names]) for record in records]
    if not kinds:
        return []
    ((kind, _),) = Counter(kinds).most_common(1)
    return [record for record, each in zip(records, kinds, strict=True) if each == kind]


def of_schemes(records: Iterable[Record], schemes: Container[str]) -> list[Record]:
    """Return the records of these schemes with the seed that most of them have."""
    mine = [record for record in records if record.run.scheme in schemes]
    seeds = Counter(record.run.seed for record in mine).most_common(1)
    return [record for record in mine if record.run.seed == seeds[0][0]]


def matching(records: Iterable[Record], **wanted: Any) -> list[Record]:
    """Return the records whose hyperparameters have these values; None asks for absence."""
    return [
        record
        for record in records
        if all(record.run.hyperparameters.get(name) == value for name, value in wanted.items())
    ]


def records_of(records: Iterable[Record], tasks: Iterable[Run]) -> list[Record]:
    """Return the records of ``tasks``, in their order."""
    by_key = {record.run.key: record for record in records}
    return [by_key[task.key] for task in tasks if task.key in by_key]
