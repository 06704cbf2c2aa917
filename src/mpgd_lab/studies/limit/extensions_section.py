"""What the page says of Theorem 4.1 beyond one loss, one gamma and one time."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpgd_lab.content.blocks import Block, Panel, Plate, Text, panel
from mpgd_lab.content.selection import matching, most_common
from mpgd_lab.content.style import BLUE, GREEN, ORANGE, RED
from mpgd_lab.content.tables import table
from mpgd_lab.experiment import PrintItem
from mpgd_lab.store import Record
from mpgd_lab.studies.limit.extensions import BETA, MU, PAIR, SIGMA
from mpgd_lab.studies.limit.runs import LOSSES

Array = NDArray[np.float64]
Table = tuple[str, list[str], list[list[str]]]

RESAMPLES: Final = 500
FROM: Final = 300  # chosen after m = 100 had been seen: a path of 100 steps is still coarse
ALPHA_TEXT: Final = (
    "Theorem C.1 is about α_p, a distance in p-variation with jumps filled in. Every time change "
    "gives an upper bound; up to m = 300 there is a lower bound too. The upper bounds fall with m, "
    "the slower the nearer p is to α = 5/3: about m bursts move the driver by m to the power -γ "
    "each, and the p-variation of these moves falls like m to the power 1/p - γ: -0.07 for p = 1.9 "
    "and -0.27 for p = 3. At these m the drift and the longest phase, which fall faster, count too."
)
MARKS: Final = dict(zip(LOSSES, ("o", "s", "^"), strict=True))


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return tables and a figure of the parts that are there."""
    shown: list[Block] = [table(*each) for each in _tables(records)]
    if panels := _panels(matching(records, part="paths")):
        text = (
            "Paths, not only laws: MPGD beside the equation on the same orbit, each phase made one "
            "jump. The SM1 distance falls with m, the J1 distance does not. The rate is the slope "
            f"of log distance in log m from m = {FROM} on, with a 95 % interval over paths; that "
            "start was chosen after the distances at m = 100 had been seen, so the rate over all m "
            "stands beside it. The energy distance of the laws under SM1 shows no trend: its "
            "sample of paths is too small to see one."
        )
        shown += [Text(text), Plate("paths", "Convergence of paths.", tuple(panels))]
    if matching(records, part="alpha"):
        shown.append(Text(ALPHA_TEXT))
    return shown


def printout(records: Sequence[Record]) -> Iterator[PrintItem]:
    """Yield the same tables for the terminal."""
    yield from _tables(records)


def figures(records: Sequence[Record]) -> Iterator[Block]:
    """Yield the figure of paths."""
    if panels := _panels(matching(records, part="paths")):
        yield Plate("limit-paths", "Convergence of paths", tuple(panels))


def _tables(records: Sequence[Record]) -> Iterator[Table]:
    size = ("paths", "reference", "steps")
    pair = _by_m(most_common(matching(records, part="two drivers"), *size))
    if pair:
        title = (
            f"KS distance with two drivers, gammas {PAIR[0]} and {PAIR[1]}, mu {MU}, sigma {SIGMA}"
        )
        yield title, ["m", "distance", "sampling"], [_row(r, "ks", "noise") for r in pair]
    gammas = most_common(matching(records, part="gamma"), *size)
    if gammas:
        title = f"KS distance at other gammas, beta {BETA}; slow where the driver itself is slow"
        columns = ["gamma", "variant", "m", "distance", "driver's own", "sampling"]
        yield title, columns, sorted(map(_gamma_row, _by_m(gammas)), key=lambda row: row[:2])
    points = _by_m(most_common(matching(records, part="points"), *size))
    if points:
        title = "m = n training points: KS distance to the equation with the population risk"
        columns = [
            "n",
            "distance",
            "to that of the n points",
            "sampling",
            "C^1.5 distance of drifts",
        ]
        yield title, columns, [_row(r, "ks", "own_ks", "noise", "holder") for r in points]
    paths = most_common(matching(records, part="paths"), "paths", "read")
    if paths:
        title = "Paths on one orbit: medians, and the driver's W"
        columns = ["loss", "m", "SM1", "J1", "energy under SM1", "90 % of |W|_1.9", "sum |dW|^2"]
        ordered = [record for loss in LOSSES for record in _by_m(matching(paths, loss=loss))]
        yield title, columns, [_path_row(record) for record in ordered]
        title = f"Rate at which distances of paths fall from m = {FROM} on, in powers of m"
        columns = ["loss", "SM1", "J1", "SM1, all m", "J1, all m"]
        yield title, columns, [_rate_row(loss, paths) for loss in LOSSES]
    alpha = most_common(matching(records, part="alpha"), "paths")
    if alpha:
        yield _alpha_table(alpha)


def _by_m(records: Sequence[Record]) -> list[Record]:
    return sorted(records, key=lambda record: int(record.run.hyperparameters["m"]))


def _row(record: Record, *names: str) -> list[str]:
    m = record.run.hyperparameters["m"]
    return [f"{m:,}", *(f"{record.metrics[name]:.3f}" for name in names)]


def _gamma_row(record: Record) -> list[str]:
    h = record.run.hyperparameters
    variant = "symmetric" if h["symmetric"] else "plain"
    return [f"{h['gamma']:g}", variant, *_row(record, "ks", "driver", "noise")]


def _path_row(record: Record) -> list[str]:
    h, c = record.run.hyperparameters, record.curves
    medians = [f"{np.median(c[name]):.3f}" for name in ("sm1", "j1")]
    names = ("energy", "p_variation", "squares")
    rest = [f"{record.metrics[n]:.3f}" if n in record.metrics else "" for n in names]
    return [h["loss"], f"{h['m']:,}", *medians, *rest]


def _rate_row(loss: str, records: Sequence[Record]) -> list[str]:
    every = _by_m(matching(records, loss=loss))
    mine = [r for r in every if r.run.hyperparameters["m"] >= FROM]
    rates = [rate(each, name) for each in (mine, every) for name in ("sm1", "j1")]
    return [loss, *(f"{fall:+.2f} [{low:+.2f}, {high:+.2f}]" for fall, low, high in rates)]


def _alpha_table(records: Sequence[Record]) -> Table:
    """Return the bounds of alpha_p by m, and the rate at which the upper one falls."""
    every = sorted({int(record.run.hyperparameters["m"]) for record in records})
    rows = []
    for kind, p in sorted(
        {(r.run.hyperparameters["kind"], r.run.hyperparameters["p"]) for r in records}
    ):
        mine = _by_m(matching(records, kind=kind, p=p))
        bounds = {record.run.hyperparameters["m"]: _bounds(record) for record in mine}
        fall, low, high = rate(mine, "high")
        cells = [bounds.get(m, "") for m in every]
        rows.append([kind, f"{p:g}", *cells, f"{fall:+.2f} [{low:+.2f}, {high:+.2f}]"])
    title = "α_p of paths on one orbit, quadratic loss: medians of its bounds"
    return (
        title,
        ["noise", "p", *(f"m = {m:,}" for m in every), "upper bound falls as m to the"],
        rows,
    )


def _bounds(record: Record) -> str:
    low, high = (record.metrics.get(name) for name in ("low", "high"))
    return f"at most {high:.3f}" if low is None else f"{low:.3f} to {high:.3f}"


def rate(records: Sequence[Record], name: str) -> tuple[float, float, float]:
    """Return the slope of log distance in log m, with the ends of its interval."""
    if len(records) < 2:
        return float("nan"), float("nan"), float("nan")
    m = np.log([record.run.hyperparameters["m"] for record in records])
    logs = [np.log(np.asarray(record.curves[name])) for record in records]
    rng = np.random.default_rng(0)
    again = [
        _slope(m, [rng.choice(each, size=len(each)) for each in logs]) for _ in range(RESAMPLES)
    ]
    low, high = np.quantile(again, [0.025, 0.975])
    return _slope(m, logs), float(low), float(high)


def _slope(m: Array, logs: Sequence[Array]) -> float:
    centred = m - m.mean()
    return float(centred @ [each.mean() for each in logs] / (centred @ centred))


def _panels(records: Sequence[Record]) -> list[Panel]:
    if not records:
        return []
    drawn = [panel("SM1 falls with m, J1 does not.", draw_distances, records)]
    if shown := [record for record in records if "time" in record.curves]:
        alt = "A path of MPGD climbs during a phase; the equation jumps at its end."
        drawn.insert(0, panel(alt, draw_paths, shown[0]))
    return drawn


def draw_paths(ax: Any, record: Record) -> None:
    """Draw a path of MPGD and that of the equation on the same orbit."""
    c = record.curves
    ax.step(c["time"], c["y"], where="post", color=RED, lw=1.1, label="equation: one jump a phase")
    ax.plot(c["time"], c["x"], color=BLUE, lw=1.1, label="MPGD")
    m = record.run.hyperparameters["m"]
    ax.set(title=f"One orbit, $m={m}$", xlabel="$t$", ylabel=r"asinh$\,x$")
    ax.legend(loc="best")


def draw_distances(ax: Any, records: Sequence[Record]) -> None:
    """Draw median distances of paths against m."""
    for loss, mark in MARKS.items():
        mine = _by_m(matching(records, loss=loss))
        m = [record.run.hyperparameters["m"] for record in mine]
        for name, color, label in (("sm1", GREEN, "SM1"), ("j1", ORANGE, "J1")):
            value = [np.median(record.curves[name]) for record in mine]
            style = {"color": color, "marker": mark, "ms": 4, "mew": 0, "lw": 1.1}
            ax.loglog(m, value, label=f"{label}, {loss}", **style)
    ax.set(title="Distance of paths on one orbit", xlabel="$m$", ylabel="median over paths")
    low, high = ax.get_ylim()
    ax.set_ylim(low, high * (high / low) ** 0.45)  # room for the legend
    ax.legend(loc="upper right", fontsize=6, ncols=2)
