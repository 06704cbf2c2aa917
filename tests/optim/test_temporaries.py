"""A step on the torch engine: how much memory it takes, and that it needs no float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from mpgd import GaussianNoise
from mpgd.optim.displacement import reference
from tests.optim.watch import Watch
from tests.optim.workers import make_optimizer

VARIANTS: list[dict[str, Any]] = [{"symmetric": True}, {"noise": GaussianNoise()}]


def watched(sizes: list[int], dtype: torch.dtype = torch.float32, **settings: Any) -> Watch:
    """Return what the second step on parameters of these sizes works on."""
    params = [nn.Parameter(torch.ones(size, dtype=dtype)) for size in sizes]
    for p in params:
        p.grad = torch.ones_like(p)
    optimizer = make_optimizer("mpgd", params, engine="torch", **settings)
    optimizer.step()
    with Watch() as watch:
        optimizer.step()
    return watch


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("sizes", [[1_500_000], [100_000] * 25], ids=["one", "many"])
def test_a_step_takes_at_most_twice_the_parameters_memory(
    sizes: list[int], variant: dict[str, Any]
) -> None:
    assert 0 < watched(sizes, **variant).peak <= 2 * 4 * sum(sizes)


def test_without_pieces_it_takes_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twin of the test above."""
    monkeypatch.setattr(reference, "PIECE", 10**9)
    assert watched([1_500_000], symmetric=True).peak > 2 * 4 * 1_500_000


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_float32_step_needs_no_float64_and_no_uint64(variant: dict[str, Any]) -> None:
    needed = {torch.float32, torch.int32, torch.int64, torch.bool}
    assert watched([1000, 24], **variant).dtypes <= needed
    assert torch.float64 in watched([1000, 24], torch.float64, **variant).dtypes  # its twin
