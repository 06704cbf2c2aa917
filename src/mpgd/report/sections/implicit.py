"""Theorem 4.3: the coefficient of eps^2, printed and completed, against simulation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from mpgd.experiments.implicit import (
    AGREE,
    GAMMA,
    PROBLEMS,
    case_of,
    deviation,
    row,
    verdict,
)
from mpgd.experiments.implicit_figure import SHOWN, TITLES, draw_cases, draw_epsilon
from mpgd.experiments.store import Record
from mpgd.report.content import Basis, Block, Finding, Findings, Panel, Plate, Text
from mpgd.report.shelf import commonest, known
from mpgd.report.tables import table

TITLE: Final = "Theorem 4.3 against simulation"
HEADLINE: Final = "Theorem 4.3: the ε² coefficient of the risk"
SETTINGS: Final = {"printed": "as printed", "completed": "with the term the proof drops"}
RULE: Final = (
    f"Rule: a form of the theorem is supported on a loss if it is within {AGREE:g} standard errors "
    "of the simulation in every case, contradicted if in any case it is not. The rule was written "
    "after these numbers had been seen."
)


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows."""
    records = known(records, PROBLEMS)
    held = [record for name in PROBLEMS for record in _cases(records, name)]
    names = list(dict.fromkeys(record.run.scheme for record in held))
    shown = [record for record in held if case_of(record.run) == SHOWN]
    panels = [
        *(Panel(partial(_draw_epsilon, record=record),
                f"{TITLES[record.run.scheme]}: the simulation tends to the completed coefficient, "
                "not to the printed one.")
          for record in shown),
        *(Panel(partial(_draw_cases, records=[r for r in held if r.run.scheme == name], name=name),
                f"{TITLES[name]}: all cases over the completed coefficient.", left=0.45)
          for name in names),
    ]  # fmt: skip
    return [
        Text(
            "With perturbations of size ε the mean risk after k steps differs from that of descent "
            "by a coefficient times ε². The paper's proof drops a term in which the multiplicative "
            "noise meets its own past; where that noise is on, the printed coefficient misses."
        ),
        Findings(RULE, tuple(findings(held))),
        Text(" ".join(f"{line[0].upper()}{line[1:]}." for line in verdict(held))),
        Plate("implicit", "First the measured coefficient against ε², with 3 standard errors, and "
              "both forms of the theorem (shared multiplicative noise, β = 0.5); then all cases, "
              "each divided by its completed coefficient, where crosses are the printed form.",
              tuple(panels)),
        table(f"Coefficient of ε² in E R(x_k), γ = {GAMMA}; z in standard errors",
              ["loss", "drivers", "measured", "s.e.", "completed", "z", "printed", "z",
               "agrees"], map(row, held)),
    ]  # fmt: skip


def findings(records: Sequence[Record]) -> list[Finding]:
    """Return the verdict on both forms of the theorem for each loss."""
    found = []
    for theory, setting in SETTINGS.items():
        for name in dict.fromkeys(record.run.scheme for record in records):
            mine = [record for record in records if record.run.scheme == name]
            z = [abs(deviation(record, theory)) for record in mine]
            good = sum(each <= AGREE for each in z)
            reason = f"agrees in {good} of {len(z)} cases; at most {max(z):.1f} standard errors off"
            word = "supported" if good == len(z) else "contradicted"
            basis: Basis = "stated" if theory == "printed" else "corrected"
            found.append(Finding(HEADLINE, setting, TITLES[name], word, reason, basis))
    return found


def _cases(records: Sequence[Record], name: str) -> list[Record]:
    return sorted(commonest([r for r in records if r.run.scheme == name], "count"), key=_place)


def _place(record: Record) -> tuple[float, float, float, bool]:
    case = case_of(record.run)
    return case.beta, -case.mu0, case.sigma0, not case.shared


def _draw_epsilon(ax: Any, record: Record) -> None:
    draw_epsilon(ax, record)
    ax.set_title(TITLES[record.run.scheme])
    ax.legend(loc="center right")


def _draw_cases(ax: Any, records: Sequence[Record], name: str) -> None:
    draw_cases(ax, records, named=True)
    ax.set_title(TITLES[name])
