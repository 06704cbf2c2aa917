"""The state is 4 bytes per driver and element, and a step leaves nothing else behind."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mpgd import MPGD
from tests.optim.descents import LOUD, PATHS, parameters
from tests.optim.workers import run


@pytest.mark.parametrize(
    ("settings", "drivers"),
    [
        ({}, 2),
        ({"mu": 0.0}, 1),
        ({"symmetric": True}, 4),
        ({"shared_multiplicative": True}, 1),
        ({"noise": "gaussian"}, 0),
        ({"noise": "stable", "symmetric": True}, 0),
    ],
    ids=str,
)
def test_the_state_is_4_bytes_per_driver_and_element(
    settings: dict[str, Any], drivers: int
) -> None:
    optimizer = MPGD(parameters([10_000]), **{**LOUD, **settings})
    run(optimizer, 2)
    large, small = 0, 0
    for value in next(iter(optimizer.state.values())).values():
        memory = value.untyped_storage().nbytes()
        large, small = (large + memory, small) if memory > 8 else (large, small + memory)
    assert large == 4 * drivers * 10_000
    assert small <= 64


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_nothing_else_that_grows_with_the_model_survives_a_step(path: dict[str, Any]) -> None:
    size = 100_000
    optimizer = MPGD(parameters([size]), **LOUD, **path, symmetric=True)
    run(optimizer, 2)
    held = all_tensor_bytes()
    tracemalloc.start()
    run(optimizer, 2, first=2)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < size  # numpy's memory is traced; one byte per parameter would show
    assert all_tensor_bytes() == held


def all_tensor_bytes() -> int:
    """Return the memory of all living tensors of some size, the compiler's own left out."""
    gc.collect()
    found = {}
    for each in gc.get_objects():
        if type(each) in (Tensor, nn.Parameter) and each.layout is torch.strided:
            for x in (each, each.grad if each.is_leaf else None):
                if x is not None and x.device.type == "cpu":
                    found[x.untyped_storage()._cdata] = x.untyped_storage().nbytes()
    return sum(size for size in found.values() if size > 10_000)
