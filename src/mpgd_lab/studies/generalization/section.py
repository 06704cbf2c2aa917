"""Theorem 4.2 and the Hessian: gap, tail index, dimension and trace against gamma."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from mpgd_lab import verdicts
from mpgd_lab.content.blocks import Block, Finding, Findings, Plate, Table, Text, panel
from mpgd_lab.content.selection import matching, most_common
from mpgd_lab.content.tables import IncompleteError, table, terminal_table
from mpgd_lab.experiment import PrintItem
from mpgd_lab.store import Record
from mpgd_lab.studies.generalization.figure import PANELS, draw_panel
from mpgd_lab.studies.generalization.gap_verdicts import interval, verdict_blocks
from mpgd_lab.studies.generalization.runs import SCHEMES, TAILS, TRAININGS

HEADLINES: Final = {
    "gap": "Advice from Theorem 4.2: smaller α, smaller generalisation gap",
    "Hessian": "MPGD lowers the trace of the Hessian of a network",
}
RULE: Final = (
    f"{verdicts.RULE} For the gap, it is the fitted change from the largest α = 1/γ to the "
    "smallest. All noises have equal variance a step, a study of ours, not the paper's."
)
DIGITS: Final = 4  # of a difference
TAILED: Final = ("tail index in order", "far apart", "Hill")
MEASURED: Final = ("train", "test", "worst gap", "second half", *TAILED, "dimension")
COLUMNS: Final = ("scheme", "α", "σ, μ", *MEASURED, "Hessian trace")
TERMINAL: Final = ("scheme", "alpha", "sigma, mu", *MEASURED, "Hessian")
PARTS: Final = {  # all columns are too wide for a page: which ones a table has
    "losses": (0, 1, 2, 3, 4, 5, 6, 11),
    "trajectories": (0, 1, 7, 8, 9, 10),
}


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows."""
    held = by_data(records)
    if not held:
        raise IncompleteError("no data set on which all schemes were run as this version does")
    verdicts = [_finding(name, one) for name, each in held.items() for one in verdict_blocks(each)]
    panels = []
    for name, each in held.items():
        for quantity, title in PANELS.items():
            alt = f"{name}: {title} against γ, each seed a dot, means with intervals."
            panels.append(panel(alt, draw_panel, each, quantity, f"{name}: {title}"))
    tables = [one for name, each in held.items() for one in _tables(name, each)]
    return [
        Text(
            "The paper's bound falls with the tail index α, and its experiments suggest flatter "
            "minima. Small networks are trained on digits and on airfoil, with noises of equal "
            "variance a step, and the worst gap along the way, the tail index and dimension of the "
            "trajectory and the trace of the Hessian at the end are measured. At equal variance a "
            "noise of larger γ moves farther, 3 to 8 times as far as the Gaussian here. The larger "
            "gap at smaller α on digits is that displacement: at equal displacement no such change "
            "was seen (Equal displacement)."
        ),
        Text(
            "Increments of a trajectory have memory, and memory alone makes the usual tail index "
            "small: a Gaussian AR(1) of coefficient 0.5 reads about 1.6 instead of 2. So the "
            "index is read in order of time and from increments that are far apart; what differs "
            "is memory, not a tail. Hill's index looks at the largest increments only. One above "
            "2 is no heavy tail. The dimension supposes a self-similar path; memory lowers it too."
        ),
        Findings(RULE, tuple(verdicts)),
        Plate(
            "generalization",
            "Four quantities against γ, with gradient descent and the Gaussian "
            "of equal variance as bands.",
            tuple(panels),
            legend=True,
        ),
        *tables,
    ]


def _tables(name: str, held: Mapping[str, Record]) -> Iterator[Table]:
    """Yield the losses of all schemes on a data set, then what their trajectories are like."""
    rows = [row(record) for record in held.values()]
    seeds = held["descent"].run.hyperparameters["seeds"]
    for of, places in PARTS.items():
        title = f"{name}, {of}: mean over {seeds} seeds ± half the 95 % interval"
        yield table(title, [COLUMNS[k] for k in places], [[r[k] for k in places] for r in rows])


def by_data(records: Sequence[Record]) -> dict[str, dict[str, Record]]:
    """Return the record of each scheme on every data set on which all have one."""
    held = {name: _by_scheme(records, name) for name in TRAININGS}
    return {name: each for name, each in held.items() if len(each) == len(SCHEMES)}


def _by_scheme(records: Sequence[Record], name: str) -> dict[str, Record]:
    mine = most_common(matching(records, data=name), "seeds", "steps", "eta", "strength")
    by_name = {record.run.scheme: record for record in mine}
    return {scheme: by_name[scheme] for scheme in SCHEMES if scheme in by_name}


def _finding(name: str, verdict: verdicts.Verdict) -> Finding:
    headline = next(text for word, text in HEADLINES.items() if word in verdict.claim)
    return Finding(
        headline, name, verdict.claim, verdict.label, verdict.reason(DIGITS), "elsewhere"
    )


def printout(records: Sequence[Record]) -> Iterator[PrintItem]:
    """Yield a table and the verdicts for each data set."""
    for name, held in by_data(records).items():
        for one, places in zip(_tables(name, held), PARTS.values(), strict=True):
            caption, _, rows = terminal_table(one)
            yield caption, [TERMINAL[k] for k in places], rows
        for verdict in verdict_blocks(held):
            yield f"{name}: {verdict.text(DIGITS)}"


def row(record: Record) -> list[str]:
    """Return a row of the table of schemes."""
    h, c = record.run.hyperparameters, record.curves
    noise = [f"{1 / h['gamma']:.2f}", f"{h['sigma']:.4f}"] if "gamma" in h else ["", ""]
    losses = [f"{np.mean(c[key]):.4f}" for key in ("train", "test")]
    watched = ("worst_gap", "late_gap", *TAILS, "dimension", "hessian_trace")
    with_ends = [_ends(c[key]) if key in c else "" for key in watched]
    return [record.run.scheme, *noise, *losses, *with_ends]


def _ends(values: Sequence[float]) -> str:
    mean, low, high = interval(values)
    return f"{mean:.3g}±{(high - low) / 2:.2g}"
