"""Normal numbers from the counter hash, in integers: the same bits from every engine.

Of the 64 bits of a hash the uppermost is the sign, and the 50 below it, with the last one set, are
U. The table of `mpgd.maps.normal` at U is the magnitude. It is rounded to 27 bits behind the point,
so that it fits an int32 with its sign; a float of any kind takes that up with one rounding.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import torch
from torch import Tensor

from mpgd.maps.normal import EXCESS, INPUT_SHIFT, NORMAL_BITS, normal_rows
from mpgd.maps.rows import INPUT_BITS
from mpgd.maps.tables import RETURN_ROW_BITS
from mpgd.noise.counter import hash_elements
from mpgd.noise.driver import Driver, Table
from mpgd.noise.engines.tensor import lookup

UNIT: Final = 2.0**-NORMAL_BITS


@lru_cache(maxsize=128)
def normal_driver(deviation: float) -> Driver:
    """Return what the kernels know of normal noise; its first value is that of the integer 1."""
    rows = normal_rows()
    table = Table(rows, RETURN_ROW_BITS)
    return Driver(
        laminar_value=deviation * UNIT,
        burst_value=0.0,
        threshold=0,
        product=False,
        returns=table,
        starts=table,
        law=None,
        largest=0,
        fingerprint=0,
        table=rows.reshape(-1),
        rule=(np.uint64(0),) * 3,
        is_normal=True,
    )


def integers(index: Tensor, key: Tensor | int, driver: Driver | None = None) -> Tensor:
    """Return standard normal numbers times 2^27, int64, of the elements ``index``.

    A compiler cannot see into the cache of drivers, so who has one hands it over.
    """
    h = hash_elements(index, key)
    U = ((h >> INPUT_SHIFT) & ((1 << INPUT_BITS) - 1)) | 1
    table = (normal_driver(1.0) if driver is None else driver).returns
    q = (lookup(table, U) + (1 << (EXCESS - 1))) >> EXCESS
    return torch.where(h < 0, -q, q)
