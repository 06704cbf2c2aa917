"""The transformations against the formula, with the noise of the numpy reference.

    x' = x - eta g - mu eta^gamma1 v1 x + sigma eta^gamma2 v2

The reference keeps x in float64; ten steps in float32 stay within a few units in the last place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from mpgd.jax import mpgd, noise, perturb
from mpgd.noise.driver import values
from tests.jax import expected
from tests.noise.integer_reference import Reference

SHAPES = {"a": (40,), "b": (3, 5)}
STEPS, SEED = 10, 2**33 + 1
BOTH = {"mu": 0.3, "sigma": 0.2, "gamma": 0.7, "beta": 0.5, "seed": SEED}


def beginning() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


def gradient(x: Any) -> Any:
    return 0.5 * x + 1.0


def descended(
    eta: Callable[[int], float],
    mu: float = 0.0,
    sigma: float = 0.0,
    gamma: Any = 0.6,
    beta: Any = 0.0,
    symmetric: bool = False,
    signs: str = "fresh",
    first_sign: str = "drawn",
    shared: bool = False,
    start: int = 0,
    stop: int | None = None,
    seed: int = 0,
    longest: int | None = None,
    powers: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """Return the parameters after `STEPS` updates, written out in numpy."""
    gammas = gamma if isinstance(gamma, tuple) else (gamma, gamma)
    betas = beta if isinstance(beta, tuple) else (beta, beta)
    powers = gammas if powers is None else powers
    rules = [Reference(g, b, signs, longest) for g, b in zip(gammas, betas, strict=True)]

    def source(which: int, tensor: int, shape: tuple[int, ...]) -> Callable[[], Any]:
        numbers = (which, which + 2) if symmetric else (which,)
        runs = [expected.orbits(rules[which], shape, seed, tensor, n, first_sign) for n in numbers]
        for run in runs:
            run.turn = start  # the noise of a step depends on its number
        return lambda: runs[0].step() - (runs[1].step() if symmetric else 0.0)

    xs = {name: x.astype(np.float64) for name, x in beginning().items()}
    sources = {
        name: [source(w, i, x.shape) for w in (0, 1)] for i, (name, x) in enumerate(xs.items())
    }
    scalar = source(0, expected.SHARED, ())
    step = 0
    for count in range(STEPS):
        h = eta(count)
        if h == 0:
            continue
        active = start <= step and (stop is None or step < stop)
        common = scalar() if active and shared else 0.0
        for name, x in xs.items():
            m = n = 0.0
            if active:
                own, other = sources[name]
                m = mu * h ** powers[0] * (common if shared else own())
                n = sigma * h ** powers[1] * other()
            xs[name] = x - h * gradient(x) - m * x + n
        step += 1
    return xs


def with_noise(keywords: dict[str, Any]) -> dict[str, Any]:
    """Return keywords with those of the noises in two noises, as `mpgd.jax` takes them."""
    both = [
        value if isinstance(value, tuple) else (value, value)
        for value in (keywords["gamma"], keywords["beta"])
    ]
    rules = {k: v for k, v in keywords.items() if k in ("signs", "first_sign", "longest", "shared")}
    rest = {k: v for k, v in keywords.items() if k not in (*rules, "gamma", "beta")}
    first, second = (noise(g, b, **rules) for g, b in zip(*both, strict=True))
    return {**rest, "noise": (first, second)}


def trained(optimizer: Any, dtype: Any = jnp.float32) -> tuple[Any, Any]:
    """Return parameters and state after `STEPS` jitted updates."""
    params = jax.tree.map(lambda x: jnp.asarray(x, dtype), beginning())
    state = optimizer.init(params)

    @jax.jit
    def step(params: Any, state: Any) -> tuple[Any, Any]:
        updates, state = optimizer.update(jax.tree.map(gradient, params), state, params)
        return optax.apply_updates(params, updates), state

    for _ in range(STEPS):
        params, state = step(params, state)
    return params, state


def agree(params: Any, xs: Any, rtol: float = 1e-5) -> None:
    for name, x in xs.items():
        np.testing.assert_allclose(np.asarray(params[name], np.float64), x, rtol=rtol, atol=rtol)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mu": 0.0},
        {"sigma": 0.0},
        {"sigma": -0.2},
        {"symmetric": True},
        {"shared": True},
        {"shared": True, "symmetric": True},
        {"gamma": (0.6, 0.8), "beta": (1.0, -0.5)},
        {"start": 3, "stop": 7},
        {"signs": "product", "first_sign": "positive"},
        {"mu": 0.0, "sigma": 0.0},
        {"longest": 3},
        {"longest": 5000, "symmetric": True},
    ],
    ids=str,
)
def test_updates_follow_the_formula(changes: dict[str, Any]) -> None:
    keywords = {**BOTH, **changes}
    params, _ = trained(mpgd(0.1, **with_noise(keywords)))
    agree(params, descended(lambda k: 0.1, **keywords))


@pytest.mark.parametrize("changes", [{}, {"symmetric": True}, {"shared": True}])
def test_force_and_decay_push_in_proportion_to_the_rate(changes: dict[str, Any]) -> None:
    rates = [0.1, 0.1, 0.0, 0.2, 0.05, 0.01, 0.01, 0.3, 0.1, 0.1]
    given = {"gamma": (0.6, 0.7), "beta": 0.5, "seed": SEED, "longest": 4, **changes}
    params, _ = trained(
        mpgd(lambda count: jnp.asarray(rates)[count], force=-0.4, decay=0.3, **with_noise(given))
    )
    c0 = [values(gamma)[0] for gamma in (0.6, 0.7)]
    same = {"mu": 0.3 / c0[0], "sigma": -0.4 / c0[1], **given}
    agree(params, descended(lambda k: rates[k], **same, powers=(1.0, 1.0)))
    with pytest.raises(AssertionError):
        agree(params, descended(lambda k: rates[k], **same), rtol=1e-3)


def test_another_seed_does_not_agree() -> None:
    """The check above can fail."""
    params, _ = trained(mpgd(0.1, **{**BOTH, "seed": 4}))
    with pytest.raises(AssertionError):
        agree(params, descended(lambda k: 0.1, **BOTH), rtol=1e-3)


def test_a_schedule_scales_the_perturbation_and_orbits_wait_at_zero() -> None:
    """Nine rates, three of them 0: a count of updates and a count of steps are two things."""
    rates = [0.0, 0.1, 0.2, 0.0, 0.05, 0.1, 0.0, 0.3, 0.1, 0.1]
    optimizer = mpgd(lambda count: jnp.asarray(rates)[count], **BOTH, start=2, stop=5)
    params, state = trained(optimizer)
    agree(params, descended(lambda k: rates[k], **BOTH, start=2, stop=5))
    assert int(state.count) == 10
    assert int(state.step) == 7


@pytest.mark.parametrize("rate", [0.0, lambda count: jnp.float32(0.0)], ids=["number", "schedule"])
def test_at_a_rate_of_zero_nothing_changes(rate: Any) -> None:
    optimizer = mpgd(rate, **BOTH)
    params = {"a": jnp.ones(5)}
    state = optimizer.init(params)
    updates, after = optimizer.update({"a": jnp.full(5, jnp.nan)}, state, params)
    assert np.array_equal(updates["a"], np.zeros(5))
    assert all(np.array_equal(state.words[k]["a"], after.words[k]["a"]) for k in state.words)
    assert int(after.step) == 0


def test_a_wrapped_sgd_is_mpgd() -> None:
    one, _ = trained(mpgd(0.1, **BOTH))
    other, _ = trained(perturb(optax.sgd(0.1), 0.1, **BOTH))
    agree(one, other, rtol=1e-6)


def test_perturb_adds_the_same_term_to_any_step() -> None:
    """A chain with clipping and Adam: the perturbation is the difference to the chain alone."""
    inner = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1))
    params = jax.tree.map(jnp.asarray, beginning())
    grads = jax.tree.map(gradient, params)
    optimizer = perturb(inner, 0.1, **BOTH)
    found, _ = jax.jit(optimizer.update)(grads, optimizer.init(params), params)
    plain, _ = jax.jit(inner.update)(grads, inner.init(params), params)
    still = mpgd(0.1, **BOTH)
    nothing = jax.tree.map(jnp.zeros_like, grads)
    alone, _ = jax.jit(still.update)(nothing, still.init(params), params)
    agree(found, jax.tree.map(lambda a, b: np.float64(a) + np.float64(b), plain, alone), 1e-6)


@pytest.mark.parametrize(("dtype", "rtol"), [(jnp.bfloat16, 2e-2), (jnp.float16, 3e-3)])
def test_half_types_are_updated_in_float32(dtype: Any, rtol: float) -> None:
    params, _ = trained(mpgd(0.1, **BOTH), dtype)
    assert params["a"].dtype == dtype
    agree(params, descended(lambda k: 0.1, **BOTH), rtol=rtol)
    x = {"a": jnp.ones(3, dtype)}
    optimizer = mpgd(0.1, **BOTH)
    assert optimizer.update(x, optimizer.init(x), x)[0]["a"].dtype == jnp.float32


def test_float64_parameters_are_updated_in_float64() -> None:
    with jax.enable_x64(True):
        params, state = trained(mpgd(0.1, **BOTH), jnp.float64)
    assert params["a"].dtype == jnp.float64
    agree(params, descended(lambda k: 0.1, **BOTH), rtol=1e-14)
    _, narrow = trained(mpgd(0.1, **BOTH))
    jax.tree.map(np.testing.assert_array_equal, state.words, narrow.words)


def test_masked_leaves_keep_their_numbers() -> None:
    """Two groups with one seed are the whole tree, as two parameter groups are in torch."""
    labels = {"a": "one", "b": "two"}
    both = optax.multi_transform({"one": mpgd(0.1, **BOTH), "two": mpgd(0.1, **BOTH)}, labels)
    params, _ = trained(both)
    agree(params, descended(lambda k: 0.1, **BOTH))


def test_a_learning_rate_may_be_injected() -> None:
    fixed = ("mu", "sigma", "gamma", "beta", "symmetric", "start", "stop", "seed")
    optimizer = optax.inject_hyperparams(mpgd, static_args=fixed)(learning_rate=0.1, **BOTH)
    params, _ = trained(optimizer)
    agree(params, descended(lambda k: 0.1, **BOTH))


def test_a_jax_key_is_a_seed() -> None:
    """Its bits are the seed; keys that were split give other noise."""
    one, other = jax.random.split(jax.random.key(3))
    words = [
        mpgd(0.1, sigma=0.1, seed=seed).init(jnp.ones(50)).words["additive"]
        for seed in (one, one, other)
    ]
    assert np.array_equal(words[0], words[1])
    assert not np.array_equal(words[0], words[2])
    high, low = (int(x) for x in jax.random.key_data(one))
    same = mpgd(0.1, sigma=0.1, seed=(high % 2**31) * 2**32 + low).init(jnp.ones(50))
    assert np.array_equal(words[0], same.words["additive"])


def test_the_inner_update_sees_the_perturbed_parameters() -> None:
    """With weight decay it decays the perturbed x."""
    decayed = optax.chain(optax.add_decayed_weights(0.5), optax.sgd(0.1))
    optimizer = perturb(decayed, 0.1, sigma=0.2)
    x = jnp.ones(4)
    state = optimizer.init(x)
    updates, _ = optimizer.update(jnp.zeros(4), state, x)
    noise_alone, _ = perturb(optax.sgd(0.1), 0.1, sigma=0.2).update(jnp.zeros(4), _plain(x), x)
    np.testing.assert_allclose(updates, noise_alone - 0.05 * (x + noise_alone), rtol=1e-5)


def _plain(x: Any) -> Any:
    return perturb(optax.sgd(0.1), 0.1, sigma=0.2).init(x)


def test_vmap_trains_many_seeds() -> None:
    def last(seed: Any) -> Any:
        optimizer = mpgd(0.1, **{**BOTH, "seed": seed})
        params = jax.tree.map(jnp.asarray, beginning())

        def step(carry: Any, _: None) -> tuple[Any, None]:
            params, state = carry
            updates, state = optimizer.update(jax.tree.map(gradient, params), state, params)
            return (optax.apply_updates(params, updates), state), None

        return jax.lax.scan(step, (params, optimizer.init(params)), None, STEPS)[0][0]

    many = jax.jit(jax.vmap(last))(jnp.arange(3, 6))
    for k in range(3):
        one = jax.tree.map(lambda x, k=k: x[k], many)
        agree(one, descended(lambda k: 0.1, **{**BOTH, "seed": 3 + k}))


@pytest.mark.parametrize(
    ("keywords", "error", "match"),
    [
        ({"learning_rate": -0.1}, ValueError, r"learning_rate must lie in \[0, inf\), got -0.1"),
        ({"learning_rate": "fast"}, TypeError, "learning_rate must be a number"),
        ({"learning_rate": np.ones(2)}, TypeError, "learning_rate must be a number"),
        ({"mu": -1.0}, ValueError, r"mu must lie in \[0, inf\), got -1.0"),
        ({"sigma": float("nan")}, ValueError, "sigma must lie in .*, got nan"),
        ({"gamma": 1.5}, ValueError, r"gamma must lie in \(0.5, 0.99\], got 1.5"),
        ({"gamma": (0.6, 0.7, 0.8)}, ValueError, "gamma must be one value or a pair"),
        ({"beta": (0.0, 3.0)}, ValueError, r"beta must lie in \[-1, 1\], got 3.0"),
        ({"symmetric": 1}, TypeError, "symmetric must be True or False, got 1"),
        ({"noise": "gaussian"}, TypeError, "noise must be made by mpgd.jax.noise, got 'gaussian'"),
        ({"noise": noise(0.6), "beta": 0.5}, ValueError, "says beta itself, got beta=0.5 too"),
        ({"start": -1}, ValueError, "start must be an integer in"),
        ({"start": 5, "stop": 4}, ValueError, "stop must not come before start, which is 5, got 4"),
        ({"seed": -3}, ValueError, "seed must be an integer in"),
        ({"seed": (1, 2, 3)}, ValueError, "seed must be a number or a pair"),
        ({"force": 0.1, "sigma": 0.2}, ValueError, "force is given instead of sigma, got"),
        ({"decay": 0.1, "mu": 0.2}, ValueError, "decay is given instead of mu, got decay=0.1"),
        ({"decay": -0.1}, ValueError, r"decay must lie in \[0, inf\), got -0.1"),
    ],
    ids=str,
)
@pytest.mark.parametrize("make", [mpgd, lambda **k: perturb(optax.sgd(0.1), **k)])
def test_a_wrong_keyword_is_named(
    make: Any, keywords: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        make(**{"learning_rate": 0.1, **keywords})


def test_an_array_as_learning_rate_has_one_element() -> None:
    with pytest.raises(TypeError, match=r"learning_rate must be a number, .*, got float32\[2\]"):
        mpgd(jnp.ones(2))


def test_what_update_needs_is_named() -> None:
    optimizer = mpgd(0.1, sigma=0.1)
    params = {"a": jnp.ones(3)}
    state = optimizer.init(params)
    with pytest.raises(ValueError, match=r"needs the parameters, got None; call update\(grads,"):
        optimizer.update(params, state)
    with pytest.raises(ValueError, match=r"index must have one number per element .* \(2,\) for"):
        optimizer.update(params, state, params, index={"a": jnp.arange(2)})
    with pytest.raises(TypeError, match=r"floating-point array, got int32 .*; leave it out with"):
        optimizer.init({"a": jnp.arange(3)})
