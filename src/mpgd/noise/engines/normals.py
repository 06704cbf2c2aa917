"""Normal numbers in numba's kernels: those of `mpgd.noise.memoryless`, bit for bit.

Import this module only where numba is installed; `mpgd.noise.engines.has_numba` tells.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from mpgd.maps.normal import EXCESS
from mpgd.maps.rows import BEND_BITS, INPUT_BITS
from mpgd.maps.tables import RETURN_ROW_BITS
from mpgd.noise.engines.compiled import inlined
from mpgd.noise.engines.fused import Floats, array_at, hash_element, in_lanes
from mpgd.noise.engines.intrinsics import leading_zeros, normal_eight, stack
from mpgd.noise.engines.vectors import WIDE

_u = np.uint64
_UNIT, _HALF, _LAST_BIT = _u(1), _u(32), _u(63)
_LEAST = _u(1 << (64 - INPUT_BITS))  # the last bit of U, which is always set
_ROW_BITS, _ROW_SHIFT = _u(RETURN_ROW_BITS), _u(64 - RETURN_ROW_BITS)
_LOW_HALF, _BEND, _SH_SHIFT = _u(2**32 - 1), _u(2**BEND_BITS - 1), _u(58)
_NUMBER_ROOM: Final = 8  # bytes
_EXCESS, _ROUND = _u(EXCESS), _u(1 << (EXCESS - 1))


@inlined
def write_normals(out: Floats, first: Any, key: Any, table: Any, unit: float) -> None:
    """Write normal numbers of a block of elements, where the integer 1 stands for ``unit``.

    Eight at a time; the rest takes its unit from memory, where it was rounded to the dtype.
    """
    whole = in_lanes(first, len(out), WIDE)
    for i in range(0, whole, WIDE):
        normal_eight(out, i, first, key, table, unit)
    scale = array_at(stack(_NUMBER_ROOM), (1,), out.dtype)
    scale[0] = unit
    for i in range(whole, len(out)):
        out[i] = normal_integer(hash_element(first + _u(i), key, _u(0)), table)
        out[i] = out[i] * scale[0]


@inlined
def normal_integer(h: Any, table: Any) -> Any:
    """Return a standard normal number times 2^27, as `mpgd.noise.memoryless.integers`."""
    U = ((h << _UNIT) & ~(_LEAST - _UNIT)) | _LEAST
    octave = leading_zeros(U)
    below = (U << octave) << _UNIT
    row = ((octave << _ROW_BITS) + (below >> _ROW_SHIFT)) << _UNIT
    X = (below << _ROW_BITS) >> _HALF
    shape = table[row + _UNIT]
    q = (shape & _LOW_HALF) - ((X * ((shape >> _HALF) & _BEND)) >> _HALF)
    z = table[row] - ((X * q) >> (shape >> _SH_SHIFT))
    magnitude = np.int32((z + _ROUND) >> _EXCESS)
    return -magnitude if h >> _LAST_BIT else magnitude
