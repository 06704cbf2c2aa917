"""A step on the torch engine: how much memory it takes, and that it needs no float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from mpgd import MPGD
from mpgd.optim import loop, many
from tests.optim.descents import LOUD
from tests.optim.watch import Watch

SETTINGS = {**LOUD, "engine": "torch"}
VARIANTS: list[dict[str, Any]] = [{"maximize": True}, {"symmetric": True}]


def watched(sizes: list[int], device: str = "cpu", **settings: Any) -> Watch:
    """Return what the second step on float32 parameters of these sizes works on."""
    params = [nn.Parameter(torch.ones(size, device=device)) for size in sizes]
    for p in params:
        p.grad = torch.ones_like(p)
    optimizer = MPGD(params, **{**SETTINGS, **settings})
    optimizer.step()
    with Watch() as watch:
        optimizer.step()
    return watch


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize(
    ("sizes", "device", "foreach"),
    [
        ([1_500_000], "cpu", False),
        ([1_500_000], "cpu", True),
        ([100_000] * 25, "cpu", True),
        # This device computes nothing, and its tensors take the way of a GPU's.
        ([10_000_000], "meta", False),
        ([250_000] * 40, "meta", True),
    ],
    ids=["one", "one, foreach", "many", "device one", "device many"],
)
def test_a_step_takes_at_most_twice_the_parameters_memory(
    sizes: list[int], device: str, foreach: bool, variant: dict[str, Any]
) -> None:
    watch = watched(sizes, device, foreach=foreach, **variant)
    assert 0 < watch.peak <= 2 * 4 * sum(sizes)


@pytest.mark.parametrize("foreach", [False, True])
def test_without_parts_it_takes_more(foreach: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twin of the test above."""
    for module in (loop, many):
        monkeypatch.setattr(module, "PART", 10**9)
    watch = watched([1_500_000], foreach=foreach)
    assert watch.peak > 2 * 4 * 1_500_000


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_float32_step_needs_no_float64_and_no_uint64(
    variant: dict[str, Any], foreach: bool
) -> None:
    watch = watched([1000, 24], foreach=foreach, **variant)
    assert watch.dtypes == {torch.float32, torch.int32, torch.int64, torch.bool}


def test_a_float64_step_is_seen() -> None:
    """Twin of the test above."""
    p = nn.Parameter(torch.ones(24, dtype=torch.float64))
    p.grad = torch.ones_like(p)
    with Watch() as watch:
        MPGD([p], **SETTINGS).step()
    assert torch.float64 in watch.dtypes
