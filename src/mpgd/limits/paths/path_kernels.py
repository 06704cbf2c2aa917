"""The functions of paths.c, called by ctypes without the interpreter's lock.

Each does what the function of its name does in Python, a hundred times as fast, with the same bits
up to the order of sums over coordinates. Where the library is not there, that function is what
runs: `chosen` returns the one or the other.
"""

from collections.abc import Callable
from ctypes import c_double, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from mpgd.library import load
from mpgd.limits.paths.checks import Array

Indices = NDArray[np.int64]
Function = TypeVar("Function", bound=Callable[..., Any])

_LOADED: Final = load(Path(__file__).with_name("paths.c"))
_TYPES: Final = {float: c_double, int: c_int64, bool: c_int}


def chosen(kernel: Function, fallback: Function) -> Function:
    """Return a function of this module where its library is there, else the one in Python."""
    return fallback if _LOADED.library is None else kernel


def largest_sum(
    u: Array, low: Array, high: Array, before: Indices, half: float, enough: float
) -> float:
    """`mpgd.limits.paths.variation._largest_sum`."""
    sizes = len(u), len(low) // 2, u.shape[1]
    given = (u, low, high, np.zeros(len(u)), before, *sizes, half, enough)
    return float(_call("largest_sum", c_double, *given))


def cheapest_staircase(
    x: Array, s: Array, y: Array, t: Array, first: Indices, last: Indices
) -> float:
    """`mpgd.limits.paths.skorokhod._cheapest_staircase`."""
    cost = np.full(len(t) - 1, np.inf)
    given = (x, s, len(s), y, t, len(t), x.shape[1], first, last, cost)
    return float(_call("cheapest_staircase", c_double, *given))


def lower_bound(P: Array, Q: Array, first: Indices, last: Indices, below: Array) -> float:
    """`mpgd.limits.paths.frechet._lower_bound`."""
    given = (P, len(P), Q, len(Q), P.shape[1], first, last, below)
    return float(_call("lower_bound", c_double, *given))


def is_within(P: Array, Q: Array, eps: float, first: Indices, last: Indices, below: Array) -> bool:
    """`mpgd.limits.paths.frechet._is_within`."""
    given = (P, len(P), Q, len(Q), P.shape[1], eps, first, last, below)
    return bool(_call("is_within", c_int, *given))


def align(
    s: Array, x: Array, t: Array, y: Array, window: float, p: float, steps: bool
) -> tuple[Indices, Indices, float]:
    """`mpgd.limits.paths.warping._align`."""
    n, m = len(s), len(t)
    cost, came = np.full((n, m), np.inf), np.zeros((n, m), np.int8)
    cost[0, 0] = 0.0
    rows, columns, late = np.empty(n + m, np.int64), np.empty(n + m, np.int64), np.zeros(1)
    given = (s, x, n, t, y, m, x.shape[1], window, p, steps, cost, came, rows, columns, late)
    count = _call("align", c_int64, *given)
    return rows[:count][::-1], columns[:count][::-1], float(late[0]) if count else np.inf


def spanning_tree(x: Array) -> Array:
    """`mpgd.theory.tails.dimension._spanning_tree`."""
    n, d = x.shape
    nearest, edges = np.full(n - 1, np.inf), np.empty(n - 1)
    _call("spanning_tree", None, x.copy(), n, d, nearest, np.empty(d), edges)
    return edges


def _call(name: str, result: Any, *given: Any) -> Any:
    """Call a C function with arrays, which it may write to if they are contiguous, and numbers."""
    function = getattr(_LOADED.library, f"mpgd_{name}")
    function.restype = result
    arrays = [np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x for x in given]
    return function(
        *(
            c_void_p(x.ctypes.data) if isinstance(x, np.ndarray) else _TYPES[type(x)](x)
            for x in arrays
        )
    )
