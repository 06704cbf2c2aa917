"""Compile the C files into shared libraries, beside their sources, when a wheel is built.

Where there is no C compiler, the wheel is pure Python: torch operations do the same, more slowly.
``CC`` names the compiler (default ``cc``); with ``MPGD_REQUIRE_KERNELS=1`` a failure is an error.
``python hatch_build.py`` compiles in place, after a change of a C file.

A library is loaded by ctypes and does not know Python, so one wheel serves every version of it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Without contraction a product and a sum round twice, which is part of the bits.
EXACT = ("-O3", "-ffp-contract=off")
# Sums in any order: the laboratory's nets, whose bits are not promised.
FREE = ("-O3", "-ffp-contract=fast", "-fassociative-math", "-fno-signed-zeros")
FREE += ("-fno-trapping-math",)
LIBRARIES = {
    "src/mpgd/noise/engines/kernels.c": EXACT,
    "src/mpgd/limits/paths/paths.c": EXACT,
    "src/mpgd_lab/nets/shallow.c": FREE,
}
COMMON = ("-std=gnu11", "-fPIC", "-shared", "-Wno-psabi")


def digest(source: Path) -> str:
    """Return a digest of a C file and the headers in its folder; the library holds it."""
    whole = hashlib.sha256()
    for path in sorted([source, *source.parent.glob("*.h")]):
        whole.update(path.read_bytes())
    return whole.hexdigest()[:16]


def library_of(source: Path) -> Path:
    """Return the library of a C file; without "lib", Python would take it for a module."""
    return source.with_name(f"lib{source.stem}.so")


def compile_library(source: Path, flags: tuple[str, ...]) -> Path:
    """Compile one C file and return the library."""
    target = library_of(source)
    compiler = shlex.split(os.environ.get("CC") or "cc")
    stamp = f'-DMPGD_SOURCE="{digest(source)}"'
    new = target.with_suffix(f".{os.getpid()}.tmp")
    command = [*compiler, *COMMON, *flags, stamp, "-o", str(new), source.name, "-lm"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, cwd=source.parent)
        new.replace(target)  # a process that has loaded the old one keeps it
    finally:
        new.unlink(missing_ok=True)
    return target


def compile_all(root: Path) -> list[Path]:
    """Compile every library, or remove all of them and raise."""
    try:
        return [compile_library(root / name, flags) for name, flags in LIBRARIES.items()]
    except (OSError, subprocess.CalledProcessError):
        for name in LIBRARIES:
            library_of(root / name).unlink(missing_ok=True)
        raise


def explain(problem: Exception) -> str:
    """Return one line on why there are no libraries."""
    said = getattr(problem, "stderr", None) or str(problem)
    first = next((line for line in said.splitlines() if "error" in line), said.splitlines()[0])
    return f"no compiled kernels ({first.strip()}); mpgd works without them, more slowly"


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds the libraries to a wheel, which then belongs to one platform and to any Python 3."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the wheel is put together."""
        root = Path(self.root)
        try:
            libraries = compile_all(root)
        except (OSError, subprocess.CalledProcessError) as problem:
            if os.environ.get("MPGD_REQUIRE_KERNELS"):
                raise
            self.app.display_warning(explain(problem))
            return
        system = sysconfig.get_platform().replace("universal2", platform.machine())
        build_data["tag"] = f"py3-none-{system.replace('-', '_').replace('.', '_')}"
        build_data["pure_python"] = False
        build_data["artifacts"] += [str(path.relative_to(root)) for path in libraries]


if __name__ == "__main__":
    try:
        print(*compile_all(Path(__file__).parent), sep="\n")
    except (OSError, subprocess.CalledProcessError) as problem:
        sys.exit(explain(problem))
