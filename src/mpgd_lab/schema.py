"""What makes a record usable: texts and numbers where they belong, and what its study needs.

A file that anyone may have written is checked here, once, when a store is read for a report. What
comes after may rely on it.
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
    """Return why a record cannot be used, or None; without ``needs`` only its form is looked at."""
    return form(record) or (lack(record, needs) if needs else None)


def form(record: Record) -> str | None:
    """Return what is no text or number where one belongs, or None."""
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
    return None


def lack(record: Record, needs: Needs) -> str | None:
    """Return what a record lacks of what its study needs, or None."""
    for name, known in needs.choices.items():
        if record.run.hyperparameters.get(name) not in known:
            return f"corrupt: {name!r} of its hyperparameters must be one of {list(known)}"
    if missing := [name for name in needs.metrics if name not in record.metrics]:
        return f"corrupt: {', '.join(missing)} missing in its metrics"
    held = record.curves
    if needs.optional and not held.keys() & {name for group in needs.curves for name in group}:
        return None
    for group in needs.curves:
        if missing := [name for name in group if name not in held]:
            return f"corrupt: {', '.join(missing)} missing in its curves"
        if {_shape(held[name]) for name in group} != {(len(held[group[0]]) or 1,)}:
            said = f"{', '.join(group)} of its curves must be numbers in lists of one length"
            return f"corrupt: {said}"
    return None


def _shape(value: Any) -> tuple[int, ...] | None:
    """Return the shape of numbers, that of one number being (), or None if they are none."""
    if type(value) is float:  # most are, and an array of each takes long
        return ()
    try:
        held = np.asarray(value)
    except ValueError:  # lists of unlike lengths
        return None
    return held.shape if held.dtype.kind in "iuf" else None
