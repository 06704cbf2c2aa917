"""Compile a kernel when it is first called, so that numba stays optional."""

from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def compiled(kernel: Callable[..., Any], *helpers: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``kernel`` compiled by numba; ``helpers`` are the functions of its module it calls."""
    try:
        from numba import extending

        from mpgd.noise.engines.compiled import jitted
    except ImportError as error:
        raise ImportError(
            'distances between paths need numba, which is not installed: pip install "mpgd[fast]"'
        ) from error
    for helper in helpers:
        extending.register_jitable(helper)
    function: Callable[..., Any] = jitted(kernel, error_model="numpy")
    return function
