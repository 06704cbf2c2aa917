"""Parameters that share memory are displaced one after the other: all engines have these bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.optim.descents import made
from tests.optim.workers import bits, set_gradients

SIZE = 70_000  # large enough for several threads


def tied(base: Tensor) -> list[nn.Parameter]:
    return [nn.Parameter(base), nn.Parameter(base.detach())]


def shifted(base: Tensor) -> list[nn.Parameter]:
    return [nn.Parameter(base[:-7]), nn.Parameter(base[7:]), nn.Parameter(torch.ones(3))]


@pytest.fixture
def _two_threads() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@pytest.mark.usefixtures("_two_threads")
@pytest.mark.parametrize("cut", [tied, shifted])
@pytest.mark.parametrize("kind", ["mpgd", "adamw"])
def test_engines_agree_on_parameters_that_share_memory(kind: str, cut: Any) -> None:
    ends = []
    for engine in ("torch", "cpu"):
        base = torch.linspace(-1, 1, SIZE)
        params = cut(base)
        optimizer = made(kind, params, engine=engine)
        for k in range(3):
            set_gradients(params, k)
            optimizer.step()
        ends.append(bits(base))
    assert torch.equal(*ends)


@pytest.mark.usefixtures("_two_threads")
def test_an_overlap_that_comes_later_is_seen() -> None:
    """The addresses are looked at again when one of them changes."""
    ends = []
    for engine in ("torch", "cpu"):
        base = torch.linspace(-1, 1, SIZE)
        params = [nn.Parameter(base), nn.Parameter(base.clone())]
        optimizer = made("mpgd", params, engine=engine)
        for k in range(3):
            set_gradients(params, k)
            optimizer.step()
            params[1].data = base
        ends.append(bits(base))
    assert torch.equal(*ends)


def test_a_parameter_whose_elements_share_memory_is_refused() -> None:
    p = nn.Parameter(torch.ones(3, 1).expand(3, 4))
    with pytest.raises(ValueError, match=r"must own its memory .* expanded.*\(3, 4\)"):
        made("mpgd", [p])
