"""The valley: where each scheme goes, the trace of the Hessian on the way and at the end."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from mpgd_lab.content.blocks import Block, Landscape, Panel, Plate, Route, Text, panel
from mpgd_lab.content.curves import bands
from mpgd_lab.content.findings import (
    PROTOCOLS,
    finished,
    settings,
    unfinished,
    verdict_blocks,
    without_text,
)
from mpgd_lab.content.selection import matching, most_common, records_of
from mpgd_lab.content.style import BLUE, INDIGO, SKY, color
from mpgd_lab.content.tables import scheme_table, table
from mpgd_lab.schemes import Scheme
from mpgd_lab.store import Record
from mpgd_lab.studies.valley.runs import (
    COMPARISON,
    FIXED,
    LANDSCAPE,
    TRACE,
    landscape,
    tasks,
)
from mpgd_lab.studies.valley.training import RELEASED_START
from mpgd_lab.verdicts import by_scheme, schemes_of

HEADLINES: Final = {"trace": "Valley: MPGD ends at flatter minima"}
SHADES: Final = {0.6: SKY, 0.7: BLUE, 0.8: INDIGO}
STILL: Final = 0.1  # of the longest path: too short to be seen beside it
STAY: Final = "do not move and lie"
SHOWN: Final = 0.7  # gamma of the paths that are shown unasked
NAMES: Final = dict(gd="gradient descent", mpgd="MPGD", gaussian="Gaussian", langevin="Langevin")


UNSTABLE: Final = (
    f"The authors' scripts start at one number, u = {RELEASED_START:g}. There the largest "
    f"eigenvalue of the Hessian is u² = {RELEASED_START**2:.0f}, above 2/η = "
    f"{2 / FIXED['eta']:.0f}: the minimum is unstable, and descent stays only because v is exactly "
    "0. Any noise leaves it. That start alone, `scalar_u` in the audit, gives most of the gain "
    "that the scripts show over descent."
)


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows."""
    groups = finished(most_common(matching(records, part=None), "steps"), tasks)
    paths = most_common(matching(records, part=LANDSCAPE), "steps")
    shown: list[Block] = [
        *unfinished("valley", groups, tasks),
        *(Text(UNSTABLE) for _ in range("released" in groups)),
        Text(
            "The loss v² |u|² / 2 has all of v = 0 as minima; the flattest is at u = 0. The paper "
            "says that descent stays where it starts, Gaussian noise does not converge, and MPGD "
            "moves to flatter minima, which the trace of the Hessian measures."
        ),
        *without_text("valley", records),
        *verdict_blocks(groups, HEADLINES, COMPARISON),
    ]
    shown.append(
        Plate(
            "valley",
            "The trace along the way: medians over seeds, and where the middle half "
            "of them is. One panel for each γ with the Gaussian of equal variance; the last as "
            "the scripts ran.",
            tuple(_panels(groups)),
            legend=True,
        )
    )
    for protocol in PROTOCOLS:
        if own := [record for record in paths if record.run.protocol == protocol]:
            steps = own[0].run.hyperparameters["steps"]
            shown.append(_landscape(protocol, records_of(own, landscape(protocol, steps))))
    shown += [
        scheme_table(
            "Final trace of the Hessian: mean (standard deviation), and paired "
            "differences with 95 % intervals",
            settings(groups, dict.fromkeys(PROTOCOLS, TRACE)),
            "lower",
        ),
        _medians(groups),
    ]
    return shown


def _landscape(protocol: str, records: Sequence[Record]) -> Landscape:
    routes = [_route(record) for record in sorted(records, key=lambda record: record.run.scheme)]
    steps = records[0].run.hyperparameters["steps"]
    caption = (
        f"The valley in three dimensions, {PROTOCOLS[protocol]}: one path of {steps:,} steps for "
        f"each scheme. A ring marks the start, a dot the end.{_still(routes)}"
    )
    return Landscape(f"valley-{protocol}", caption, tuple(routes))


def _still(routes: Sequence[Route]) -> str:
    """Return in words which of the paths are too short to be seen beside the longest."""
    reach = {route.label: _reach(route) for route in routes if route.shown}
    said, most = "", max(reach.values(), default=0.0)
    if stay := [name for name, far in reach.items() if far == 0.0]:
        names, verbs = " and ".join(stay), "does not move and lies" if len(stay) == 1 else STAY
        said += f" {names[0].upper()}{names[1:]} {verbs} under the ring."
    if short := [
        f"{name} (within {far:.2g})" for name, far in reach.items() if 0 < far < STILL * most
    ]:
        said += f" Paths that stay near the start are hardly seen: {' and '.join(short)}."
    return said


def _reach(route: Route) -> float:
    """Return how far a path comes from its start."""
    points = route.path
    return float(np.hypot(*(points - points[:, :1])).max(initial=0.0))


def _route(record: Record) -> Route:
    scheme, (u, v) = Scheme.of(record.run), (tuple(record.curves[name]) for name in ("u", "v"))
    shown = scheme.kind != "langevin" and scheme.gamma in (None, SHOWN)
    return Route(_label(scheme), _shade(scheme), u, v, shown)


def _shade(scheme: Scheme) -> str:
    if scheme.kind == "mpgd" and scheme.gamma is not None:
        return SHADES.get(scheme.gamma, BLUE)
    return color(scheme)


def _label(scheme: Scheme) -> str:
    """Return how a scheme is named in a legend."""
    return NAMES[scheme.kind] + (f", γ = {scheme.gamma:g}" if scheme.gamma is not None else "")


def _panels(groups: Mapping[str, Sequence[Record]]) -> Iterator[Panel]:
    for protocol in ("text", "corrected"):
        ours, title = groups.get(protocol, ()), PROTOCOLS[protocol]
        schemes = schemes_of(ours)
        for gamma in sorted({s.gamma for s in schemes.values() if s.gamma is not None}):
            own = [r for r in ours if schemes[r.run.scheme].gamma in (None, gamma)]
            alt = f"Trace against steps {title}, γ = {gamma:g}."
            yield panel(alt, _draw, own, f"{title.capitalize()}, γ = {gamma:g}")
    if released := groups.get("released"):
        alt = "Trace against steps as the scripts ran."
        yield panel(alt, _draw, released, "As the scripts ran")


def _draw(ax: Any, records: Sequence[Record], title: str) -> None:
    own, named, looks = by_scheme(records), {}, {}
    for name, scheme in schemes_of(records).items():
        label = _label(scheme) if scheme.kind == "mpgd" else NAMES[scheme.kind]
        named[label] = own[name]
        looks[label] = {"color": _shade(scheme), "ls": "--" if scheme.kind == "gd" else "-"}
    bands(ax, named, "step", "trace", looks)
    ax.set(title=title, xlabel="step", ylabel="trace of the Hessian", ylim=(0, None))


def _medians(groups: Mapping[str, Sequence[Record]]) -> Block:
    order = schemes_of(record for own in groups.values() for record in own)
    columns = {
        protocol: by_scheme(groups[protocol]) for protocol in PROTOCOLS if groups.get(protocol)
    }
    rows = [
        [name, *(_quartiles(each.get(name, ())) for each in columns.values())]
        for name in order
        if any(name in each for each in columns.values())
    ]
    titles = ["scheme", *(PROTOCOLS[protocol] for protocol in columns)]
    return table("The same as median [quartiles], since a few paths go far", titles, rows)


def _quartiles(records: Sequence[Record]) -> str:
    values = np.array([record.metrics["trace"] for record in records], dtype=float)
    if not len(values):
        return ""
    low, middle, high = np.nanquantile(values, [0.25, 0.5, 0.75])
    return f"{middle:.1f} [{low:.1f}, {high:.1f}]"
