"""Figure 1: an orbit, its values, its laminar phases and its sums, for both sign rules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from mpgd.experiments.noise import GAMMA, noise_of, sums_row, tail_rows
from mpgd.experiments.noise_figure import (
    ROWS,
    Sums,
    draw_orbit,
    draw_sums,
    draw_tail,
    draw_values,
)
from mpgd.experiments.store import Record
from mpgd.report.content import Block, Finding, Findings, Panel, Plate, Text
from mpgd.report.sections.common import BASES
from mpgd.report.shelf import commonest, known, part
from mpgd.report.tables import table

TITLE: Final = "The driver and its limit law"
HEADLINE: Final = "Sums of the driver tend to the stable law X(1/γ, β)"
SETTINGS: Final = {"product": "signs as printed", "fresh": "fresh signs"}
RULE: Final = (
    "Rule: after the most steps and at the largest β, the sums must be nearer to the claimed law "
    "than to the symmetric one by more than the Kolmogorov distance of a perfect sample; nearer "
    "to the symmetric one by that much contradicts the claim. The rule was written after these "
    "numbers had been seen."
)


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows."""
    records = known(records, ROWS)
    sums = commonest(part(records, part="sums"), "count", "gamma")
    sums.sort(key=lambda r: (_steps(r), r.run.hyperparameters["beta"], r.run.scheme))
    orbits = {r.run.scheme: r for r in commonest(part(records, part="orbit"), "steps")}
    tail = commonest(part(records, part="tail"), "orbits", "steps")[0]
    return [
        Text(
            "Values of the chaotic driver, summed and scaled, should follow a skewed heavy-tailed "
            "law. That depends on how the sign is renewed after a visit to the right branch: a "
            "fresh sign each time, or, as the paper prints it, the product of all signs so far."
        ),
        Findings(RULE, tuple(findings(sums))),
        Plate("noise", _caption(tail), tuple(_panels(sums, orbits, tail))),
        table(
            f"Sums of k values, γ = {GAMMA}: Kolmogorov distances, and quantiles (the limit's in "
            "brackets)",
            ["signs", "β", "k", "to the claimed law", "to the symmetric law", "5 %", "95 %"],
            map(sums_row, sums),
        ),
        table(
            f"Laminar phases, {tail.metrics['visits']:,} of them: P(length > n)",
            ["n", "measured", "exact", "ratio", "standard error"],
            tail_rows(tail),
        ),
    ]


def findings(sums: Sequence[Record]) -> list[Finding]:
    """Return the verdict on each sign rule, from its longest and most skewed sums."""
    found = []
    for signs, setting in SETTINGS.items():
        last = [record for record in sums if record.run.scheme == signs][-1]
        h, m = last.run.hyperparameters, last.metrics
        claimed, symmetric = m["ks_limit"], m["ks_symmetric"]
        surplus = claimed - symmetric
        word = "undecided"
        if abs(surplus) > m["ks_of_exact_draws"]:
            word = "supported" if surplus < 0 else "contradicted"
        reason = (
            f"distance {claimed:.4f} to the claimed law, {symmetric:.4f} to the symmetric one; "
            f"a perfect sample has {m['ks_of_exact_draws']:.4f}"
        )
        claim = f"{_steps(last):,} steps at β = {h['beta']:g} are near X(1/γ, {h['beta']:g})"
        found.append(Finding(HEADLINE, setting, claim, word, reason, BASES[signs]))
    return found


def _panels(sums: Sequence[Record], orbits: dict[str, Record], tail: Record) -> list[Panel]:
    noise = noise_of(sums[0].run)
    panels = [
        Panel(partial(draw_orbit, y=orbits["fresh"].curves["y"], noise=noise),
              "An orbit of the Thaler map: long slow climbs from 0, then bursts above y*."),
        Panel(partial(draw_tail, curves=tail.curves, noise=noise),
              "Lengths of laminar phases: measured points lie on the exact power-law tail."),
    ]  # fmt: skip
    for signs, record in orbits.items():
        draw = partial(
            draw_values, v=record.curves["v"], noise=noise, title=f"Values, {ROWS[signs]}"
        )
        panels.append(Panel(draw, f"Values of the driver with {ROWS[signs]}: plateaus and spikes."))
    for record in [*sums[:2], *sums[-2:]]:  # the paper's, and the ones that tell most
        shown = Sums(noise_of(record.run), _steps(record), record.curves)
        panels.append(Panel(partial(draw_sums, sums=shown), _describe(record)))
    return panels


def _describe(record: Record) -> str:
    return (
        f"Histogram of sums of {_steps(record):,} values, {record.run.scheme} signs, β = "
        f"{record.run.hyperparameters['beta']}: distance {record.metrics['ks_limit']:.3f} to the "
        f"limit, {record.metrics['ks_symmetric']:.3f} to the symmetric law."
    )


def _caption(tail: Record) -> str:
    return (
        f"Figure 1 of the paper at γ = {GAMMA}, with both sign rules: an orbit, its laminar phases "
        f"({tail.metrics['visits']:,} of them), its values, and densities of scaled sums with the "
        "claimed and the symmetric limit."
    )


def _steps(record: Record) -> int:
    return int(record.run.hyperparameters["steps"])
