"""Figure 1: an orbit, its values, its laminar phases and its sums, for both sign rules."""

from collections.abc import Iterator, Sequence
from itertools import product
from math import sqrt
from typing import Final

import numpy as np

from mpgd_lab.content import blocks as content
from mpgd_lab.content import tables
from mpgd_lab.content.blocks import Finding, Findings, Panel, Plate, Text, panel
from mpgd_lab.content.findings import BASES
from mpgd_lab.content.selection import matching, most_common, of_schemes
from mpgd_lab.content.tables import IncompleteError
from mpgd_lab.experiment import PrintItem
from mpgd_lab.store import Record
from mpgd_lab.studies.driver import figure, initial_law
from mpgd_lab.studies.driver.runs import GAMMA
from mpgd_lab.studies.driver.training import PROBABILITIES, noise_of

HEADLINE: Final = "Sums of the driver tend to the stable law X(1/γ, β)"
SETTINGS: Final = {"product": "signs as printed", "fresh": "fresh signs"}
RULE: Final = (
    "Rule: after the most steps and at the largest β, the sums must be nearer to the claimed law "
    "than to the symmetric one by more than the Kolmogorov distance of a perfect sample; nearer "
    "to the symmetric one by that much contradicts the claim. The rule was written after these "
    "numbers had been seen."
)


def blocks(records: Sequence[Record]) -> list[content.Block]:
    """Return what the section shows."""
    records = of_schemes(records, SETTINGS)
    parts = {(record.run.hyperparameters["part"], record.run.scheme) for record in records}
    lacking = [
        f"{name} of {SETTINGS[signs]}"
        for name, signs in product(("sums", "orbit"), SETTINGS)
        if (name, signs) not in parts
    ]
    if lacking or not matching(records, part="tail"):
        raise IncompleteError(f"no {' and no '.join(lacking or ['tail'])}")
    sums = most_common(matching(records, part="sums"), "count", "gamma")
    sums.sort(key=lambda r: (_steps(r), r.run.hyperparameters["beta"], r.run.scheme))
    orbits = {r.run.scheme: r for r in most_common(matching(records, part="orbit"), "steps")}
    tail = most_common(matching(records, part="tail"), "orbits", "steps")[0]
    return [
        Text(
            "Values of the chaotic driver, summed and scaled, should follow a skewed heavy-tailed "
            "law. That depends on how the sign is renewed after a visit to the right branch: a "
            "fresh sign each time, or, as the paper prints it, the product of all signs so far."
        ),
        Findings(RULE, tuple(findings(sums))),
        Plate("noise", _caption(tail), tuple(_panels(sums, orbits, tail))),
        tables.table(
            f"Sums of k values, γ = {GAMMA}: Kolmogorov distances, and quantiles (the limit's in "
            "brackets)",
            ["signs", "β", "k", "to the claimed law", "to the symmetric law", "5 %", "95 %"],
            map(sums_row, sums),
        ),
        tail_table(tail),
        *_starts(records),
    ]


def _starts(records: Sequence[Record]) -> list[content.Block]:
    """Return what the start does, if it was simulated."""
    mine = most_common(matching(records, part="start"), "count", "steps")
    if len(mine) < 2:
        return []
    text = (
        "The paper remarks that sums converge faster from the invariant law than from the uniform "
        "one. Both tend to the same limit; from some ten steps on the invariant start is nearer, "
        "and points from the uniform start are still off their law after 300 steps."
    )
    drawn = panel("Distances for both starts fall with k.", initial_law.draw_starts, mine)
    return [Text(text), Plate("starts", "Both starts.", (drawn,)), start_table(mine)]


def start_table(records: Sequence[Record]) -> content.Table:
    """Return the distances for both starts."""
    caption = "Kolmogorov distance of sums to the limit / of points to the invariant law, after k"
    k = [f"k = {each:,}" for each in records[0].curves["k"]]
    return tables.table(caption, ["start", *k], map(initial_law.row, records))


def findings(sums: Sequence[Record]) -> list[Finding]:
    """Return the verdict on each sign rule, from its longest and most skewed sums."""
    verdicts = []
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
        verdicts.append(Finding(HEADLINE, setting, claim, word, reason, BASES[signs]))
    return verdicts


def _panels(sums: Sequence[Record], orbits: dict[str, Record], tail: Record) -> Iterator[Panel]:
    noise = noise_of(sums[0].run)
    alt = "An orbit of the Thaler map: long slow climbs from 0, then bursts above y*."
    yield panel(alt, figure.draw_orbit, orbits["fresh"].curves["y"], noise)
    alt = "Lengths of laminar phases: measured points lie on the exact power-law tail."
    yield panel(alt, figure.draw_tail, tail.curves, noise)
    for signs, record in orbits.items():
        alt = f"Values of the driver with {figure.ROWS[signs]}: plateaus and spikes."
        yield panel(alt, figure.draw_values, record.curves["v"], noise, signs)
    for record in [*sums[:2], *sums[-2:]]:  # the paper's, and the ones that tell most
        shown = figure.Sums(noise_of(record.run), _steps(record), record.curves)
        yield panel(_describe(record), figure.draw_sums, shown)


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
        "claimed and the symmetric limit; spikes at the ends, where there are any, are sums over "
        "one laminar phase alone."
    )


def _steps(record: Record) -> int:
    return int(record.run.hyperparameters["steps"])


def printout(records: Sequence[Record]) -> Iterator[PrintItem]:
    """Yield the tables of sums and of laminar phases."""
    sums, (tail,) = matching(records, part="sums"), matching(records, part="tail")
    yield (
        f"Sums of k values, gamma {GAMMA}: distances, and quantiles (the limit's in brackets)",
        ["signs", "beta", "k", "KS limit", "KS symm.", "5 %", "95 %"],
        [sums_row(record) for record in sums],
    )
    yield (
        "KS: distance to the limit X(1/gamma, beta) and to the symmetric law X(1/gamma, 0);\n"
        f"a perfect sample of this size has {sums[0].metrics['ks_of_exact_draws']:.4f} on average"
    )
    yield tables.terminal_table(tail_table(tail))
    if begun := matching(records, part="start"):
        yield tables.terminal_table(start_table(begun))


def sums_row(record: Record) -> list[str]:
    """Return a row of the table of sums: distances, and quantiles with the limit's."""
    h, m, c = record.run.hyperparameters, record.metrics, record.curves
    ends = [PROBABILITIES.index(0.05), PROBABILITIES.index(0.95)]
    quantiles = [f"{c['quantile'][i]:.2f} ({c['limit_quantile'][i]:.2f})" for i in ends]
    distances = [f"{m['ks_limit']:.4f}", f"{m['ks_symmetric']:.4f}"]
    return [record.run.scheme, f"{h['beta']}", f"{h['steps']:,}", *distances, *quantiles]


def tail_table(record: Record) -> content.Table:
    """Return the table of laminar phases."""
    rows = []
    columns = (record.curves[name] for name in ("n", "longer", "measured", "exact"))
    for n, longer, measured, exact in zip(*columns, strict=True):
        if longer >= 10 and np.log10(n).is_integer():
            ratio, error = f"{measured / exact:.4f}", f"{1 / sqrt(longer):.4f}"
            rows.append([f"{n:,}", f"{measured:.3e}", f"{exact:.3e}", ratio, error])
    caption = f"Laminar phases, {record.metrics['visits']:,} of them: P(length > n)"
    return tables.table(caption, ["n", "measured", "exact", "ratio", "standard error"], rows)
