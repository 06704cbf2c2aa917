"""The normal law as a table of integers, the same bits on every device.

    u -> Phi^-1(1 - u/2)          u uniform in (0, 1): the magnitude of a normal number

It falls and is convex, so it is a table of `mpgd.maps.rows` like the others: parabolas, found by
the leading one of u. The smallest u is 2^-50, where the magnitude is 7.9. The table is kept in the
same folder on disk as those of the Thaler map. Its fingerprint stands here, so a file or a machine
that gave other bits would be found out.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from mpgd.files import through_cache
from mpgd.maps.rows import INPUT_BITS, POINT_BITS, Rows, tabulate
from mpgd.maps.tables import RETURN_NODES, RETURN_ROW_BITS

GAUSSIAN_VERSION: Final = 2  # 1 was Box and Muller's; a new one changes every bit of the noise
FINGERPRINT: Final = "ca071aa8089fa9a8"
NORMAL_BITS: Final = 27  # behind the point of a normal number; five of the table are rounded off
EXCESS: Final = POINT_BITS - NORMAL_BITS
INPUT_SHIFT: Final = 64 - 1 - INPUT_BITS  # where a hash has U; above it is the sign
_DIGITS: Final = 40


@lru_cache(maxsize=1)
def normal_rows() -> Rows:
    """Return the table: from disk, else computed (2 s)."""
    return through_cache(f"normal-{GAUSSIAN_VERSION}.npy", _load, compute_rows, np.save)


def compute_rows() -> Rows:
    """Compute the table without looking at the cache."""
    import mpmath as mp  # takes a while to import and is not needed when the cache has the table

    def magnitude(u: Any) -> Any:
        return mp.sqrt(2) * mp.erfinv(1 - u)

    with mp.workdps(_DIGITS):
        return tabulate(magnitude, INPUT_BITS, RETURN_ROW_BITS, 1, RETURN_NODES)


def fingerprint(rows: Rows) -> str:
    """Return 16 digits of the SHA-256 of a table."""
    return hashlib.sha256(rows.tobytes()).hexdigest()[:16]


def _load(path: Path) -> Rows | None:
    """Return the table in ``path``, or None where there is none or it is another."""
    try:
        rows: Rows = np.load(path, allow_pickle=False)
        return rows if fingerprint(rows) == FINGERPRINT else None
    except Exception:  # a damaged file raises almost anything; the table is computed again
        return None
