"""The stable law S_alpha(scale, beta, loc), with the names of ``scipy.stats``.

For 0 < alpha <= 2, -1 <= beta <= 1, scale c > 0 and location m the characteristic function is, in
Nolan's parametrisation S1 (alpha = 1: with tan(pi alpha/2) replaced by -(2/pi) log|t|)

    E exp(i t X) = exp(-|c t|^alpha (1 - i beta sign(t) tan(pi alpha/2)) + i m t)

and in S0, which is continuous in all four parameters, X has in addition the shift
-beta c tan(pi alpha/2). alpha = 2 is the normal law of variance 2 c^2, alpha = 1 and beta = 0
Cauchy's, alpha = 1/2 and beta = 1 Levy's. cdf and sf are each computed in their own tail, where 1
minus the other would cancel.

References: Samorodnitsky & Taqqu (1994), Definition 1.1.6; Nolan (2020), Univariate Stable
Distributions, Definitions 1.4 and 1.5.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpgd.stable.integral import Array
from mpgd.stable.sampling import draw
from mpgd.stable.standard import location, log_functions, quantile, skew_shift

if TYPE_CHECKING:
    from mpgd.stable.estimate import StableFit

Parameter = Any  # a float, or an array of them

PARAMETRIZATIONS = ("S0", "S1")
SMALLEST_SCALE = np.finfo(np.float64).tiny  # below it densities overflow
NAMES = ("alpha", "beta", "loc", "scale")
RANGES: dict[str, tuple[str, Callable[[Array], NDArray[np.bool_]]]] = {
    "alpha": ("must lie in (0, 2]", lambda v: (v > 0.0) & (v <= 2.0)),
    "beta": ("must lie in [-1, 1]", lambda v: np.abs(v) <= 1.0),
    "loc": ("must be finite", np.isfinite),
    "scale": (
        f"must be finite and at least {SMALLEST_SCALE:.3g}",
        lambda v: (v >= SMALLEST_SCALE) & (v < np.inf),
    ),
}


@dataclass(frozen=True)
class StableLaw:
    """A stable law, or an array of them.

    The functions take and return numpy arrays, broadcast with the parameters; scalars give a
    numpy float. For alpha >= 0.3 relative errors are below 1e-10 wherever the value exceeds 1e-15;
    below, 1e-9 down to alpha = 0.1. Parameters outside their ranges raise, where
    ``scipy.stats.levy_stable`` returns nan; a p outside [0, 1] gives nan in ``ppf`` and ``isf``,
    as in scipy.

    Args:
        alpha: stability index in (0, 2].
        beta: skewness in [-1, 1]; +1 has its heavy tail to the right.
        loc: location.
        scale: c > 0.
        parametrization: ``"S1"``, scipy's default, or ``"S0"``, continuous through alpha = 1.

    Raises:
        TypeError: if a parameter does not hold real numbers.
        ValueError: if a parameter lies outside its range, or the parametrisation is unknown.

    Examples:
        >>> law = StableLaw(1.5, beta=0.5)
        >>> round(float(law.cdf(0.0)), 6)
        0.598389
        >>> bool(np.isclose(law.cdf(law.ppf(0.99)), 0.99, rtol=1e-12))
        True
        >>> np.round(StableLaw([0.5, 1.0, 2.0]).pdf(0.0), 6).tolist()
        [0.63662, 0.31831, 0.282095]
    """

    alpha: Parameter
    beta: Parameter = 0.0
    loc: Parameter = 0.0
    scale: Parameter = 1.0
    parametrization: str = "S1"

    def __post_init__(self) -> None:
        for name in NAMES:
            value = _real_parameter(name, getattr(self, name))
            rule, is_inside = RANGES[name]
            outside = np.atleast_1d(value)[~is_inside(np.atleast_1d(value))]
            if outside.size:
                raise ValueError(f"{name} {rule}, got {float(outside[0])!r}")
            object.__setattr__(self, name, value)
        if self.parametrization not in PARAMETRIZATIONS:
            raise ValueError(f"parametrization must be 'S0' or 'S1', got {self.parametrization!r}")
        np.broadcast_shapes(*(np.shape(getattr(self, name)) for name in NAMES))

    def pdf(self, x: ArrayLike) -> Array:
        """Return the density at every entry of ``x``.

        Examples:
            >>> bool(np.isclose(StableLaw(2.0).pdf(0.0), 0.5 / np.sqrt(np.pi)))
            True
        """
        return _exp(self.logpdf(x))

    def logpdf(self, x: ArrayLike) -> Array:
        """Return the log density, finite on a thin tail also where the density underflows.

        Examples:
            >>> round(float(StableLaw(2.0).logpdf(100.0)), 6)
            -2501.265512
        """
        return self._of_x(x, lambda z, a, b, c: log_functions(z, a, b, [2])[0] - np.log(c))

    def cdf(self, x: ArrayLike) -> Array:
        """Return P(X <= x), relatively accurate in the left tail.

        Examples:
            >>> round(float(StableLaw(1.5).cdf(0.0)), 12), float(StableLaw(1.5).cdf(np.inf))
            (0.5, 1.0)
        """
        return _exp(self.logcdf(x))

    def logcdf(self, x: ArrayLike) -> Array:
        """Return log P(X <= x).

        Examples:
            >>> round(float(StableLaw(0.5, 1.0).logcdf(1e-4)), 6)
            -5004.831062
        """
        return self._of_x(x, lambda z, a, b, c: log_functions(z, a, b, [1])[0])

    def sf(self, x: ArrayLike) -> Array:
        """Return P(X > x), relatively accurate in the right tail.

        Examples:
            >>> law = StableLaw(1.5, scale=2.0)
            >>> bool(np.isclose(law.sf(1e8), law.cdf(-1e8), rtol=1e-12))
            True
        """
        return _exp(self.logsf(x))

    def logsf(self, x: ArrayLike) -> Array:
        """Return log P(X > x).

        Examples:
            >>> round(float(StableLaw(1.0).logsf(1e300)), 6)
            -691.920258
        """
        return self._of_x(x, lambda z, a, b, c: log_functions(z, a, b, [0])[0])

    def ppf(self, p: ArrayLike) -> Array:
        """Return the x with cdf(x) = p; 0 and 1 give the ends of the support.

        Examples:
            >>> float(StableLaw(1.5).ppf(0.0))
            -inf
            >>> round(float(StableLaw(2.0).ppf(0.975) / np.sqrt(2.0)), 6)
            1.959964
        """
        return self._of_p(_real_array("p", p), upper=False)

    def isf(self, q: ArrayLike) -> Array:
        """Return the x with sf(x) = q, also where 1 - q rounds to 1.

        Examples:
            >>> bool(np.isclose(StableLaw(1.0).isf(1e-30), 1e30 / np.pi))
            True
        """
        return self._of_p(_real_array("q", q), upper=True)

    def rvs(
        self,
        size: int | tuple[int, ...] | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> Array:
        """Return draws by Chambers, Mallows and Stuck's formula; near alpha = 1 from a table.

        Args:
            size: shape of the result; None is the shape of the parameters.
            random_state: a seed or a numpy generator; None takes fresh entropy.

        Examples:
            >>> x = StableLaw(1.5).rvs(size=(2, 3), random_state=0)
            >>> x.shape, bool((x == StableLaw(1.5).rvs((2, 3), random_state=0)).all())
            ((2, 3), True)
        """
        shape = np.broadcast_shapes(*(np.shape(getattr(self, name)) for name in NAMES))
        rng = np.random.default_rng(random_state)
        size = shape if size is None else size
        return self._standardized(np.zeros(size), lambda z, a, b: draw(z.size, a, b, rng))

    def mean(self) -> Array:
        """Return the mean, nan for alpha <= 1.

        Examples:
            >>> float(StableLaw(1.5, loc=2.0).mean()), float(StableLaw(1.0).mean())
            (2.0, nan)
        """
        return np.where(np.asarray(self.alpha) > 1.0, self.s1_location(), np.nan)[()]

    def s1_location(self) -> Array:
        """Return the location in S1, which is the mean for alpha > 1.

        Examples:
            >>> round(float(StableLaw(1.5, 1.0, parametrization="S0").s1_location()), 12)
            1.0
        """
        return self._of_parameters(_s1_location, self.parametrization)

    def var(self) -> Array:
        """Return the variance: 2 scale^2 at alpha = 2, inf below.

        Examples:
            >>> float(StableLaw(2.0, scale=3.0).var()), float(StableLaw(1.9).var())
            (18.0, inf)
        """
        return self._of_parameters(lambda a, b, m, c: 2.0 * c * c if a == 2.0 else np.inf)

    def median(self) -> Array:
        """Return the median.

        Examples:
            >>> round(float(StableLaw(0.5, 1.0).median()), 6)
            2.198109
        """
        return self.ppf(0.5)

    def support(self) -> tuple[Array, Array]:
        """Return the ends of the support.

        Examples:
            >>> [float(end) for end in StableLaw(0.5, 1.0, loc=3.0).support()]
            [3.0, inf]
        """
        return self.ppf(0.0), self.ppf(1.0)

    def interval(self, confidence: ArrayLike) -> tuple[Array, Array]:
        """Return the ends of the interval with equal tails of (1 - confidence) / 2.

        Examples:
            >>> low, high = StableLaw(1.0).interval(0.5)
            >>> round(float(low), 12), round(float(high), 12)
            (-1.0, 1.0)
        """
        tail = 0.5 * (1.0 - _real_array("confidence", confidence))
        return self.ppf(tail), self.isf(tail)

    def characteristic_function(self, t: ArrayLike) -> NDArray[np.complex128]:
        """Return E exp(i t X) at every entry of ``t``.

        Examples:
            >>> complex(StableLaw(1.5, 1.0).characteristic_function(0.0))
            (1+0j)
        """
        t = _real_array("t", t)
        alpha, beta, loc, scale = (np.asarray(getattr(self, name)) for name in NAMES)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            s = scale * t
            log_s = np.log(np.abs(s))
            decay = np.abs(s) ** alpha
            twist = _twist(log_s, alpha) * np.abs(s)
            if self.parametrization == "S1":
                # of S0 at the location of S1; where alpha = 1 only log(scale) is left
                one = alpha == 1.0
                tangent = np.tan(0.5 * np.pi * np.where(one, 0.0, alpha))
                twist = np.where(
                    one, twist - 2 / np.pi * np.log(scale) * np.abs(s), -tangent * decay
                )
            phase = loc * t - beta * np.sign(t) * twist
            # e^(-750) is 0; a longer exponent would only turn its phase into inf * 0.
            phase = np.where((decay > 750.0) | (t == 0.0), 0.0, phase)
        return np.asarray(np.exp(-np.minimum(decay, 750.0) + 1j * phase))[()]

    @classmethod
    def fit(cls, data: ArrayLike, **options: Any) -> StableFit:
        """Return the maximum likelihood fit; see `mpgd.stable.estimate.fit`.

        Examples:
            >>> x = StableLaw(1.5, 0.5, loc=2.0).rvs(500, random_state=0)
            >>> bool(abs(StableLaw.fit(x, fix_scale=1.0).law.alpha - 1.5) < 0.3)
            True
        """
        from mpgd.stable.estimate import fit

        return fit(data, **options)

    def quantile(self, p: ArrayLike) -> Array:
        """Return ``ppf(p)``; the old name, gone in the next release."""
        warnings.warn("StableLaw.quantile is now StableLaw.ppf", FutureWarning, stacklevel=2)
        return self.ppf(p)

    def sample(self, shape: int | tuple[int, ...], seed: int = 0) -> Array:
        """Return ``rvs(shape, seed)``; the old name, gone in the next release."""
        warnings.warn("StableLaw.sample is now StableLaw.rvs", FutureWarning, stacklevel=2)
        return self.rvs(shape, seed)

    def _of_x(self, x: ArrayLike, function: Callable[..., Array]) -> Array:
        """Return a function of (z, alpha, beta, scale) at z = (x - location) / scale."""
        x, laws = self._grouped(_real_array("x", x))
        out = np.empty(x.shape)
        for where, (a, b, m, c) in laws:
            with np.errstate(over="ignore", invalid="ignore"):
                z = (x[where] - location(a, b, m, c, self.parametrization)) / c
            out[where] = function(z.ravel(), a, b, c).reshape(z.shape)
        return out[()]

    def _of_p(self, p: Array, *, upper: bool) -> Array:
        p = np.where((p >= 0.0) & (p <= 1.0), p, np.nan)

        def inverse(z: Array, a: float, b: float) -> Array:
            return quantile(1.0 - z, z, a, b) if upper else quantile(z, 1.0 - z, a, b)

        return self._standardized(p, inverse)

    def _standardized(self, argument: Array, function: Callable[..., Array]) -> Array:
        """Return location + scale Z, where Z is a function of (argument, alpha, beta)."""
        argument, laws = self._grouped(argument)
        out = np.empty(argument.shape)
        for where, (a, b, m, c) in laws:
            some = argument[where]
            with np.errstate(over="ignore"):
                value = c * function(some.ravel(), a, b).reshape(some.shape)
            out[where] = value + location(a, b, m, c, self.parametrization)
        return out[()]

    def _grouped(self, argument: Array) -> tuple[Array, list[tuple[Any, tuple[float, ...]]]]:
        """Return an argument broadcast with the parameters, and the laws of its entries."""
        parameters = self._parameters()
        if all(isinstance(p, float) for p in parameters):  # one law: the quick way
            return argument, [(..., parameters)] if argument.size else []
        argument, *arrays = np.broadcast_arrays(argument, *parameters)
        return argument, grouped_laws(arrays)

    def _of_parameters(self, function: Callable[..., float], *more: str) -> Array:
        each = np.vectorize(lambda *p: function(*p, *more), otypes=[float])
        return np.asarray(each(*self._parameters()))[()]

    def _parameters(self) -> tuple[Parameter, ...]:
        return tuple(getattr(self, name) for name in NAMES)


def _s1_location(
    alpha: float, beta: float, loc: float, scale: float, parametrization: str
) -> float:
    if parametrization == "S1" or beta == 0.0:
        return loc
    if alpha == 1.0:
        return loc - 2.0 / math.pi * beta * scale * math.log(scale)
    return loc - scale * skew_shift(alpha, beta)


def _twist(log_s: Array, alpha: Array) -> Array:
    """Return tan(pi alpha/2) (1 - |s|^(alpha-1)), (2/pi) log|s| at alpha = 1."""
    a = alpha - 1.0
    near = np.abs(a) < 1e-300
    safe = np.where(near, 1.0, a)
    smooth = np.expm1(safe * log_s) / np.tan(0.5 * np.pi * safe)
    return np.where(near, 2.0 / np.pi * log_s, smooth)


def grouped_laws(parameters: list[Array]) -> list[tuple[Any, tuple[float, ...]]]:
    """Return the distinct laws among broadcast parameters, each with the entries that it has."""
    if not parameters[0].size:
        return []
    if all((p == p.flat[0]).all() for p in parameters):
        return [(..., tuple(float(p.flat[0]) for p in parameters))]
    rows = np.stack([p.ravel() for p in parameters])
    laws, member = np.unique(rows, axis=1, return_inverse=True)
    shape = parameters[0].shape
    member = member.ravel()
    return [
        ((member == k).reshape(shape), tuple(map(float, laws[:, k]))) for k in range(laws.shape[1])
    ]


def _real_parameter(name: str, value: object) -> Parameter:
    if isinstance(value, Real) and not isinstance(value, bool | np.bool_):
        return float(value)
    if not isinstance(value, list | tuple | np.ndarray):
        raise TypeError(f"{name} must be a real number or an array of them, got {value!r}")
    array = _real_array(name, value)
    array.flags.writeable = False
    return array if array.ndim else float(array)


def _real_array(name: str, value: ArrayLike) -> Array:
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    return array.astype(np.float64)


def _exp(values: Array) -> Array:
    with np.errstate(under="ignore"):
        return np.exp(values)
