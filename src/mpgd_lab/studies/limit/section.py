"""Theorem 4.1: laws of MPGD with m steps a unit of time beside the equation they tend to."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from mpgd_lab.content.blocks import Block, Finding, Findings, Panel, Plate, Text, panel
from mpgd_lab.content.findings import BASES
from mpgd_lab.content.selection import matching, most_common, of_schemes
from mpgd_lab.content.tables import IncompleteError, table
from mpgd_lab.experiment import PrintItem
from mpgd_lab.store import Record
from mpgd_lab.studies.driver.runs import FIRST_SIGN
from mpgd_lab.studies.limit import extensions_section, figure
from mpgd_lab.studies.limit.runs import FIRST, GAMMA, LOSSES, SIZES, TIMES

HEADLINE: Final = "Theorem 4.1 for the paper's driver: small steps tend to the Marcus equation"
RULE: Final = (
    "Rule: at the largest m, a case is supported if its Kolmogorov distance to the equation is "
    "at most the driver's own distance to its stable law plus what sampling alone exceeds in 5 % "
    "of all cases; contradicted if another equation is nearer by more than that noise of sampling; "
    "else undecided. The rule was written after these numbers had been seen."
)
SIZE: Final = ("paths", "reference", "steps", "resamples", "joint")


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows."""
    records = of_schemes(records, FIRST_SIGN)
    if lacking := [name for name in FIRST if not matching(records, part=name)]:
        raise IncompleteError(f"no {' and no '.join(lacking)}")
    law = most_common(matching(records, part="law"), *SIZE)
    drivers = most_common(matching(records, part="driver"), "reference")
    rotations = most_common(matching(records, part="rotation"), *SIZE)
    for each in (law, drivers, rotations):
        each.sort(key=figure.steps)
    jump = matching(records, part="jump")[0]
    steps = sorted({figure.steps(record) for record in law})
    ordered = [*_ordered(drivers), *_ordered(law), *rotations]
    return [
        Text(
            "As the step shrinks (m steps a unit of time) the law of MPGD should approach that of "
            "a Marcus equation driven by stable noise. Below, Kolmogorov distances at time 1 for "
            "three losses, additive and multiplicative noise, and the rotation of the appendix, "
            "where Marcus and Ito equations differ. The theorem is conditional: if sums of the "
            "driver tend to the stable law, then small steps tend to the equation. What is tested "
            "is the paper's driver. With the printed signs it does not meet the hypothesis for the "
            "skewness claimed; the theorem itself stands."
        ),
        Findings(RULE, tuple(findings(law, drivers))),
        Plate(
            "limit",
            "Distribution functions at time 1, and Kolmogorov distances against m with "
            "bootstrap intervals.",
            tuple(_panels(law, drivers)),
            legend=True,
        ),
        Plate(
            "rotation",
            "One large jump of a rotation made in many small steps, and the rotation "
            "driven by chaos: the Marcus equation is the limit, the Ito equation is not.",
            tuple(_rotation(jump, rotations)),
        ),
        table(
            f"Distances to the equation at t = {TIMES[-1]:g}, by steps a unit of time",
            ["case", "β", "signs", *(f"m = {m:,}" for m in steps), "sampling alone"],
            rows(ordered, steps),
        ),
        Text(
            "In the table, `product*` is the distance to the equation with skewness β, as claimed, "
            "and `product` that to the symmetric one; `driver` is the driver's own distance to the "
            "stable law after m steps; for `rotation` they are Wasserstein distances."
        ),
        *extensions_section.blocks(records),
    ]


def findings(law: Sequence[Record], drivers: Sequence[Record]) -> list[Finding]:
    """Return the verdict on each loss and noise, for both sign rules."""
    verdicts = []
    for record in _ordered(law):
        h = record.run.hyperparameters
        if h["m"] != figure.steps(law[-1]) or (record.run.scheme == "product" and not h["beta"]):
            continue
        alike = matching(drivers, beta=h["beta"], m=h["m"])
        own = next((r.metrics["ks"] for r in alike if r.run.scheme == record.run.scheme), None)
        if own is None:
            raise IncompleteError(f"no driver with {record.run.scheme} signs at m = {h['m']}")
        noise = float(record.curves["ks"][-1][-1])
        distance = record.metrics.get("claimed_ks", record.metrics["ks"])
        near = distance <= own + noise
        nearer = distance - record.metrics["ks"] > noise
        word = "supported" if near else "contradicted" if nearer else "undecided"
        reason = f"distance {distance:.3f}, driver's own {own:.3f}, sampling {noise:.3f}"
        if "claimed_ks" in record.metrics:
            reason += f"; to the symmetric equation {record.metrics['ks']:.3f}"
        setting = "fresh signs" if record.run.scheme == "fresh" else "signs as printed"
        claim = f"{h['loss']}, {h['kind']} noise, β = {h['beta']:g}, m = {h['m']:,}"
        verdicts.append(Finding(HEADLINE, setting, claim, word, reason, BASES[record.run.scheme]))
    return sorted(verdicts, key=lambda finding: finding.setting, reverse=True)


def _panels(law: Sequence[Record], drivers: Sequence[Record]) -> Iterator[Panel]:
    for (loss, _), (title, mine) in _cases(law).items():
        if loss != "double well":
            yield _laws(mine, title)
        alt = (
            f"{title}: Kolmogorov distances fall with m for fresh signs, and stay away from the "
            "claimed limit for the signs as printed."
        )
        yield panel(alt, figure.draw_distances, mine, drivers, title)


def _cases(law: Sequence[Record]) -> dict[tuple[str, str], tuple[str, list[Record]]]:
    """Return the title and the records of every loss and noise."""
    return {
        (loss, kind): (f"{about.title}, {kind} noise", matching(law, loss=loss, kind=kind))
        for loss, about in LOSSES.items()
        for kind in SIZES
    }


def _laws(records: Sequence[Record], title: str) -> Panel:
    alt = f"{title}: distribution functions for three m, and the limit's."
    return panel(alt, figure.draw_laws, records, title)


def _rotation(jump: Record, records: Sequence[Record]) -> list[Panel]:
    alt = "The distance to Marcus falls with m, that to Ito does not."
    return [
        panel("A jump in ever more steps ends on the circle.", figure.draw_circle, jump),
        panel(alt, figure.draw_rotation_distance, records),
        panel("The norm tends to 1, as Marcus says, not to Ito's.", figure.draw_radius, records),
    ]


def _ordered(records: Sequence[Record]) -> list[Record]:
    """Return the records by loss, noise, skewness and signs."""
    losses, kinds = list(LOSSES), list(SIZES)

    def place(record: Record) -> tuple[Any, ...]:
        h = record.run.hyperparameters
        known = [
            names.index(h[key]) for names, key in ((losses, "loss"), (kinds, "kind")) if key in h
        ]
        return (*known, h["beta"], record.run.scheme)

    return sorted(records, key=place)


def printout(records: Sequence[Record]) -> Iterator[PrintItem]:
    """Yield the table of all distances, and what its words mean."""
    yield from extensions_section.printout(records)
    records = [record for name in FIRST for record in matching(records, part=name)]
    law = matching(records, part="law")
    steps = list(dict.fromkeys(figure.steps(record) for record in law))
    yield (
        f"KS distance to the equation at t = {TIMES[-1]:g}, gamma {GAMMA}, m steps a unit of time",
        ["case", "beta", "signs", *(f"{m:,}" for m in steps), "sampling"],
        list(rows(records, steps)),
    )
    yield (
        "driver: its own KS distance to the stable law after m steps; while that is large, m is "
        "too small for the equation to mean anything.\nproduct signs have a symmetric limit; "
        "product*: to the equation with skewness beta, as claimed.\n"
        "sampling: what samples of one law exceed in 5 % of all cases. "
        "rotation: Wasserstein distances to either equation."
    )


def rows(records: Sequence[Record], steps: Sequence[int]) -> Iterator[list[str]]:
    """Yield case, beta, signs, a distance for each m in ``steps``, and that of sampling alone."""
    groups: dict[tuple[str, ...], dict[int, str]] = {}
    for record in records:
        h, signs = record.run.hyperparameters, record.run.scheme
        case = ", ".join(filter(None, [h.get("loss", h["part"]), h.get("kind")]))
        named = {"ks": signs, "claimed_ks": f"{signs}*", "marcus": "to Marcus", "ito": "to Ito"}
        for key in [name for name in named if name in record.metrics]:
            row = groups.setdefault((case, str(h.get("beta", "")), named[key]), {})
            row[h["m"]] = f"{record.metrics[key]:.3f}"
            row[-1] = f"{_noise(record, key):.3f}"
    for group, row in groups.items():
        yield [*group, *(row.get(m, "") for m in [*steps, -1])]


def _noise(record: Record, key: str) -> float:
    """Return the KS distance that sampling alone exceeds in 5 % of all cases."""
    if record.run.hyperparameters["part"] == "driver":
        return 1.358 / math.sqrt(record.run.hyperparameters["reference"])
    curve = record.curves[key]
    return float(curve[-1] if key in ("marcus", "ito") else curve[-1][-1])


def figures(records: Sequence[Record]) -> Iterator[Block]:
    """Yield a figure with all distances for every loss and noise, and that of the rotation."""
    law, drivers = (
        sorted(matching(records, part=name), key=figure.steps) for name in ("law", "driver")
    )
    for (loss, kind), (title, mine) in _cases(law).items():
        panels = [
            panel(f"{title}: {name}", figure.draw_distances, mine, drivers, title, name)
            for name in figure.DISTANCES
        ]
        name = f"limit-{loss.replace(' ', '-')}-{kind}"
        yield Plate(name, title, (_laws(mine, title), *panels), legend=True)
    (jump,), rotations = matching(records, part="jump"), matching(records, part="rotation")
    circle, *others = _rotation(jump, rotations)
    gap = panel("How far the end of the jump is from either integral.", figure.draw_gap, jump)
    yield Plate("limit-rotation", "The rotation", (circle, gap, *others))
    yield from extensions_section.figures(records)
