"""How schemes are drawn: a metric against gamma, and curves with bands."""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite, sqrt
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from mpgd_lab.content.style import GREY, ORANGE, color
from mpgd_lab.schemes import PLAIN, SYMMETRIC, Scheme, gaussian_of
from mpgd_lab.store import Record
from mpgd_lab.verdicts import Measure, by_scheme, by_seed, schemes_of, summary

Array = NDArray[np.float64]

Middle = Literal["mean", "median"]

VARIANTS: Final = {PLAIN: ("o", -1), SYMMETRIC: ("s", 1)}  # marker, which way it is shifted
STEP: Final = 0.012  # in gamma, by which markers are shifted
LOOK: Final = {"ms": 4, "elinewidth": 1.1, "capsize": 2}
LINES: Final = {"gd": "--", "gaussian": "-."}


def against_gamma(
    ax: Any,
    records: Sequence[Record],
    measure: Measure,
    beta: float,
    title: str,
    middle: Middle = "mean",
) -> None:
    """Draw MPGD, Gaussian noise and descent, with the paper's means.

    A mean has a bar of 95 %; a median, for what has heavy tails, one from quartile to quartile.
    """
    schemes, own = schemes_of(records), by_scheme(records)
    spreads = {
        scheme: _spread(by_seed(own[name], measure.metric).values(), middle)
        for name, scheme in schemes.items()
    }
    names = {scheme: name for name, scheme in reversed(schemes.items())}
    gaussian = next((s for s in spreads if s.kind == "gaussian" and s.gamma is None), None)
    if descent := next((s for s in spreads if s.kind == "gd"), None):
        _band(ax, spreads[descent], GREY, "--", "gradient descent")
    if gaussian:
        _band(ax, spreads[gaussian], ORANGE, "-.", "Gaussian")
    for variant in VARIANTS:
        ours = [s for s in spreads if (s.kind, s.variant, s.beta) == ("mpgd", variant, beta)]
        if ours:
            _variant(ax, variant, {s: spreads[s] for s in ours})
            _printed(ax, variant, {s: measure.printed(names[s]) for s in ours})
        matched = [rival for s in ours if (rival := gaussian_of(s, spreads))]
        if ours and not gaussian and variant == PLAIN and len(matched) == len(ours):
            look: Any = LOOK | {"color": ORANGE}
            bars = [spreads[s] for s in matched]
            _bars(ax, _gammas(matched), bars, "^--", "Gaussian, same variance", **look)
    ylabel = measure.title if middle == "mean" else f"{measure.title}, {middle}"
    gammas = sorted({s.gamma for s in spreads if s.kind == "mpgd" and s.gamma is not None})
    ax.set(title=title, xlabel="γ", ylabel=ylabel, xticks=gammas)


def _variant(ax: Any, variant: str, spreads: Mapping[Scheme, Array]) -> None:
    marker, side = VARIANTS[variant]
    look: Any = LOOK | {"color": color(next(iter(spreads)))}
    place = _gammas(spreads) + side * STEP / 2
    _bars(ax, place, list(spreads.values()), f"{marker}-", f"MPGD, {variant}", **look)


def _printed(ax: Any, variant: str, printed: Mapping[Scheme, str]) -> None:
    known = {scheme: float(text.split()[0]) for scheme, text in printed.items() if text}
    if known:
        place = _gammas(known) + VARIANTS[variant][1] * STEP
        look: Any = {"mfc": "none", "color": color(next(iter(known))), "ms": 5, "mew": 1}
        ax.plot(place, list(known.values()), "D", label=f"printed, {variant}", **look)


def _gammas(schemes: Iterable[Scheme]) -> Array:
    return np.array([scheme.gamma for scheme in schemes], dtype=np.float64)


def _spread(values: Iterable[float], middle: Middle) -> Array:
    """Return the low end, the middle and the high end of runs that did not diverge."""
    x = np.array([value for value in values if isfinite(value)])
    if middle == "median":
        return np.quantile(x, [0.25, 0.5, 0.75]) if len(x) else np.full(3, np.nan)
    moments = summary(x)
    half = 1.96 * moments.std / sqrt(moments.count) if moments.count > 1 else 0.0
    return moments.mean + half * np.array([-1.0, 0.0, 1.0])


def _bars(ax: Any, place: Any, spreads: Sequence[Array], fmt: str, label: str, **look: Any) -> None:
    low, middle, high = np.reshape(spreads, (-1, 3)).T
    ax.errorbar(place, middle, [middle - low, high - middle], fmt=fmt, label=label, **look)


def _band(ax: Any, spreads: Array, shade: str, style: str, label: str) -> None:
    low, middle, high = spreads
    ax.axhspan(low, high, color=shade, alpha=0.18, lw=0)
    ax.axhline(middle, color=shade, ls=style, lw=1.1, label=label)


def along_training(
    ax: Any,
    records: Sequence[Record],
    gamma: float,
    beta: float,
    x: str,
    y: str,
    title: str,
    ylabel: str,
) -> None:
    """Draw a curve of descent, of a Gaussian and of both variants of MPGD at one gamma."""
    own, drawn, looks = by_scheme(records), {}, {}
    for name, scheme in schemes_of(records).items():
        label = _label(scheme, gamma, beta)
        if label and label not in drawn:
            drawn[label] = own[name]
            looks[label] = {"color": color(scheme), "ls": LINES.get(scheme.kind, "-")}
    bands(ax, drawn, x, y, looks, "mean")
    ax.set(title=title, xlabel="step", ylabel=ylabel)


def _label(scheme: Scheme, gamma: float, beta: float) -> str | None:
    """Return how a line is named, None where it is not shown."""
    if scheme.kind == "gd":
        return "gradient descent"
    if scheme.kind == "gaussian" and scheme.variant != SYMMETRIC and scheme.gamma in (None, gamma):
        return "Gaussian"
    if (scheme.kind, scheme.gamma, scheme.beta) == ("mpgd", gamma, beta):
        return f"MPGD, {scheme.variant}"
    return None


def bands(
    ax: Any,
    schemes: Mapping[str, Sequence[Record]],
    x: str,
    y: str,
    looks: Mapping[str, Mapping[str, Any]],
    middle: Middle = "median",
) -> None:
    """Draw for each scheme the median or mean of a curve over seeds, and where half of them are.

    ``schemes`` and ``looks`` go by label; ``x`` and ``y`` are the names of two curves.
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
