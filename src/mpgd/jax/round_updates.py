"""Stochastic rounding in JAX, by the chances of `noise.stochastic_round`, on pairs of uint32."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from mpgd.jax.elements import element_index
from mpgd.jax.keywords import Settings
from mpgd.jax.pairs import Pair, extend_key, hash_elements, make_key, pair, step_key
from mpgd.jax.perturbation import PerturbationState, numbered
from mpgd.jax.source import check_seed_or_array
from mpgd.noise.stochastic_round import (
    BFLOAT_CUT,
    BFLOAT_INFINITY,
    DRIVER,
    EXPONENT_SHIFT,
    FLOAT_CUT,
    FLOAT_INFINITY,
    IMPLICIT,
    LEAST_EXPONENT,
    MAGNITUDE,
    MANTISSA,
    RANDOM_BITS,
)
from mpgd.parameters import check_integer

_u = np.uint32


def stochastic_round(
    x: Array,
    dtype: Any,
    *,
    seed: int | Array,
    step: int | Array,
    stream: int = 0,
    index: Array | None = None,
) -> Array:
    """Return ``x`` in a half type, every element rounded stochastically, unbiased.

    The bits are those of `mpgd.optim.stochastic_round`.

    Args:
        x: a float32 array.
        dtype: ``jnp.bfloat16`` or ``jnp.float16``.
        seed: of the chance.
        step: the number of the step.
        stream: tells arrays apart that are rounded at the same step.
        index: `element_index` of a block, if ``x`` is one.

    Examples:
        >>> y = stochastic_round(jnp.full(1000, 1.001), jnp.bfloat16, seed=0, step=0)
        >>> sorted(set(y.tolist()))
        [1.0, 1.0078125]
    """
    if x.dtype != jnp.float32:
        raise TypeError(f"x must be a float32 array, got {x.dtype}")
    if not _is_half(dtype):
        raise ValueError(f"dtype must be bfloat16 or float16, got {jnp.dtype(dtype)}")
    key = make_key(check_seed_or_array(seed), check_integer("stream", stream, 0), DRIVER)
    where = element_index(x.shape) if index is None else index
    return rounded(x, hash_elements(where, step_key(key, jnp.asarray(step))), dtype)


def rounded(y: Array, h: Pair, dtype: Any) -> Array:
    """Return float32 numbers rounded to a half type by the hashes of their elements."""
    bits = y.view(jnp.uint32)
    a, r = bits & _u(MAGNITUDE), h[0] >> _u(32 - RANDOM_BITS)
    if jnp.dtype(dtype) == jnp.bfloat16:
        k, infinity = (a + (r >> _u(RANDOM_BITS - BFLOAT_CUT))) >> _u(BFLOAT_CUT), BFLOAT_INFINITY
    else:
        k, infinity = _float16(a, r), FLOAT_INFINITY
    halves = (k | ((bits >> _u(16)) & _u(0x8000))).astype(jnp.uint16).view(dtype)
    return jnp.where(k < _u(infinity), halves, y.astype(dtype))


def _float16(a: Array, r: Array) -> Array:
    """Return the magnitudes of float16; see `mpgd.noise.stochastic_round`."""
    exponent = (a >> _u(23)).astype(jnp.int32)
    is_normal = exponent >= LEAST_EXPONENT
    cut = jnp.maximum(LEAST_EXPONENT + FLOAT_CUT - exponent, FLOAT_CUT)
    beyond = jnp.clip(cut - RANDOM_BITS, 0, 31).astype(jnp.uint32)
    small = ((a & _u(MANTISSA)) | _u(IMPLICIT)) >> beyond
    places = jnp.minimum(cut, RANDOM_BITS).astype(jnp.uint32)
    k = (jnp.where(is_normal, a, small) + (r >> (_u(RANDOM_BITS) - places))) >> places
    return jnp.where(is_normal, k - _u(EXPONENT_SHIFT), k)


def round_updates(
    settings: Settings, state: PerturbationState, params: Any, updates: Any, index: Any
) -> Any:
    """Return updates after which each half parameter is x + update, rounded stochastically.

    ``state`` is that before the update. Other parameters keep their updates.
    """
    if settings.rounding == "nearest":
        return updates
    keys = step_key(extend_key((state.keys[:, 0], state.keys[:, 1]), pair(DRIVER)), state.step)
    if index is None:
        index = jax.tree.map(lambda x: element_index(jnp.shape(x)), params)

    def chosen(i: int, x: Any, update: Array, where: Array) -> Array:
        if not _is_half(x.dtype):
            return update
        wide = x.astype(jnp.float32)
        h = hash_elements(where, (keys[0][i], keys[1][i]))
        return rounded(wide + update, h, x.dtype).astype(jnp.float32) - wide

    return jax.tree.map(chosen, numbered(params)[0], params, updates, index)


def _is_half(dtype: Any) -> bool:
    return jnp.dtype(dtype) in (jnp.dtype(jnp.bfloat16), jnp.dtype(jnp.float16))
