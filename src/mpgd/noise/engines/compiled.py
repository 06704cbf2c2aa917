"""Compile kernels with numba and keep them on disk for as long as their sources stay the same.

A kernel inlines functions and constants of other files, but numba's own cache looks only at the
date of the file the kernel stands in. So each kernel gets a name that ends with a digest of every
source it can be made of: its own module and all modules of this package that are imported from
there, directly or not. A change in any of them gives another name, and numba compiles anew.

Import this module only where numba is installed; `mpgd.noise.engines.has_numba` tells.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import numba

from mpgd.files import warn_once

PACKAGE: Final = __name__.partition(".")[0]
ROOT: Final = Path(__file__).parents[__name__.count(".")]  # the folder that holds the package
# `from mpgd.a import b, c` and `import mpgd.a`, also inside functions, also over several lines.
IMPORT: Final = re.compile(
    rf"^\s*(?:from\s+({PACKAGE}[\w.]*)\s+import\s+(\([^)]*\)|[^\n]*)|import\s+({PACKAGE}[\w.]*))",
    re.MULTILINE,
)


def jitted(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a kernel, keep it on disk if possible, and run it without the interpreter's lock."""
    function.__qualname__ += f"_{digest(function.__module__)}"
    kernel = numba.njit(nogil=True, **options)(function)
    try:
        kernel.enable_caching()
    except RuntimeError:  # numba found no folder that can be written
        warn_once(
            "kernels cannot be kept on disk, so every process compiles them; set NUMBA_CACHE_DIR "
            "to a folder that can be written"
        )
    return kernel


def is_kept(kernel: Any) -> bool:
    """Return whether a kernel lies compiled on disk, so that its first call takes no time."""
    folder = kernel.stats.cache_path  # None where kernels cannot be kept
    return bool(folder) and any(Path(folder).glob(f"*.{kernel.__qualname__}-*.nbi"))


def inlined(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function into its callers."""
    return numba.njit(inline="always", **options)(function)


@cache
def digest(module: str) -> str:
    """Return a hash of the sources of a module and of all it imports from this package."""
    text = hashlib.sha256()
    for name in sorted(reached(module)):
        text.update(name.encode() + b"\0" + source(name))
    return text.hexdigest()[:16]


def reached(module: str) -> set[str]:
    """Return the names of a module and of all modules of this package it imports, and theirs."""
    found, waiting = set[str](), [module]
    while waiting:
        name = waiting.pop()
        if name not in found and source(name):
            found.add(name)
            waiting += imports(source(name).decode())
    return found


def imports(text: str) -> list[str]:
    """Return the modules that a source may import; a name in a module counts as one.

    Examples:
        >>> imports("from mpgd.noise import counter_hash, driver")
        ['mpgd.noise', 'mpgd.noise.counter_hash', 'mpgd.noise.driver']
    """
    found = []
    for base, names, plain in IMPORT.findall(text):
        found += [f"{base}.{name}" for name in re.findall(r"\w+", names) if base]
        found.append(base or plain)
    return sorted(found)


@cache
def source(module: str) -> bytes:
    """Return the source of a module of this package, or of a loaded one; else nothing."""
    place = ROOT.joinpath(*module.split("."))
    files = [place.with_suffix(".py"), place / "__init__.py"]
    loaded = getattr(sys.modules.get(module), "__file__", None)
    files += [Path(loaded)] if loaded else []
    return next((file.read_bytes() for file in files if file.is_file()), b"")
