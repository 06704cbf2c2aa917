"""What is said of exits: tables with intervals, figures, and which of two wells is preferred."""

from collections.abc import Iterator, Sequence
from typing import Final

from mpgd_lab.content.blocks import Block, Finding, Findings, Panel, Plate, Text, panel
from mpgd_lab.content.selection import matching, most_common, of_schemes
from mpgd_lab.content.tables import IncompleteError, terminal_table
from mpgd_lab.experiment import PrintItem
from mpgd_lab.store import Record
from mpgd_lab.studies.escape import figure
from mpgd_lab.studies.escape.figure import setting
from mpgd_lab.studies.escape.rate_tables import (
    box_table,
    by_step,
    noise_table,
    other_table,
    paper_table,
    plain,
    share_table,
    step_table,
)
from mpgd_lab.studies.escape.runs import KINDS, NEEDS, SIGMA

HEADLINE: Final = "MPGD prefers wide minima"
RULE: Final = (
    "Rule: supported if the 95 % interval of the share of time in the wide well lies above one "
    "half, contradicted if it lies below, else undecided. Half of the walkers start in each well."
)


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows."""
    records = of_schemes(records, KINDS)
    if lacking := [name for name in NEEDS if not matching(records, part=name)]:
        raise IncompleteError(f"no {' and no '.join(lacking)}")
    rates = most_common(matching(records, part="rate"), "walkers")
    shares = most_common(matching(records, part="share"), "walkers", "time")
    boxes = most_common(matching(records, part="dimension"), "time")
    (chart, *_) = matching(records, part="map")
    return [
        Text(
            "While a laminar phase lasts, MPGD is plain descent on the loss tilted by a force F = "
            "σ c₀ η^(γ−1). A phase leaves a well only if F exceeds its steepest slope; then it "
            "must last n* steps. The limit of small steps knows no such threshold."
        ),
        pictures(),
        Findings(RULE, tuple(findings(shares))),
        Plate(
            "two-wells",
            "Two wells of height 1, slopes 3.14 and 1.05: the share of time in the wide one, "
            "measured with 95 % intervals and by theory, and the map of step size and σ for a well "
            "of slope and half width 1 at γ = 0.6, with the paper's four settings. In the map the "
            "blue line is F = 1, dashed and solid lines are where one phase has 50 % and 90 % of "
            "the Lévy rate, the orange line is where one burst is as wide as the well.",
            tuple(_two_wells(shares, chart)),
            legend=True,
        ),
        Plate(
            "escape",
            "Exits per unit of time, with 95 % intervals; a triangle is the upper end where no "
            "exit was seen. Solid lines carry position and bursts from phase to phase, dashed "
            "ones are one phase from the minimum, dotted ones the Lévy limit. For Gaussian noise "
            "the line is that of the diffusion (Kramers), for stable noise Lévy's.",
            tuple(_panels(rates, boxes)),
        ),
        step_table(rates),
        other_table(rates),
        noise_table(rates),
        share_table(shares),
        box_table(boxes),
        paper_table(),
    ]


def pictures() -> Plate:
    """Return what a phase does to two wells; it needs no records."""
    drawn = (
        (-1.0, 2.0, "F = 2, to the left: the wide well is gone"),
        (1.0, 2.0, "F = 2, to the right: the narrow one holds"),
        (1.0, 4.0, "F = 4, to the right: both are gone"),
    )
    alt = "The tilted loss of two wells and the way of descent from both minima: "
    panels = [panel(alt + title, figure.draw_tilted, *given, title) for *given, title in drawn]
    return Plate(
        "phases",
        "What a phase does: the loss, the tilted loss that descent sees while a phase lasts, and "
        "the way from either minimum: orange from the narrow one, green from the wide one. A ring "
        "marks the start, a dot the end.",
        tuple(panels),
    )


def _two_wells(shares: Sequence[Record], chart: Record) -> Iterator[Panel]:
    alt = "The share of time in the wide well falls below one half, and rises beyond F = 3.14."
    yield panel(alt, figure.draw_shares, shares, "Time in the wide well")
    alt = "All settings of the paper lie where no phase leaves a well of slope 1."
    yield panel(alt, figure.draw_map, chart, "Regimes, slope and half width 1")


def _panels(rates: Sequence[Record], boxes: Sequence[Record]) -> Iterator[Panel]:
    alt = "Exit rates fall to nothing where the step is too large, and reach Lévy's for small ones."
    yield panel(alt, figure.draw_steps, by_step(rates), "Quadratic well")
    cosine = matching(rates, well="cosine")
    yield panel(alt, figure.draw_steps, cosine, "Cosine well, slope 1.57")
    scan = [r for r in plain(rates) if setting(r, "eta") == 0.005]
    alt = "The exit rate rises from nothing where the force passes the slope."
    yield panel(alt, figure.draw_threshold, scan, "Threshold, η = 0.005")
    kinds = [r for r in plain(rates, kind=None) if setting(r, "sigma") in (0.3, 0.6, 1.0)]
    for eta in (0.02, 0.005):
        own = [r for r in kinds if setting(r, "eta") == eta]
        alt = f"Exit rates of three noises against sigma at step size {eta:g}."
        yield panel(alt, figure.draw_kinds, own, f"Three noises, η = {eta:g}")
    capped = [r for r in rates if setting(r, "longest")]
    free = [r for r in scan if setting(r, "sigma") == SIGMA]
    alt = "The exit rate with phases capped at a longest one."
    yield panel(alt, figure.draw_longest, [*capped, *free], "Longest phase, η = 0.005, F = 1.45")
    alt = "Exit rates in boxes of two and ten dimensions, aligned with the coordinates and rotated."
    yield panel(alt, figure.draw_dimensions, boxes, "Boxes, a driver for each coordinate")


def findings(shares: Sequence[Record]) -> Iterator[Finding]:
    """Yield for each force whether more time is spent in the wide well."""
    for r in sorted(matching(shares, kind="mpgd"), key=lambda r: r.metrics["force"]):
        low, high = r.metrics["low"], r.metrics["high"]
        word = "supported" if low > 0.5 else "contradicted" if high < 0.5 else "undecided"
        reason = f"share {r.metrics['share']:.3f} [{low:.3f}, {high:.3f}]"
        reason += f", theory {r.metrics['theory']:.3f}"
        claim = f"two wells, F = {r.metrics['force']:.2g}, η = {setting(r, 'eta'):.2g}"
        yield Finding(HEADLINE, "fresh signs", claim, word, reason)


def printout(records: Sequence[Record]) -> Iterator[PrintItem]:
    """Yield all tables, and what the two wells show."""
    rates, shares = matching(records, part="rate"), matching(records, part="share")
    tables = (step_table(rates), other_table(rates), noise_table(rates), share_table(shares))
    yield from map(terminal_table, tables)
    yield terminal_table(box_table(matching(records, part="dimension")))
    yield terminal_table(paper_table())
    for finding in findings(shares):
        yield f"  {finding.claim}: {finding.word} ({finding.reason})"
