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

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mpgd.maps import ThalerMap
from mpgd.noise.counter_hash import MASK, MULTIPLIER, hash_elements, make_key, step_key
from mpgd.noise.driver import values

Array = NDArray[np.float64]
Integers = NDArray[np.uint64]
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
APART: Final = 50_000  # from the seeds of the first driver, where there is a second
TWIN: Final = 2  # drivers 0 and 1 have 2 and 3 as twins
SIGN_KEY: Final = 0x51695  # of the hash that draws signs
# numpy's own functions have other last bits where a CPU has AVX-512, and a textbook orbit doubles
# them at every burst. These take the C library's, one number at a time.
power: Final = np.float_power
_expm1, _log1p = np.frompyfunc(math.expm1, 1, 1), np.frompyfunc(math.log1p, 1, 1)


@dataclass(frozen=True)
class SwitchedNoise:
    """The perturbations of a run as a table over time, with some deviations switched on.

    Examples:
        >>> noise = SwitchedNoise(0.6, 0.5, switches=frozenset(["reshaped"]))
        >>> multiplicative, additive = noise.tables(seed=1, shapes=[(2, 3), (2,)], steps=5)
        >>> multiplicative.shape
        torch.Size([5, 8])
    """

    gamma: float  # the exponent of both drivers
    beta: float  # the skewness of both
    symmetric: bool = False  # take differences of two orbits
    switches: frozenset[str] = frozenset()  # the deviations, names in `SWITCHES`

    def __post_init__(self) -> None:
        unknown = self.switches - set(SWITCHES)
        if unknown:
            raise ValueError(f"switches must be among {SWITCHES}, got {sorted(unknown)}")

    def has(self, switch: str) -> bool:
        """Return whether a deviation is switched on."""
        return switch in self.switches

    def tables(self, seed: int, shapes: Shapes, steps: int) -> tuple[Tensor, Tensor]:
        """Return v1 and v2 of a run, each (time, element) with the tensors side by side."""
        sizes = [prod(shape) for shape in shapes]
        drivers = (0,) if self.has("one_driver") else (0, 1)
        orbits = deltas = self._orbits(seed, sizes, drivers)
        if self.symmetric:
            twins = self._orbits(seed, sizes, [driver + TWIN for driver in drivers])
            deltas = np.concatenate([orbits, orbits if self.has("same_delta") else twins])
            orbits = np.concatenate([orbits, twins])
        table = self._values(orbits, deltas, steps)
        if self.symmetric:
            table = np.subtract(*np.split(table, 2, axis=1))
        parts = [self._arranged(part, sizes) for part in np.split(table, len(drivers), axis=1)]
        sign = -1.0 if self.has("minus_sigma") else 1.0
        return torch.from_numpy(parts[0]), torch.from_numpy(sign * parts[-1])

    def _arranged(self, table: Array, sizes: Sequence[int]) -> Array:
        if not self.has("reshaped"):
            return table
        parts = np.split(table, np.cumsum(sizes)[:-1], axis=1)
        return np.concatenate([part.T.reshape(part.shape) for part in parts], axis=1)

    def _orbits(self, seed: int, sizes: Sequence[int], drivers: Iterable[int]) -> Integers:
        """Return a number for each orbit that determines all of it."""
        places = [(driver, *tensor) for driver in drivers for tensor in enumerate(sizes)]
        return np.concatenate([self._named(seed, *place) for place in places])

    def _named(self, seed: int, driver: int, ordinal: int, size: int) -> Integers:
        if self.has("same_seeds"):
            twin, additive = divmod(driver, TWIN)
            first = self._first_seed(seed, twin) + APART * additive
            return np.arange(first, first + size, dtype=np.uint64)
        key = make_key(seed, ordinal, driver)
        return hash_elements(torch.arange(size), key).numpy().view(np.uint64)

    def _first_seed(self, seed: int, twin: int) -> int:
        return FIRST_SEED + seed + TWIN_OFFSET * twin

    def _uniforms(self, orbits: Integers) -> Array:
        """Return the first uniform of each orbit."""
        if self.has("same_seeds"):
            return np.array([_first_uniform(seed) for seed in orbits.tolist()])
        return ((orbits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52

    def _values(self, orbits: Integers, deltas: Integers, steps: int) -> Array:
        """Return chi v, (time, orbit); signs are drawn as for the orbits ``deltas``."""
        y_star, (c0, c1) = ThalerMap(self.gamma).y_star, values(self.gamma)
        y, chi, delta = self._start(orbits), self._drawn(deltas, -1), None
        if self.has("constant_sign"):
            chi, delta = np.ones(len(deltas)), self._signs(self._uniforms(deltas))
        table = np.empty((steps, len(y)))
        for k in range(steps):
            in_Z = y > y_star
            sign = self._drawn(deltas, k) if delta is None else chi * delta
            following = np.where(in_Z, sign, chi)
            present = following if self.has("early_sign") else chi
            np.multiply(present, np.where(in_Z, c1, c0), out=table[k])
            chi, y = following, iterate(y, self.gamma, 1)
        return table

    def _start(self, orbits: Integers) -> Array:
        uniforms = self._uniforms(orbits)
        if self.has("iterated_start"):
            return _iterated(uniforms.tobytes(), self.gamma, ITERATES)
        return stationary(uniforms, self.gamma)

    def _drawn(self, orbits: Integers, step: int) -> Array:
        """Return the sign each orbit draws at a step."""
        h = (orbits ^ np.uint64(step_key(SIGN_KEY, step) & MASK)) * np.uint64(MULTIPLIER)
        h = (h ^ h >> np.uint64(32)) * np.uint64(MULTIPLIER)
        return self._signs(h.astype(np.float64) * 2.0**-64)

    def _signs(self, uniforms: Array) -> Array:
        """Return +1 with probability (1 + beta) / 2."""
        return np.where(uniforms < (1 + self.beta) / 2, 1.0, -1.0)


def iterate(y: Array, gamma: float, count: int) -> Array:
    """Return T applied ``count`` times by the textbook formula, as the scripts do."""
    e = 1.0 - gamma
    for _ in range(count):
        z = power(power(y, e) + power(1 + y, e) - 1, 1 / e)
        y = np.where(z > 1, z - 1, z)
    return y


def stationary(u: Array, gamma: float) -> Array:
    """Return `ThalerMap.quantile`, with the same bits on every CPU."""
    e = 1.0 - gamma
    level = 2.0**e * u
    w = np.minimum(level, 1.0)
    for _ in range(60):
        y = power(w, 1 / e)
        excess = w + _expm1(e * _log1p(y).astype(np.float64)).astype(np.float64) - level
        step = excess / (1 + power(1 + y, -gamma) * y / w)
        w = w - step
        if np.all(np.abs(step) <= 1e-15 * w):
            break
    return np.asarray(np.minimum(power(w, 1 / e), 1.0))


@lru_cache(maxsize=32)
def _iterated(uniforms: bytes, gamma: float, count: int) -> Array:
    """Return where uniform draws are after ``count`` steps; several schemes start there."""
    return iterate(np.frombuffer(uniforms), gamma, count)


@lru_cache(maxsize=2**17)
def _first_uniform(seed: int) -> float:
    return float(np.random.RandomState(seed).uniform())


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
