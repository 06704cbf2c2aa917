"""The update as one numba pass over a contiguous float32 or float64 parameter.

Block by block: the drivers' values go to small buffers while the block's states are in the
first-level cache, then the parameter is updated with the operations of `mpgd.optim.update`, in
their order and precision, so the bits are the same.

Import this module only where numba is installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpgd.noise.engines.fused import (
    BLOCK,
    WORDS,
    Floats,
    _inline,
    _jit,
    _u,
    counted_down,
    find_visits,
    take_returns,
    value_of,
)


@_inline
def advance_block(
    s: Floats, out: Floats, words: Any, first: Any, key: Any, table: Floats, rule: Any,
    scaled: Any,
) -> None:  # fmt: skip
    """Write the scaled values of a block of states and advance them.

    ``rule`` is (threshold, product mask), ``scaled`` the strength times (c0, c1).
    """
    find_visits(s, words)
    for i in range(len(s)):
        out[i] = value_of(s[i], scaled[0], scaled[1])
        s[i] = counted_down(s[i])
    take_returns(s, words, first, key, table, rule[0], rule[1])


@_inline
def fill(
    out: Floats, scratch: Floats, s: Floats, twin: Floats, first: int, last: int, words: Any,
    offset: int, keys: Any, table: Floats, rule: Any, scaled: Any,
) -> None:  # fmt: skip
    """Write one term's values for the elements from ``first`` to ``last``; a twin is subtracted."""
    start = _u(offset + first)
    if len(twin) == 0:
        advance_block(s[first:last], out, words, start, keys[0], table, rule, scaled)
        return
    other = scratch[BLOCK:]
    advance_block(s[first:last], scratch, words, start, keys[0], table, rule, scaled)
    advance_block(twin[first:last], other, words, start, keys[1], table, rule, scaled)
    for i in range(last - first):
        out[i] = scratch[i] - other[i]


@_jit
def descend(
    x: Floats, gradient: Floats, eta: Any, shared: Any, offset: int,
    s1: Floats, twin1: Floats, keys1: Any, table1: Floats, rule1: Any, scaled1: Any,
    s2: Floats, twin2: Floats, keys2: Any, table2: Floats, rule2: Any, scaled2: Any,
) -> None:  # fmt: skip
    """X <- x - eta g - m x + n in place; empty states mean no such term, ``shared`` adds to m."""
    words, scratch = np.empty(WORDS, np.uint64), np.empty(2 * BLOCK)
    m, n = np.full(BLOCK, shared, x.dtype), np.zeros(BLOCK, x.dtype)
    multiplicative, additive = len(s1) > 0 or shared != 0, len(s2) > 0
    for first in range(0, len(x), BLOCK):
        last = min(first + BLOCK, len(x))
        if len(s1) > 0:
            fill(m, scratch, s1, twin1, first, last, words, offset, keys1, table1, rule1, scaled1)
        if additive:
            fill(n, scratch, s2, twin2, first, last, words, offset, keys2, table2, rule2, scaled2)
        old, g = x[first:last], gradient[first:last]
        if multiplicative and additive:
            for i in range(len(old)):
                old[i] = ((old[i] - g[i] * eta) - m[i] * old[i]) + n[i]
        elif multiplicative:
            for i in range(len(old)):
                old[i] = (old[i] - g[i] * eta) - m[i] * old[i]
        else:
            for i in range(len(old)):
                old[i] = (old[i] - g[i] * eta) + n[i]


@_jit
def displace(
    x: Floats, out: Floats, shared: Any, offset: int,
    s1: Floats, twin1: Floats, keys1: Any, table1: Floats, rule1: Any, scaled1: Any,
    s2: Floats, twin2: Floats, keys2: Any, table2: Floats, rule2: Any, scaled2: Any,
) -> None:  # fmt: skip
    """Write the perturbation n - m x to ``out`` and advance the states."""
    words, scratch = np.empty(WORDS, np.uint64), np.empty(2 * BLOCK)
    m, n = np.full(BLOCK, shared, x.dtype), np.zeros(BLOCK, x.dtype)
    multiplicative, additive = len(s1) > 0 or shared != 0, len(s2) > 0
    for first in range(0, len(x), BLOCK):
        last = min(first + BLOCK, len(x))
        if len(s1) > 0:
            fill(m, scratch, s1, twin1, first, last, words, offset, keys1, table1, rule1, scaled1)
        if additive:
            fill(n, scratch, s2, twin2, first, last, words, offset, keys2, table2, rule2, scaled2)
        old, p = x[first:last], out[first:last]
        if multiplicative and additive:
            for i in range(len(old)):
                p[i] = n[i] - m[i] * old[i]
        elif multiplicative:
            for i in range(len(old)):
                p[i] = -(m[i] * old[i])
        else:
            for i in range(len(old)):
                p[i] = n[i]
