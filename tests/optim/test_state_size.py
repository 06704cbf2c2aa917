"""The state is 4 bytes per driver and element; making, loading and stepping take little more."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mpgd import MPGD, ChaoticNoise, GaussianNoise, StableNoise
from tests.optim.descents import LOUD, parameters
from tests.optim.workers import make_optimizer, run

PEAK = """
import warnings
import torch
from torch import nn
from mpgd import MPGD, ChaoticNoise, perturb

def peak(work):
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS")
    made = work()
    return (status("VmHWM") - before) / SIZE, made

def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))

warnings.simplefilter("ignore")
torch.set_num_threads(1)
SIZE, DTYPE = 10**7, torch.{dtype}
make = lambda p: {make}
make(nn.Parameter(torch.ones(1000, dtype=DTYPE)))  # tables and modules
p = nn.Parameter(torch.ones(SIZE, dtype=DTYPE))
construction, optimizer = peak(lambda: make(p))
saved = optimizer.state_dict()
loading, _ = peak(lambda: optimizer.load_state_dict(saved))
print(construction, loading)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, which only Linux has")
@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        ("MPGD([p], lr=0.01, mu=0.001, sigma=0.001)", "float32"),
        ("MPGD([p], lr=0.01, mu=0.001, sigma=0.001)", "bfloat16"),
        ("MPGD([p], lr=0.01, sigma=0.001, mu=0.1, noise=ChaoticNoise(0.6, longest=50))", "float32"),
        ("perturb(torch.optim.AdamW([p], lr=0.01), strength=0.2, steps=1000)", "bfloat16"),
    ],
)
def test_making_the_drivers_of_one_large_tensor_takes_at_most_12_bytes_a_parameter(
    make: str, dtype: str
) -> None:
    """8 of them stay, for two drivers. Loading holds the old and the new ones."""
    command = [sys.executable, "-c", PEAK.format(make=make, dtype=dtype)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    construction, loading = map(float, found.split())
    assert 3.9 < construction <= 12
    assert 3.9 < loading <= 12


@pytest.mark.parametrize(
    ("settings", "drivers"),
    [
        ({}, 2),
        ({"mu": 0.0}, 1),
        ({"symmetric": True}, 4),
        ({"noise": ChaoticNoise(0.6, shared=True)}, 1),
        ({"noise": GaussianNoise()}, 0),
        ({"noise": StableNoise(1.5), "symmetric": True}, 0),
    ],
    ids=str,
)
def test_the_state_is_4_bytes_per_driver_and_element(
    settings: dict[str, Any], drivers: int
) -> None:
    optimizer: Any = make_optimizer("mpgd", parameters([10_000]), **settings)
    run(optimizer, 2)
    [state] = optimizer._orbits.values()
    sizes = [value.untyped_storage().nbytes() for value in state.values()]
    assert sum(size for size in sizes if size > 8) == 4 * drivers * 10_000
    assert sum(size for size in sizes if size <= 8) <= 64
    [shown] = optimizer.state.values()  # the same memory
    assert {x.data_ptr() for x in shown.values()} == {x.data_ptr() for x in state.values()}


@pytest.mark.parametrize("engine", ["torch", "cpu"])
def test_nothing_else_that_grows_with_the_model_survives_a_step(engine: str) -> None:
    size = 100_000
    optimizer = MPGD(parameters([size]), **LOUD, engine=engine, symmetric=True)
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
