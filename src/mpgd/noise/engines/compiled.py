"""How kernels are compiled, and when a kernel kept on disk is compiled anew.

Numba compares the one file that a kernel stands in. Ours are made of several: words, tables, hash
and blocks are inlined into the optimizer's pass. So every kernel on disk carries a digest of all
sources of the package, and one with another digest is compiled again.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba


def jitted(function: Any) -> Any:
    """Compile a kernel, keep it on disk, and run it without the interpreter's lock."""
    kernel: Any = numba.njit(cache=True, nogil=True)(function)
    kernel._cache._cache_file._source_stamp = source_digest()
    return kernel


def inlined(function: Any) -> Any:
    """Compile a function into its callers."""
    return numba.njit(inline="always")(function)


@lru_cache(maxsize=1)
def source_digest() -> str:
    """Return the SHA-256 of all sources that a kernel may be made of."""
    package = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
