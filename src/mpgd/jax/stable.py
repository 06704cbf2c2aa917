"""Stable laws for JAX: log density, distribution function and draws, under jit, vmap and grad.

`logpdf` and `cdf` call `mpgd.stable.StableLaw` on the host, in double precision, with and without
x64; without it arguments and results are rounded to float32, and nothing between them is. First
derivatives in all five arguments, forward and reverse, are those of `mpgd.stable.slopes`; second
ones raise. `sample` is made of JAX operations, in the dtype of its parameters: its derivatives in
the parameters follow the path of each draw. In float32 the angle has 39 bits.

`Stable` is a numpyro distribution of these functions, where numpyro is installed. Parameters
outside their ranges give nan, since a compiled function cannot raise.

Examples:
    >>> from mpgd.jax import stable
    >>> [round(float(slope), 5) for slope in jax.grad(stable.logpdf, argnums=(0, 1))(0.5, 1.5)]
    [-0.36065, 0.01966]
    >>> stable.sample(jax.random.key(0), 1.5, 0.5, shape=(1000,)).shape
    (1000,)
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from mpgd.stable.law import NAMES, PARAMETRIZATIONS, RANGES, StableLaw
from mpgd.stable.sampling import reparametrized
from mpgd.stable.slopes import gradient

DEFAULTS = {"alpha": 1.5, "beta": 0.0, "loc": 0.0, "scale": 1.0}  # where a parameter is wrong


def logpdf(
    x: ArrayLike,
    alpha: ArrayLike,
    beta: ArrayLike = 0.0,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
    *,
    parametrization: str = "S1",
) -> jax.Array:
    """Return the log density of the stable law.

    Args:
        x: numbers, broadcast with the parameters.
        alpha: stability index in (0, 2].
        beta: skewness in [-1, 1].
        loc: location.
        scale: c > 0.
        parametrization: ``"S1"`` as in scipy, or ``"S0"``, continuous through alpha = 1.

    Examples:
        >>> round(float(jax.jit(logpdf)(1.0, 2.0)), 5)
        -1.51551
    """
    return _call("logpdf", parametrization, x, alpha, beta, loc, scale)


def cdf(
    x: ArrayLike,
    alpha: ArrayLike,
    beta: ArrayLike = 0.0,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
    *,
    parametrization: str = "S1",
) -> jax.Array:
    """Return P(X <= x); arguments as in `logpdf`.

    Examples:
        >>> round(float(cdf(1.0, 1.0)), 6)
        0.75
    """
    return _call("cdf", parametrization, x, alpha, beta, loc, scale)


def sample(
    key: jax.Array,
    alpha: ArrayLike,
    beta: ArrayLike = 0.0,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
    *,
    shape: tuple[int, ...] | None = None,
    parametrization: str = "S1",
) -> jax.Array:
    """Return draws.

    Args:
        key: of `jax.random`.
        alpha: stability index; this and the next three as in `logpdf`.
        beta: skewness.
        loc: location.
        scale: c > 0.
        shape: of the result; None is that of the parameters.
        parametrization: ``"S1"`` or ``"S0"``.

    Examples:
        >>> sample(jax.random.key(0), 1.5, 0.5, shape=(2, 3)).shape
        (2, 3)
    """
    alpha, beta, loc, scale = _promoted(alpha, beta, loc, scale)
    _check(parametrization)
    shape = alpha.shape if shape is None else shape
    sides, coarse, fine, waiting = jax.random.split(key, 4)
    sign = jax.random.rademacher(sides, shape, alpha.dtype)
    # 16 bits and a uniform number behind them: float32 alone would cut the tails at 2^-23.
    first = jax.random.randint(coarse, shape, 0, 2**16).astype(alpha.dtype)
    rest = jax.random.uniform(fine, shape, alpha.dtype, minval=2.0**-23)
    delta = 0.5 * math.pi * (first + rest) / 2**16
    W = jnp.maximum(jax.random.exponential(waiting, shape, alpha.dtype), 1e-30)
    z = reparametrized(jnp, sign, delta, W, alpha, beta, parametrization)
    x = loc + scale * z
    if parametrization == "S1":
        x = x + jnp.where(alpha == 1.0, 2.0 / math.pi * beta * scale * jnp.log(scale), 0.0)
    valid = (alpha > 0.0) & (alpha <= 2.0) & (abs(beta) <= 1.0) & (scale > 0.0)
    return jnp.where(valid, x, jnp.nan)


def _promoted(*arguments: ArrayLike) -> list[jax.Array]:
    kind = jnp.promote_types(jnp.result_type(*arguments), jnp.float32)
    return jnp.broadcast_arrays(*(jnp.asarray(value, kind) for value in arguments))


def _check(parametrization: str) -> None:
    if parametrization not in PARAMETRIZATIONS:
        raise ValueError(f"parametrization must be 'S0' or 'S1', got {parametrization!r}")


def _call(function: str, parametrization: str, *arguments: ArrayLike) -> jax.Array:
    _check(parametrization)
    return _values(function, parametrization, *_promoted(*arguments))


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _values(function: str, parametrization: str, *arguments: jax.Array) -> jax.Array:
    x = arguments[0]
    host = partial(_on_host, function, parametrization)
    kind = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(host, kind, *arguments, vmap_method="broadcast_all")


@_values.defjvp
def _values_jvp(
    function: str, parametrization: str, primals: Any, tangents: Any
) -> tuple[jax.Array, jax.Array]:
    slopes = _slopes(function, parametrization, *primals)
    moved = sum(slopes[..., k] * tangent for k, tangent in enumerate(tangents))
    return _values(function, parametrization, *primals), moved


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _slopes(function: str, parametrization: str, *arguments: jax.Array) -> jax.Array:
    x = arguments[0]
    host = partial(_slopes_on_host, function, parametrization)
    kind = jax.ShapeDtypeStruct((*x.shape, 5), x.dtype)
    return jax.pure_callback(host, kind, *arguments, vmap_method="broadcast_all")


@_slopes.defjvp
def _no_second(function: str, parametrization: str, primals: Any, tangents: Any) -> Any:
    raise NotImplementedError(f"stable.{function} has first derivatives only")


def _on_host(function: str, parametrization: str, *arguments: Any) -> np.ndarray:
    x, (alpha, beta, loc, scale), valid = _checked(arguments)
    values = getattr(StableLaw(alpha, beta, loc, scale, parametrization), function)(x)
    return np.where(valid, values, np.nan).astype(np.asarray(arguments[0]).dtype)


def _slopes_on_host(function: str, parametrization: str, *arguments: Any) -> np.ndarray:
    x, parameters, valid = _checked(arguments)
    rows = np.where(valid, gradient(function, [x, *parameters], parametrization), np.nan)
    return np.moveaxis(rows, 0, -1).astype(np.asarray(arguments[0]).dtype)


def _checked(arguments: Any) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """Return x, the parameters with wrong ones replaced, and where all of them are right."""
    x, *parameters = (np.asarray(value, np.float64) for value in arguments)
    inside = [RANGES[name][1](p) for name, p in zip(NAMES, parameters, strict=True)]
    valid = np.logical_and.reduce(inside)
    filled = [np.where(valid, p, DEFAULTS[name]) for name, p in zip(NAMES, parameters, strict=True)]
    return x, filled, valid


def __getattr__(name: str) -> Any:
    if name == "Stable":  # numpyro is asked for with it
        from mpgd.jax.numpyro_law import Stable

        return Stable
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
