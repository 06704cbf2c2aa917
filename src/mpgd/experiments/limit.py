"""Theorem 4.1 at work: MPGD with m steps per unit of time beside the equation it tends to.

    x' = x - grad(x)/m - mu m^(-gamma) v1 x + sigma m^(-gamma) v2
    dX = -grad(X) dt - mu diag(X) <> dL1 + sigma dL2

Laws at fixed times are compared on the scale asinh(x): under multiplicative noise X = exp(-mu L)
has no mean, and without one the Wasserstein and energy distances are infinite. The KS distance is
the same on any scale. Beside it stands the driver's own: that of m^(-gamma) (v_0 + ... + v_(m-1))
to its stable law. While this is large, m is too small for the equation to mean anything.

Gradients are globally Lipschitz, as the theorem asks. That of the valley u^2 v^2 / 2 is not, so the
valley is taken at 3 tanh(u/3), 3 tanh(v/3), where all its derivatives are bounded.

Reference: Lim, Wan & Simsekli (2022), Theorem 4.1 and Appendix B.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mpgd.experiments import Context
from mpgd.experiments.noise import FIRST_SIGN, ks_distance
from mpgd.experiments.store import Record, Run
from mpgd.limits import Distance, FastSlow, Linear, MarcusSDE, distances_in_law, limit_law
from mpgd.noise import ChaoticNoise

Array = NDArray[np.float64]
Result = tuple[dict[str, Any], dict[str, Any]]

GAMMA: Final = 0.6
TIMES: Final = (0.5, 1.0)
SIZES: Final = {"additive": (0.0, 0.5), "multiplicative": (0.2, 0.0)}  # mu, sigma
SERIES: Final = ((0.0, "fresh"), (0.0, "product"), (0.5, "fresh"), (0.5, "product"))
WIDTH: Final = 3.0  # of the valley's coordinates
JUMP: Final = 2.5  # of the rotation, as an angle
GRID: Final = 240  # points at which distribution functions are kept
ROTATION: Final = Linear([[0.0, -1.0], [1.0, 0.0]])


@dataclass(frozen=True)
class Loss:
    """A loss: its gradient for x (path, coordinate), where it starts, its name in a figure."""

    gradient: Callable[[Tensor], Tensor]
    x0: tuple[float, ...]
    title: str


def valley_gradient(x: Tensor) -> Tensor:
    """Return the gradient of u^2 v^2 / 2 in the coordinates 3 tanh(u/3), 3 tanh(v/3)."""
    w = WIDTH * torch.tanh(x / WIDTH)
    return w * w.flip(1) ** 2 * (1.0 - (w / WIDTH) ** 2)


LOSSES: Final = {
    "quadratic": Loss(lambda x: x, (1.0,), "Quadratic"),
    "double well": Loss(lambda x: x - 2.0 * torch.tanh(2.0 * x), (0.5,), "Double well"),
    "valley": Loss(valley_gradient, (1.5, 0.5), "Valley"),
}


@dataclass(frozen=True)
class Sizes:
    """How much is simulated.

    Attributes:
        m: steps per unit of time, increasing.
        paths: of the recursion, for each m.
        reference: paths of the equation, and sums of the driver.
        steps: of the equation, per unit of time.
        resamples: of the bootstrap.
        joint: vectors in the energy distance of the valley, which costs their number squared.
    """

    m: tuple[int, ...] = (10, 30, 100, 300, 1000, 3000, 10_000)
    paths: int = 8_000
    reference: int = 16_000
    steps: int = 300
    resamples: int = 60
    joint: int = 800


FULL: Final = Sizes()


def run(context: Context, sizes: Sizes = FULL, seed: int = 0) -> None:
    """Compute what the store lacks, print the tables and write a figure per case."""
    tasks = list(_tasks(sizes, seed))
    tracked = context.reporter.track(tasks, _label)
    with _one_thread():
        records = [context.store.once(task, partial(_work, task)) for task in tracked]
    _reference.cache_clear()
    _print(context, records)
    _draw(context, records)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep torch to one thread: a second one gains little here and waits for any busy core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _tasks(sizes: Sizes, seed: int) -> Iterator[Run]:
    """Yield every run; those that share a sample of the equation follow one another."""
    size = {name: value for name, value in asdict(sizes).items() if name != "m"}
    for beta, signs in SERIES:
        for m in sizes.m:
            h = {"part": "driver", "beta": beta, "m": m, "reference": sizes.reference}
            yield Run("limit", "paper", signs, h, seed)
    for loss in LOSSES:
        for kind in SIZES:
            for beta, signs in SERIES:
                for m in sizes.m:
                    h = {"part": "law", "loss": loss, "kind": kind, "beta": beta, "m": m} | size
                    yield Run("limit", "paper", signs, h, seed)
    yield Run("limit", "paper", "fresh", {"part": "jump", "theta": JUMP}, seed)
    for m in sizes.m:
        yield Run("limit", "paper", "fresh", {"part": "rotation", "m": m} | size, seed)


def _label(task: Run) -> str:
    h = task.hyperparameters
    names = [h["part"], h.get("loss"), h.get("kind"), f"{task.scheme} signs"]
    names += [f"{name} {h[name]}" for name in ("beta", "m") if name in h]
    return ", ".join(filter(None, names))


def _work(task: Run) -> Result:
    parts = {"driver": driver_error, "law": compare, "jump": one_jump, "rotation": rotation}
    return parts[task.hyperparameters["part"]](task)


def driver_error(task: Run) -> Result:
    """Return the KS distance of the driver's sums to their limit, on orbits MPGD does not use."""
    h = task.hyperparameters
    noise = ChaoticNoise(GAMMA, h["beta"], task.scheme, first_sign=FIRST_SIGN[task.scheme])
    sums = np.sort(noise.birkhoff(h["m"], h["reference"], task.seed + 2).numpy())
    return {"ks": ks_distance(sums, limit_law(noise))}, {}


def compare(task: Run) -> Result:
    """Return distances in law of MPGD to its equation, and to the one with skewness beta."""
    h = task.hyperparameters
    system = _mpgd(h["loss"], h["kind"], h["beta"], task.scheme)
    x0 = LOSSES[h["loss"]].x0
    x = _scaled(system.simulate(x0, h["m"], TIMES[-1], h["paths"], task.seed, TIMES).x)
    limit = 0.0 if task.scheme == "product" else h["beta"]
    targets = {"": limit} if limit == h["beta"] else {"": limit, "claimed_": h["beta"]}
    curves: dict[str, Any] = {"times": TIMES}
    for prefix, beta in targets.items():
        y = _reference(h["loss"], h["kind"], beta, h["reference"], h["steps"], task.seed)
        found = [_distances(x[i], y[i], h, task.seed) for i in range(len(TIMES))]
        curves |= {prefix + name: [astuple(at[name]) for at in found] for name in found[0]}
        if not prefix:
            curves |= _functions(x[-1, :, 0], y[-1, :, 0])
    names = [name for name in curves if name.removeprefix("claimed_") in DISTANCES]
    return {name: curves[name][-1][0] for name in names}, curves


DISTANCES: Final = ("ks", "wasserstein", "energy")


def _mpgd(loss: str, kind: str, beta: float, signs: str) -> FastSlow:
    mu, sigma = SIZES[kind]
    gradient, first = LOSSES[loss].gradient, FIRST_SIGN[signs]
    return FastSlow.mpgd(gradient, mu, sigma, GAMMA, beta, signs=signs, first_sign=first)


@lru_cache(maxsize=2)
def _reference(loss: str, kind: str, beta: float, paths: int, steps: int, seed: int) -> Array:
    """Return a sample of the equation at the fixed times, independent of MPGD's."""
    sde = _mpgd(loss, kind, beta, "fresh").limit()
    steps = math.ceil(steps * TIMES[-1])
    return _scaled(sde.solve(LOSSES[loss].x0, TIMES[-1], steps, paths, seed + 1, TIMES).x)


def _scaled(x: Tensor) -> Array:
    return np.asarray(np.arcsinh(x.numpy()))


def _distances(x: Array, y: Array, h: Any, seed: int) -> dict[str, Distance]:
    """Return the distances of vectors: of the worst coordinate, and the joint energy distance."""
    each = [
        distances_in_law(x[:, k], y[:, k], h["resamples"], seed=seed) for k in range(x.shape[1])
    ]
    if len(each) == 1:
        return each[0]
    worst = {n: max((one[n] for one in each), key=lambda d: d.value) for n in DISTANCES[:2]}
    few = slice(h["joint"])
    return worst | {"energy": distances_in_law(x[few], y[few], h["resamples"], seed=seed)["energy"]}


def _functions(x: Array, y: Array) -> dict[str, Array]:
    """Return the distribution functions of both samples over the bulk of the second."""
    low, high = np.quantile(y, [0.005, 0.995])
    grid = np.linspace(low, high, GRID)
    cdf, limit = (np.searchsorted(np.sort(s), grid, "right") / len(s) for s in (x, y))
    return {"grid": grid, "cdf": cdf, "limit_cdf": limit}


def one_jump(task: Run) -> Result:
    """Return where a jump of angle theta takes (1, 0), made in n equal forward steps."""
    theta = task.hyperparameters["theta"]
    n = 2 ** np.arange(11)
    z = (1.0 + 1j * theta / n) ** n
    sde = MarcusSDE(torch.zeros_like, [(ROTATION, limit_law(ChaoticNoise(GAMMA)))])
    jump = torch.full((1, 1, 1), theta, dtype=torch.float64)
    ends = {i: sde.solve([1.0, 0.0], 1.0, 1, 1, increments=jump, integral=i).final[0].tolist()
            for i in ("marcus", "ito")}  # fmt: skip
    gap = np.abs(z - complex(*ends["marcus"]))
    return {"gap": float(gap[-1])}, ends | {"n": n, "x": z.real, "y": z.imag, "gap": gap}


def rotation(task: Run) -> Result:
    """Return how near rotation by chaos is to the Marcus and to the Ito equation.

    The Wasserstein distance of the first coordinate: that of Marcus is a cosine, whose law has such
    sharp ends that a norm of 1.1 instead of 1 is already far off in the KS distance.
    """
    h = task.hyperparameters
    system = FastSlow(torch.zeros_like, [(ROTATION, ChaoticNoise(GAMMA))])
    x = system.simulate([1.0, 0.0], h["m"], 1.0, h["paths"], task.seed).final
    curves: dict[str, Any] = {"radius": np.quantile(x.norm(dim=1), [0.05, 0.5, 0.95])}
    for integral in ("marcus", "ito"):
        y = _rotated(integral, h["reference"], h["steps"], task.seed)
        found = distances_in_law(_scaled(x[:, 0]), _scaled(y[:, 0]), h["resamples"])
        curves[integral] = astuple(found["wasserstein"])
        curves[f"{integral}_radius"] = np.quantile(y.norm(dim=1), [0.05, 0.5, 0.95])
    return {integral: curves[integral][0] for integral in ("marcus", "ito")}, curves


@lru_cache(maxsize=2)
def _rotated(integral: str, paths: int, steps: int, seed: int) -> Tensor:
    sde = MarcusSDE(torch.zeros_like, [(ROTATION, limit_law(ChaoticNoise(GAMMA)))])
    return sde.solve([1.0, 0.0], 1.0, steps, paths, seed + 1, integral=integral).final


def _print(context: Context, records: list[Record]) -> None:
    steps = list(dict.fromkeys(r.run.hyperparameters.get("m", 0) for r in records if _is(r, "law")))
    context.reporter.table(
        f"KS distance to the equation at t = {TIMES[-1]:g}, gamma {GAMMA}, m steps a unit of time",
        ["case", "beta", "signs", *(f"{m:,}" for m in steps), "sampling"],
        list(rows(records, steps)),
    )
    context.reporter.say(
        "driver: its own KS distance to the stable law after m steps; while that is large, m is "
        "too small for the equation to mean anything.\nproduct signs have a symmetric limit; "
        "product*: to the equation with skewness beta, as claimed.\n"
        "sampling: what samples of one law exceed in 5 % of all cases. "
        "rotation: Wasserstein distances to either equation."
    )


def _is(record: Record, part: str) -> bool:
    return bool(record.run.hyperparameters["part"] == part)


def rows(records: list[Record], steps: list[int]) -> Iterator[list[str]]:
    """Yield case, beta, signs, a distance for each m in ``steps``, and that of sampling alone."""
    groups: dict[tuple[str, ...], dict[int, str]] = {}
    for record in records:
        h, signs = record.run.hyperparameters, record.run.scheme
        case = ", ".join(filter(None, [h.get("loss", h["part"]), h.get("kind")]))
        named = {"ks": signs, "claimed_ks": f"{signs}*", "marcus": "to Marcus", "ito": "to Ito"}
        for key in [name for name in named if name in record.metrics]:
            row = groups.setdefault((case, str(h.get("beta", "")), named[key]), {})
            row[h["m"]] = f"{record.metrics[key]:.3f}"
            row[-1] = f"{_noise(record, key):.3f}"
    for group, row in groups.items():
        yield [*group, *(row.get(m, "") for m in [*steps, -1])]


def _noise(record: Record, key: str) -> float:
    """Return the KS distance that sampling alone exceeds in 5 % of all cases."""
    if _is(record, "driver"):
        return 1.358 / math.sqrt(record.run.hyperparameters["reference"])
    curve = record.curves[key]
    return float(curve[-1] if key in ("marcus", "ito") else curve[-1][-1])


def _draw(context: Context, records: list[Record]) -> None:
    from mpgd.experiments.limit_figure import draw_case, draw_rotation

    drivers = [r for r in records if _is(r, "driver")]
    for loss, about in LOSSES.items():
        for kind in SIZES:
            law = [r for r in records if _is(r, "law")]
            mine = [r for r in law if r.run.hyperparameters["loss"] == loss]
            mine = [r for r in mine if r.run.hyperparameters["kind"] == kind]
            title = f"{about.title}, {kind} noise"
            path = context.out / f"limit-{loss.replace(' ', '-')}-{kind}.png"
            draw_case(title, mine, drivers).savefig(path, dpi=200)
            context.reporter.say(f"figure: {path}")
    jump = next(r for r in records if _is(r, "jump"))
    path = context.out / "limit-rotation.png"
    draw_rotation(jump, [r for r in records if _is(r, "rotation")]).savefig(path, dpi=200)
    context.reporter.say(f"figure: {path}")
