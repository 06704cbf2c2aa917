"""Hand the parameters of a group to the GPU's kernel, all in one launch.

The CPU writes the sheet that `mpgd.optim.displacement.gpu_kernel` describes and sends it in one
copy; nothing waits for the GPU. The map from programs to blocks depends on the lengths alone, so it
is sent once and kept. With blocks of 512, two tensors of 700 and 500 elements take three programs:

    program   0  1  2
    row       0  0  1
    block     0  1  0
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mpgd.noise.driver import Driver, outside_modes
from mpgd.noise.engines.cpu import Row
from mpgd.optim.displacement.kernel_rows import Numbers, both_drivers, scaled_values
from mpgd.optim.settings import Settings


def launch(
    rows: Sequence[Row], dtype: torch.dtype, device: int, settings: Settings, numbers: Numbers
) -> None:
    """Displace the rows of parameters of one dtype on one device, and advance their orbits.

    ``device`` is its number; -1 is the CPU, where the kernel is interpreted.
    """
    from mpgd.noise.engines.gpu import BLOCK
    from mpgd.optim.displacement.gpu_kernel import launch_rows

    where = torch.device("cpu") if device < 0 else torch.device("cuda", device)
    places = block_places(tuple(row.length for row in rows), BLOCK, where)
    if not len(places):
        return
    first, second = drivers = both_drivers(settings)
    has_shared = numbers.shared is not None
    uses = {
        "has_shared": has_shared,
        "draws_m": settings.mu != 0 and not has_shared,
        "draws_n": settings.sigma != 0,
        "twins": settings.twins,
        "normal_m": first.is_normal,
        "normal_n": second.is_normal,
    }
    values = [v for pair in scaled_values(settings, numbers.scales) for v in pair]
    tables = [driver.returns.pairs_on(where) for driver in drivers]
    whole = _sent(sheet(rows, [numbers.shared or 0.0, *values], drivers), where)
    launch_rows(whole, places, tables, dtype, uses)


def sheet(
    rows: Sequence[Sequence[int]], numbers: Sequence[float], drivers: Sequence[Driver]
) -> NDArray[np.int64]:
    """Return the head and the rows as the kernel reads them."""
    from mpgd.noise.engines.gpu import head_rule

    bits = np.array(numbers, dtype=np.float32).view(np.int32).astype(np.int64)
    rules = [part for driver in drivers for part in head_rule(driver)]
    lines = np.array(rows, dtype=np.int64).reshape(-1)
    return np.concatenate([bits, rules, lines])


def _sent(array: NDArray[np.int64], device: torch.device) -> Tensor:
    tensor = torch.from_numpy(array)
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


@lru_cache(maxsize=64)
def block_places(lengths: tuple[int, ...], block: int, device: torch.device) -> Tensor:
    """Return (row, block of the row) of every program, an int64 tensor (program, 2)."""
    counts = -(-np.array(lengths, dtype=np.int64) // block)
    rows = np.repeat(np.arange(len(counts)), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    places = np.stack([rows, np.arange(len(rows)) - first], axis=1)
    with outside_modes():
        return torch.from_numpy(places).to(device)
