"""Theorem 4.2 and the Hessian: gap, tail index, dimension and trace against gamma."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from mpgd.experiments.generalization import SCHEMES, TRAININGS, Verdict, row, verdicts
from mpgd.experiments.generalization_figure import PANELS, draw_panel
from mpgd.experiments.store import Record
from mpgd.report.content import Block, Finding, Findings, Panel, Plate, Text
from mpgd.report.shelf import commonest, part
from mpgd.report.tables import table

TITLE: Final = "Gap, tail index and trace against γ"
HEADLINES: Final = {
    "gap": "Advice from Theorem 4.2: smaller α, smaller generalisation gap",
    "Hessian": "MPGD lowers the trace of the Hessian of a network",
}
RULE: Final = (
    "Rule: the sign of the 95 % bootstrap interval of a difference paired by seed; for the gap, of "
    "the fitted change from the largest α = 1/γ to the smallest. All noises have equal variance a "
    "step."
)
COLUMNS: Final = ("scheme", "α", "σ, μ", "train", "test", "worst gap", "second half", "tail index",
                  "dimension", "Hessian trace")  # fmt: skip


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows."""
    held = {name: _by_scheme(records, name) for name in TRAININGS}
    held = {name: each for name, each in held.items() if len(each) == len(SCHEMES)}
    found = [_finding(name, one) for name, each in held.items() for one in verdicts(each)]
    panels = [
        Panel(partial(_draw, records=each, quantity=quantity, title=f"{name}: {title}"),
              f"{name}: {title} against γ, each seed a dot, means with intervals.")
        for name, each in held.items() for quantity, title in PANELS.items()
    ]  # fmt: skip
    tables = [
        table(f"{name}: mean over {each['descent'].run.hyperparameters['seeds']} seeds ± half the "
              "95 % interval", COLUMNS, map(row, each.values()))
        for name, each in held.items()
    ]  # fmt: skip
    return [
        Text(
            "The paper's bound falls with the tail index α, and its experiments suggest flatter "
            "minima. Small networks are trained on digits and on airfoil, with noises of equal "
            "variance a step, and the worst gap along the way, the tail index and dimension of the "
            "trajectory and the trace of the Hessian at the end are measured."
        ),
        Findings(RULE, tuple(found)),
        Plate("generalization", "Four quantities against γ, with gradient descent and the Gaussian "
              "of equal variance as bands.", tuple(panels), legend=True),
        *tables,
    ]  # fmt: skip


def _by_scheme(records: Sequence[Record], name: str) -> dict[str, Record]:
    mine = commonest(part(records, data=name), "seeds", "steps", "eta", "strength")
    found = {record.run.scheme: record for record in mine}
    return {scheme: found[scheme] for scheme in SCHEMES if scheme in found}


def _finding(name: str, verdict: Verdict) -> Finding:
    headline = next(text for word, text in HEADLINES.items() if word in verdict.claim)
    reason = str(verdict).removeprefix(f"{verdict.claim}: {verdict.word}; ")
    return Finding(headline, name, verdict.claim, verdict.word, reason, "stated")


def _draw(ax: Any, records: dict[str, Record], quantity: str, title: str) -> None:
    draw_panel(ax, records, quantity)
    ax.set_title(title)
