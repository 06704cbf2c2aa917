"""Stable values of many steps in one call, compiled by numba, without the interpreter's lock.

Import this module only where numba is installed.
"""

import math
from typing import Any

import numpy as np

from mpgd.noise.engines.compiled import inlined, jitted
from mpgd.noise.engines.fused import hash_element
from mpgd.noise.memoryless import SECOND_SALT

_u = np.uint64
_LOW, _SALT = _u(12), _u(SECOND_SALT)


@inlined
def _uniform(i: int, key: Any, salt: Any) -> float:
    h = hash_element(_u(i), key, salt)
    return (float(h >> _LOW) + 0.5) * 2.0**-52


@jitted
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
