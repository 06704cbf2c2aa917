"""The perturbations of the scripts the authors released, each deviation a switch of its own.

With no switch this is the noise of the paper's text, drawn by iterating T in numpy. With all of
them it is what the scripts compute, as far as a description goes:

    iterated_start   y_0 is a uniform draw iterated 10,000 times, not a stationary draw
    constant_sign    every sign draw re-seeds its generator, so a coordinate has one delta: it never
                     flips or flips at every visit; delta comes from the orbit's own first uniform
    early_sign       chi at time k already includes step k
    same_delta       in the symmetric variant both orbits share the delta
    reshaped         the (coordinate, time) table is reshaped to (time, coordinate), not transposed
    same_seeds       element i of any tensor in run s has seed 123456 + s + i, twins i + 100
    one_driver       one driver serves the multiplicative and the additive term
    minus_sigma      the additive term enters with -sigma

The released Gaussian is `released_gaussian`. Nothing here is taken from those scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mpgd.maps import ThalerMap
from mpgd.noise.counter import make_key
from mpgd.noise.driver import values

Array = NDArray[np.float64]
Shapes = Sequence[tuple[int, ...]]

SWITCHES: Final = (
    "iterated_start",
    "constant_sign",
    "early_sign",
    "same_delta",
    "reshaped",
    "same_seeds",
    "one_driver",
    "minus_sigma",
)
ITERATES: Final = 10_000
FIRST_SEED: Final = 123_456
TWIN_OFFSET: Final = 100


@dataclass(frozen=True)
class SwitchedNoise:
    """The perturbations of a run as a table over time, with some deviations switched on.

    Args:
        gamma: the exponent of both drivers.
        beta: the skewness of both.
        symmetric: take differences of two orbits.
        switches: the deviations, names in `SWITCHES`.

    Examples:
        >>> noise = SwitchedNoise(0.6, 0.5, switches=frozenset(["reshaped"]))
        >>> multiplicative, additive = noise.tables(seed=1, shapes=[(2, 3), (2,)], steps=5)
        >>> multiplicative.shape
        torch.Size([5, 8])
    """

    gamma: float
    beta: float
    symmetric: bool = False
    switches: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        unknown = self.switches - set(SWITCHES)
        if unknown:
            raise ValueError(f"switches must be among {SWITCHES}, got {sorted(unknown)}")

    def has(self, switch: str) -> bool:
        """Return whether a deviation is switched on."""
        return switch in self.switches

    def tables(self, seed: int, shapes: Shapes, steps: int) -> tuple[Tensor, Tensor]:
        """Return v1 and v2 of a run, each (time, element) with the tensors side by side."""
        multiplicative = self._driver(seed, shapes, steps, driver=0)
        if self.has("one_driver"):
            additive = multiplicative
        else:
            additive = self._driver(seed, shapes, steps, driver=1)
        sign = -1.0 if self.has("minus_sigma") else 1.0
        return torch.from_numpy(multiplicative), torch.from_numpy(sign * additive)

    def _driver(self, seed: int, shapes: Shapes, steps: int, driver: int) -> Array:
        parts = [
            self._tensor(seed, ordinal, prod(shape), steps, driver)
            for ordinal, shape in enumerate(shapes)
        ]
        return np.concatenate(parts, axis=1)

    def _tensor(self, seed: int, ordinal: int, size: int, steps: int, driver: int) -> Array:
        seeds = self._seeds(seed, ordinal, size, driver)
        uniforms = _uniforms(seeds)
        table = self._values(uniforms, uniforms, seeds, steps)
        if self.symmetric:
            shift = TWIN_OFFSET if self.has("same_seeds") else 2**31
            twin_seeds = (seeds + shift) % 2**32
            twins = _uniforms(twin_seeds)
            deltas = uniforms if self.has("same_delta") else twins
            table = table - self._values(twins, deltas, twin_seeds, steps)
        return table.reshape(steps, size) if self.has("reshaped") else table.T

    def _seeds(self, seed: int, ordinal: int, size: int, driver: int) -> NDArray[np.int64]:
        if self.has("same_seeds"):
            return FIRST_SEED + seed + np.arange(size) + driver * 50_000
        keys = [make_key(seed, ordinal, driver, i) % 2**32 for i in range(size)]
        return np.array(keys, dtype=np.int64)

    def _values(
        self, uniforms: Array, deltas: Array, seeds: NDArray[np.int64], steps: int
    ) -> Array:
        """Return chi v, (coordinate, time)."""
        T, (c0, c1) = ThalerMap(self.gamma), values(self.gamma)
        y = (
            iterate(uniforms, self.gamma, ITERATES)
            if self.has("iterated_start")
            else T.quantile(uniforms)
        )
        orbit = np.empty((len(y), steps))
        for k in range(steps):
            orbit[:, k] = y
            y = iterate(y, self.gamma, 1)
        in_Z = orbit > T.y_star
        return self._signs(in_Z, deltas, seeds) * np.where(in_Z, c1, c0)

    def _signs(self, in_Z: NDArray[np.bool_], deltas: Array, seeds: NDArray[np.int64]) -> Array:
        positive = (1 + self.beta) / 2
        if self.has("constant_sign"):
            delta = np.where(deltas < positive, 1.0, -1.0)
            chi: Array = np.cumprod(np.where(in_Z, delta[:, None], 1.0), axis=1, dtype=np.float64)
            first = np.ones((len(chi), 1))
        else:
            rng = np.random.default_rng(seeds)
            draws = np.where(rng.random((len(in_Z), in_Z.shape[1] + 1)) < positive, 1.0, -1.0)
            chi, first = _last_draw(in_Z, draws), draws[:, :1]
        return chi if self.has("early_sign") else np.concatenate([first, chi[:, :-1]], axis=1)


def _last_draw(in_Z: NDArray[np.bool_], draws: Array) -> Array:
    """Return the draw of the latest visit up to and including each time, else the first draw."""
    when = np.where(in_Z, np.arange(1, in_Z.shape[1] + 1), 0)
    latest = np.maximum.accumulate(when, axis=1)
    return np.take_along_axis(draws, latest, axis=1)


def iterate(y: Array, gamma: float, count: int) -> Array:
    """Return T applied ``count`` times by the textbook formula, as the scripts do."""
    e = 1.0 - gamma
    for _ in range(count):
        z = (y**e + (1 + y) ** e - 1) ** (1 / e)
        y = np.where(z > 1, z - 1, z)
    return y


def _uniforms(seeds: NDArray[np.int64]) -> Array:
    return np.array([np.random.RandomState(int(seed)).uniform() for seed in seeds])


def released_gaussian(shapes: Shapes, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return one step's multiplicative and additive noise from torch's global generator.

    The additive noise of a matrix is the column sums of a normal matrix, the same for every row;
    per tensor the additive draw comes first.
    """
    multiplicative, additive = [], []
    for shape in shapes:
        n = torch.randn(shape, dtype=dtype)
        additive.append((n.sum(0).expand(shape) if len(shape) == 2 else n).reshape(-1))
        multiplicative.append(torch.randn(shape, dtype=dtype).reshape(-1))
    return torch.cat(multiplicative), torch.cat(additive)
