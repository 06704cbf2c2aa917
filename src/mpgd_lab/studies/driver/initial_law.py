"""The remark of Section 3: sums converge faster from the invariant law than from the uniform one.

Orbits of the map itself, with fresh signs, begun at y_0 ~ H and at y_0 ~ U(0, 1). For some k: the
Kolmogorov distance of k^(-gamma) (v_0 + ... + v_(k-1)) to X(alpha, beta), and that of y_k to H,
which is only sampling for the first start.

Reference: Lim, Wan & Simsekli (2022), Section 3.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpgd.maps import ThalerMap
from mpgd.noise import ChaoticNoise
from mpgd.stable import StableLaw
from mpgd_lab.batched_training import Outcome
from mpgd_lab.content.style import BLUE, GREY, ORANGE
from mpgd_lab.store import Record
from mpgd_lab.studies.driver.training import PERFECT, ks_distance, ks_distance_to_uniform

Array = NDArray[np.float64]

READ: Final = (3, 10, 30, 100, 300, 1000)  # k at which distances are taken
LOOKS: Final = {"invariant": (BLUE, "o"), "uniform": (ORANGE, "s")}


def from_start(noise: ChaoticNoise, start: str, steps: int, count: int, seed: int) -> Outcome:
    """Return distances of sums to the limit, and of points to the invariant law, as k grows."""
    T, rng = ThalerMap(noise.gamma), np.random.default_rng(seed)
    u = 1.0 - rng.random(count)
    y = T.quantile(u) if start == "invariant" else u
    sign, total = _signs(rng, noise.beta, count), np.zeros(count)
    law, distances = StableLaw(noise.alpha, noise.beta), []
    for k in range(1, steps + 1):
        burst = y > T.y_star
        total += sign * np.where(burst, noise.burst_value, noise.laminar_value)
        sign = np.where(burst, _signs(rng, noise.beta, count), sign)
        y = T(y)
        if k in READ:
            near = ks_distance(np.sort(k**-noise.gamma * total), law)
            distances.append((k, near, ks_distance_to_uniform(np.sort(T.cdf(y)))))
    read = dict(zip(("k", "sums", "points"), map(list, zip(*distances, strict=True)), strict=True))
    return {"sampling": PERFECT / count**0.5}, read


def _signs(rng: np.random.Generator, beta: float, count: int) -> Array:
    return np.where(rng.random(count) < 0.5 * (1.0 + beta), 1.0, -1.0)


def draw_starts(ax: Any, records: Sequence[Record]) -> None:
    """Draw both distances against k for both starts."""
    for record in records:
        color, mark = LOOKS[str(record.run.hyperparameters["start"])]
        c, name = record.curves, record.run.hyperparameters["start"]
        look = {"color": color, "marker": mark, "ms": 4, "mew": 0, "lw": 1.1}
        ax.loglog(c["k"], c["sums"], label=f"sums, {name} start", **look)
        ax.loglog(c["k"], c["points"], ls=":", label=f"points, {name} start", **look)
    ax.axhline(records[0].metrics["sampling"], color=GREY, lw=0.8)
    ax.set(title="Uniform against invariant start", xlabel="$k$", ylabel="Kolmogorov distance")
    ax.set_ylim(top=2.0)  # the legend stands above the lines
    ax.legend(loc="upper right", fontsize=6)


def row(record: Record) -> list[str]:
    """Return the start, and its distances of sums and of points at every k."""
    c = record.curves
    pairs = zip(c["sums"], c["points"], strict=True)
    return [record.run.hyperparameters["start"], *(f"{a:.3f} / {b:.3f}" for a, b in pairs)]
