"""Quadrature of Zolotarev's integrals, to 13 digits, for any number of x.

All integrals of this folder have the form

    int (e^(-g), 1 - e^(-g), g e^(-g)) d delta,          log g = xi + u(delta)

over 0 < delta < Lambda, where u grows with delta and xi depends on x alone. By parts the first two
are int g e^(-g) (delta, Lambda - delta) du, so all integrands are positive and nothing cancels.

The variable is t = u + RATE w with w = log(delta / (Lambda - delta)): it moves where u moves, and
where u stands still it follows delta over its decades. In t the integrands are analytic in a strip
about the real line and vanish at both ends, so equal steps converge geometrically: STEP = 0.28
leaves an error of a few 1e-14. The nodes t = j STEP do not depend on x; they are found once for
each law and each page of xi, and x enters only through e^(-g).

In a cell of xi all x share their nodes, and what is summed is a smooth function of xi. Where x are
dense, it is interpolated by a Chebyshev series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebval, chebvander
from numpy.typing import NDArray

Array = NDArray[np.float64]
Geometry = Callable[[Array], tuple[Array, Array, Array, Array]]

STEP = 0.28  # halving it changes no value by more than 1e-13
RATE = 2.0
LOG_OVERFLOW = 700.0  # e^(-g) is lost beyond g = e^700, even as a logarithm
DEPTH = 36.0  # -log of the relative weight below which nodes are left out
LOG_CUT = float(np.log(750.0))  # e^(-750) is 0 in double precision
CELL = 8.0  # values of xi in one cell share their nodes
DEGREE = 20  # of the interpolation of many values
DENSE = 3.0  # multiple of DEGREE a unit of xi from which it pays
LAST_TERM = 1e-14  # relative size at which its series ends
WIDE = 1.0  # half a width above which it never does
NARROW = 0.04  # and below which it always does; the nearest singularity is 0.1 away
PAGE = 4  # cells of one page
GRID = 2048  # points that bracket the nodes of a page, and start Newton's method
_ANGLES = np.pi * (np.arange(DEGREE) + 0.5) / DEGREE
UNIT_POINTS = np.cos(_ANGLES)  # Chebyshev nodes
TO_COEFFICIENTS = chebvander(UNIT_POINTS, DEGREE - 1).T * (2.0 / DEGREE)
TO_COEFFICIENTS[0] *= 0.5


class Nodes(NamedTuple):
    """The points at some t = j STEP.

    Attributes:
        w: the points.
        u: the function there.
        log_mass: log(e^u d delta/dw) and log(e^u (Lambda - delta)): below g = 1, the integrands of
            g e^(-g) and of 1 - e^(-g). The second falls slowly as u does, if alpha is small.
        weights: of the three sums.
    """

    w: Array
    u: Array
    log_mass: Array
    weights: Array


@dataclass(frozen=True)
class Integral:
    """The function u of one law, and the nodes computed so far.

    Args:
        geometry: from w to u, du/dw, delta and d delta/dw, where delta = Lambda / (1 + e^-w).
        ends: smallest and largest w.
        floor: u at delta = 0, finite for a thin tail only.
        width: Lambda.
        slow: u falls so slowly as delta does (small alpha) that 1 - e^(-g) is not summed by parts.

    Examples:
        >>> def line(w):  # u = w: g = e^xi delta / (1 - delta)
        ...     delta = 1.0 / (1.0 + np.exp(-w))
        ...     return w, np.ones_like(w), delta, delta / (1.0 + np.exp(w))
        >>> total = np.exp(Integral(line, (-90.0, 60.0), -np.inf, 1.0).log_sums(np.zeros(1)))
        >>> bool(np.isclose(total[0] + total[1], 1.0 / np.pi, rtol=1e-12)[0])
        True
    """

    geometry: Geometry
    ends: tuple[float, float]
    floor: float
    width: float
    slow: bool = False
    pages: dict[int, Nodes] = field(default_factory=dict, repr=False)

    def log_sums(self, xi: Array, rows: Sequence[int] = (0, 1, 2)) -> Array:
        """Return the logarithms of 1/pi int (e^(-g), 1 - e^(-g), g e^(-g)) d delta.

        Args:
            xi: one-dimensional, in any order; NaN gives NaN.
            rows: which of the three.

        Returns:
            An array (row, xi).
        """
        chosen = list(rows)

        def combine(page: int, keep: slice, level: Array, decay: Array, factor: Array) -> Array:
            weights = self.pages[page].weights[:, keep]
            sums = np.log((weights[chosen] * level) @ decay)
            if self.slow and 1 in chosen:
                rest = -np.expm1(-np.multiply.outer(level, factor))
                sums[chosen.index(1)] = np.log(weights[2] @ rest / factor)
            return sums

        full = np.array([-np.inf, np.log(self.width / np.pi), -np.inf])[chosen]
        sums = self._by_cells(xi, full, len(chosen), 1 in chosen, combine)
        if 1 in chosen and np.isfinite(self.floor):  # the boundary term at delta = 0
            row = chosen.index(1)
            term = -self.width / np.pi * np.expm1(-np.exp(np.minimum(xi + self.floor, 700.0)))
            sums[row] = np.where(xi + self.floor < 6.0, np.log(np.exp(sums[row]) + term), full[row])
        return sums

    def means(
        self, xi: Array, functions: Callable[[Array], Array], count: int
    ) -> tuple[Array, Array, Array]:
        """Return log of 1/pi int g e^(-g) d delta, and means of functions of w under this weight.

        Args:
            xi: one-dimensional; NaN, and values whose weights underflow, give means of NaN.
            functions: from w to an array (function, w), the first one 1.
            count: number of functions.

        Returns:
            The logarithm, (xi,), the means of the functions and those of the functions times
            1 - g, (function, xi) each.

        Examples:
            >>> def line(w):
            ...     delta = 1.0 / (1.0 + np.exp(-w))
            ...     return w, np.ones_like(w), delta, delta / (1.0 + np.exp(w))
            >>> law = Integral(line, (-90.0, 60.0), -np.inf, 1.0)
            >>> ones = law.means(np.zeros(1), lambda w: np.ones((1, w.size)), 1)[1]
            >>> round(float(ones[0, 0]), 12)
            1.0
        """
        of_page: dict[int, Array] = {}

        def combine(page: int, keep: slice, level: Array, decay: Array, factor: Array) -> Array:
            if page not in of_page:
                of_page[page] = functions(self.pages[page].w) * self.pages[page].weights[2]
            masses = of_page[page][:, keep] * level
            sums = np.concatenate([masses, masses * level]) @ decay
            plain, turned = sums[:count] / sums[0], sums[count:] / sums[0]
            return np.concatenate([np.log(sums[:1]), plain, plain - turned * factor])

        fill = np.array([-np.inf] + 2 * count * [np.nan])
        rows = self._by_cells(xi, fill, 1, False, combine)
        return rows[0], rows[1 : count + 1], rows[count + 1 :]

    def _by_cells(
        self, xi: Array, fill: Array, logs: int, deep: bool, combine: Callable[..., Array]
    ) -> Array:
        """Return functions of xi, made of the nodes of its cell; ``fill`` where e^(-g) is lost.

        Args:
            xi: one-dimensional.
            fill: value of each function.
            logs: how many of the functions, from the first one on, are logarithms of integrals.
            deep: whether 1 - e^(-g) is among them.
            combine: from a page, the slice of its nodes, g at the start of the cell, e^(-g) (over
                its value at delta = 0) and e^(xi - start) to the functions, logarithms without
                what all nodes have in common.
        """
        out = np.repeat(fill[:, None], xi.size, axis=1)
        out[:, np.isnan(xi)] = np.nan
        for cell, members in _cells(xi, self.floor):
            keep, base = self._cell_slice(cell, deep=deep), cell * CELL
            u, growth = self.pages[cell // PAGE].u[keep], xi[members] - base
            level = np.exp(u + base)
            # u - u(0) through expm1: on a thin tail all the integral lies where they nearly agree.
            excess = level * np.expm1(self.floor - u)

            def functions(growth: Array) -> Array:
                factor = np.exp(growth)
                decay = np.exp(np.multiply.outer(excess, factor))  # noqa: B023
                return combine(cell // PAGE, keep, level, decay, factor)  # noqa: B023

            values = interpolated(functions, growth, 0.0, CELL)
            values[:logs] += growth - np.exp(self.floor + base) * np.exp(growth)
            out[:, members] = values
        return out

    def _cell_slice(self, cell: int, *, deep: bool) -> slice:
        """Return the nodes of its page that matter in one cell; 1 - e^(-g) needs more."""
        page, xi = cell // PAGE, cell * CELL
        if page not in self.pages:
            self.pages[page] = self._page_nodes(page * PAGE * CELL)
        _, u, log_mass, _ = self.pages[page]
        stop = int(np.searchsorted(u, self._highest(xi)))
        centre = int(np.searchsorted(u, np.logaddexp(self.floor, -xi - CELL)))
        centre = min(centre, u.size - 1)
        order = log_mass[int(deep and self.floor == -np.inf and not self.slow)]
        start = int(np.searchsorted(order, order[centre] - DEPTH))
        if self.slow and deep:
            return slice(start, None)
        return slice(start, max(stop, start + 1))

    def _highest(self, xi: float) -> float:
        """Return the u above which e^(-g) is 0 for all values from xi on."""
        return float(np.logaddexp(LOG_CUT, self.floor + xi + CELL) - xi)

    def _page_nodes(self, xi: float) -> Nodes:
        """Solve t(w) = j STEP for the w that the page from ``xi`` on needs, and weigh them."""
        if "grid" not in self.__dict__:
            w = np.linspace(*self.ends, GRID)
            u, _, _, d_delta = self.geometry(w)
            object.__setattr__(self, "grid", (w, *self._rising(w, u, d_delta)))
        grid, u, *log_mass = self.__dict__["grid"]
        t = u + RATE * grid
        last = int(np.searchsorted(u, self._highest(xi))) + 1
        centre = min(int(np.searchsorted(u, -xi - (PAGE + 1) * CELL)), GRID - 1)
        if self.slow:
            last, log_mass = GRID - 1, log_mass[:1]
        first = min(int(np.searchsorted(m, m[centre] - DEPTH - 2.0)) for m in log_mass)
        low, high = t[max(first - 1, 0)], t[min(last, GRID - 1)]
        target = STEP * np.arange(np.ceil(low / STEP), np.floor(high / STEP) + 1)
        w = np.interp(target, t, grid)
        for _ in range(6):  # t is smooth on the scale of the grid: four steps reach rounding
            u, slope, _, _ = self.geometry(w)
            step = (u + RATE * w - target) / (slope + RATE)
            w = w - step
            if np.abs(step).max() < 1e-9:  # the next one would be of the size of its square
                break
        u, slope, delta, d_delta = self.geometry(w)
        phi = self.width / (1.0 + np.exp(w))
        weights = STEP / np.pi / (slope + RATE) * np.stack([delta * slope, phi * slope, d_delta])
        u, *log_mass = self._rising(w, u, d_delta)
        return Nodes(w, u, np.stack(log_mass), weights)

    def _rising(self, w: Array, u: Array, d_delta: Array) -> Array:
        """Return u and the two log masses, which increase but for rounding, in order."""
        rest = u + np.log(self.width) - np.logaddexp(0.0, w)
        return np.maximum.accumulate(np.stack([u, u + np.log(d_delta), rest]), axis=1)


def interpolated(functions: Callable[[Array], Array], x: Array, low: float, high: float) -> Array:
    """Return smooth functions at points of [low, high], (function, point).

    Where points are dense they are Chebyshev series, halved until the last terms vanish.
    """
    if x.size <= DEGREE * max(2.0, DENSE * (high - low)):
        return functions(x)
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    if half <= WIDE:
        series = TO_COEFFICIENTS @ functions(middle + half * UNIT_POINTS).T
        rest = np.abs(series[-2:]).max(axis=0)
        if half < NARROW or (rest < LAST_TERM * np.maximum(np.abs(series[0]), 1.0)).all():
            return np.asarray(chebval((x - middle) / half, series))
    left = x < middle
    parts = interpolated(functions, x[left], low, middle)
    values = np.empty((len(parts), x.size))
    values[:, left], values[:, ~left] = parts, interpolated(functions, x[~left], middle, high)
    return values


def _cells(xi: Array, floor: float) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield each occupied cell number with the ranks of its entries."""
    ceiling = LOG_OVERFLOW - floor if np.isfinite(floor) else np.inf
    if xi.size == 1:  # a single number, quickly
        if xi[0] < ceiling:
            yield int(np.floor(xi[0] / CELL)), np.zeros(1, np.intp)
        return
    ranks = np.flatnonzero(xi < ceiling)
    cells = np.floor(xi[ranks] / CELL).astype(np.int64)
    order = np.argsort(cells, kind="stable")
    numbers, starts = np.unique(cells[order], return_index=True)
    groups = np.split(ranks[order], starts[1:]) if numbers.size else []
    yield from zip(numbers.tolist(), groups, strict=True)
