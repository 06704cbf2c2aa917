"""How Figure 1 is drawn, panel by panel; nothing is computed here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpgd.maps import ThalerMap
from mpgd.noise import ChaoticNoise
from mpgd.stable import StableLaw
from mpgd_lab.content.style import BLUE, GREY, PALE, RED

Array = NDArray[np.float64]
Curves = Mapping[str, Any]

ROWS: Final = {"fresh": "fresh signs", "product": "product signs"}


@dataclass(frozen=True)
class Sums:
    """A histogram of sums of ``steps`` values of ``noise``: curves ``edges`` and ``density``."""

    noise: ChaoticNoise
    steps: int
    curves: Curves


def draw_orbit(ax: Any, y: Array, noise: ChaoticNoise) -> None:
    """Draw y_k against k, with the branch point."""
    y_star = ThalerMap(noise.gamma).y_star
    ax.plot(y, color=BLUE, lw=0.5, alpha=0.45)
    ax.plot(y, ".", color=BLUE, ms=2.2, mew=0)
    ax.axhline(y_star, color=RED, lw=0.8, ls="--")
    box = {"facecolor": "white", "alpha": 0.8, "lw": 0, "pad": 1}
    ax.text(len(y), y_star + 0.02, "$y^*$", color=RED, ha="right", va="bottom", bbox=box)
    ax.set(title=rf"Thaler iterates, $\gamma={noise.gamma:g}$", xlabel="$k$", ylabel="$y_k$")
    ax.set(xlim=(0, len(y)), ylim=(0, 1.02))


def draw_values(ax: Any, v: Array, noise: ChaoticNoise, signs: str) -> None:
    """Draw v_k against k; a phase is a plateau at plus or minus c0, a visit to Z a spike."""
    c0, c1 = noise.laminar_value, abs(noise.burst_value)
    ax.axhline(0.0, color=GREY, lw=0.5)
    ax.step(np.arange(len(v)), v, where="mid", color=BLUE, lw=0.6)
    ax.set(title=f"Values, {ROWS[signs]}", xlabel="$k$", ylabel="$v_k$")
    ax.set(xlim=(0, len(v)), ylim=(-1.12 * c1, 1.12 * c1))
    ax.set_yticks([-c1, -c0, 0, c0, c1], ["$-|c_1|$", "$-c_0$", "0", "$c_0$", "$|c_1|$"])


def draw_sums(ax: Any, sums: Sums) -> None:
    """Draw the histogram of the sums, with the limit density and the symmetric one over it."""
    noise, edges, density = sums.noise, np.asarray(sums.curves["edges"]), sums.curves["density"]
    label = f"sums of $k={sums.steps:,}$".replace(",", "{,}")
    ax.stairs(density, edges, fill=True, color=PALE)
    ax.stairs(density, edges, color=BLUE, lw=0.5, label=label)
    x = np.linspace(edges[0], edges[-1], 601)
    limit = rf"limit, $\beta={noise.beta:g}$"
    ax.plot(x, StableLaw(noise.alpha, noise.beta).pdf(x), color=RED, lw=1.2, label=limit)
    if noise.beta:
        symmetric = StableLaw(noise.alpha).pdf(x)
        ax.plot(x, symmetric, "--", color="black", lw=0.8, label=r"symmetric, $\beta=0$")
    ax.set_yscale("log")
    ax.set(title=rf"Sums, {ROWS[noise.signs]}, $\beta={noise.beta:g}$", ylabel="density")
    ax.set(xlim=(edges[0] * 1.04, edges[-1] * 1.04), xlabel=r"$k^{-\gamma}\,(v_0+\cdots+v_{k-1})$")
    ax.legend(loc="lower center")


def draw_tail(ax: Any, curves: Curves, noise: ChaoticNoise) -> None:
    """Draw P(length > n) of laminar phases, measured and exact, on logarithmic axes."""
    n, measured, count = (np.asarray(curves[name]) for name in ("n", "measured", "longer"))
    seen = count >= 5
    ax.loglog(n, curves["exact"], color=RED, lw=1.1, label="exact")
    error = measured[seen] / np.sqrt(count[seen])
    look: Any = {"color": BLUE, "ms": 3, "mew": 0, "elinewidth": 0.8}
    ax.errorbar(n[seen], measured[seen], error, fmt="o", label="measured", **look)
    ax.set(title="Laminar phases", xlabel="$n$", ylabel=r"$P(\mathrm{length} > n)$")
    ax.text(0.5, 0.6, rf"$\sim n^{{-\alpha}},\ \alpha={noise.alpha:.3g}$", transform=ax.transAxes)
    ax.legend(loc="lower left")
