"""Hand the parameters of a group to the GPU's kernel, all in one launch.

The CPU writes the sheet that `mpgd.optim.gpu_step` describes and sends it in one copy; nothing
waits for the GPU. The map from programs to blocks depends on the lengths alone, so it is sent once
and kept. With blocks of 512, two tensors of 700 and 500 elements take three programs:

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


def launch(
    rows: Sequence[Sequence[int]],
    lengths: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
    numbers: Sequence[float],
    drivers: Sequence[Driver],
    start: int,
    uses: dict[str, bool],
) -> None:
    """Update the rows of parameters of one dtype on one device, and advance their orbits.

    Args:
        rows: one `mpgd.optim.kernel_rows.Row` each.
        lengths: of the parameters.
        dtype: of the parameters.
        device: where they are.
        numbers: what the direction is multiplied by, the shared m, the scaled values of both
            drivers, c0 before c1; then the four numbers that make a direction of a gradient.
        drivers: the multiplicative and the additive one; one that is not used may be the other.
        start: the first step that is perturbed.
        uses: which terms there are, as `mpgd.optim.gpu_step.step_rows` names them.
    """
    from mpgd.noise.engines.gpu import BLOCK
    from mpgd.optim.gpu_step import launch_rows

    places = block_places(lengths, BLOCK, device)
    if len(places):
        tables = [driver.returns.pairs_on(device) for driver in drivers]
        whole = _sent(sheet(rows, numbers, drivers, start), device)
        launch_rows(whole, places, tables, dtype, uses)


def sheet(
    rows: Sequence[Sequence[int]], numbers: Sequence[float], drivers: Sequence[Driver], start: int
) -> NDArray[np.int64]:
    """Return the head and the rows as the kernel reads them."""
    from mpgd.noise.engines.gpu import head_rule

    bits = np.array(numbers, dtype=np.float32).view(np.int32).astype(np.int64)
    rules = [part for driver in drivers for part in head_rule(driver)]
    lines = np.array(rows, dtype=np.int64).reshape(-1)
    return np.concatenate([bits[:6], rules, bits[6:], [start], lines])


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
