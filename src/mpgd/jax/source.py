"""Chaotic noise as pure functions: a state, and a step from one state to the next."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from mpgd.jax import words as orbits
from mpgd.jax.elements import element_index
from mpgd.jax.pairs import Pair, make_key, step_key
from mpgd.noise import ChaoticNoise
from mpgd.noise.driver import Driver
from mpgd.noise.phased import PhasedNoise
from mpgd.parameters import check_integer, check_seed, check_shape


class NoiseState(NamedTuple):
    """What a noise needs to go on, all arrays.

    Attributes:
        word: the orbits, int32; the same numbers as in the torch state.
        step: how many steps were taken, a uint32 scalar.
        key: the stream, two uint32, made from (seed, tensor, driver).

    Examples:
        >>> state = noise(0.6).init((3,), seed=0)
        >>> state.word.shape, int(state.step), state.key.shape
        ((3,), 0, (2,))
    """

    word: Array
    step: Array
    key: Array


def noise(
    gamma: float | PhasedNoise,
    beta: float = 0.0,
    *,
    signs: str = "fresh",
    first_sign: str = "drawn",
    longest: int | None = None,
    burst: bool = True,
    shared: bool = False,
) -> Noise:
    """Return the noise of `mpgd.ChaoticNoise` for JAX, or another one with phases.

    Args:
        gamma: the intermittency exponent, in (0.5, 0.99]; or a `mpgd.TelegraphNoise`, a
            `mpgd.noise.PhaseNoise` or a `mpgd.ChaoticNoise`, which says all that follows itself.
        beta: the skewness of the limit, in [-1, 1].
        signs: ``"fresh"``: a new independent sign after each visit to Z. ``"product"``: the old
            sign times such a draw.
        first_sign: ``"drawn"`` like all others, or ``"positive"``.
        longest: no laminar phase has more steps than this; None sets no bound.
        burst: whether a visit to Z has the value c1; without bursts it has c0.
        shared: as the multiplicative noise of an optimizer: one scalar driver for all coordinates.

    Examples:
        >>> from mpgd import TelegraphNoise
        >>> v, _ = noise(TelegraphNoise(dwell=20)).step(noise(TelegraphNoise(20)).init(3, seed=1))
        >>> v.tolist()
        [1.0, 1.0, -1.0]
        >>> source = noise(gamma=0.6, beta=0.5)
        >>> state = source.init((3,), seed=0)
        >>> v, state = jax.jit(source.step)(state)
        >>> v.shape, v.dtype.name, int(state.step)
        ((3,), 'float32', 1)
    """
    if isinstance(gamma, PhasedNoise):
        return Noise(gamma)
    rules: dict[str, Any] = {"signs": signs, "first_sign": first_sign, "shared": shared}
    return Noise(ChaoticNoise(gamma, beta, longest=longest, burst=burst, **rules))


@dataclass(frozen=True)
class Noise:
    """A noise with phases in JAX; made by `mpgd.jax.noise`, which explains the arguments.

    Attributes:
        source: the same noise for torch, whose tables and constants it has.

    Examples:
        >>> noise(0.6).source.gamma
        0.6
    """

    source: PhasedNoise

    @property
    def driver(self) -> Driver:
        """The constants that all engines read."""
        return self.source.driver

    @property
    def exponent(self) -> float:
        """Sums of k values grow like k^exponent; it is eta's power too."""
        return self.source.exponent

    @property
    def shared(self) -> bool:
        """Whether one scalar driver multiplies all coordinates."""
        return self.source.shared

    @property
    def laminar_value(self) -> float:
        """The value c0 in a laminar phase."""
        return self.driver.laminar_value

    def init(
        self,
        shape: int | tuple[int, ...] | Array,
        seed: int | Array = 0,
        *,
        tensor_id: int = 0,
        driver_id: int = 0,
        index: Array | None = None,
    ) -> NoiseState:
        """Return a stationary state; element i depends on (seed, tensor, driver, i) alone.

        Args:
            shape: the state's shape, or an array whose shape and sharding it shall have.
            seed: a non-negative integer; an array of one too, so that `jax.vmap` can go over many.
            tensor_id: which array of a model this is; different ones are independent.
            driver_id: which driver of the array this is.
            index: `element_index` of a block, if this is one.
        """
        tensor_id = check_integer("tensor_id", tensor_id, 0)
        driver_id = check_integer("driver_id", driver_id, 0)
        key = make_key(check_seed_or_array(seed), tensor_id, driver_id)
        word = start_like(self, shape, key, index)
        return NoiseState(word, jnp.zeros((), jnp.uint32), jnp.stack(key))

    def step(self, state: NoiseState, *, index: Array | None = None) -> tuple[Array, NoiseState]:
        """Return the values at this time, float32, and the state at the next.

        After 2^32 - 1 steps, which is as far as the state counts, the orbits stand still.

        Args:
            state: the state now.
            index: as in `init`.
        """
        driver, (word, step, key) = self.driver, state
        where = element_index(word.shape) if index is None else index
        v = orbits.value(word, driver.laminar_value, driver.burst_value, jnp.float32)
        active = step < jnp.uint32(orbits.MOST_STEPS)
        word = orbits.advance(driver, word, step_key((key[0], key[1]), step), where, active)
        return v, state._replace(word=word, step=step + active.astype(jnp.uint32))


def check_seed_or_array(seed: Any) -> Any:
    """Return ``seed``: a number in its range, an array of one integer, or the bits of a JAX key."""
    if not isinstance(seed, Array):
        return check_seed(seed)
    if jnp.issubdtype(seed.dtype, jax.dtypes.prng_key) and seed.shape == ():
        bits = jax.random.key_data(seed).astype(jnp.uint32).reshape(-1)
        return bits[0] & jnp.uint32(2**31 - 1), bits[-1]  # seeds have 63 bits
    if seed.shape != () or not jnp.issubdtype(seed.dtype, jnp.integer):
        raise TypeError(
            "seed must be an integer, an array of one or a jax.random.key, got "
            f"{seed.dtype}{list(seed.shape)}; go over many seeds with jax.vmap"
        )
    return seed


def start_like(source: Noise, like: Any, key: Pair, index: Array | None = None) -> Array:
    """Return first words in the shape, and where it is known the sharding, of ``like``."""
    is_array = hasattr(like, "shape")
    shape = like.shape if is_array else check_shape(like)
    is_known = isinstance(like, Array) and not isinstance(like, jax.core.Tracer)
    make = _starter(like.sharding if is_known and like.committed else None)
    return make(source, shape, key, index)


@lru_cache(maxsize=64)
def _starter(sharding: Any) -> Any:
    """Return the compiled start of words that are to lie in ``sharding``."""
    return jax.jit(_start, static_argnums=(0, 1), out_shardings=sharding)


def _start(source: Noise, shape: tuple[int, ...], key: Pair, index: Array | None) -> Array:
    where = element_index(shape) if index is None else index
    return orbits.start(source.driver, key, where, source.source.draws_first_sign)
