"""Tables of geometric phases, P(n steps or more) = q^n, exact but for the rounding of rows.

    returns:  B(u) = log((q^(1-u) - q) / (1 - q)) / log q          u = 1 - f
    starts:   A(u) = log(u) / log q                                u uniform

A(u) has a geometric whole part n and, independent of it, a fraction f with density proportional to
q^f. B first makes such an f uniform again. So each phase is independent of those before, and the
stationary start, the steps that a phase has still to come, has the same law as the whole.
"""

from __future__ import annotations

from functools import lru_cache

from mpgd.maps.rows import INPUT_BITS, Rows, tabulate
from mpgd.maps.tables import RETURN_NODES, RETURN_ROW_BITS


@lru_cache(maxsize=64)
def geometric_rows(dwell: float) -> tuple[Rows, Rows]:
    """Return the rows of B and of the start for q = 1 - 1/dwell, where ``dwell`` is above 1.

    Examples:
        >>> from mpgd.maps.rows import read
        >>> import numpy as np
        >>> returns, starts = geometric_rows(2.0)
        >>> read(starts, 7, np.array([0.75, 0.3, 0.2])).astype(int).tolist()
        [0, 1, 2]
    """
    import mpmath as mp

    with mp.workdps(40):
        q = 1 - 1 / mp.mpf(dwell)
        c = -mp.log(q)
        scale = q / (1 - q)
        layout = INPUT_BITS, RETURN_ROW_BITS, 1, RETURN_NODES
        returns = tabulate(lambda u: -mp.log(scale * mp.expm1(c * u)) / c, *layout)
        return returns, tabulate(lambda u: -mp.log(u) / c, *layout)
