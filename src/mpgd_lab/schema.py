"""Checks of a record: types of its fields, and the metrics and curves that its study needs.

Records come from files that anyone may have written. They are checked here, once, when a store is
read for a report; everything after relies on it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

import numpy as np

from mpgd_lab.store import Record

NUMBERS: Final = {"steps", "stop", "beta", "gamma", "m", "mu0", "sigma0", "train", "seeds"}


@dataclass(frozen=True)
class Needs:
    """What a record must hold."""

    metrics: tuple[str, ...] = ()  # their names
    curves: tuple[tuple[str, ...], ...] = ()  # groups of lists of numbers of one length
    optional: bool = False  # whether a record may have none of these curves
    choices: Mapping[str, Collection[Any]] = field(default_factory=dict)  # name: allowed values


NOTHING: Final = Needs()


def problem(record: Record, needs: Needs | None) -> str | None:
    """Return why a record cannot be used, or None; without ``needs`` only its form is checked."""
    return form_problem(record) or (content_problem(record, needs) if needs else None)


def form_problem(record: Record) -> str | None:
    """Return which field has a wrong type, or None."""
    run, h = record.run, record.run.hyperparameters
    named = [run.experiment, run.protocol, run.scheme]
    if not all(isinstance(name, str) for name in named) or type(run.seed) is not int:
        return "corrupt: experiment, protocol and scheme must be texts, the seed an integer"
    parts = {
        "hyperparameters": h,
        "metrics": record.metrics,
        "curves": record.curves,
        "versions": record.versions,
    }
    for part, values in parts.items():
        if not isinstance(values, Mapping):
            return f"corrupt: {part} must be names with values"
    numbers = {name: h[name] for name in sorted(NUMBERS & h.keys())}
    for part, values in {"hyperparameters": numbers, "metrics": record.metrics}.items():
        for name, value in values.items():
            if _shape(value) != ():
                return f"corrupt: {name!r} of its {part} is no number"
    for name, value in record.curves.items():
        if not _shape(value):
            return f"corrupt: {name!r} of its curves is no list of numbers"
    if _shape(record.seconds) != () or not isfinite(record.seconds):
        return "corrupt: its seconds are no number"
    return None


def content_problem(record: Record, needs: Needs) -> str | None:
    """Return what a record lacks of what its study needs, or None."""
    for name, known in needs.choices.items():
        if record.run.hyperparameters.get(name) not in known:
            return f"corrupt: {name!r} of its hyperparameters must be one of {list(known)}"
    if missing := [name for name in needs.metrics if name not in record.metrics]:
        return f"corrupt: {', '.join(missing)} missing in its metrics"
    curves = record.curves
    if needs.optional and not curves.keys() & {name for group in needs.curves for name in group}:
        return None
    for group in needs.curves:
        if missing := [name for name in group if name not in curves]:
            return f"corrupt: {', '.join(missing)} missing in its curves"
        if {_shape(curves[name]) for name in group} != {(len(curves[group[0]]) or 1,)}:
            names = ", ".join(group)
            return f"corrupt: {names} of its curves must be numbers in lists of one length"
    return None


def _shape(value: Any) -> tuple[int, ...] | None:
    """Return the shape of a number, (), or of nested lists of numbers; None for anything else."""
    # Most values are floats, and to make an array of each is slow.
    if type(value) is float:
        return ()
    try:
        array = np.asarray(value)
    except ValueError:  # lists of unlike lengths
        return None
    return array.shape if array.dtype.kind in "iuf" else None
