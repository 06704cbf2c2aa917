"""The accumulated gradient is that of one big batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from mpgd import full_batch
from tests.optim.descents import KINDS, made
from tests.optim.workers import batch, same_bits, small_net

mse = nn.functional.mse_loss


def data() -> tuple[Tensor, Tensor]:
    inputs, targets = batch(3, 50)
    return inputs.double(), targets.double()


def loader(size: int, **rest: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*data()), batch_size=size, **rest)


def one_big_batch(model: nn.Module) -> tuple[Tensor, list[Tensor]]:
    inputs, targets = data()
    loss = mse(model(inputs), targets)
    return loss.detach(), list(torch.autograd.grad(loss, list(model.parameters())))


@pytest.mark.parametrize(("size", "shuffle"), [(1, False), (7, True), (16, True), (64, False)])
def test_the_gradient_is_that_of_one_big_batch(size: int, shuffle: bool) -> None:
    """Also with an unequal last batch, in any order, after old gradients, however often called."""
    model = small_net(dtype=torch.float64)
    loss, gradients = one_big_batch(model)
    for p in model.parameters():
        p.grad = torch.full_like(p, 1e9)
    generator = torch.Generator().manual_seed(0)
    closure = full_batch(model, mse, loader(size, shuffle=shuffle, generator=generator))
    for _ in range(3):
        torch.testing.assert_close(closure(), loss, rtol=1e-13, atol=0)
        for p, g in zip(model.parameters(), gradients, strict=True):
            torch.testing.assert_close(p.grad, g, rtol=1e-12, atol=1e-14)


def test_the_mean_of_batch_means_would_be_wrong() -> None:
    """Twin: with 16, 16, 16 and 2 examples the plain mean over batches is far off."""
    model = small_net(dtype=torch.float64)
    loss, _ = one_big_batch(model)
    means = torch.stack([mse(model(x), y) for x, y in loader(16)])
    assert abs(means.mean() - loss) > 1e-3


def test_frozen_parameters_get_no_gradient() -> None:
    model = small_net(dtype=torch.float64)
    first, *rest = model.parameters()
    first.requires_grad_(False)
    full_batch(model, mse, loader(16))()
    assert first.grad is None
    assert all(p.grad is not None for p in rest)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_a_closure_for_a_step(kind: str) -> None:
    """Under no_grad too; the same as the step with the big batch's gradient, to rounding."""
    models = [small_net(dtype=torch.float64) for _ in range(2)]
    one, two = (made(kind, m.parameters()) for m in models)
    closure = full_batch(models[0], mse, loader(16))
    for _ in range(5):
        loss, gradients = one_big_batch(models[1])
        with torch.no_grad():
            torch.testing.assert_close(one.step(closure), loss, rtol=1e-12, atol=0)
        for p, g in zip(models[1].parameters(), gradients, strict=True):
            p.grad = g
        two.step()
        for p, q in zip(models[0].parameters(), models[1].parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-11, atol=1e-12)


def test_losses_are_summed_in_double_precision_and_empty_batches_count_for_nothing() -> None:
    """A loader that filters may give one; its mean loss is NaN."""
    model, twin = small_net(), small_net()
    batches = [(x.float(), y.float()) for x, y in loader(25)]
    expected = full_batch(twin, mse, batches)()
    assert (expected.dtype, expected.dim(), expected.requires_grad) == (torch.float64, 0, False)
    empty = (torch.zeros(0, 5), torch.zeros(0, 3))
    assert same_bits(full_batch(model, mse, [batches[0], empty, batches[1]])(), expected)
    assert same_bits([p.grad for p in model.parameters()], [p.grad for p in twin.parameters()])


def test_mistakes_are_refused() -> None:
    model = small_net(dtype=torch.float64)
    with pytest.raises(ValueError, match="the loader gave no examples"):
        full_batch(model, mse, [])()
    with pytest.raises(ValueError, match=r"loss_fn must return a scalar, got shape \(16, 3\)"):
        full_batch(model, lambda a, b: (a - b).square(), loader(16))()
