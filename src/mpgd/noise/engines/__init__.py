"""The engines that advance a chaotic driver; their words and values agree in every bit.

`tensor` is made of plain torch operations, runs on any device and is the reference; `fused` is
one numba pass over the CPU's memory.
"""

from __future__ import annotations

import importlib.util

import torch

from mpgd.parameters import ENGINES, check_choice

_HAS_NUMBA = importlib.util.find_spec("numba") is not None  # a search of the disk; once


def check_engine(engine: str | None) -> str | None:
    """Return ``engine`` if it exists and can be imported."""
    if engine is None:
        return None
    check_choice("engine", engine, ENGINES)
    if engine == "numba" and not has_numba():
        raise ImportError("engine='numba' needs numba: pip install 'mpgd[fast]'")
    return engine


def has_numba() -> bool:
    """Return whether numba is installed, without importing it."""
    return _HAS_NUMBA


def use_fused(engine: str | None, device: torch.device) -> bool:
    """Return whether the fused engine runs a tensor on ``device``: the default on a CPU."""
    if engine == "numba" and device.type != "cpu":
        raise ValueError(f"engine='numba' runs on the CPU only, got a tensor on {device}")
    if torch.compiler.is_compiling():
        return False
    return device.type == "cpu" and has_kernels(engine)


def has_kernels(engine: str | None) -> bool:
    """Return whether compiled kernels are there and ``engine`` allows them."""
    return engine != "torch" and has_numba()


def check_device(device: torch.device) -> None:
    """Raise if ``device`` has no 64-bit integers, which the hash needs."""
    try:
        torch.empty(0, dtype=torch.int64, device=device)
    except (NotImplementedError, TypeError) as error:
        raise ValueError(
            f"the noise needs 64-bit integers, which device {str(device)!r} cannot make: keep "
            "its state on the CPU"
        ) from error


def check_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """Return the dtype of values if a tensor on ``device`` can have it."""
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
    if dtype == torch.float64 and device.type == "mps":
        raise ValueError(f"device {str(device)!r} has no float64: ask for dtype=torch.float32")
    return dtype
