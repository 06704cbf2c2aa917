"""Stable laws under jit, vmap and grad, in float32 and with x64, and in numpyro."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mpgd.jax import stable
from mpgd.stable import StableLaw
from mpgd.stable.slopes import gradient

X = jnp.array([-7.0, -0.5, 0.3, 2.0, 400.0])
THETA = (1.3, 0.4, 0.2, 1.5)


@pytest.mark.parametrize("form", ["S0", "S1"])
@pytest.mark.parametrize(("name", "method"), [("logpdf", "logpdf"), ("cdf", "cdf")])
def test_values_and_slopes_are_rounded_to_float32_once(name: str, method: str, form: str) -> None:
    function = jax.jit(lambda *a: getattr(stable, name)(*a, parametrization=form))
    law = StableLaw(*np.float32(THETA).tolist(), form)
    expected = getattr(law, method)(np.asarray(X))
    np.testing.assert_allclose(function(X, *THETA), expected, rtol=1.3e-7)
    slopes = jax.vmap(jax.grad(function, argnums=(0, 1, 2, 3, 4)), (0, None, None, None, None))
    rows = gradient(name, [np.asarray(X), *np.float32(THETA).tolist()], form)
    np.testing.assert_allclose(slopes(X, *THETA), rows, rtol=1e-6, atol=1e-10)


def test_transformations_agree() -> None:
    """Nested vmap, forward and reverse mode, and a gradient inside jit inside vmap."""
    alphas = jnp.array([0.6, 1.0, 1.7])
    table = jax.vmap(lambda a: jax.vmap(lambda x: stable.logpdf(x, a))(X))(alphas)
    np.testing.assert_allclose(table, stable.logpdf(X, alphas[:, None]), rtol=3e-7)
    forward, reverse = (d(lambda a: stable.logpdf(X, a))(1.5) for d in (jax.jacfwd, jax.jacrev))
    np.testing.assert_allclose(forward, reverse, rtol=3e-7)
    each = jax.vmap(jax.jit(jax.grad(stable.cdf, argnums=1)), (None, 0))(0.7, alphas)
    one_by_one = [jax.grad(stable.cdf, argnums=1)(0.7, a) for a in alphas]
    np.testing.assert_allclose(each, jnp.stack(one_by_one), rtol=3e-6)


def test_wrong_parameters() -> None:
    alpha = jnp.array([0.0, 1.5, 2.1, jnp.nan])
    for function in (stable.logpdf, stable.cdf, jax.vmap(jax.grad(stable.cdf, 1), (None, 0))):
        assert np.isnan(function(0.0, alpha)).tolist() == [True, False, True, True]
    assert np.isnan(stable.sample(jax.random.key(0), alpha)).tolist() == [True, False, True, True]
    assert np.isnan(stable.logpdf(0.0, 1.5, 1.5))
    assert np.isnan(stable.logpdf(0.0, 1.5, 0.0, 0.0, 0.0))
    with pytest.raises(ValueError, match="must be 'S0' or 'S1', got 'S2'"):
        stable.logpdf(0.0, 1.5, parametrization="S2")
    with pytest.raises(NotImplementedError, match=r"stable\.logpdf has first derivatives only"):
        jax.hessian(stable.logpdf, 1)(0.0, 1.5)
    with pytest.raises(AttributeError, match="no attribute 'Unknown'"):
        _ = stable.Unknown


@pytest.mark.parametrize("form", ["S0", "S1"])
@pytest.mark.parametrize(("alpha", "beta"), [(0.4, 0.3), (0.6, 1.0), (1.0, 0.5), (1.5, -1.0)])
def test_samples_follow_the_law(alpha: float, beta: float, form: str) -> None:
    """The Kolmogorov distance is below its 1e-5 quantile; with twice the scale it is not."""
    draw = jax.jit(
        lambda k: stable.sample(k, alpha, beta, 0.5, 1.5, shape=(20_000,), parametrization=form)
    )
    x = np.sort(np.asarray(draw(jax.random.key(3)), np.float64))
    rank = (np.arange(x.size) + 0.5) / x.size
    bound = 2.47 / np.sqrt(x.size)
    assert np.abs(StableLaw(alpha, beta, 0.5, 1.5, form).cdf(x) - rank).max() < bound
    assert np.abs(StableLaw(alpha, beta, 0.5, 3.0, form).cdf(x) - rank).max() > bound


def test_pathwise_gradients_are_derivatives_of_means() -> None:
    count, theta = 10_000, jnp.array([1.1, 0.4, 0.3, 1.2])

    def bounded(theta: jax.Array, key: jax.Array) -> jax.Array:
        return jnp.tanh(stable.sample(key, *theta, parametrization="S0"))

    slopes = jax.jit(jax.vmap(jax.grad(bounded), (None, 0)))(
        theta, jax.random.split(jax.random.key(0), count)
    )
    grid = np.linspace(-15.0, 15.0, 3001)
    rows = gradient("cdf", [grid, *theta.tolist()], "S0")[1:]
    exact = -np.trapezoid(rows / np.cosh(grid) ** 2, grid)
    error = slopes.std(axis=0) / count**0.5
    assert (np.abs(slopes.mean(axis=0) - exact) < 5.0 * error + 1e-6).all()
    assert (error < 0.04).all()


def test_x64() -> None:
    """In a new process, since the switch is global: values and draws of float64."""
    code = """
import jax, numpy as np
from mpgd.jax import stable
from mpgd.stable import StableLaw
x = np.array([-3.0, 0.5, 40.0])
value = stable.logpdf(x, 1.3, 0.4)
assert value.dtype == np.float64 and (value == StableLaw(1.3, 0.4).logpdf(x)).all()
assert stable.sample(jax.random.key(0), np.float64(1.3)).dtype == np.float64
"""
    done = subprocess.run(
        [sys.executable, "-c", "import jax; jax.config.update('jax_enable_x64', True)" + code],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_numpyro() -> None:
    """Shapes, a site of a model with gradients, and jit over the distribution as a pytree."""
    numpyro = pytest.importorskip("numpyro")
    from numpyro.infer.util import log_density

    law = stable.Stable(
        jnp.array([[0.8], [1.5]]), jnp.array([0.0, 0.5, -1.0]), parametrization="S0"
    )
    assert law.batch_shape == (2, 3)
    assert law.sample(jax.random.key(0), (4,)).shape == (4, 2, 3)
    assert law.expand((5, 2, 3)).log_prob(0.0).shape == (5, 2, 3)
    np.testing.assert_allclose(jax.jit(lambda d: d.cdf(0.3))(law), law.cdf(0.3), rtol=3e-7)
    assert np.isnan(law.mean[0]).all()
    assert stable.Stable(2.0, scale=3.0).variance == 18.0
    with pytest.raises(ValueError, match="alpha"):
        stable.Stable(2.5, validate_args=True)

    def model(x: jax.Array) -> None:
        alpha = numpyro.sample("alpha", numpyro.distributions.Uniform(0.5, 2.0))
        numpyro.sample("x", stable.Stable(alpha, 0.2), obs=x)

    def total(alpha: float) -> jax.Array:
        return log_density(model, (X,), {}, {"alpha": alpha})[0]

    expected = gradient("logpdf", [np.asarray(X), np.float32(1.4), np.float32(0.2), 0.0, 1.0])[
        1
    ].sum()
    assert jax.grad(total)(1.4) == pytest.approx(expected, rel=1e-5)
