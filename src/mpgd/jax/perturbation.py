"""The perturbation of a tree of parameters, and the orbits it is made of.

    -m x + n,    m = mu eta^gamma1 v1,    n = sigma eta^gamma2 v2          (coordinatewise)

Everything random follows from (seed, leaf, driver number, element, step). Leaves are numbered in
the order of `jax.tree.flatten`, drivers as in `mpgd.optim`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from mpgd.jax import words as orbits
from mpgd.jax.elements import element_index
from mpgd.jax.keywords import Orbit, Settings
from mpgd.jax.pairs import Pair, extend_key, pair, step_key
from mpgd.jax.source import start_like
from mpgd.jax.words import MOST_STEPS

SHARED: Final = 2**40  # stands for the number of the leaf of the shared scalar driver


class PerturbationState(NamedTuple):
    """The orbits of all parameters; a tree of arrays.

    Attributes:
        count: how many updates were made, int32; a schedule is asked for this one.
        step: how many of them had a learning rate above 0, uint32; at others the orbits wait.
        keys: the hash of seed and leaf, uint32 (leaf, 2); the last row is the shared driver's.
        words: the orbits by the name of their driver, trees like the parameters, int32.

    Examples:
        >>> from mpgd.jax import mpgd
        >>> state = mpgd(0.1, sigma=0.2).init({"a": jnp.ones(3), "b": jnp.ones(2)})
        >>> list(state.words), state.words["additive"]["a"].shape, state.keys.shape
        (['additive'], (3,), (3, 2))
    """

    count: Array
    step: Array
    keys: Array
    words: dict[str, Any]


def new_state(settings: Settings, params: Any) -> PerturbationState:
    """Return the stationary start of all orbits."""
    jax.tree.map(_check_leaf, params)
    key = settings.seed_key
    rows = extend_key(key, pair(jnp.arange(numbered(params)[1], dtype=jnp.uint32)))
    last = extend_key(key, pair(SHARED))
    keys = jnp.stack([jnp.append(a, b) for a, b in zip(rows, last, strict=True)], axis=1)
    words = {orbit.name: _started(settings, orbit, keys, params) for orbit in settings.orbits}
    return PerturbationState(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.uint32), keys, words)


def displace(
    settings: Settings, state: PerturbationState, params: Any, eta: Any, index: Any
) -> tuple[Any, PerturbationState]:
    """Return n - m x for every leaf x, or None if nothing is perturbed, and the next state.

    Args:
        settings: the keywords.
        state: the orbits now.
        params: x.
        eta: the learning rate of this update.
        index: `element_index` of every leaf, if the leaves are blocks; else None.
    """
    following = state._replace(
        count=optax.safe_increment(state.count),
        step=jnp.where(eta != 0, optax.safe_increment(state.step), state.step),
    )
    if not settings.orbits:
        return None, following
    active = is_active(settings, state.step, eta)
    terms: list[Any] = [None, None]
    words = {}
    for orbit in settings.orbits:
        v, words[orbit.name] = _draw(settings, state, orbit, params, eta, index, active)
        first = terms[orbit.which]  # a twin comes second and is taken off
        terms[orbit.which] = v if first is None else jax.tree.map(jnp.subtract, first, v)
    return displacement(params, *terms), following._replace(words=words)


def displacement(params: Any, m: Any, n: Any) -> Any:
    """Return n - m x for every leaf x; a term that is None is 0."""
    if m is None:
        return n
    pushed = jax.tree.map(lambda m, x: -m * jnp.asarray(x, m.dtype), m, params)
    return pushed if n is None else jax.tree.map(jnp.add, pushed, n)


def is_active(settings: Settings, step: Array, eta: Any) -> Array:
    """Return whether a step is perturbed: start <= step < stop and eta > 0."""
    stop = MOST_STEPS if settings.stop is None else settings.stop
    return (step >= jnp.uint32(settings.start)) & (step < jnp.uint32(stop)) & (eta != 0)


def numbered(params: Any) -> tuple[Any, int]:
    """Return the tree of the leaves' numbers, and how many there are.

    A leaf that optax masks counts too, so that the transformations which share a tree in
    `optax.multi_transform` give each leaf a number of its own.
    """
    leaves, structure = jax.tree.flatten(params, is_leaf=_is_masked)
    numbers = [x if _is_masked(x) else i for i, x in enumerate(leaves)]
    return jax.tree.unflatten(structure, numbers), len(leaves)


def precision_of(x: Any) -> Any:
    """Return the dtype in which a leaf is updated: its own, but float32 for the half types."""
    return jnp.promote_types(jnp.result_type(x), jnp.float32)


def _is_masked(x: Any) -> bool:
    return isinstance(x, optax.MaskedNode)


def _check_leaf(x: Any) -> None:
    if not jnp.issubdtype(jnp.result_type(x), jnp.floating):
        raise TypeError(
            f"every parameter must be a floating-point array, got {jnp.result_type(x)} of shape "
            f"{jnp.shape(x)}; leave it out with optax.masked"
        )


def _check_index(x: Any, where: Array) -> None:
    if jnp.shape(where) != jnp.shape(x):
        raise ValueError(
            "index must have one number per element of its parameter, got shape "
            f"{jnp.shape(where)} for {jnp.shape(x)}; make it with element_index"
        )


def _started(settings: Settings, orbit: Orbit, keys: Array, params: Any) -> Any:
    """Return the first words of a driver."""
    source, own = settings.sources[orbit.which], _driver_keys(keys, orbit)
    if orbit.shared:
        return start_like(source, (), _row(own, -1))
    leaves = numbered(params)[0]
    return jax.tree.map(
        lambda i, x: start_like(source, jnp.asarray(x), _row(own, i)), leaves, params
    )


def _driver_keys(keys: Array, orbit: Orbit) -> Pair:
    return extend_key((keys[:, 0], keys[:, 1]), pair(orbit.number))


def _row(keys: Pair, i: int) -> Pair:
    return keys[0][i], keys[1][i]


def _draw(
    settings: Settings,
    state: PerturbationState,
    orbit: Orbit,
    params: Any,
    eta: Any,
    index: Any,
    active: Any,
) -> tuple[Any, Any]:
    """Return a driver's values for every leaf, scaled, and its next words."""
    driver, words = settings.sources[orbit.which].driver, state.words[orbit.name]
    c0, c1 = (jnp.where(active, c, 0.0) for c in settings.values(orbit.which, eta))
    keys = step_key(_driver_keys(state.keys, orbit), state.step)

    def value(x: Any, w: Array) -> Array:
        return orbits.value(w, c0, c1, precision_of(x))

    def advance(i: int, w: Array, where: Array) -> Array:
        return orbits.advance(driver, w, _row(keys, i), where, active)

    if orbit.shared:
        v = jax.tree.map(lambda x: value(x, words), params)
        return v, advance(-1, words, element_index(()))
    if index is None:
        index = jax.tree.map(lambda x: element_index(jnp.shape(x)), params)
    jax.tree.map(_check_index, params, index)
    v = jax.tree.map(value, params, words)
    return v, jax.tree.map(advance, numbered(params)[0], words, index)
