"""Draws of stable laws: by a formula, from a table, and along paths.

The formula is that of Chambers, Mallows and Stuck. The table has the quantile function in integers,
for draws from a hash.

The top bit of 64 random bits is the side, the 50 below it, the last one set, are U, u = U / 2^50:

    x = Q(1 - u/2) on the upper side,  -x = -Q(u/2) on the lower side;  both fall as u grows

Each side has 50 octaves of u with 128 rows of 16 bytes. A row is a parabola with an exponent:

    z = c0 - ((X (t1 - (X t2 >> 32))) >> sh)        X: the 31 bits of U after the row
    x = ((z + 2^15) >> 16) 2^(e - 30)

c0 has 64 bits, its lowest 8 are e; t1 has 32, sh 6 and t2, which is signed, 26 bits from the
lowest up. A tail is a power of u, and so is an octave of it: every octave has the same error.

The quantiles at the nodes of an octave are doubles, whose last bits depend on the CPU. They are
rounded to 28 bits, so that two CPUs disagree only where a node is next to a rounding boundary: if
they differ by 1e-15, the chance is below 1 in 1,000 a table. A checkpoint holds the table's hash.

X(t) has independent increments, and X(t + h) - X(t) is the law of X(1) with scale times h^(1/alpha)
and location (in S1) times h. d coordinates are independent, or isotropic: then the increment is
A^(1/2) G, with G normal and A one-sided stable of index alpha/2, common to all coordinates, so that
every projection has the law of one coordinate. A subordinator is a rising process T, stable with
alpha < 1 and beta = 1, and X(T(t)) is the process run by its clock.

References: Chambers, Mallows & Stuck (1976), with the correction of Weron (1996); Samorodnitsky &
Taqqu (1994), Propositions 2.5.2 and 3.8.2.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mpgd.maps.rows import cut
from mpgd.stable.integral import Array
from mpgd.stable.standard import BAND, angles, location, quantile, skew_shift

if TYPE_CHECKING:
    from mpgd.stable.law import StableLaw

Integers = NDArray[np.int64]

ROW_BITS: Final = 7
OCTAVES: Final = 50
NODES: Final = (48, 18)  # Chebyshev nodes of an octave, for alpha up to 1 and above
NODE_BITS: Final = 28
SMALLEST_ALPHA: Final = 0.25  # below, 2^(50/alpha) has no place in 8 bits of exponent
SHIFT: Final = 13  # where 64 random bits have U
POSITION_BITS: Final = 31
_POINT: Final = 46  # c0 is x 2^(46 - e)


# ---- the formula ---------------------------------------------------------------------------------


def draw(count: int, alpha: float, beta: float, rng: np.random.Generator) -> Array:
    """Return draws of the standard law in its own coordinate.

    Examples:
        >>> draw(3, 1.0, 0.5, np.random.default_rng(0)).shape
        (3,)
    """
    if abs(alpha - 1.0) < BAND:  # the formula loses digits in S0; the table does not
        bits = rng.integers(0, 2**64, count, dtype=np.uint64)
        return draw_quantiles(quantile_rows(alpha, beta), bits)
    angle = math.pi * (rng.random(count) - 0.5)
    return chambers_mallows_stuck(angle, rng.standard_exponential(count), alpha, beta)


def chambers_mallows_stuck(
    angle: ArrayLike, exponential: ArrayLike, alpha: float, beta: float
) -> Array:
    """Map a uniform angle and an exponential variable to a standard stable variable.

    With theta_0 = arctan(beta tan(pi alpha/2)) / alpha, U = ``angle`` and W = ``exponential``:

        X = sin(alpha (theta_0 + U)) / (cos(alpha theta_0) cos U)^(1/alpha)
            (cos(alpha theta_0 + (alpha - 1) U) / W)^((1 - alpha)/alpha)

    computed in the distance of |U| to pi/2, where the cosines vanish. At alpha = 1

        X = 2/pi ((pi/2 + beta U) tan U - beta log((pi/2) W cos U / (pi/2 + beta U)))

    Args:
        angle: uniform on (-pi/2, pi/2).
        exponential: independent of ``angle``, exponential of mean 1; same shape.
        alpha: stability index in (0, 2].
        beta: skewness in [-1, 1].

    Returns:
        An array of the common shape, of scale 1 and location 0 (S1).

    Raises:
        ValueError: if an argument lies outside its range.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> angle, exponential = np.pi * (rng.random(4) - 0.5), rng.standard_exponential(4)
        >>> x = chambers_mallows_stuck(angle, exponential, 2.0, 0.0)
        >>> bool(np.allclose(x, 2.0 * np.sin(angle) * np.sqrt(exponential)))
        True
    """
    if not (0.0 < alpha <= 2.0 and -1.0 <= beta <= 1.0):
        raise ValueError(f"alpha must lie in (0, 2] and beta in [-1, 1], got {alpha!r}, {beta!r}")
    U, W = np.asarray(angle, np.float64), np.asarray(exponential, np.float64)
    if not (np.abs(U) < 0.5 * np.pi).all():
        raise ValueError("angle must lie in (-pi/2, pi/2)")
    if not (W >= 0.0).all():
        raise ValueError("exponential must be non-negative")
    delta = 0.5 * np.pi - np.abs(U)
    with np.errstate(divide="ignore", over="ignore"):
        if alpha == 1.0:
            tilt = 0.5 * np.pi + beta * U
            wave = tilt * np.sign(U) / np.tan(delta)
            return 2.0 / np.pi * (wave - beta * np.log(0.5 * np.pi * W * np.sin(delta) / tilt))
        # At U < 0 the formula is that of -X at beta -> -beta; see `standard` for epsilon.
        sine, middle = _sines(U < 0.0, delta, alpha, beta)
        tangent = beta * math.tan(0.5 * math.pi * min(alpha, 2.0 - alpha))
        cosine = 1.0 / math.hypot(1.0, tangent)
        size = sine / (cosine * np.sin(delta)) ** (1.0 / alpha)
        spread = (W / middle) ** ((alpha - 1.0) / alpha)
        return np.asarray(np.where(U < 0.0, -1.0, 1.0) * size * spread)[()]


def reparametrized(
    xp: Any, sign: Any, delta: Any, exponential: Any, alpha: Any, beta: Any, parametrization: str
) -> Any:
    """Return the same formula in numpy, torch or jax.numpy, smooth in alpha and beta through 1.

    With a = alpha - 1, T = tan(pi a/2), |U| = pi/2 - delta and s the sign of U:

        D = cos(a U) + beta sin(a U) / T = sin(a delta) / sin(pi a/2) + (1 + s beta) sin(a |U|) / T
        L = log(W sin(delta) / D)
        X (S0) = s (D cot(delta) + sin(a |U|)) e^(a L / alpha)
                 + beta ((1 - cos(a U)) - cos(a U) (e^(a L / alpha) - 1)) / T

    in which every quotient is a smooth function of a. It is used for |a| < 0.1.

    Args:
        xp: the module of the functions.
        sign: of the angle, 1 or -1.
        delta: its distance to the nearer end, uniform on (0, pi/2).
        exponential: exponential variables of mean 1.
        alpha: stability index in (0, 2].
        beta: skewness in [-1, 1].
        parametrization: ``"S0"`` or ``"S1"``; at alpha = 1 both are S0.

    Returns:
        Draws of the standard law, of the common shape.

    Examples:
        >>> delta, W, alpha = np.array([0.3]), np.array([1.7]), np.array([1.5])
        >>> x = reparametrized(np, 1.0, delta, W, alpha, 0.5, "S1")
        >>> bool(np.allclose(x, chambers_mallows_stuck(0.5 * np.pi - delta, W, 1.5, 0.5)))
        True
    """
    near = abs(alpha - 1.0) < 0.1
    # Each form has arguments of its own range, since a derivative sees the form not taken too.
    close = _smooth_at_one(xp, sign, delta, exponential, xp.where(near, alpha, 1.0), beta)
    away = xp.where(near, 1.5, alpha)
    small = xp.where(away > 1.0, 2.0 - away, away)
    tangent = xp.where(away > 1.0, -1.0, 1.0) * xp.tan(0.5 * math.pi * small)
    theta, U = xp.arctan(beta * tangent), sign * (0.5 * math.pi - delta)
    size = xp.sin(away * U + theta) / (xp.cos(theta) * xp.sin(delta))
    middle = xp.cos(theta + (away - 1.0) * U) / xp.cos(theta)
    # At |beta| = 1 and the end of the angle it is 0 to rounding.
    middle = xp.where(middle > 1e-30, middle, 1e-30)
    ratio = (away - 1.0) / away
    far = size * xp.exp(ratio * xp.log(exponential * xp.sin(delta) / middle))
    exactly = alpha == 1.0
    shift = beta * xp.where(exactly, 0.0, xp.tan(0.5 * math.pi * xp.where(exactly, 0.5, alpha)))
    if parametrization == "S1":
        return xp.where(near, close + shift, far)
    return xp.where(near, close, far - beta * tangent)


def _smooth_at_one(xp: Any, sign: Any, delta: Any, W: Any, alpha: Any, beta: Any) -> Any:
    """Return `reparametrized` in S0 for alpha near 1."""
    a, size = alpha - 1.0, 0.5 * math.pi - delta
    sine = 0.5 * math.pi * xp.sinc(0.5 * a)  # sin(pi a/2) / a; 1/T is over_T / a
    over_T = xp.cos(0.5 * math.pi * a) / sine
    sine_U = size * xp.sinc(a * size / math.pi)  # sin(a |U|) / a
    D = delta * xp.sinc(a * delta / math.pi) / sine + (1.0 + sign * beta) * sine_U * over_T
    L = xp.log(W * xp.sin(delta) / D) / alpha
    growth = xp.exp(a * L)
    tiny = abs(a * L) < 1e-4
    safe = xp.where(tiny, 1.0, a * L)
    quotient = xp.where(tiny, 1.0 + 0.5 * a * L + (a * L) ** 2 / 6.0, xp.expm1(safe) / safe)
    fall = 0.5 * a * (size * xp.sinc(0.5 * a * size / math.pi)) ** 2  # (1 - cos(a U)) / a
    wave = sign * (D * xp.cos(delta) / xp.sin(delta) + a * sine_U) * growth
    return wave + beta * over_T * (fall - xp.cos(a * size) * L * quotient)


def _sines(
    negative: NDArray[np.bool_], delta: Array, alpha: float, beta: float
) -> tuple[Array, Array]:
    """Return sin(alpha (theta_0 + U)) and cos(alpha theta_0 + (alpha - 1) U)."""
    here, there = angles(alpha, beta), angles(alpha, -beta)
    if alpha > 1.0:
        epsilon = np.where(negative, there[0], here[0])
        return np.sin(epsilon + alpha * delta), np.sin(epsilon + (alpha - 1.0) * delta)
    width = np.where(negative, there[1], here[1])
    return np.sin(alpha * (width - delta)), np.sin(alpha * width + (1.0 - alpha) * delta)


# ---- the table -----------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def quantile_rows(alpha: float, beta: float, shift: float = 0.0) -> Integers:
    """Return the rows of the law's own coordinate plus ``shift``, (side, row, word).

    The upper side comes first, and the octaves from the smallest u up.

    Examples:
        >>> quantile_rows(1.5, 0.5).shape
        (2, 6400, 2)
    """
    import mpmath as mp  # takes a while to import

    from mpgd.maps.abel import unit_nodes

    with mp.workdps(40):
        nodes = np.array(unit_nodes(NODES[alpha > 1.0]), dtype=np.float64)
        u = np.ldexp(1.0 + nodes, -np.arange(OCTAVES, 0, -1)[:, None])
        half = 0.5 * u.ravel()
        low = quantile(half, 1.0 - half, alpha, beta) + shift
        high = quantile(1.0 - half, half, alpha, beta) + shift
        return np.stack([_side(_rounded(v.reshape(u.shape))) for v in (high, -low)])


def draw_quantiles(rows: Integers, bits: NDArray[np.uint64]) -> Array:
    """Return the numbers at 64 random bits each.

    Examples:
        >>> rows = quantile_rows(1.0, 0.0)  # Cauchy: Q(3/4) = 1 at u = 1/2, upper side
        >>> float(np.round(draw_quantiles(rows, np.array([1 << 62], np.uint64)), 6)[0])
        1.0
    """
    lower = (bits >> np.uint64(63)).astype(np.int64)
    U = ((bits >> np.uint64(SHIFT)) & np.uint64(2**OCTAVES - 1)) | np.uint64(1)
    pattern = U.astype(np.float64).view(np.int64)  # exact: exponent, row and X one after the other
    row = (pattern >> (52 - ROW_BITS)) - (1023 << ROW_BITS)
    X = (pattern >> (52 - ROW_BITS - POSITION_BITS)) & (2**POSITION_BITS - 1)
    flat = rows.reshape(-1, 2)[(lower * (OCTAVES << ROW_BITS)) + row]
    c0, shape = flat[:, 0], flat[:, 1]
    slope = (shape & 0xFFFFFFFF) - ((X * (shape >> 38)) >> 32)
    z = (c0 - ((X * slope) >> ((shape >> 32) & 63)) + 2**15) >> 16
    x = np.ldexp(z.astype(np.float64), ((c0 & 255) - 30).astype(np.int32))
    return np.asarray(np.where(lower == 1, -x, x))


def _rounded(values: Array) -> Array:
    """Round the nodes of each octave to 28 bits of the largest one.

    They are right to about 46 bits, and CPUs differ below. After this there are only additions
    and multiplications, which every CPU rounds alike.
    """
    unit = np.ldexp(1.0, np.frexp(np.abs(values).max(axis=1, keepdims=True))[1] - NODE_BITS)
    return np.asarray(np.rint(values / unit) * unit)


def _side(values: Array) -> Integers:
    """Return the rows of a falling function, given at the nodes of each octave."""
    c0, c1, c2 = cut(values, 2**ROW_BITS)
    top = np.abs(np.stack([c0, c0 + c1 + c2])).max(axis=0)
    e = np.clip(np.frexp(top)[1] + 1, 0, 255).astype(np.int64)
    C0, C1, C2 = (np.ldexp(c, (_POINT - e).astype(np.int32)) for c in (c0, -c1, c2))
    # The fall is C1 x - C2 x^2; of a row that bends the other way the end is steepest.
    steepest = np.maximum(np.maximum(C1, C1 - C2), 1.0)
    room = np.minimum(
        32 - np.frexp(steepest * (1.0 + 2.0**-30))[1],
        25 - np.frexp(2.0 * np.maximum(np.abs(C2), 1e-9))[1],
    )
    sh = np.clip(room + POSITION_BITS, 0, 63).astype(np.int64)
    scale = (sh - POSITION_BITS).astype(np.int32)
    t1 = np.clip(np.rint(np.ldexp(C1, scale)), 0, 2**32 - 1).astype(np.int64)
    t2 = np.clip(np.rint(np.ldexp(2.0 * C2, scale)), -(2**25), 2**25 - 1).astype(np.int64)
    first = (np.rint(C0).astype(np.int64) & ~np.int64(255)) | e
    return np.stack([first, t1 | (sh << 32) | (t2 << 38)], axis=-1)


# ---- paths ---------------------------------------------------------------------------------------


def process(
    law: StableLaw,
    times: ArrayLike,
    size: int = 1,
    random_state: int | np.random.Generator | None = None,
    *,
    coordinates: int | None = None,
    isotropic: bool = False,
    subordinator: StableLaw | None = None,
) -> Array:
    """Return paths of the process with X(0) = 0 and X(1) of a law.

    Args:
        law: of X(1), one law; isotropic paths need beta = 0 and a location of 0.
        times: rising, from 0 or later on.
        size: number of paths.
        random_state: a seed or a numpy generator; None takes fresh entropy.
        coordinates: of each path; None for paths in the line.
        isotropic: a law that no rotation changes, instead of independent coordinates.
        subordinator: law of T(1), with alpha < 1, beta = 1 and support [0, inf).

    Returns:
        An array (path, time) or (path, time, coordinate).

    Raises:
        ValueError: if times do not rise from 0 or later, or a law does not fit its role.

    Examples:
        >>> from mpgd.stable import StableLaw
        >>> process(StableLaw(1.5), np.linspace(0.0, 1.0, 5), size=3, random_state=0).shape
        (3, 5)
        >>> process(StableLaw(1.5), [0.5, 1.0], 2, 0, coordinates=3, isotropic=True).shape
        (2, 2, 3)
    """
    rng, t = np.random.default_rng(random_state), np.asarray(times, dtype=np.float64)
    if t.ndim != 1 or not (np.diff(t, prepend=0.0) >= 0.0).all():
        raise ValueError("times must be one row of numbers that rise from 0 or later")
    if any(np.ndim(getattr(law, name)) for name in ("alpha", "beta", "loc", "scale")):
        raise ValueError("law must be one law, not an array of them")
    steps = np.broadcast_to(np.diff(t, prepend=0.0), (size, t.size))
    if subordinator is not None:
        if not (subordinator.alpha < 1.0 and float(subordinator.support()[0]) == 0.0):
            raise ValueError("subordinator must have alpha < 1, beta = 1 and support [0, inf)")
        steps = _increments(subordinator, steps, rng)
    dimension = 1 if coordinates is None else coordinates
    if isotropic:
        jumps = _isotropic(law, steps, dimension, rng)
    else:
        jumps = _increments(law, np.repeat(steps[..., None], dimension, axis=2), rng)
    paths = np.cumsum(jumps, axis=1)
    return paths[..., 0] if coordinates is None else paths


def _increments(law: StableLaw, steps: Array, rng: np.random.Generator) -> Array:
    """Return increments over ``steps``, in S1, where location and time are proportional."""
    alpha, beta, shift = law.alpha, law.beta, np.zeros_like(steps)
    z = draw(steps.size, alpha, beta, rng).reshape(steps.shape)
    loc = location(alpha, beta, law.loc, law.scale, law.parametrization)
    if alpha == 1.0:  # S0 is the coordinate there: the scale's logarithm moves with the time
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = 2.0 / math.pi * beta * law.scale * steps * np.log(steps)
        shift = np.where(steps > 0.0, moved, 0.0)
    elif abs(alpha - 1.0) < BAND:
        z = z + skew_shift(alpha, beta)
        loc -= law.scale * skew_shift(alpha, beta)
    return np.asarray(law.scale * steps ** (1.0 / alpha) * z + loc * steps + shift)


def _isotropic(law: StableLaw, steps: Array, dimension: int, rng: np.random.Generator) -> Array:
    """Return increments A^(1/2) G with G of variance 2 scale^2 in every coordinate."""
    if law.beta != 0.0 or law.loc != 0.0:
        raise ValueError("an isotropic process needs beta = 0 and loc = 0")
    normal = math.sqrt(2.0) * law.scale * rng.standard_normal((*steps.shape, dimension))
    clock = steps ** (2.0 / law.alpha)
    if law.alpha < 2.0:
        half = 0.5 * law.alpha
        positive = draw(steps.size, half, 1.0, rng).reshape(steps.shape)
        if half > 1.0 - BAND:  # in S0 there: the support begins at -tan(pi alpha/4)
            positive = np.maximum(positive + skew_shift(half, 1.0), 0.0)
        clock = clock * math.cos(0.5 * math.pi * half) ** (1.0 / half) * positive
    return np.asarray(np.sqrt(clock)[..., None] * normal)
