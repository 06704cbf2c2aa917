"""Stable values of many steps in one call, compiled by numba, without the interpreter's lock.

Import this module only where numba is installed. A kernel kept on disk is compiled again when its
own file changes, not when another does, so nothing here calls a kernel of another module.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from mpgd.noise.counter import MULTIPLIER
from mpgd.noise.memoryless import SECOND_SALT

_u = np.uint64
_MULTIPLIER = _u(MULTIPLIER)
_HALF, _LOW = _u(32), _u(12)
_SALT = _u(SECOND_SALT)


@numba.njit(cache=True, nogil=True)
def stable_block(
    out: Any, n: int, first: int, last: int, keys: Any, alpha: float, beta: float
) -> None:
    """Write the values of `StableNoise`, by the same formula, a row of ``out`` per key."""
    t = beta * math.tan(0.5 * math.pi * alpha)
    angle, log_scale = math.atan(t), 0.5 * math.log1p(t * t) / alpha
    a = (1.0 - alpha) / alpha
    for k in range(len(keys)):
        for i in range(first, last):
            V = math.pi * (_uniform(i, keys[k], _u(0)) - 0.5)
            W = -math.log(_uniform(i, keys[k], _SALT))
            shifted = alpha * V + angle
            thin = max(math.cos(V - shifted), 1e-300)  # 0 up to rounding at the end of |beta| = 1
            size = log_scale - math.log(math.cos(V)) / alpha + a * (math.log(thin) - math.log(W))
            out[k * n + i] = math.sin(shifted) * math.exp(size)


@numba.njit(inline="always")
def _uniform(i: int, key: Any, salt: Any) -> float:
    h = ((_u(i) ^ key) * _MULTIPLIER) ^ salt
    h = (h ^ (h >> _HALF)) * _MULTIPLIER
    h = (h ^ (h >> _HALF)) * _MULTIPLIER
    return (float(h >> _LOW) + 0.5) * 2.0**-52
