"""Checks every path goes through before it reaches a kernel, with errors that name the place."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def checked_path(path: ArrayLike, name: str) -> Array:
    """Return ``path``, of axes (time,) or (time, coordinate), as floats (time, coordinate)."""
    given = np.asarray(path)
    if given.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {given.dtype}")
    if given.ndim not in (1, 2):
        raise ValueError(f"{name} must be (time,) or (time, coordinate), got shape {given.shape}")
    if given.size == 0:
        raise ValueError(f"{name} must have a point and a coordinate, got shape {given.shape}")
    _refuse_non_finite(given, name)
    return np.ascontiguousarray(given.reshape(len(given), -1), dtype=np.float64)


def checked_times(times: ArrayLike, length: int, name: str) -> Array:
    """Return ``times`` as floats: one per value of the path, finite and strictly increasing."""
    checked = np.asarray(times, dtype=np.float64)
    if checked.shape != (length,):
        raise ValueError(
            f"{name} must hold one time per value, {length} of them, got shape {checked.shape}"
        )
    _refuse_non_finite(checked, name)
    late = np.flatnonzero(np.diff(checked) <= 0.0)
    if late.size:
        i = int(late[0])
        raise ValueError(
            f"{name} must increase strictly, got {float(checked[i])!r} then "
            f"{float(checked[i + 1])!r} at index {i + 1}"
        )
    return checked


def binary_exponent(*arrays: Array) -> int:
    """Return e with every entry below 2^e in size: dividing by 2^e is exact and tames squares."""
    return int(np.frexp(max(float(np.abs(array).max()) for array in arrays))[1])


def _refuse_non_finite(values: NDArray[np.generic], name: str) -> None:
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        place = tuple(int(k) for k in bad[0])
        where = place[0] if len(place) == 1 else place
        raise ValueError(f"{name} must be finite, got {float(values[place])!r} at index {where}")
