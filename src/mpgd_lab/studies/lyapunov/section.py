"""Lyapunov exponents of descent: verdicts and a table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from mpgd_lab import verdicts
from mpgd_lab.content.blocks import Block, Findings, Table, Text
from mpgd_lab.content.findings import finding
from mpgd_lab.content.selection import records_of
from mpgd_lab.content.tables import IncompleteError, table, terminal_table
from mpgd_lab.experiment import PrintItem
from mpgd_lab.store import Record
from mpgd_lab.studies.lyapunov.runs import ETAS, tasks
from mpgd_lab.verdicts import Verdict, holm_corrected, interval

CLAIM: Final = "Section 5: descent with large steps is chaotic"
HEADS: Final = ("problem", "step size", "exponent a step", "above 0", "left the numbers", "verdict")
DIGITS: Final = 4
RESOLUTION: Final = 1e-4  # an exponent nearer to 0 counts as 0: the sign of rounding is no result
RULE: Final = (
    f"{verdicts.RULE} Here it is no difference of two schemes but the largest Lyapunov exponent "
    "of descent, which is claimed to be above 0; runs that left the finite numbers are left out. "
    f"An exponent within {RESOLUTION:g} of 0 counts as 0, which was set after the valley's runs."
)
Exponents = Mapping[tuple[str, float], np.ndarray]


def exponents(records: Sequence[Record]) -> Exponents:
    """Return the exponents of all seeds for each problem and step size that was run."""
    seeds = sorted({record.run.seed for record in records})
    groups: dict[tuple[str, float], list[float]] = {}
    for record in records_of(records, tasks("own", seeds)):
        h = record.run.hyperparameters
        x = record.metrics["exponent"]
        groups.setdefault((h["data"], h["eta"]), []).append(0.0 if abs(x) < RESOLUTION else x)
    if not groups:
        raise IncompleteError("no run as this version makes them")
    return {place: np.array(values, dtype=np.float64) for place, values in groups.items()}


def judged(found: Exponents) -> dict[tuple[str, float], Verdict]:
    """Return the verdict at every step size, those of a problem judged together."""
    verdicts: dict[tuple[str, float], Verdict] = {}
    for name in ETAS:
        own = {place: x[np.isfinite(x)] for place, x in found.items() if place[0] == name}
        every = holm_corrected(
            Verdict(f"{name}: the exponent at step size {eta:g} is above 0", "higher", interval(x))
            for (_, eta), x in own.items()
        )
        verdicts |= dict(zip(own, every, strict=True))
    return verdicts


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows."""
    found = exponents(records)
    verdicts = judged(found)
    items = [finding(CLAIM, one, name, DIGITS) for (name, _), one in verdicts.items()]
    return [
        Text(summary(verdicts), answer=True),
        Text(
            "At the end of Section 5 the paper suggests that descent with large steps may be "
            "chaotic by itself. The largest Lyapunov exponent tells: above 0, neighbouring starts "
            "part exponentially. Plain descent is followed on the valley (from v = 0.1) and on "
            "airfoil's net; the paper's own steps are 0.01 and 0.1."
        ),
        Findings(RULE, tuple(items)),
        _table(found),
    ]


def summary(verdicts: Mapping[tuple[str, float], Verdict]) -> str:
    """Return at which step sizes the exponent is above 0, for each problem."""
    sentences = []
    for name in ETAS:
        own = {eta: one.label for (problem, eta), one in verdicts.items() if problem == name}
        above = ", ".join(f"{eta:g}" for eta, word in own.items() if word == "supported")
        if own:
            steps = f"at step size {above}" if above else "at no step size"
            sentences.append(
                f"{name.capitalize()}: the exponent is significantly above 0 {steps}, of "
                f"{', '.join(f'{eta:g}' for eta in own)}."
            )
    return " ".join(sentences)


def printout(records: Sequence[Record]) -> Iterator[PrintItem]:
    """Yield the table."""
    yield terminal_table(_table(exponents(records)))


def _table(found: Exponents) -> Table:
    verdicts, rows = judged(found), []
    for (name, eta), values in found.items():
        finite = values[np.isfinite(values)]
        counts = [f"{int((finite > 0).sum())} of {len(finite)}", str(len(values) - len(finite))]
        one = verdicts[name, eta]
        rows.append([name, f"{eta:g}", one.difference.text(DIGITS), *counts, one.label])
    return table("Largest Lyapunov exponent: mean over seeds [95 % interval]", HEADS, rows)
