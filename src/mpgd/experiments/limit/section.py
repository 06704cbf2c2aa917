"""Theorem 4.1: laws of MPGD with m steps a unit of time beside the equation they tend to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mpgd.experiments.comparison import IncompleteError
from mpgd.experiments.content.blocks import Block, Finding, Findings, Panel, Plate, Text
from mpgd.experiments.content.choose import commonest, known, part
from mpgd.experiments.content.findings import BASES
from mpgd.experiments.content.tables import table
from mpgd.experiments.driver.runs import FIRST_SIGN
from mpgd.experiments.experiment import Part, Said
from mpgd.experiments.limit.figure import (
    LINES,
    draw_case,
    draw_circle,
    draw_distance,
    draw_driver,
    draw_laws,
    draw_radius,
    draw_rotation,
    draw_rotation_distance,
    finish_distance,
)
from mpgd.experiments.limit.runs import GAMMA, LOSSES, NEEDS, SIZES, TIMES
from mpgd.experiments.store import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADLINE: Final = "Theorem 4.1: small steps tend to the Marcus equation"
RULE: Final = (
    "Rule: at the largest m, a case is supported if its Kolmogorov distance to the equation is "
    "at most the driver's own distance to its stable law plus what sampling alone exceeds in 5 % "
    "of all cases; contradicted if another equation is nearer by more than that noise of sampling; "
    "else undecided. The rule was written after these numbers had been seen."
)
SIZE: Final = ("paths", "reference", "steps", "resamples", "joint")


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows."""
    records = known(records, FIRST_SIGN)
    if lacking := [name for name in NEEDS if not part(records, part=name)]:
        raise IncompleteError(f"no {' and no '.join(lacking)}")
    law = commonest(part(records, part="law"), *SIZE)
    drivers = commonest(part(records, part="driver"), "reference")
    rotations = commonest(part(records, part="rotation"), *SIZE)
    for each in (law, drivers, rotations):
        each.sort(key=_m)
    jump = part(records, part="jump")[0]
    steps = sorted({_m(record) for record in law})
    ordered = [*_ordered(drivers), *_ordered(law), *rotations]
    return [
        Text(
            "As the step shrinks (m steps a unit of time) the law of MPGD should approach that of "
            "a Marcus equation driven by stable noise. Below, Kolmogorov distances at time 1 for "
            "three losses, additive and multiplicative noise, and the rotation of the appendix, "
            "where Marcus and Ito equations differ."
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
    ]


def findings(law: Sequence[Record], drivers: Sequence[Record]) -> list[Finding]:
    """Return the verdict on each loss and noise, for both sign rules."""
    found = []
    for record in _ordered(law):
        h = record.run.hyperparameters
        if h["m"] != _m(law[-1]) or (record.run.scheme == "product" and not h["beta"]):
            continue
        alike = part(drivers, beta=h["beta"], m=h["m"])
        own = next((r.metrics["ks"] for r in alike if _signs(r) == _signs(record)), None)
        if own is None:
            raise IncompleteError(f"no driver with {_signs(record)} signs at m = {h['m']}")
        noise = float(record.curves["ks"][-1][-1])
        distance = record.metrics.get("claimed_ks", record.metrics["ks"])
        near = distance <= own + noise
        nearer = distance - record.metrics["ks"] > noise
        word = "supported" if near else "contradicted" if nearer else "undecided"
        reason = f"distance {distance:.3f}, driver's own {own:.3f}, sampling {noise:.3f}"
        if "claimed_ks" in record.metrics:
            reason += f"; to the symmetric equation {record.metrics['ks']:.3f}"
        setting = "fresh signs" if _signs(record) == "fresh" else "signs as printed"
        claim = f"{h['loss']}, {h['kind']} noise, β = {h['beta']:g}, m = {h['m']:,}"
        found.append(Finding(HEADLINE, setting, claim, word, reason, BASES[_signs(record)]))
    return sorted(found, key=lambda finding: finding.setting, reverse=True)


def _panels(law: Sequence[Record], drivers: Sequence[Record]) -> Iterator[Panel]:
    for loss, about in LOSSES.items():
        for kind in SIZES:
            mine = part(law, loss=loss, kind=kind)
            skewed = [r for r in mine if r.run.hyperparameters["beta"] and _signs(r) == "fresh"]
            title = f"{about.title}, {kind} noise"
            if loss != "double well":
                draw = partial(draw_laws, records=skewed, title=title)
                yield Panel(draw, f"{title}: distribution functions for three m, and the limit's.")
            draw = partial(_draw_distances, records=mine, drivers=drivers, title=title)
            yield Panel(
                draw,
                f"{title}: Kolmogorov distances fall with m for fresh signs, and "
                "stay away from the claimed limit for the signs as printed.",
            )


def _draw_distances(
    ax: Any, records: Sequence[Record], drivers: Sequence[Record], title: str
) -> None:
    for line, shift in zip(LINES, (0.92, 0.97, 1.03, 1.08), strict=True):
        draw_distance(ax, records, "ks", *line, shift)
    driver = [r for r in part(drivers, beta=0.5) if _signs(r) == "fresh"]
    draw_driver(ax, driver)
    finish_distance(ax, "ks", title, records)
    ax.set_ylabel("Kolmogorov distance")


def _rotation(jump: Record, records: Sequence[Record]) -> list[Panel]:
    return [
        Panel(partial(draw_circle, jump=jump), "A jump in ever more steps ends on the circle."),
        Panel(
            partial(draw_rotation_distance, records=records),
            "The distance to Marcus falls with m, that to Ito does not.",
        ),
        Panel(
            partial(draw_radius, records=records),
            "The norm tends to 1, as Marcus says, not to Ito's.",
        ),
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


def _signs(record: Record) -> str:
    return record.run.scheme


def _m(record: Record) -> int:
    return int(record.run.hyperparameters["m"])


def told(records: Sequence[Record]) -> Iterator[Said]:
    """Yield the table of all distances, and what its words mean."""
    law = part(records, part="law")
    steps = list(dict.fromkeys(_m(record) for record in law))
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


def _is(record: Record, part: str) -> bool:
    return bool(record.run.hyperparameters["part"] == part)


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
    if _is(record, "driver"):
        return 1.358 / math.sqrt(record.run.hyperparameters["reference"])
    curve = record.curves[key]
    return float(curve[-1] if key in ("marcus", "ito") else curve[-1][-1])


def figures(records: Sequence[Record]) -> Iterator[tuple[str, Figure]]:
    """Yield a figure for every loss and noise, and that of the rotation."""
    law, drivers = part(records, part="law"), part(records, part="driver")
    for loss, about in LOSSES.items():
        for kind in SIZES:
            mine = part(law, loss=loss, kind=kind)
            name = f"limit-{loss.replace(' ', '-')}-{kind}.png"
            yield name, draw_case(f"{about.title}, {kind} noise", mine, drivers)
    (jump,) = part(records, part="jump")
    yield "limit-rotation.png", draw_rotation(jump, part(records, part="rotation"))


PART: Final = Part("Convergence to the limit equation", blocks, place=2)
