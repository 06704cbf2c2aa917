"""The losses, sizes and runs of the test of Theorem 4.1."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Final

import torch
from torch import Tensor

from mpgd_lab.schema import Needs
from mpgd_lab.store import Run

GAMMA: Final = 0.6
TIMES: Final = (0.5, 1.0)
SIZES: Final = {"additive": (0.0, 0.5), "multiplicative": (0.2, 0.0)}  # mu, sigma
SERIES: Final = ((0.0, "fresh"), (0.0, "product"), (0.5, "fresh"), (0.5, "product"))
WIDTH: Final = 3.0  # of the valley's coordinates
JUMP: Final = 2.5  # of the rotation, as an angle
SEED: Final = 0


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
class Further:
    """How much is simulated of what goes beyond one loss, one gamma and one time."""

    m: tuple[int, ...] = (30, 100, 300, 1000, 3000)  # of two drivers at once
    gammas: tuple[float, ...] = (0.55, 0.6, 0.7, 0.8)
    gammas_m: tuple[int, ...] = (30, 300, 3000)
    points: tuple[int, ...] = (10, 100, 1000, 10_000)  # n = m, training points and steps
    paths: int = 4_000
    reference: int = 8_000
    coupled_m: tuple[int, ...] = (100, 300, 1000, 3000)
    coupled: int = 40  # paths, for each m
    read: int = 250  # times at which they are read for SM1
    sample: int = 60  # paths in the energy distance under SM1, of losses in one dimension
    sample_read: int = 40
    alpha_m: tuple[int, ...] = (100, 300, 1000, 3000, 10_000)
    alpha_p: tuple[float, ...] = (1.9, 3.0)  # above alpha = 5/3
    alpha_paths: int = 20  # for each m


@dataclass(frozen=True)
class Sizes:
    """How much is simulated."""

    m: tuple[int, ...] = (10, 30, 100, 300, 1000, 3000, 10_000)  # steps a unit of time, increasing
    paths: int = 8_000  # of the recursion, for each m
    reference: int = 16_000  # paths of the equation, and sums of the driver
    steps: int = 300  # of the equation, per unit of time
    resamples: int = 60  # of the bootstrap
    joint: int = 800  # vectors in the valley's energy distance, which costs their number squared
    further: Further = Further()


FULL: Final = Sizes()


NEEDS: Final = {  # of each part
    "driver": Needs(("ks",)),
    "law": Needs(
        ("ks",),
        (("grid", "cdf", "limit_cdf"),),
        choices={"loss": tuple(LOSSES), "kind": tuple(SIZES)},
    ),
    "rotation": Needs(("marcus", "ito"), (("radius", "marcus_radius", "ito_radius"),)),
    "jump": Needs(curves=(("n", "x", "y", "gap"),)),
    "two drivers": Needs(("ks", "noise")),
    "gamma": Needs(("ks", "driver", "noise")),
    "points": Needs(("ks", "own_ks", "noise", "holder")),
    "paths": Needs(("p_variation", "squares"), (("sm1", "j1"),), choices={"loss": tuple(LOSSES)}),
    "alpha": Needs(("high",), (("high",),), choices={"kind": tuple(SIZES)}),
}
FIRST: Final = ("driver", "law", "rotation", "jump")  # parts that the section cannot do without
PARTS: Final = Needs(choices={"part": tuple(NEEDS)})


def tasks(protocol: str, seeds: Sequence[int], sizes: Sizes = FULL) -> list[Run]:
    """Return every run; there is one protocol, and one seed."""
    return list(_every(sizes))


def _every(sizes: Sizes) -> Iterator[Run]:
    """Yield every run; those that share a sample of the equation follow one another."""
    size = {name: value for name, value in asdict(sizes).items() if name not in ("m", "further")}
    for beta, signs in SERIES:
        for m in sizes.m:
            h = {"part": "driver", "beta": beta, "m": m, "reference": sizes.reference}
            yield Run("limit", "paper", signs, h, SEED)
    for loss in LOSSES:
        for kind in SIZES:
            for beta, signs in SERIES:
                for m in sizes.m:
                    h = {"part": "law", "loss": loss, "kind": kind, "beta": beta, "m": m} | size
                    yield Run("limit", "paper", signs, h, SEED)
    yield Run("limit", "paper", "fresh", {"part": "jump", "theta": JUMP}, SEED)
    for m in sizes.m:
        yield Run("limit", "paper", "fresh", {"part": "rotation", "m": m} | size, SEED)
    for h in _further(sizes.further, sizes.steps):
        yield Run("limit", "paper", "fresh", h, SEED)


def _further(sizes: Further, steps: int) -> Iterator[dict[str, Any]]:
    """Yield the hyperparameters of the runs beyond one loss, one gamma and one time."""
    size = {"paths": sizes.paths, "reference": sizes.reference, "steps": steps}
    for m in sizes.m:
        yield {"part": "two drivers", "m": m} | size
    for gamma in sizes.gammas:
        for symmetric in (False, True):
            for m in sizes.gammas_m:
                yield {"part": "gamma", "gamma": gamma, "symmetric": symmetric, "m": m} | size
    for n in sizes.points:
        yield {"part": "points", "m": n} | size
    read = {"paths": sizes.coupled, "read": sizes.read}
    read |= {"sample": sizes.sample, "sample_read": sizes.sample_read, "steps": steps}
    for loss in LOSSES:
        for m in sizes.coupled_m:
            yield {"part": "paths", "loss": loss, "m": m} | read
    for kind, p, m in product(SIZES, sizes.alpha_p, sizes.alpha_m):
        yield {"part": "alpha", "kind": kind, "p": p, "m": m, "paths": sizes.alpha_paths}


def label(task: Run) -> str:
    """Return how a run is named in the progress."""
    h = task.hyperparameters
    names = [h["part"], h.get("loss"), h.get("kind"), f"{task.scheme} signs"]
    names += [f"{name} {h[name]}" for name in ("beta", "m") if name in h]
    return ", ".join(filter(None, names))
