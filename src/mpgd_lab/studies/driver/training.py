"""Orbits, their sums and their laminar phases, beside the laws they should follow."""

from collections.abc import Iterator, Mapping
from math import sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpgd.maps import ThalerMap
from mpgd.noise import ChaoticNoise, position
from mpgd.parameters import check_integer
from mpgd.stable import StableLaw
from mpgd_lab.batched_training import Outcome, Result
from mpgd_lab.content.blocks import Plate, panel
from mpgd_lab.content.style import save
from mpgd_lab.store import Run
from mpgd_lab.studies.driver.runs import Sizes

Array = NDArray[np.float64]

PROBABILITIES: Final = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
PERFECT: Final = 0.8687  # mean of sqrt(n) times the KS distance of n draws to their own law
WIDEST: Final = 14.0  # of the histogram; the limit has scale 1
LENGTHS: Final = np.unique(np.geomspace(1, 1e5, 31).astype(int))


def noise_of(task: Run) -> ChaoticNoise:
    """Return the noise a run is about."""
    h = task.hyperparameters
    return ChaoticNoise(h["gamma"], h["beta"], signs=task.scheme, first_sign=h["first_sign"])


def train(runs: list[Run], data: Path | None = None) -> Iterator[Result]:
    """Yield metrics and curves of each run."""
    for run in runs:
        yield run, *work(run)


def work(task: Run) -> Outcome:
    """Return metrics and curves of a run."""
    noise, h, seed = noise_of(task), task.hyperparameters, task.seed
    if h["part"] == "sums":
        return sums(noise, h["steps"], h["count"], seed)
    if h["part"] == "orbit":
        y, v = orbit(noise, h["steps"], seed)
        return {}, {"y": y, "v": v}
    if h["part"] == "start":
        from mpgd_lab.studies.driver.initial_law import from_start

        return from_start(noise, h["start"], h["steps"], h["count"], seed)
    return laminar_tail(noise, h["orbits"], h["steps"], seed)


def orbit(noise: ChaoticNoise, steps: int, seed: int) -> tuple[Array, Array]:
    """Return the positions y_k and the values v_k of one orbit, k = 0 ... steps - 1."""
    state = noise.init((1,), seed)
    s, v = np.empty(steps), np.empty(steps)
    for k in range(steps):
        s[k] = float(position(state))
        value, state = noise.step(state)
        v[k] = float(value)
    return ThalerMap(noise.gamma).abel_inverse(s), v


def sums(noise: ChaoticNoise, steps: int, count: int, seed: int) -> Outcome:
    """Return distances to the limit and to the symmetric law, quantiles and a histogram."""
    check_integer("count", count, 1)
    x = np.sort(noise.birkhoff(steps, count, seed).numpy())
    reach = noise.laminar_value * steps ** (1 - noise.gamma)  # of a sum inside one phase
    edges = np.linspace(-1, 1, 122) * min(reach * (1 + 1e-12), WIDEST)
    density = np.histogram(x, edges)[0] / (count * np.diff(edges))
    curves = {"edges": edges, "density": density, "probability": PROBABILITIES}
    curves["quantile"] = np.quantile(x, PROBABILITIES)
    law = StableLaw(noise.alpha, noise.beta)
    curves["limit_quantile"] = law.ppf(PROBABILITIES)
    metrics = {"mean": float(x.mean()), "ks_limit": ks_distance(x, law)}
    metrics["ks_symmetric"] = ks_distance(x, StableLaw(noise.alpha))
    metrics["ks_of_exact_draws"] = PERFECT / sqrt(count)
    return metrics, curves


def ks_distance(x: Array, law: StableLaw) -> float:
    """Return Kolmogorov's distance of the sorted sample ``x`` to ``law``."""
    return ks_distance_to_uniform(law.cdf(x))


def ks_distance_to_uniform(u: Array) -> float:
    """Return Kolmogorov's distance of a sorted sample to the uniform law."""
    rank = np.arange(len(u) + 1) / len(u)
    return float(max(np.max(rank[1:] - u), np.max(u - rank[:-1])))


def laminar_tail(noise: ChaoticNoise, orbits: int, steps: int, seed: int) -> Outcome:
    """Return P(length > n), measured over all visits to Z and exact."""
    state = noise.init(orbits, seed)
    visits, longer = 0, np.zeros(len(LENGTHS), dtype=np.int64)
    for _ in range(steps):
        visiting = position(state) < 1.0
        _, state = noise.step(state)
        entered = position(state)[visiting].numpy()  # a phase entered at s has floor(s) steps
        bins = np.bincount(
            np.searchsorted(LENGTHS + 1, entered, "right"), minlength=len(LENGTHS) + 1
        )
        visits, longer = visits + len(entered), longer + bins[::-1].cumsum()[-2::-1]
    curves = {"n": LENGTHS, "longer": longer, "exact": exact_tail(noise.gamma, LENGTHS)}
    return {"visits": visits}, curves | {"measured": longer / visits}


def exact_tail(gamma: float, n: NDArray[Any]) -> Array:
    """Return P(length > n) of a laminar phase, from the invariant law."""
    T = ThalerMap(gamma)
    H = T.cdf(T.abel_inverse(np.stack([n + 1.0, n + 2.0])))
    return np.asarray((H[0] - H[1]) / T.burst_probability)


def constants(noise: ChaoticNoise) -> dict[str, float]:
    """Return the numbers that say what ``noise`` is like."""
    T = ThalerMap(noise.gamma)
    return {
        "alpha": noise.alpha,
        "y_star": T.y_star,
        "laminar_value": noise.laminar_value,
        "burst_value": noise.burst_value,
        "burst_probability": T.burst_probability,
        "variance": noise.variance,
    }


def describe(noise: ChaoticNoise, steps: int, count: int, seed: int) -> dict[str, Any]:
    """Return the constants of ``noise`` and how near its sums are to the limit."""
    given = {"gamma": noise.gamma, "alpha": noise.alpha, "beta": noise.beta, "signs": noise.signs}
    metrics, curves = sums(noise, steps, count, seed)
    run = {"steps": steps, "count": count, "seed": seed}
    quantiles = {name: list(map(float, curves[name])) for name in curves if "quantile" in name}
    return given | constants(noise) | run | metrics | {"probability": PROBABILITIES} | quantiles


def sentence(numbers: Mapping[str, Any]) -> str:
    """Return in words how near the sums are to their limit."""
    far, own = numbers["ks_limit"], numbers["ks_of_exact_draws"]
    near = (
        "as near to it as a sample of the law itself"
        if far < 1.5 * own
        else (f"{far / own:.0f} times as far from it as a sample of the law itself")
    )
    return (
        f"Sums of {numbers['steps']:,} values should follow a stable law of index "
        f"{numbers['alpha']:.3g} and skewness {numbers['beta']:g}: these are {near} would be "
        f"(Kolmogorov's distance {far:.3f}, of {numbers['count']:,} draws {own:.3f})."
    )


def plot(noise: ChaoticNoise, steps: int, count: int, seed: int, file: Path) -> None:
    """Write a figure of an orbit of ``noise``, its values and its sums."""
    from mpgd_lab.studies.driver import figure

    y, v = orbit(noise, min(steps, Sizes.shown), seed)
    shown = figure.Sums(noise, steps, sums(noise, steps, count, seed)[1])
    panels = (
        panel("", figure.draw_orbit, y, noise),
        panel("", figure.draw_values, v, noise, noise.signs),
        panel("", figure.draw_sums, shown),
    )
    save(Plate("noise", "", panels), file, columns=3)
