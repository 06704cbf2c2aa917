"""How schemes are drawn: a metric against gamma, and curves with bands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite, sqrt
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from mpgd.experiments.statistics import Columns, by_scheme, by_seed, gaussian_of, summary
from mpgd.experiments.store import Record
from mpgd.report.drawing import GREY, ORANGE, color

Array = NDArray[np.float64]

Middle = Literal["mean", "median"]

VARIANTS: Final = {"plain": ("o", -1), "symmetric": ("s", 1)}  # marker, which way it is shifted


def against_gamma(
    ax: Any, records: Sequence[Record], columns: Columns, gammas: Sequence[float], beta: float,
    title: str, middle: Middle = "mean",
) -> None:  # fmt: skip
    """Draw MPGD, Gaussian noise and descent, with the paper's means.

    A mean has a bar of 95 %; a median, for what has heavy tails, one from quartile to quartile.
    """
    held = {name: _spread(by_seed(each, columns.metric).values(), middle)
            for name, each in by_scheme(records).items()}  # fmt: skip
    step = 0.012
    if "gd" in held:
        _band(ax, held["gd"], GREY, "--", "gradient descent")
    if "gaussian" in held:
        _band(ax, held["gaussian"], ORANGE, "-.", "Gaussian")
    for variant, (marker, side) in VARIANTS.items():
        names = {g: f"mpgd {variant} {g:g} beta {beta:g}" for g in gammas}
        names = {g: name for g, name in names.items() if name in held}
        place = np.array(list(names)) + side * step / 2
        look: Any = {"color": color(f"mpgd {variant}"), "ms": 4, "elinewidth": 1.1, "capsize": 2}
        _bars(ax, place, [held[name] for name in names.values()], f"{marker}-",
              f"MPGD, {variant}", **look)  # fmt: skip
        matched = {g: gaussian_of(name, held) for g, name in names.items()}
        if "gaussian" not in held and variant == "plain" and set(matched.values()) <= set(held):
            _bars(ax, np.array(list(matched)), [held[name] for name in matched.values()], "^--",
                  "Gaussian, same variance", **look | {"color": ORANGE})  # fmt: skip
        printed = {g: columns.printed(name) for g, name in names.items()}
        known = {g: float(text.split()[0]) for g, text in printed.items() if text}
        if known:
            ax.plot(np.array(list(known)) + side * step, list(known.values()), "D", mfc="none",
                    color=look["color"], ms=5, mew=1, label=f"printed, {variant}")  # fmt: skip
    ylabel = columns.title if middle == "mean" else f"{columns.title}, {middle}"
    ax.set(title=title, xlabel="γ", ylabel=ylabel, xticks=list(gammas))


def _spread(values: Iterable[float], middle: Middle) -> Array:
    """Return the low end, the middle and the high end of runs that did not diverge."""
    x = np.array([value for value in values if isfinite(value)])
    if middle == "median":
        return np.quantile(x, [0.25, 0.5, 0.75]) if len(x) else np.full(3, np.nan)
    found = summary(x)
    half = 1.96 * found.std / sqrt(found.count) if found.count > 1 else 0.0
    return found.mean + half * np.array([-1.0, 0.0, 1.0])


def _bars(ax: Any, place: Any, held: Sequence[Array], fmt: str, label: str, **look: Any) -> None:
    low, middle, high = np.reshape(held, (-1, 3)).T
    ax.errorbar(place, middle, [middle - low, high - middle], fmt=fmt, label=label, **look)


def _band(ax: Any, held: Array, shade: str, style: str, label: str) -> None:
    low, middle, high = held
    ax.axhspan(low, high, color=shade, alpha=0.18, lw=0)
    ax.axhline(middle, color=shade, ls=style, lw=1.1, label=label)


def on_the_way(
    ax: Any, schemes: Mapping[str, Sequence[Record]], gamma: float, beta: float, x: str, y: str,
    title: str, ylabel: str,
) -> None:  # fmt: skip
    """Draw a curve of descent, of a Gaussian and of both variants of MPGD at one gamma."""
    gaussian = "gaussian" if "gaussian" in schemes else f"gaussian plain {gamma:g}"
    names = {
        "gd": ("gradient descent", "--"), gaussian: ("Gaussian", "-."),
        f"mpgd plain {gamma:g} beta {beta:g}": ("MPGD, plain", "-"),
        f"mpgd symmetric {gamma:g} beta {beta:g}": ("MPGD, symmetric", "-"),
    }  # fmt: skip
    drawn = {names[name][0]: schemes[name] for name in names if name in schemes}
    looks = {label: {"color": color(name), "ls": style} for name, (label, style) in names.items()}
    bands(ax, drawn, x, y, looks, "mean")
    ax.set(title=title, xlabel="step", ylabel=ylabel)


def bands(
    ax: Any, schemes: Mapping[str, Sequence[Record]], x: str, y: str,
    looks: Mapping[str, Mapping[str, Any]], middle: Middle = "median",
) -> None:  # fmt: skip
    """Draw for each scheme the median or mean of a curve over seeds, and where half of them are.

    Args:
        ax: where.
        schemes: label: records.
        x: the name of the curve along the axis.
        y: the name of the curve drawn.
        looks: label: how the line looks.
        middle: "median" or "mean".
    """
    for label, records in schemes.items():
        along, values = _stacked(records, x, y)
        if not len(along):
            continue
        low, median, high = np.nanquantile(values, [0.25, 0.5, 0.75], axis=0)
        line = median if middle == "median" else np.nanmean(values, axis=0)
        look = dict(looks[label])
        ax.fill_between(along, low, high, color=look["color"], alpha=0.18, lw=0)
        ax.plot(along, line, label=label, **{"lw": 1.4, **look})


def _stacked(records: Sequence[Record], x: str, y: str) -> tuple[Array, Array]:
    """Return the points along the axis and the curves there, (seed, point).

    A run that diverged has a shorter curve: it counts as far as it goes.
    """
    pairs = [(record.curves[x], record.curves[y]) for record in records if y in record.curves]
    along: Sequence[float] = max((one for one, _ in pairs), key=len, default=[])
    values = np.full((len(pairs), len(along)), np.nan)
    for row, (_, curve) in zip(values, pairs, strict=True):
        row[: len(curve)] = curve
    reached = np.isfinite(values).any(axis=0)
    return np.asarray(along, dtype=float)[reached], values[:, reached]
