"""The engines that advance a chaotic driver; their words and values agree in every bit.

`tensor` is made of plain torch operations, runs on any device and is the reference; `cpu` calls
kernels in C, compiled at installation; `gpu` is one Triton launch.
"""

from __future__ import annotations

import importlib.util
import os
from functools import lru_cache
from typing import Final

import torch

from mpgd.noise.engines import cpu
from mpgd.parameters import ENGINES, check_choice

_HAS_CPU = cpu.is_available()
_HAS_TRITON = importlib.util.find_spec("triton") is not None  # a search of the disk, once

FLOATS: Final = {  # the parameters that a kernel takes; others are left to torch operations
    "cpu": (torch.float32, torch.float64, torch.bfloat16, torch.float16),
    "triton": (torch.float32, torch.bfloat16, torch.float16),
}


def check_engine(engine: str | None) -> str | None:
    """Return ``engine`` if it exists and is there."""
    if engine is None:
        return None
    check_choice("engine", engine, ENGINES)
    if not {"torch": True, "cpu": has_cpu(), "triton": has_triton()}[engine]:
        raise ImportError(f"engine={engine!r} needs {_needs(engine)}")
    return engine


def _needs(engine: str) -> str:
    if engine == "cpu":
        return f"compiled kernels, and {cpu.reason()}"
    return "triton: pip install 'mpgd[gpu]'"


def has_cpu() -> bool:
    """Return whether the compiled kernels for the CPU are there."""
    return _HAS_CPU


def has_triton() -> bool:
    """Return whether triton is installed, without importing it."""
    return _HAS_TRITON


def use_cpu_kernels(engine: str | None, device: torch.device) -> bool:
    """Return whether the CPU engine runs a tensor on ``device``: the default on a CPU."""
    return not torch.compiler.is_compiling() and kernel_for(engine, device) == "cpu"


def kernel_for(engine: str | None, device: torch.device) -> str | None:
    """Return which compiled engine works on ``device``, if one is there and ``engine`` allows it.

    CUDA and ROCm are both ``cuda`` to torch.
    """
    if engine == "torch":
        return None
    if engine == "cpu" and device.type != "cpu":
        raise ValueError(f"engine='cpu' runs on the CPU only, got a tensor on {device}")
    if engine == "triton":
        check_gpu(device)
        return "triton"
    if device.type == "cpu":
        return "cpu" if has_cpu() else None
    return "triton" if device.type == "cuda" and has_triton() else None


def check_gpu(device: torch.device) -> None:
    """Raise if Triton's kernels cannot run on ``device``."""
    if device.type == "cuda" or (
        device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
    ):
        return
    remedy = ", or set TRITON_INTERPRET=1 to interpret it there" if device.type == "cpu" else ""
    raise ValueError(
        f"engine='triton' runs on CUDA and ROCm devices, got a tensor on {device}; leave engine "
        f"out{remedy}"
    )


@lru_cache(maxsize=64)
def check_integers(device: torch.device) -> None:
    """Raise if ``device`` has no 64-bit integers, which all engines count and hash with."""
    try:
        _try_integers(device)
    except (RuntimeError, TypeError, NotImplementedError) as problem:
        raise ValueError(
            f"device {str(device)!r} has no 64-bit integers (torch.int64), which the noise is made "
            "of; move the parameters to another device"
        ) from problem


def _try_integers(device: torch.device) -> None:
    (torch.ones(2, dtype=torch.int64, device=device) * (2**62 + 1)) >> 32


def check_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """Return the dtype of values if a tensor on ``device`` can have it."""
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
    if dtype == torch.float64 and device.type == "mps":
        raise ValueError(f"device {str(device)!r} has no float64: ask for dtype=torch.float32")
    return dtype
