"""The map in the Abel coordinate, in float64: what the words of the driver stand for.

    s >= 1:  s -> s - 1          s < 1:  s -> B(s) = A(T(A^-1(s)))

B is `ThalerMap.abel_return`, which has no table; the map tests hold it against 50 digits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mpgd import ThalerMap

Array = NDArray[np.float64]


def step(s: Array, gamma: float) -> Array:
    """Return the positions one step later."""
    following, in_Z = s - 1.0, s < 1.0
    following[in_Z] = ThalerMap(gamma).abel_return(s[in_Z])
    return following
