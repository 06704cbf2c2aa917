"""Figure 1 of the paper: an orbit, its values, and the sums that tend to a stable law.

    y_(k+1) = T(y_k),     v_k = chi_k v(y_k),     k^(-gamma) (v_0 + ... + v_(k-1)) -> X(alpha, beta)

for two sign rules: ``fresh``, the one whose sums have the skewness beta in the limit, and
``product``, as printed (each sign multiplies the last, the first is +1), whose limit is symmetric.
Distances are Kolmogorov's; a perfect sample of n values has 0.87 / sqrt(n) on average. A laminar
phase, a stay left of y* between two visits to Z, has a length of exactly known law:

    P(length > n) = (H(x_n) - H(x_(n+1))) / P(Z),     x_n = Y(n + 1)

Reference: Lim, Wan & Simsekli (2022), Sections 2 and 3 and Figure 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from mpgd.experiments import Context
from mpgd.experiments.store import Record, Run
from mpgd.maps import ThalerMap
from mpgd.noise import ChaoticNoise, StableLaw
from mpgd.noise.stable_law import SMALLEST_ALPHA
from mpgd.parameters import check_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Result = tuple[dict[str, Any], dict[str, Any]]

GAMMA: Final = 0.6
BETAS: Final = (0.1, 0.5)  # the first is the figure's
FIRST_SIGN: Final = {"fresh": "drawn", "product": "positive"}  # the sign rules compared
PROBABILITIES: Final = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
PERFECT: Final = 0.8687  # mean of sqrt(n) times the KS distance of n draws to their own law
WIDEST: Final = 14.0  # of the histogram; the limit has scale 1
LENGTHS: Final = np.unique(np.geomspace(1, 1e5, 31).astype(int))


@dataclass(frozen=True)
class Sizes:
    """How much is simulated.

    Attributes:
        shown: steps of the orbit in the figure.
        steps: lengths of the sums; the first is the figure's.
        count: sums of each kind.
        orbits: orbits whose laminar phases are measured.
        rounds: steps of each of them.
    """

    shown: int = 300
    steps: tuple[int, ...] = (1000, 20_000)
    count: int = 40_000
    orbits: int = 100_000
    rounds: int = 1000


FULL: Final = Sizes()


def run(context: Context, sizes: Sizes = FULL, seed: int = 0) -> None:
    """Compute what the store lacks, print the tables and write ``noise.png``."""
    tracked = context.reporter.track(_tasks(sizes, seed), _label)
    records = [context.store.once(task, partial(_work, task)) for task in tracked]
    parts = _parts(records)
    _print(context, parts)
    path = context.out / "noise.png"
    _draw(parts).savefig(path, dpi=200)
    context.reporter.say(f"figure: {path}")


def _tasks(sizes: Sizes, seed: int) -> list[Run]:
    tasks = [
        _run(signs, seed, part="sums", beta=beta, steps=steps, count=sizes.count)
        for steps in sizes.steps
        for beta in BETAS
        for signs in FIRST_SIGN
    ]
    for signs in FIRST_SIGN:
        tasks.append(_run(signs, seed, part="orbit", beta=BETAS[0], steps=sizes.shown))
    tail = {"part": "tail", "beta": 0.0, "steps": sizes.rounds, "orbits": sizes.orbits}
    return [*tasks, _run("fresh", seed, **tail)]


def _run(signs: str, seed: int, **hyperparameters: Any) -> Run:
    fixed = {"gamma": GAMMA, "first_sign": FIRST_SIGN[signs]}
    return Run("noise", "paper", signs, fixed | hyperparameters, seed)


def _label(task: Run) -> str:
    h = task.hyperparameters
    return f"{h['part']}, {task.scheme} signs, beta {h['beta']}, {h['steps']} steps"


def noise_of(task: Run) -> ChaoticNoise:
    """Return the noise a run is about."""
    h = task.hyperparameters
    return ChaoticNoise(h["gamma"], h["beta"], task.scheme, first_sign=h["first_sign"])


def _work(task: Run) -> Result:
    noise, h, seed = noise_of(task), task.hyperparameters, task.seed
    if h["part"] == "sums":
        return sums(noise, h["steps"], h["count"], seed)
    if h["part"] == "orbit":
        y, v = orbit(noise, h["steps"], seed)
        return {}, {"y": y, "v": v}
    return laminar_tail(noise, h["orbits"], h["steps"], seed)


def orbit(noise: ChaoticNoise, steps: int, seed: int) -> tuple[Array, Array]:
    """Return the positions y_k and the values v_k of one orbit, k = 0 ... steps - 1."""
    state = noise.init((1,), seed)
    s, v = np.empty(steps), np.empty(steps)
    for k in range(steps):
        s[k] = abs(float(state.s))
        value, state = noise.step(state)
        v[k] = float(value)
    return ThalerMap(noise.gamma).abel_inverse(s), v


def sums(noise: ChaoticNoise, steps: int, count: int, seed: int) -> Result:
    """Return distances to the limit and to the symmetric law, quantiles and a histogram."""
    check_integer("count", count, 1)
    x = np.sort(noise.birkhoff(steps, count, seed).numpy())
    reach = noise.laminar_value * steps ** (1 - noise.gamma)  # of a sum inside one phase
    edges = np.linspace(-1, 1, 122) * min(reach * (1 + 1e-12), WIDEST)
    density = np.histogram(x, edges)[0] / (count * np.diff(edges))
    curves = {"edges": edges, "density": density, "probability": PROBABILITIES}
    curves["quantile"] = np.quantile(x, PROBABILITIES)
    metrics = {"mean": float(x.mean()), "ks_limit": None, "ks_symmetric": None}
    metrics["ks_of_exact_draws"] = PERFECT / sqrt(count)
    if noise.alpha >= SMALLEST_ALPHA:
        law = StableLaw(noise.alpha, noise.beta)
        metrics["ks_limit"] = ks_distance(x, law)
        metrics["ks_symmetric"] = ks_distance(x, StableLaw(noise.alpha))
        curves["limit_quantile"] = law.quantile(PROBABILITIES)
    return metrics, curves


def ks_distance(x: Array, law: StableLaw) -> float:
    """Return Kolmogorov's distance of the sorted sample ``x`` to ``law``."""
    F, rank = law.cdf(x), np.arange(len(x) + 1) / len(x)
    return float(max(np.max(rank[1:] - F), np.max(F - rank[:-1])))


def laminar_tail(noise: ChaoticNoise, orbits: int, steps: int, seed: int) -> Result:
    """Return P(length > n), measured over all visits to Z and exact."""
    state = noise.init(orbits, seed)
    visits, longer = 0, np.zeros(len(LENGTHS), dtype=np.int64)
    for _ in range(steps):
        visiting = state.s.abs() < 1.0
        _, state = noise.step(state)
        entered = state.s[visiting].abs().numpy()  # a phase entered at s has floor(s) steps
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


def describe(noise: ChaoticNoise, steps: int, count: int, seed: int) -> dict[str, Any]:
    """Return the constants of ``noise`` and how near its sums are to the limit."""
    T = ThalerMap(noise.gamma)
    constants = {
        "gamma": noise.gamma,
        "alpha": noise.alpha,
        "beta": noise.beta,
        "signs": noise.signs,
    }
    constants |= {
        "y_star": T.y_star,
        "laminar_value": noise.laminar_value,
        "burst_value": noise.burst_value,
    }
    constants |= {"burst_probability": T.burst_probability, "variance": noise.variance}
    metrics, curves = sums(noise, steps, count, seed)
    run = {"steps": steps, "count": count, "seed": seed}
    quantiles = {name: list(map(float, curves[name])) for name in curves if "quantile" in name}
    return constants | run | metrics | {"probability": PROBABILITIES} | quantiles


def plot(noise: ChaoticNoise, steps: int, count: int, seed: int) -> Figure:
    """Return a figure of an orbit of ``noise``, its values and its sums."""
    from mpgd.experiments.noise_figure import Sums, one_noise

    y, v = orbit(noise, min(steps, Sizes.shown), seed)
    return one_noise(y, v, Sums(noise, steps, sums(noise, steps, count, seed)[1]))


def _draw(parts: dict[str, list[Record]]) -> Figure:
    from mpgd.experiments.noise_figure import Sums, figure_one

    runs = [(record.run, record.curves) for record in parts["sums"]]
    shown = [runs[0], runs[1], runs[-2], runs[-1]]  # the paper's, and the one that tells most
    columns = [Sums(noise_of(run), run.hyperparameters["steps"], curves) for run, curves in shown]
    orbits = {record.run.scheme: record.curves for record in parts["orbit"]}
    return figure_one(orbits, parts["tail"][0].curves, columns)


def _print(context: Context, parts: dict[str, list[Record]]) -> None:
    context.reporter.table(
        f"Sums of k values, gamma {GAMMA}: distances, and quantiles (the limit's in brackets)",
        ["signs", "beta", "k", "KS limit", "KS symm.", "5 %", "95 %"],
        [sums_row(record) for record in parts["sums"]],
    )
    perfect = parts["sums"][0].metrics["ks_of_exact_draws"]
    context.reporter.say(
        "KS: distance to the limit X(1/gamma, beta) and to the symmetric law X(1/gamma, 0);\n"
        f"a perfect sample of this size has {perfect:.4f} on average"
    )
    tail = parts["tail"][0]
    context.reporter.table(
        f"Laminar phases, {tail.metrics['visits']:,} of them: P(length > n)",
        ["n", "measured", "exact", "ratio", "standard error"],
        tail_rows(tail),
    )


def sums_row(record: Record) -> list[str]:
    """Return a row of the table of sums: distances, and quantiles with the limit's."""
    h, m, c = record.run.hyperparameters, record.metrics, record.curves
    ends = [PROBABILITIES.index(0.05), PROBABILITIES.index(0.95)]
    quantiles = [f"{c['quantile'][i]:.2f} ({c['limit_quantile'][i]:.2f})" for i in ends]
    distances = [f"{m['ks_limit']:.4f}", f"{m['ks_symmetric']:.4f}"]
    return [record.run.scheme, f"{h['beta']}", f"{h['steps']:,}", *distances, *quantiles]


def tail_rows(record: Record) -> list[list[str]]:
    """Return the rows of the table of laminar phases."""
    columns = [record.curves[name] for name in ("n", "longer", "measured", "exact")]
    return [[f"{n:,}", f"{measured:.3e}", f"{exact:.3e}", f"{measured / exact:.4f}",
             f"{1 / sqrt(longer):.4f}"]
            for n, longer, measured, exact in zip(*columns, strict=True)
            if longer >= 10 and np.log10(n).is_integer()]  # fmt: skip


def _parts(records: list[Record]) -> dict[str, list[Record]]:
    parts: dict[str, list[Record]] = {"sums": [], "orbit": [], "tail": []}
    for record in records:
        parts[record.run.hyperparameters["part"]].append(record)
    return parts
