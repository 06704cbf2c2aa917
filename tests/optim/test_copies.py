"""Copies of parameters are equal in bits, whichever way they are made."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from mpgd import perturb
from mpgd.optim import copies

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64]


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every copy is large; return how many words numba has copied, call by call."""
    kernels = pytest.importorskip("mpgd.optim.kernels")
    counts, plain = list[int](), kernels.copy_words

    def counted(source: int, target: int, first: int, last: int) -> None:
        counts.append(last - first)
        plain(source, target, first, last)

    monkeypatch.setattr(kernels, "copy_words", counted)
    monkeypatch.setattr(copies, "LARGE", 0)
    return counts


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 513, 100_003])
def test_a_copy_past_the_cache_has_the_same_bits(
    size: int, dtype: torch.dtype, words: list[int]
) -> None:
    x = torch.randn(size, dtype=dtype)
    first = copies.copied([(x, None)], {})
    before = first[x].data_ptr()
    x.mul_(-3)
    x[0] = torch.nan
    second = copies.copied([(x, None)], first)
    assert second[x].data_ptr() == before
    copy, own = second[x].flatten().view(torch.uint8), x.view(torch.uint8)
    assert torch.equal(copy, own)
    assert sum(words) == (x.nbytes // 4 if x.nbytes % 4 == 0 else 0)


def test_what_no_kernel_takes_is_copied_by_torch(words: list[int]) -> None:
    wide = torch.randn(64, 64)
    shifted = torch.randn(65)[1:]
    for x, engine in ((wide.T, None), (wide[:, :3], None), (shifted, "torch")):
        kept = copies.copied([(x, engine)], {})
        x.add_(1)
        assert torch.equal(copies.copied([(x, engine)], kept)[x], x)
    assert words == []


def test_a_parameter_that_changed_its_form_gets_new_memory(words: list[int]) -> None:
    p = torch.ones(16)
    kept = copies.copied([(p, None)], {})
    p.data = torch.ones(4, 8)
    assert copies.copied([(p, None)], kept)[p].shape == (4, 8)
    assert words == []


@pytest.mark.usefixtures("words")
def test_a_wrapped_step_does_not_depend_on_how_the_old_parameters_are_copied() -> None:
    def trained(**settings: Any) -> torch.Tensor:
        p = nn.Parameter(torch.linspace(-1, 1, 70_001))
        optimizer = perturb(torch.optim.SGD([p], lr=0.1), mu=0.1, sigma=0.1, **settings)
        for _ in range(3):
            p.grad = p.detach().sin()
            optimizer.step()
        return p.detach()

    assert torch.equal(trained(engine="numba"), trained(engine="torch"))
