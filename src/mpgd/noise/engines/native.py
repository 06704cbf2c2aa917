"""The library of kernels.c: its structures, and the instructions that it uses.

The environment variable ``MPGD_CPU`` names an instruction set: ``avx2``, ``lanes`` (vectors that
every CPU has) or ``scalar``. By default it is the first of these that the CPU has.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any, Final

from mpgd.library import load

INSTRUCTIONS: Final = ("scalar", "lanes", "avx2")  # in the order of kernels.c
VARIABLE: Final = "MPGD_CPU"
ABSENT, CHAOTIC, NORMAL, SHARED, STABLE = range(5)  # kinds of drivers
_u32, _u64, _i64, _address = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64, ctypes.c_void_p
_PARTS: Final = (("total", _i64), ("part", _i64), ("next", _i64))


class DriverConstants(ctypes.Structure):
    """``Driver`` of kernels.c."""

    _fields_ = (
        ("table", _address),
        ("kind", _u32),
        ("threshold", _u32),
        ("product", _u32),
        ("largest", _u32),
        ("c0", ctypes.c_double),
        ("c1", ctypes.c_double),
    )


class Displacement(ctypes.Structure):
    """``Displacement`` of kernels.c."""

    _fields_ = (
        ("rows", _address),
        *_PARTS,
        ("drivers", DriverConstants * 2),
        ("dtype", _u32),
        ("twins", _u32),
    )


class Values(ctypes.Structure):
    """``Values`` of kernels.c."""

    _fields_ = (
        ("streams", _address),
        *_PARTS,
        ("driver", DriverConstants),
        ("step", _u64),
        ("steps", _i64),
        ("stride", _i64),
        ("wide", _u32),
        ("adds", _u32),
    )


class Rounding(ctypes.Structure):
    """``Rounding`` of kernels.c."""

    _fields_ = (("rows", _address), *_PARTS)


class Bits(ctypes.Structure):
    """``Bits`` of kernels.c."""

    _fields_ = (
        ("out", _address),
        *_PARTS,
        ("offset", _u64),
        ("key", _u64),
        ("uniform", _u32),
        ("unused", _u32),
    )


LOADED: Final = load(Path(__file__).with_name("kernels.c"))
ARGUMENTS: Final = {
    "displace": [_address],
    "values": [_address],
    "round": [_address],
    "bits": [_address],
    "visit": [_address, _address, _i64, _u64, _address],
}
_chosen: str | None = None


def is_available() -> bool:
    """Return whether the library is there."""
    return LOADED.library is not None


def reason() -> str:
    """Return why the library is not there, and the cure; empty if it is."""
    return LOADED.reason


def kernel(name: str) -> Any:
    """Return a function of the library."""
    if LOADED.library is None:
        raise ImportError(f"this needs compiled kernels, and {LOADED.reason}")
    return getattr(LOADED.library, f"mpgd_{name}")


def select(wanted: str | None = None) -> str:
    """Use an instruction set from now on and return its name; None takes the best there is.

    Examples:
        >>> before = instructions()
        >>> select("scalar"), instructions()
        ('scalar', 'scalar')
        >>> select(before) == before
        True
    """
    global _chosen
    if wanted is not None and wanted not in INSTRUCTIONS:
        names = ", ".join(INSTRUCTIONS)
        raise ValueError(f"{VARIABLE} must be one of {names}, got {wanted!r}")
    for name in (wanted,) if wanted else reversed(INSTRUCTIONS):
        if kernel("select")(INSTRUCTIONS.index(name)) >= 0:
            _chosen = name
            return name
    raise ValueError(f"{VARIABLE}={wanted!r}: this CPU does not have these instructions")


def instructions() -> str | None:
    """Return the name of the instruction set in use, None without the library."""
    return _chosen


if is_available():
    for _name, _arguments in ARGUMENTS.items():
        kernel(_name).argtypes, kernel(_name).restype = _arguments, None
    select(os.environ.get(VARIABLE) or None)
