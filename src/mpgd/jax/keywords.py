"""The keywords of a perturbation as one frozen value, checked when it is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

import jax.numpy as jnp
from jax import Array

from mpgd.jax.pairs import Pair, make_key, seed_of
from mpgd.jax.source import Noise, check_seed_or_array, noise
from mpgd.jax.words import MOST_STEPS
from mpgd.noise.force import check_force, effective_sizes
from mpgd.parameters import (
    check_choice,
    check_finite,
    check_flag,
    check_integer,
    check_nonnegative,
    check_stream,
)

Number: TypeAlias = (
    float | tuple[float, float]
)  # a number for both noises, or (multiplicative, additive)
LearningRate: TypeAlias = float | Array | Callable[[Array], Any]

SeedLike: TypeAlias = int | Array | tuple[int | Array, int | str]  # a number, or (number, name)

GAMMA, BETA = 0.6, 0.0  # the defaults
ROUNDINGS: Final = ("nearest", "stochastic")
TWIN: Final = 2  # drivers 0 and 1 have 2 and 3 as twins


class Orbit(NamedTuple):
    """One driver: its name in the state, its noise (0 or 1), its number, and if it is a scalar."""

    name: str
    which: int
    number: int
    shared: bool


@dataclass(frozen=True, eq=False)
class Settings:
    """The keywords of `mpgd.jax.mpgd`; an error names the keyword, the rule and the value."""

    learning_rate: LearningRate
    force: float | None = None
    decay: float | None = None
    sigma: float = 0.0
    mu: float = 0.0
    gamma: Number = GAMMA
    beta: Number = BETA
    symmetric: bool = False
    noise: Noise | tuple[Noise, Noise] | None = None
    start: int = 0
    stop: int | None = None
    seed: SeedLike = 0
    rounding: str = "nearest"

    def __post_init__(self) -> None:
        check_learning_rate(self.learning_rate)
        check_nonnegative("mu", self.mu)
        check_finite("sigma", self.sigma)
        check_flag("symmetric", self.symmetric)
        check_force(self._sizes, self.sources)
        start = check_integer("start", self.start, 0, MOST_STEPS)
        if self.stop is not None and check_integer("stop", self.stop, 0, MOST_STEPS) < start:
            raise ValueError(f"stop must not come before start, which is {start}, got {self.stop}")
        check_choice("rounding", self.rounding, ROUNDINGS)
        _ = self.seed_key  # which checks the seed

    @property
    def _sizes(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("mu", "sigma", "force", "decay")}

    @property
    def seed_key(self) -> Pair:
        """The key that all others come from."""
        if not isinstance(self.seed, (tuple, list)):
            return make_key(check_seed_or_array(self.seed))
        if len(self.seed) != 2:
            raise ValueError(f"seed must be a number or a pair (number, name), got {self.seed!r}")
        return make_key(seed_of(check_seed_or_array(self.seed[0]), check_stream(self.seed[1])))

    @property
    def is_shared(self) -> bool:
        """Whether one scalar driver multiplies all coordinates."""
        return self.sources[0].shared

    @cached_property
    def strengths(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Mu and sigma, or what decay and force stand for, and the powers of eta before them."""
        first, second = self.sources
        return effective_sizes(self._sizes, (first, second), (first.exponent, second.exponent))

    @property
    def sizes(self) -> tuple[float, float]:
        """Mu and sigma, or decay / c0 and force / c0."""
        mu, sigma = self.strengths[0]
        return float(mu), float(sigma)

    @property
    def sources(self) -> tuple[Noise, Noise]:
        """The multiplicative and the additive noise."""
        if self.noise is not None:
            first, second = _both("noise", self.noise)
            for name, usual in (("gamma", GAMMA), ("beta", BETA)):
                if getattr(self, name) != usual:
                    raise ValueError(
                        f"noise={self.noise!r} says {name} itself, got "
                        f"{name}={getattr(self, name)!r} too; leave it out"
                    )
            for each in (first, second):
                if not isinstance(each, Noise):
                    raise TypeError(f"noise must be made by mpgd.jax.noise, got {each!r}")
            return first, second
        gammas, betas = _both("gamma", self.gamma), _both("beta", self.beta)
        return noise(gammas[0], betas[0]), noise(gammas[1], betas[1])

    @property
    def orbits(self) -> tuple[Orbit, ...]:
        """The drivers in use; those of one noise, and then their twins."""
        scalar = self.is_shared
        drivers = [
            Orbit("shared" if scalar else "multiplicative", 0, 0, scalar),
            Orbit("additive", 1, 1, False),
        ]
        own = [orbit for orbit in drivers if self.sizes[orbit.which]]
        twins = [o._replace(name=f"{o.name}_twin", number=o.number + TWIN) for o in own]
        return tuple(own + twins) if self.symmetric else tuple(own)

    def eta(self, count: Array) -> Any:
        """Return the learning rate of update number ``count``."""
        return self.learning_rate(count) if callable(self.learning_rate) else self.learning_rate

    def values(self, which: int, eta: Any) -> tuple[Any, Any]:
        """Return c0 and c1 of a noise times mu eta^gamma, or sigma eta^gamma."""
        source, power = self.sources[which], self.strengths[1][which]
        strength = self.sizes[which] * (eta if power == 1.0 else eta**power)
        return source.driver.laminar_value * strength, source.driver.burst_value * strength


def check_learning_rate(learning_rate: Any) -> None:
    """Raise if this is no schedule, no number >= 0 and no array of one."""
    if isinstance(learning_rate, Array):
        if learning_rate.shape != () or not jnp.issubdtype(learning_rate.dtype, jnp.floating):
            raise TypeError(
                "learning_rate must be a number, an array of one or a schedule, got "
                f"{learning_rate.dtype}{list(learning_rate.shape)}"
            )
    elif not callable(learning_rate):
        check_nonnegative("learning_rate", learning_rate)


def _both(name: str, value: Any) -> tuple[Any, Any]:
    if not isinstance(value, (tuple, list)):
        return value, value
    if len(value) != 2:
        raise ValueError(
            f"{name} must be one value or a pair (multiplicative, additive), got {value!r}"
        )
    return value[0], value[1]
