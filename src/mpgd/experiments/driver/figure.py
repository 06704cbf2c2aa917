"""How Figure 1 is drawn: curves in, a matplotlib figure out; nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from mpgd.experiments.content.style import BLUE, GREY, PALE, RED, lettered, styled
from mpgd.maps import ThalerMap
from mpgd.noise import ChaoticNoise, StableLaw
from mpgd.noise.stable_law import SMALLEST_ALPHA

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Curves = Mapping[str, Any]

ROWS: Final = {"fresh": "fresh signs", "product": "product signs"}


@dataclass(frozen=True)
class Sums:
    """A histogram of sums of ``steps`` values of ``noise``: curves ``edges`` and ``density``."""

    noise: ChaoticNoise
    steps: int
    curves: Curves


def figure_one(orbits: Mapping[str, Curves], tail: Curves, sums: Sequence[Sums]) -> Figure:
    """Return the orbit and its phases, then for each sign rule its values and sums.

    Args:
        orbits: y and v for each sign rule.
        tail: the law of the length of a laminar phase.
        sums: the histograms, one column of the figure for each skewness and length.
    """
    columns = list(dict.fromkeys((one.noise.beta, one.steps) for one in sums))
    with styled(3.4 * (2 + len(columns)), 5.4) as figure:
        axes = figure.subplots(2, 2 + len(columns), squeeze=False)
        draw_orbit(axes[0, 0], orbits["fresh"]["y"], sums[0].noise)
        draw_tail(axes[1, 0], tail, sums[0].noise)
        for row, signs in enumerate(ROWS):
            draw_values(axes[row, 1], orbits[signs]["v"], sums[0].noise, f"Values, {ROWS[signs]}")
        for one in sums:
            place = 2 + columns.index((one.noise.beta, one.steps))
            draw_sums(axes[list(ROWS).index(one.noise.signs), place], one)
        for column in axes.T[2:]:
            _match(column)
        lettered(axes.T.flat)
    return figure


def one_noise(y: Array, v: Array, sums: Sums) -> Figure:
    """Return three panels for one noise: the orbit, the values and the sums."""
    with styled(10.2, 2.9) as figure:
        left, middle, right = figure.subplots(1, 3)
        draw_orbit(left, y, sums.noise)
        draw_values(middle, v, sums.noise, f"Values, {ROWS[sums.noise.signs]}")
        draw_sums(right, sums)
    return figure


def draw_orbit(ax: Axes, y: Array, noise: ChaoticNoise) -> None:
    """Draw y_k against k, with the branch point."""
    y_star = ThalerMap(noise.gamma).y_star
    ax.plot(y, color=BLUE, lw=0.5, alpha=0.45)
    ax.plot(y, ".", color=BLUE, ms=2.2, mew=0)
    ax.axhline(y_star, color=RED, lw=0.8, ls="--")
    ax.text(len(y), y_star, " $y^*$", color=RED, va="center", ha="left")
    ax.set(title=rf"Thaler iterates, $\gamma={noise.gamma:g}$", xlabel="$k$", ylabel="$y_k$")
    ax.set(xlim=(0, len(y)), ylim=(0, 1.02))


def draw_values(ax: Axes, v: Array, noise: ChaoticNoise, title: str) -> None:
    """Draw v_k against k; a phase is a plateau at plus or minus c0, a visit to Z a spike."""
    c0, c1 = noise.laminar_value, abs(noise.burst_value)
    ax.axhline(0.0, color=GREY, lw=0.5)
    ax.step(np.arange(len(v)), v, where="mid", color=BLUE, lw=0.6)
    ax.set(
        title=title, xlabel="$k$", ylabel="$v_k$", xlim=(0, len(v)), ylim=(-1.12 * c1, 1.12 * c1)
    )
    ax.set_yticks([-c1, -c0, 0, c0, c1], ["$c_1$", "$-c_0$", "0", "$c_0$", "$-c_1$"])


def draw_sums(ax: Axes, sums: Sums) -> None:
    """Draw the histogram of the sums, with the limit density and the symmetric one over it."""
    noise, edges, density = sums.noise, np.asarray(sums.curves["edges"]), sums.curves["density"]
    ax.stairs(density, edges, fill=True, color=PALE)
    ax.stairs(
        density, edges, color=BLUE, lw=0.5, label=f"sums of $k={sums.steps:,}$".replace(",", "{,}")
    )
    x = np.linspace(edges[0], edges[-1], 601)
    if noise.alpha >= SMALLEST_ALPHA:
        limit = rf"limit, $\beta={noise.beta:g}$"
        ax.plot(x, StableLaw(noise.alpha, noise.beta).pdf(x), color=RED, lw=1.2, label=limit)
        if noise.beta:
            symmetric = StableLaw(noise.alpha).pdf(x)
            ax.plot(x, symmetric, "--", color="black", lw=0.8, label=r"symmetric, $\beta=0$")
    ax.set_yscale("log")
    ax.set(title=rf"Sums, {ROWS[noise.signs]}, $\beta={noise.beta:g}$", ylabel="density")
    ax.set(xlim=(edges[0] * 1.04, edges[-1] * 1.04), xlabel=r"$k^{-\gamma}\,(v_0+\cdots+v_{k-1})$")
    ax.legend(loc="lower center")


def draw_tail(ax: Axes, curves: Curves, noise: ChaoticNoise) -> None:
    """Draw P(length > n) of laminar phases, measured and exact, on logarithmic axes."""
    n, measured, count = (np.asarray(curves[name]) for name in ("n", "measured", "longer"))
    seen = count >= 5
    ax.loglog(n, curves["exact"], color=RED, lw=1.1, label="exact")
    error = measured[seen] / np.sqrt(count[seen])
    ax.errorbar(
        n[seen],
        measured[seen],
        error,
        fmt="o",
        color=BLUE,
        ms=3,
        mew=0,
        elinewidth=0.8,
        label="measured",
    )
    ax.set(title="Laminar phases", xlabel="$n$", ylabel=r"$P(\mathrm{length} > n)$")
    ax.text(0.5, 0.6, rf"$\sim n^{{-\alpha}},\ \alpha={noise.alpha:.3g}$", transform=ax.transAxes)
    ax.legend(loc="lower left")


def _match(axes: Any) -> None:
    low = min(ax.get_ylim()[0] for ax in axes)
    high = max(ax.get_ylim()[1] for ax in axes)
    for ax in axes:
        ax.set_ylim(low, high)
