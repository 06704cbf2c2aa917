"""Stable laws for numpyro; the functions are those of `mpgd.jax.stable`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

try:
    from numpyro.distributions import Distribution, constraints
    from numpyro.distributions.util import promote_shapes, validate_sample
except ImportError as error:
    raise ImportError(
        f"mpgd.jax.stable.Stable needs numpyro, but {error}; install it with: pip install numpyro"
    ) from error

from mpgd.jax import stable


class Stable(Distribution):  # type: ignore[misc, unused-ignore]
    """The stable law as a numpyro distribution, for models, NUTS and SVI.

    Args:
        alpha: stability index in (0, 2]; as a latent variable it needs a prior on this interval.
        beta: skewness in [-1, 1].
        loc: location.
        scale: c > 0.
        parametrization: ``"S1"``, or ``"S0"``, which is continuous through alpha = 1.
        validate_args: as in numpyro.

    Examples:
        >>> law = Stable(1.5, jnp.zeros(3))
        >>> law.sample(jax.random.key(0), (2,)).shape, law.log_prob(0.0).shape
        ((2, 3), (3,))
    """

    arg_constraints = {  # noqa: RUF012
        "alpha": constraints.open_interval(0.0, 2.0 + 1e-6),
        "beta": constraints.interval(-1.0, 1.0),
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    reparametrized_params = ["alpha", "beta", "loc", "scale"]  # noqa: RUF012
    pytree_aux_fields = ("parametrization",)

    def __init__(
        self,
        alpha: Any,
        beta: Any = 0.0,
        loc: Any = 0.0,
        scale: Any = 1.0,
        parametrization: str = "S1",
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.parametrization = parametrization
        parameters = (jnp.asarray(value) for value in (alpha, beta, loc, scale))
        self.alpha, self.beta, self.loc, self.scale = promote_shapes(*parameters)
        shapes = (jnp.shape(value) for value in self._parameters())
        super().__init__(jax.lax.broadcast_shapes(*shapes), validate_args=validate_args)

    def sample(self, key: jax.Array | None, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        """Return draws of shape ``sample_shape`` and the batch shape."""
        shape = tuple(sample_shape) + self.batch_shape
        return stable.sample(
            key, *self._parameters(), shape=shape, parametrization=self.parametrization
        )

    @validate_sample
    def log_prob(self, value: Any) -> jax.Array:
        """Return the log density."""
        return stable.logpdf(value, *self._parameters(), parametrization=self.parametrization)

    def cdf(self, value: Any) -> jax.Array:
        """Return P(X <= value)."""
        return stable.cdf(value, *self._parameters(), parametrization=self.parametrization)

    @property
    def mean(self) -> jax.Array:
        """The mean, nan for alpha <= 1."""
        mean = self.loc
        if self.parametrization == "S0":
            mean = mean + self.scale * self.beta * jnp.tan(0.5 * jnp.pi * (2.0 - self.alpha))
        return jnp.broadcast_to(jnp.where(self.alpha > 1.0, mean, jnp.nan), self.batch_shape)

    @property
    def variance(self) -> jax.Array:
        """The variance, inf below alpha = 2."""
        finite = jnp.where(self.alpha == 2.0, 2.0 * self.scale**2, jnp.inf)
        return jnp.broadcast_to(finite, self.batch_shape)

    def _parameters(self) -> tuple[Any, Any, Any, Any]:
        return self.alpha, self.beta, self.loc, self.scale
