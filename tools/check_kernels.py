"""Check the C files with sanitizers, on another CPU or by another compiler: random calls.

    python -m tools.check_kernels sanitize      addresses and undefined behaviour
    python -m tools.check_kernels aarch64       the same digest as here, under qemu
    python -m tools.check_kernels clang         the same digest as here, by another compiler

`tests/c` has the programs. What is missing is named, with the packages of Debian that have it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from hatch_build import EXACT, FREE

ROOT: Final = Path(__file__).parents[1]
PROGRAMS: Final = {"kernel_calls": EXACT, "path_calls": EXACT, "net_calls": FREE}
SANITIZERS: Final = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
CROSS: Final = {
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    "qemu-aarch64": "qemu-user",
}


def build(compiler: list[str], name: str, flags: tuple[str, ...], folder: Path) -> Path:
    """Compile one program of tests/c."""
    source, program = ROOT / "tests" / "c" / f"{name}.c", folder / name
    common = ["-std=gnu11", "-Wall", "-Wextra", "-Wno-psabi", "-o", str(program), str(source)]
    subprocess.run([*compiler, *common, *flags, "-lm"], check=True)
    return program


def output(*command: str | Path) -> str:
    """Return what a program prints; raise if it fails."""
    done = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def compiler_here() -> list[str]:
    """Return the compiler of `hatch_build.py`."""
    return shlex.split(os.environ.get("CC") or "cc")


def sanitize(folder: Path) -> None:
    """Run every program with sanitizers; they end it at the first fault."""
    for name, flags in PROGRAMS.items():
        program = build(compiler_here(), name, (*flags, *SANITIZERS), folder)
        print(f"{name}: {output(program)}, no fault", flush=True)


def aarch64(folder: Path) -> None:
    """Compare the digests of random calls on this CPU with those under qemu."""
    _refuse_missing(CROSS)
    compiler, emulator = CROSS
    for name, flags in PROGRAMS.items():
        here = output(build(compiler_here(), name, flags, folder))
        there = output(emulator, build([compiler, "-static"], name, flags, folder))
        _compare(name, here, there, "on aarch64")


def clang(folder: Path) -> None:
    """Compare the digests of files with promised bits, as gcc and as clang compile them."""
    _refuse_missing({"gcc": "gcc", "clang": "clang"})
    for name, flags in PROGRAMS.items():
        if flags == EXACT:
            here, there = (output(build([each], name, flags, folder)) for each in ("gcc", "clang"))
            _compare(name, here, there, "by clang")


def _refuse_missing(tools: dict[str, str]) -> None:
    missing = {tool: packages for tool, packages in tools.items() if not shutil.which(tool)}
    if missing:
        packages = " ".join(missing.values())
        raise SystemExit(f"{' and '.join(missing)} not found: apt-get install {packages}")


def _compare(name: str, here: str, there: str, where: str) -> None:
    if here != there:
        raise SystemExit(f"{name}: {here} here, {there} {where}")
    print(f"{name}: {here}, the same {where}", flush=True)


def main(wish: str) -> None:
    """Run one of the checks."""
    checks = {"sanitize": sanitize, "aarch64": aarch64, "clang": clang}
    if wish not in checks:
        raise SystemExit(f"the check must be one of {', '.join(checks)}, got {wish!r}")
    with tempfile.TemporaryDirectory() as folder:
        checks[wish](Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
