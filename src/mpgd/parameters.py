"""Every range of every parameter, and every error text about ranges.

The letters are the paper's: 1/2 < gamma < 1 is the intermittency exponent, alpha = 1/gamma the
tail index, -1 <= beta <= 1 the skewness, mu >= 0 and sigma, any real number, the sizes of the
multiplicative and the additive perturbation.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from numbers import Real
from typing import Final

SIGN_RULES: Final = ("fresh", "product")
FIRST_SIGNS: Final = ("drawn", "positive")
ENGINES: Final = ("torch", "cpu", "triton")
MAX_SEED: Final = 2**63 - 1
MAX_STREAM: Final = 2**64 - 1
LONGEST_PHASE: Final = 2**30 + 2**12 - 1  # steps that a word of `mpgd.noise.word` can hold
LARGEST_GAMMA: Final = 0.99


def check_real(name: str, value: object, rule: str, low: float, high: float, ends: str) -> float:
    """Return ``value`` as a float in the interval from ``low`` to ``high``.

    Args:
        name: the argument's name, for the error text.
        value: what the caller passed.
        rule: the range in words, for the error text.
        low: the lower end.
        high: the upper end.
        ends: which ends belong to the interval: ``"[]"``, ``"[)"``, ``"(]"`` or ``"()"``.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number that lies in {rule}, got {value!r}")
    x = float(value)
    above = x >= low if ends[0] == "[" else x > low
    below = x <= high if ends[1] == "]" else x < high
    if not (above and below):  # written so that NaN fails too
        raise ValueError(f"{name} must lie in {rule}, got {value!r}")
    return x


def check_gamma(gamma: object) -> float:
    """Return ``gamma``, which must lie in (0.5, 0.99].

    Nearer to 1 the law that orbits start from is too steep for its table: its relative error is
    7e-8 at 0.99, 2e-4 at 0.995, and above 0.997 it is wrong.
    """
    return check_real("gamma", gamma, f"(0.5, {LARGEST_GAMMA}]", 0.5, LARGEST_GAMMA, "(]")


def check_beta(beta: object) -> float:
    """Return ``beta``, which must lie in [-1, 1]."""
    return check_real("beta", beta, "[-1, 1]", -1.0, 1.0, "[]")


def check_alpha(alpha: object) -> float:
    """Return ``alpha``, which must lie in (1, 2]."""
    return check_real("alpha", alpha, "(1, 2]", 1.0, 2.0, "(]")


def check_nonnegative(name: str, value: object) -> float:
    """Return ``value``, which must be finite and at least 0."""
    return check_real(name, value, "[0, inf)", 0.0, math.inf, "[)")


def check_finite(name: str, value: object) -> float:
    """Return ``value``, which must be a finite number."""
    return check_real(name, value, "(-inf, inf)", -math.inf, math.inf, "()")


def check_flag(name: str, value: object) -> None:
    """Raise if ``value`` is not a bool."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def check_positive(name: str, value: object) -> float:
    """Return ``value``, which must be finite and above 0."""
    return check_real(name, value, "(0, inf)", 0.0, math.inf, "()")


def check_integer(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return ``value`` as an int of at least ``low`` and at most ``high``."""
    rule = f"an integer >= {low}" if high is None else f"an integer in [{low}, {high}]"
    if isinstance(value, bool):
        raise TypeError(f"{name} must be {rule}, got {value!r}")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be {rule}, got {value!r}") from None
    if number < low or (high is not None and number > high):
        raise ValueError(f"{name} must be {rule}, got {value!r}")
    return number


def check_longest(longest: object) -> int | None:
    """Return ``longest``, None or a number of steps that a word can hold."""
    return None if longest is None else check_integer("longest", longest, 1, LONGEST_PHASE)


def check_seed(seed: object) -> int:
    """Return ``seed``, a non-negative 63-bit integer."""
    return check_integer("seed", seed, 0, MAX_SEED)


def check_stream(stream: object) -> int | str | None:
    """Return ``stream``: None, a name, or a non-negative 64-bit integer."""
    if stream is None or isinstance(stream, str):
        return stream
    return check_integer("stream", stream, 0, MAX_STREAM)


def check_seed_or_stream(seed: object) -> int | tuple[int, int | str]:
    """Return ``seed``: a number, or a pair of a number and the name of a stream."""
    if not isinstance(seed, (tuple, list)):
        return check_seed(seed)
    stream = check_stream(seed[1]) if len(seed) == 2 else None
    if stream is None:
        raise ValueError(f"seed must be a number or a pair (number, name), got {seed!r}")
    return check_seed(seed[0]), stream


def check_shape(shape: object) -> tuple[int, ...]:
    """Return ``shape`` as a tuple of non-negative integers; a single integer is one axis."""
    if isinstance(shape, int):
        shape = (shape,)
    if not isinstance(shape, Iterable):
        raise TypeError(f"shape must be an integer or a sequence of them, got {shape!r}")
    return tuple(check_integer("shape", size, 0) for size in shape)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Return ``value``, which must be one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return str(value)
