"""The valley: where each scheme goes, the trace of the Hessian on the way and at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from mpgd.experiments import valley
from mpgd.experiments.statistics import Columns, by_scheme
from mpgd.experiments.store import Record
from mpgd.report.content import Block, Findings, Landscape, Panel, Plate, Route, Text
from mpgd.report.curves import bands
from mpgd.report.drawing import BLUE, INDIGO, SKY, color, path
from mpgd.report.sections.common import (
    PROTOCOLS,
    RULE,
    findings,
    finished,
    scheme_names,
    settings,
    unfinished,
)
from mpgd.report.shelf import chosen, commonest, part
from mpgd.report.tables import scheme_table, table

TITLE: Final = "The valley"
HEADLINE: Final = "MPGD descends to flatter minima of the valley"
SHADES: Final = {0.6: SKY, 0.7: BLUE, 0.8: INDIGO}
TRACE: Final = Columns("trace", "final trace of the Hessian", 1, lambda name: "")
STILL: Final = 0.1  # of the longest path: too short to be seen beside it
SHOWN: Final = ("gd", "gaussian", "gaussian plain 0.7", "mpgd plain 0.7 beta 0.5")


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows."""
    held = finished(commonest(part(records, part=None), "steps"), valley.tasks)
    paths = commonest(part(records, part="landscape"), "steps")
    found: list[Block] = [
        *unfinished("valley", held, valley.tasks),
        Text(
            "The loss v² |u|² / 2 has all of v = 0 as minima; the flattest is at u = 0. The paper "
            "says that descent stays where it starts, Gaussian noise does not converge, and MPGD "
            "moves to flatter minima, which the trace of the Hessian measures."
        ),
        Findings(RULE, findings(held, HEADLINE, valley.verdicts, TRACE.digits)),
    ]
    for protocol in PROTOCOLS:
        if own := [record for record in paths if record.run.protocol == protocol]:
            steps = own[0].run.hyperparameters["steps"]
            found.append(_landscape(protocol, chosen(own, valley.landscape(protocol, steps))))
    found.append(
        Plate(
            "valley",
            "The trace along the way: medians over seeds, and where the middle half "
            "of them is. One panel for each γ with the Gaussian of equal variance; the last as "
            "the scripts ran.",
            tuple(_panels(held)),
            legend=True,
        )
    )
    order = scheme_names(record for own in held.values() for record in own)
    found += [
        scheme_table("Final trace of the Hessian: mean (standard deviation), and paired "
                     "differences with 95 % intervals", settings(held, TRACE), "lower", order),
        _medians(held, order),
    ]  # fmt: skip
    return found


def _landscape(protocol: str, records: Sequence[Record]) -> Landscape:
    routes = [
        Route(
            _label(record.run.scheme),
            _shade(record),
            tuple(record.curves["u"]),
            tuple(record.curves["v"]),
            shown=record.run.scheme in SHOWN,
        )
        for record in sorted(records, key=lambda record: record.run.scheme)
    ]
    steps = records[0].run.hyperparameters["steps"]
    caption = (
        f"The valley in three dimensions, {PROTOCOLS[protocol]}: one path of {steps:,} steps for "
        f"each scheme. A ring marks the start, a dot the end.{_still(routes)}"
    )
    return Landscape(f"valley-{protocol}", caption, tuple(routes))


def _still(routes: Sequence[Route]) -> str:
    """Return in words which of the paths are too short to be seen beside the longest."""
    reach = {route.label: _reach(route) for route in routes if route.shown}
    short = [f"{name} (within {far:.2g})" for name, far in reach.items()
             if far < STILL * max(reach.values())]  # fmt: skip
    if not short:
        return ""
    return f" Paths that stay near the start are hardly seen: {' and '.join(short)}."


def _reach(route: Route) -> float:
    """Return how far a path comes from its start."""
    points = path(route)
    return float(np.hypot(*(points - points[:, :1])).max(initial=0.0))


def _shade(record: Record) -> str:
    if record.run.scheme.startswith("mpgd"):
        return SHADES.get(record.run.hyperparameters["gamma"], BLUE)
    return color(record.run.scheme)


def _label(scheme: str) -> str:
    """Return how a scheme is named in a legend."""
    kind, *rest = scheme.split()
    names = {"gd": "gradient descent", "mpgd": "MPGD", "gaussian": "Gaussian"}
    gamma = f", γ = {rest[1]}" if len(rest) > 1 else ""
    return names.get(kind, kind.capitalize()) + gamma


def _panels(held: Mapping[str, Sequence[Record]]) -> list[Panel]:
    panels = []
    schemes = by_scheme(held.get("paper", ()))
    for gamma in valley.GAMMAS if schemes else ():
        names = ["gd", "langevin", f"gaussian plain {gamma:g}", f"mpgd plain {gamma:g} beta 0.5"]
        draw = partial(
            _draw, schemes=_pick(schemes, names), title=f"As the text says, γ = {gamma:g}"
        )
        panels.append(Panel(draw, f"Trace against steps as the text says, γ = {gamma:g}."))
    if released := by_scheme(held.get("released", ())):
        draw = partial(_draw, schemes=released, title="As the scripts ran")
        panels.append(Panel(draw, "Trace against steps as the scripts ran."))
    return panels


def _pick(schemes: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: schemes[name] for name in names if name in schemes}


def _draw(ax: Any, schemes: Mapping[str, Sequence[Record]], title: str) -> None:
    named = {_label(name if name.startswith("mpgd") else name.split()[0]): each
             for name, each in schemes.items()}  # fmt: skip
    looks = {label: {"color": _shade(each[0]), "ls": "--" if label.startswith("gr") else "-"}
             for label, each in named.items()}  # fmt: skip
    bands(ax, named, "step", "trace", looks)
    ax.set(title=title, xlabel="step", ylabel="trace of the Hessian", ylim=(0, None))


def _medians(held: Mapping[str, Sequence[Record]], order: Sequence[str]) -> Block:
    columns = {protocol: by_scheme(held[protocol]) for protocol in PROTOCOLS if held.get(protocol)}
    rows = [[name, *(_quartiles(each.get(name, ())) for each in columns.values())] for name in order
            if any(name in each for each in columns.values())]  # fmt: skip
    titles = ["scheme", *(PROTOCOLS[protocol] for protocol in columns)]
    return table("The same as median [quartiles], since a few paths go far", titles, rows)


def _quartiles(records: Sequence[Record]) -> str:
    values = np.array([record.metrics["trace"] for record in records], dtype=float)
    if not len(values):
        return ""
    low, middle, high = np.nanquantile(values, [0.25, 0.5, 0.75])
    return f"{middle:.1f} [{low:.1f}, {high:.1f}]"
