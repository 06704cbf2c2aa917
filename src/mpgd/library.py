"""Load a library that was compiled from a C file at installation.

`hatch_build.py` puts ``libname.so`` beside ``name.c``. It is not there if there was no C compiler,
and it must not be used if it was compiled from other sources: structures may have changed.
"""

from __future__ import annotations

import ctypes
import hashlib
from pathlib import Path
from typing import Final, NamedTuple

CURE: Final = "install a C compiler (gcc or clang) and install mpgd again"
_STAMP: Final = "mpgd_source"  # what the library was compiled from


class Loaded(NamedTuple):
    """A library, or the reason why there is none."""

    library: ctypes.CDLL | None
    reason: str = ""


def load(source: Path) -> Loaded:
    """Return the library compiled from ``source``.

    Examples:
        >>> load(Path("/nowhere/kernels.c")).reason
        'libkernels.so is not there: install a C compiler (gcc or clang) and install mpgd again'
    """
    path = source.with_name(f"lib{source.stem}.so")
    if not path.is_file():
        return Loaded(None, f"{path.name} is not there: {CURE}")
    try:
        library = ctypes.CDLL(str(path))
        stamp = (ctypes.c_char * 17).in_dll(library, _STAMP).value.decode()
    except (OSError, ValueError) as problem:
        return Loaded(None, f"{path.name} cannot be loaded ({problem}): {CURE}")
    if source.is_file() and stamp != _digest(source):
        return Loaded(None, f"{path.name} was compiled from other sources: install mpgd again")
    return Loaded(library)


def _digest(source: Path) -> str:
    """Return what `hatch_build.digest` returns."""
    whole = hashlib.sha256()
    for path in sorted([source, *source.parent.glob("*.h")]):
        whole.update(path.read_bytes())
    return whole.hexdigest()[:16]
