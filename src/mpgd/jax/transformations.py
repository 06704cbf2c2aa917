"""The update of multiscale perturbed gradient descent as optax transformations.

    x' = x - eta grad(x) - mu eta^gamma1 v1 x + sigma eta^gamma2 v2          (coordinatewise)

All terms use the old x. v1 and v2 are the values of the multiplicative and the additive noise, in
the symmetric variant differences of two independent ones.

Reference: Lim, Wan & Simsekli (2022), equation (8); the symmetric variant is equation (11).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from mpgd.jax.keywords import LearningRate, Number, Settings
from mpgd.jax.perturbation import PerturbationState, displace, new_state, precision_of
from mpgd.jax.round_updates import round_updates


class PerturbedState(NamedTuple):
    """The state of `mpgd.jax.perturb`.

    Attributes:
        inner: the state of the wrapped transformation.
        perturbation: the orbits.

    Examples:
        >>> state = perturb(optax.adam(1e-3), 1e-3, sigma=0.1).init(jnp.ones(2))
        >>> state.perturbation.words["additive"].shape
        (2,)
    """

    inner: Any
    perturbation: PerturbationState


def mpgd(
    learning_rate: LearningRate,
    mu: float = 0.0,
    sigma: float = 0.0,
    gamma: Number = 0.6,
    beta: Number = 0.0,
    *,
    symmetric: bool = False,
    signs: str = "fresh",
    first_sign: str = "drawn",
    shared_multiplicative: bool = False,
    start: int = 0,
    stop: int | None = None,
    seed: int | Array = 0,
    longest: int | None = None,
    force: float | None = None,
    decay: float | None = None,
    stream: int | str | None = None,
    rounding: str = "nearest",
) -> optax.GradientTransformationExtraArgs:
    """Return gradient descent with chaotic, heavy-tailed perturbations.

    The noise has the words of `mpgd.MPGD` in every bit, if leaf k here, in the order of
    `jax.tree.flatten`, is parameter k there, with the same shape. Parameters agree to rounding, as
    XLA contracts the last multiplications and additions. The half types are updated in float32, and
    updates come in that precision; `optax.apply_updates` rounds the sum.

    Args:
        learning_rate: eta, a number or a schedule. At 0 nothing changes and the orbits wait.
        mu: the size of the multiplicative perturbation.
        sigma: the size of the additive one.
        gamma: the exponent of the noise, a number or a pair (multiplicative, additive).
        beta: its skewness, a number or such a pair.
        symmetric: take differences of two independent drivers.
        signs: the rule of the signs, ``"fresh"`` or ``"product"``.
        first_sign: ``"drawn"`` or ``"positive"``.
        shared_multiplicative: one scalar multiplicative driver for all coordinates.
        start: the first step that is perturbed.
        stop: the first step that is not any more.
        seed: of the noise; an array of one integer too, so that `jax.vmap` can go over many.
        longest: no laminar phase has more steps than this; None sets no bound.
        force: instead of sigma: a step pushes by force eta v2/c0, in units of the gradient,
            whatever eta is; with symmetric by up to twice that.
        decay: instead of mu: the weight decay, or growth, of a laminar phase.
        stream: a name or number; trees of one training with other streams have other noise.
        rounding: of bfloat16 and float16 parameters, ``"nearest"`` or ``"stochastic"``, by the same
            chances as in torch. The updates are then such that `optax.apply_updates` ends at a
            neighbour of the float32 result that was chosen by chance.

    Its ``update`` needs the parameters. Where they are blocks of larger arrays, as in
    `jax.shard_map`, it also needs ``index``, a tree of `mpgd.jax.element_index`.

    Examples:
        >>> optimizer = mpgd(0.1, mu=0.01, sigma=0.02, gamma=0.6)
        >>> params = {"w": jnp.ones(3)}
        >>> state = optimizer.init(params)
        >>> gradients = jax.grad(lambda p: (p["w"] ** 2).sum())(params)
        >>> updates, state = optimizer.update(gradients, state, params)
        >>> optax.apply_updates(params, updates)["w"].shape
        (3,)
    """
    settings = Settings(
        learning_rate,
        mu,
        sigma,
        gamma,
        beta,
        symmetric,
        signs,
        first_sign,
        shared_multiplicative,
        start,
        stop,
        seed,
        longest,
        force,
        decay,
        stream,
        rounding,
    )

    def init(params: Any) -> PerturbationState:
        return new_state(settings, params)

    def update(
        grads: Any, state: PerturbationState, params: Any = None, *, index: Any = None, **_: Any
    ) -> tuple[Any, PerturbationState]:
        _check_given(params)
        eta = settings.eta(state.count)
        moved, following = displace(settings, state, params, eta, index)
        updates = jax.tree.map(lambda x, g: _descent(g, eta, precision_of(x)), params, grads)
        return round_updates(settings, state, params, _sum(updates, moved), index), following

    return optax.GradientTransformationExtraArgs(init, update)


def perturb(
    inner: optax.GradientTransformation,
    learning_rate: LearningRate,
    mu: float = 0.0,
    sigma: float = 0.0,
    gamma: Number = 0.6,
    beta: Number = 0.0,
    *,
    symmetric: bool = False,
    signs: str = "fresh",
    first_sign: str = "drawn",
    shared_multiplicative: bool = False,
    start: int = 0,
    stop: int | None = None,
    seed: int | Array = 0,
    longest: int | None = None,
    force: float | None = None,
    decay: float | None = None,
    stream: int | str | None = None,
    rounding: str = "nearest",
) -> optax.GradientTransformationExtraArgs:
    """Return ``inner`` with the same perturbation added to its updates.

    Args:
        inner: any optax transformation that ends in updates to be added to the parameters.
        learning_rate: eta in front of the perturbation, a number or a schedule: the one given to
            ``inner``, which does not show it.
        mu: as all that follow, the keywords of `mpgd.jax.mpgd`.
        sigma: the size of the additive perturbation.
        gamma: the exponent of the noise.
        beta: its skewness.
        symmetric: take differences of two independent drivers.
        signs: the rule of the signs.
        first_sign: how the first sign is found.
        shared_multiplicative: one scalar multiplicative driver for all coordinates.
        start: the first step that is perturbed.
        stop: the first step that is not any more.
        seed: of the noise.
        longest: the most steps a laminar phase has.
        force: instead of sigma: the push of a laminar phase, in units of the inner update over eta.
        decay: instead of mu: the weight decay of a laminar phase, in such units.
        stream: a name or number; trees of one training with other streams have other noise.
        rounding: of bfloat16 and float16 parameters.

    Examples:
        >>> optimizer = perturb(optax.adam(1e-3), 1e-3, sigma=0.01)
        >>> params = jnp.ones(3)
        >>> state = optimizer.init(params)
        >>> updates, state = optimizer.update(params, state, params)
        >>> updates.shape
        (3,)
    """
    settings = Settings(
        learning_rate,
        mu,
        sigma,
        gamma,
        beta,
        symmetric,
        signs,
        first_sign,
        shared_multiplicative,
        start,
        stop,
        seed,
        longest,
        force,
        decay,
        stream,
        rounding,
    )
    inside = optax.with_extra_args_support(inner)

    def init(params: Any) -> PerturbedState:
        return PerturbedState(inside.init(params), new_state(settings, params))

    def update(
        grads: Any, state: PerturbedState, params: Any = None, *, index: Any = None, **extra: Any
    ) -> tuple[Any, PerturbedState]:
        _check_given(params)
        orbits = state.perturbation
        eta = settings.eta(orbits.count)
        updates, own = inside.update(grads, state.inner, params, **extra)
        moved, following = displace(settings, orbits, params, eta, index)
        updates = round_updates(settings, orbits, params, _sum(updates, moved), index)
        return updates, PerturbedState(own, following)

    return optax.GradientTransformationExtraArgs(init, update)


def _check_given(params: Any) -> None:
    if params is None:
        raise ValueError("update needs the parameters, got None; call update(grads, state, params)")


def _descent(gradient: Any, eta: Any, precision: Any) -> Array:
    """Return -eta g; 0 where eta is 0, even if a gradient is not finite."""
    step = -jnp.asarray(eta, precision) * jnp.asarray(gradient, precision)
    if isinstance(eta, Array):
        return jnp.where(eta != 0, step, jnp.zeros_like(step))
    return step if eta else jnp.zeros_like(step)


def _sum(updates: Any, moved: Any) -> Any:
    return updates if moved is None else jax.tree.map(jnp.add, updates, moved)
