"""Maximum likelihood for stable laws, started from quantiles or from the characteristic function.

The likelihood is maximised in S0, the parametrisation in which all four parameters stay apart
near alpha = 1, by Fisher scoring: the information is the sum J of the products of scores, the
derivatives of the log density (`slopes`). Along each step d, on which the slope of the likelihood
changed by -y, it is corrected as in BFGS: J + y y'/(d'y) - J d d'J/(d'J d). A step that does not
raise the likelihood is halved. Standard errors are those of J; a parameter at an end of its range,
or fixed, has none. Near an end the likelihood is no parabola, and intervals come from its profile:
the values of one parameter at which the largest likelihood over the others is within half a
quantile of chi-squared of the maximum, cut at the ends of the range.

References: McCulloch (1986), Communications in Statistics 15; Koutrouvelis (1980), JASA 75;
Nolan (2001), Maximum likelihood estimation and diagnostics for stable distributions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpgd.stable.integral import Array
from mpgd.stable.law import NAMES, StableLaw
from mpgd.stable.slopes import log_density_and_scores

LOW = np.array([0.1, -1.0, -np.inf, 0.0])
HIGH = np.array([2.0, 1.0, np.inf, np.inf])
ITERATIONS = 60
TOLERANCE = 1e-6  # of a step, in standard errors
ROUGH = 1e-2  # the same for a profile, whose likelihood is right to half of its square
HALVINGS = 30
OUTSIDE = -1e6  # log density of an observation outside of a one-sided support
FREQUENCIES = (0.2, 0.5, 0.8, 1.0)  # of the start by the characteristic function, times 1/scale


@dataclass(frozen=True)
class StableFit:
    """A fitted law.

    Args:
        law: the law of the largest likelihood.
        information: sum of the products of scores, (parameter, parameter), in S0.
        standard_errors: of alpha, beta, loc, scale; 0 if fixed, nan at an end of the range.
        log_likelihood: the sum of log densities.
        converged: whether the next step would be below 1e-6 standard errors.
        data: what was fitted.

    Examples:
        >>> fit = StableLaw.fit(StableLaw(1.7).rvs(300, random_state=1), fix_beta=0.0)
        >>> fit.law.beta, float(fit.standard_errors[1])
        (0.0, 0.0)
    """

    law: StableLaw
    information: Array = field(repr=False)
    standard_errors: Array
    log_likelihood: float
    converged: bool
    data: Array = field(repr=False)

    def interval(self, name: str, confidence: float = 0.95) -> tuple[float, float]:
        """Return the profile likelihood interval of one parameter, which ends at its range.

        It costs about five fits. Far from the ends of the ranges, 1.96 standard errors to either
        side come close to it.

        Args:
            name: ``"alpha"``, ``"beta"``, ``"loc"`` (in S0) or ``"scale"``; not one that was fixed.
            confidence: the probability with which it covers, in (0, 1).

        Examples:
            >>> result = StableLaw.fit(StableLaw(1.7, 0.9).rvs(300, random_state=0), fix_loc=0.0)
            >>> low, high = result.interval("beta")
            >>> bool(low < result.law.beta <= high <= 1.0)
            True
        """
        if name not in NAMES or self.standard_errors[NAMES.index(name)] == 0.0:
            raise ValueError(f"name must be a parameter that was not fixed, got {name!r}")
        if not 0.0 < confidence < 1.0:
            raise ValueError(f"confidence must lie in (0, 1), got {confidence!r}")
        z = float(StableLaw(2.0, scale=math.sqrt(0.5)).isf(0.5 * (1.0 - confidence)))
        low, high = (self._end(NAMES.index(name), sign, z) for sign in (-1.0, 1.0))
        return low, high

    def profile_distance(self, name: str, value: float) -> float:
        """Return twice the log likelihood that is lost if a parameter has this value.

        Examples:
            >>> result = StableLaw.fit(StableLaw(1.7).rvs(300, random_state=1), fix_beta=0.0)
            >>> result.profile_distance("alpha", result.law.alpha) < 1e-5
            True
        """
        theta, which = self._theta(), NAMES.index(name)
        free = self.standard_errors != 0.0
        free[which] = False
        # To first order the others follow along the ridge of the likelihood.
        J = self.information + _least_information(theta, self.data.size)
        ridge = np.linalg.solve(J[np.ix_(free, free)], J[free, which])
        theta[free] -= ridge * (value - theta[which])
        theta[which] = value
        point, _ = _climb(self.data, _Point.at(self.data, _inside(theta)), free, ROUGH)
        return 2.0 * (self.log_likelihood - point.value)

    def _theta(self) -> Array:
        theta = np.array([getattr(self.law, name) for name in NAMES])
        if self.law.parametrization == "S1":
            theta[2] += theta[2] - _law(theta).s1_location()
        return theta

    def _end(self, which: int, sign: float, z: float) -> float:
        """Return where the root of the distance is z, by secants in a bracket, or the end."""
        best, bound = float(self._theta()[which]), float((LOW if sign < 0.0 else HIGH)[which])
        step = self.standard_errors[which]
        step = z * (step if np.isfinite(step) else 0.1 * (self.law.scale if which > 1 else 1.0))
        inner, at_inner, at_outer = best, -z, -z
        outer = best
        while at_outer < 0.0:
            if outer == bound:
                return bound
            inner, at_inner = outer, at_outer
            outer = max(outer + sign * step, 0.5 * outer) if which == 3 else outer + sign * step
            outer = float(np.clip(outer, LOW[which], HIGH[which]))
            at_outer = self._root_distance(which, outer) - z
        for _ in range(8):
            part = -at_inner / (at_outer - at_inner)
            middle = inner + (outer - inner) * min(max(part, 0.05), 0.95)
            at_middle = self._root_distance(which, middle) - z
            if abs(at_middle) < 1e-3:
                return middle
            if at_middle < 0.0:
                inner, at_inner = middle, at_middle
            else:
                outer, at_outer = middle, at_middle
        return middle

    def _root_distance(self, which: int, value: float) -> float:
        return math.sqrt(max(self.profile_distance(NAMES[which], value), 0.0))


def fit(
    data: ArrayLike,
    *,
    fix_alpha: float | None = None,
    fix_beta: float | None = None,
    fix_loc: float | None = None,
    fix_scale: float | None = None,
    parametrization: str = "S0",
) -> StableFit:
    """Return the stable law of the largest likelihood.

    Args:
        data: at least 10 finite numbers, of any shape, that are not all equal.
        fix_alpha: keep alpha at this value; so for the others.
        fix_beta: keep beta.
        fix_loc: keep the location.
        fix_scale: keep the scale.
        parametrization: of the location in the result, ``"S0"`` or ``"S1"``. The standard error
            of the location is that of S0.

    Returns:
        A `StableFit`. alpha is sought from 0.1 up; below about 0.3 the likelihood has local
        maxima, and the one found may not be the highest.

    Raises:
        ValueError: if the data are too few, not finite or all equal, or a value is out of range.

    Examples:
        >>> x = StableLaw(1.5, 0.5, 2.0, 3.0, "S0").rvs(1000, random_state=0)
        >>> result = fit(x)
        >>> bool(abs(result.law.alpha - 1.5) < 4.0 * result.standard_errors[0])
        True
    """
    x = np.asarray(data, dtype=np.float64).ravel()
    if x.size < 10 or not np.isfinite(x).all() or x.min() == x.max():
        raise ValueError("data must be at least 10 finite numbers that are not all equal")
    fixed = [fix_alpha, fix_beta, fix_loc, fix_scale]
    given = {name: value for name, value in zip(NAMES, fixed, strict=True) if value is not None}
    StableLaw(**{"alpha": 1.5, **given}, parametrization=parametrization)  # refuses what is none
    if fix_alpha is not None and fix_alpha < LOW[0]:
        raise ValueError(f"alpha is sought from {LOW[0]} up, got fix_alpha={fix_alpha!r}")
    if fix_loc is not None and parametrization == "S1" and fix_beta != 0.0:
        raise ValueError("fix_loc is a location in S0, where the fit works: leave parametrization")
    free = np.array([value is None for value in fixed])
    keep = np.array([0.0 if value is None else value for value in fixed])
    starts = [_inside(np.where(free, start(x), keep)) for start in (_by_quantiles, _by_transform)]
    best = max((_Point.at(x, theta) for theta in starts), key=lambda point: point.value)
    point, converged = _climb(x, best, free)
    law = _law(point.theta)
    if parametrization == "S1":
        law = StableLaw(law.alpha, law.beta, law.s1_location(), law.scale)
    information = point.scores @ point.scores.T
    errors = _standard_errors(point.theta, information, free)
    return StableFit(law, information, errors, point.value, converged, x)


def _law(theta: Array) -> StableLaw:
    alpha, beta, loc, scale = map(float, theta)
    return StableLaw(alpha, beta, loc, scale, "S0")


class _Point(NamedTuple):
    """Parameters, their log likelihood, and the scores of all observations, (parameter, x)."""

    theta: Array
    value: float
    scores: Array

    @classmethod
    def at(cls, x: Array, theta: Array) -> _Point:
        """Evaluate the likelihood of ``x``."""
        values, scores = log_density_and_scores(x, theta)
        return cls(theta, float(np.maximum(values, OUTSIDE).sum()), scores)


def _climb(
    x: Array, point: _Point, free: NDArray[np.bool_], tolerance: float = TOLERANCE
) -> tuple[_Point, bool]:
    """Climb the likelihood until a step is below ``tolerance``; return whether it came so far."""
    pairs: list[tuple[Array, Array]] = []
    for _ in range(ITERATIONS):
        slope = point.scores.sum(axis=1)
        moving = _moving(point.theta, free, slope)
        information = _information(point, pairs)[np.ix_(moving, moving)]
        step = np.zeros(4)
        step[moving] = np.linalg.solve(information, slope[moving])
        if step @ slope < tolerance**2:
            return point, True
        for _ in range(HALVINGS):
            trial = _Point.at(x, _inside(point.theta + step))
            if trial.value >= point.value - 1e-12 * abs(point.value):
                break
            step = 0.5 * step
        else:
            return point, False
        pairs.append((trial.theta - point.theta, slope - trial.scores.sum(axis=1)))
        point = trial
    return point, False


def _information(point: _Point, pairs: list[tuple[Array, Array]]) -> Array:
    """Return J, corrected along the steps so far."""
    J: Array = point.scores @ point.scores.T
    J = J + _least_information(point.theta, point.scores.shape[1])
    for d, y in pairs:
        if d @ y > 0.1 * (d @ J @ d):  # else the information would not stay positive
            Jd = J @ d
            J = J + np.outer(y, y) / (d @ y) - np.outer(Jd, Jd) / (d @ Jd)
    return J


def _least_information(theta: Array, count: int) -> Array:
    """Return what is added to J, which is singular at alpha = 2; location and scale have units."""
    return 1e-9 * count * np.diag([1.0, 1.0, theta[3] ** -2.0, theta[3] ** -2.0])


def _moving(theta: Array, free: NDArray[np.bool_], slope: Array) -> NDArray[np.bool_]:
    """Return the free parameters, but for those that the slope pushes out of their range."""
    stuck = ((theta >= HIGH) & (slope > 0.0)) | ((theta <= LOW) & (slope < 0.0))
    stuck[1] |= theta[0] == 2.0  # there beta has no meaning
    return free & ~stuck


def _standard_errors(theta: Array, information: Array, free: NDArray[np.bool_]) -> Array:
    inner = free & (theta > LOW) & (theta < HIGH)
    inner[1] &= theta[0] < 2.0  # there beta has no meaning
    errors = np.where(free, np.nan, 0.0)
    J = information[np.ix_(inner, inner)]
    unit = np.sqrt(np.diag(J)) + 1e-300
    errors[inner] = np.sqrt(np.diag(np.linalg.pinv(J / np.multiply.outer(unit, unit)))) / unit
    return errors


def _inside(theta: Array) -> Array:
    theta = np.clip(theta, LOW, HIGH)
    theta[3] = max(theta[3], 1e-300)
    return theta


def _by_quantiles(x: Array) -> Array:
    """Start like McCulloch: the law with the sample's two ratios of quantiles, on a coarse grid."""
    q = np.quantile(x, [0.05, 0.25, 0.5, 0.75, 0.95])
    spread = (q[4] - q[0]) / max(q[3] - q[1], 1e-300)
    skew = (q[4] + q[0] - 2.0 * q[2]) / (q[4] - q[0])
    alphas, betas, table = _quantile_ratios()
    i = int(
        np.argmin((np.log(table[:, :, 0] / spread) ** 2 + (table[:, :, 1] - skew) ** 2).ravel())
    )
    row, column = divmod(i, betas.size)
    scale = (q[3] - q[1]) / table[row, column, 2]
    loc = q[2] - scale * table[row, column, 3]
    return np.array([alphas[row], betas[column], loc, scale])


_RATIOS: list[tuple[Array, Array, Array]] = []


def _quantile_ratios() -> tuple[Array, Array, Array]:
    """Return the ratios, the interquartile range and the median of laws of scale 1 (S0)."""
    if not _RATIOS:
        alphas, betas = np.linspace(0.5, 2.0, 7), np.linspace(-0.9, 0.9, 5)
        law = StableLaw(alphas[:, None], betas, parametrization="S0")
        q = law.ppf(np.array([0.05, 0.25, 0.5, 0.75, 0.95])[:, None, None])
        table = np.stack(
            [
                (q[4] - q[0]) / (q[3] - q[1]),
                (q[4] + q[0] - 2 * q[2]) / (q[4] - q[0]),
                q[3] - q[1],
                q[2],
            ],
            axis=-1,
        )
        _RATIOS.append((alphas, betas, table))
    return _RATIOS[0]


def _by_transform(x: Array) -> Array:
    """Start like Koutrouvelis: log(-log|phi|^2) is linear in log t with slope alpha."""
    q = np.quantile(x, [0.25, 0.5, 0.75])
    centre, width = q[1], max(0.5 * (q[2] - q[0]), 1e-300)
    t = np.array(FREQUENCIES)
    phi = np.exp(1j * np.multiply.outer(t, (x - centre) / width)).mean(axis=1)
    decay = -np.log(np.clip(np.abs(phi), 1e-6, 1.0 - 1e-6))
    alpha, level = np.polyfit(np.log(t), np.log(decay), 1)
    alpha = float(np.clip(alpha, 0.3, 1.999))
    scale = math.exp(level / alpha)
    # The phase in S0: loc t + beta (twist), linear in loc and beta.
    s = scale * t
    twist = np.expm1((alpha - 1.0 + 1e-12) * np.log(s)) / math.tan(
        0.5 * math.pi * (alpha - 1.0 + 1e-12)
    )
    columns = np.stack([t, -s * twist], axis=1)
    loc, beta = np.linalg.lstsq(columns, np.angle(phi), rcond=None)[0]
    return np.array([alpha, np.clip(beta, -0.95, 0.95), centre + width * loc, width * scale])
