"""The accumulated gradient of the residual network is the full batch's, on 512 real images.

Batch norm makes a block's outputs depend on the block. So there are two exact statements, both in
float64: with fixed statistics (evaluation mode) the blocks give the gradient of one big batch, and
with statistics of their own (training mode) that of one loss over all blocks, in any order.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from mpgd.optim import full_batch
from mpgd_lab.data.cifar10 import cifar10
from mpgd_lab.studies.cifar10.augmentation import Blocks, block_weights
from mpgd_lab.studies.cifar10.resnet import ResNet18
from mpgd_lab.studies.cifar10.training import Tally

COUNT, CPU = 512, torch.device("cpu")
Gradient = list[Tensor]


@pytest.fixture(scope="module")
def net() -> ResNet18:
    """Return a network away from its start: its norms have weights and statistics."""
    net = ResNet18(width=4, zero_init=False, seed=1).double()
    generator = torch.Generator().manual_seed(2)
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 0.0  # so that a pass leaves the statistics as they are
            module.running_mean.normal_(0.0, 0.2, generator=generator)
            module.running_var.uniform_(0.5, 2.0, generator=generator)
    return net


def blocks(data: Path, size: int, **rest: bool) -> Blocks:
    training = cifar10(COUNT, 1, data)[0].shrunk(16)
    return Blocks(training, size, 1, block_weights(COUNT, size, **rest), dtype=torch.float64)


def accumulated(net: ResNet18, loader: Blocks) -> tuple[Tensor, Gradient]:
    loss = full_batch(net, Tally(CPU), loader)()
    return loss, [p.grad.clone() for p in net.parameters() if p.grad is not None]


def in_one_graph(net: ResNet18, loader: Blocks) -> tuple[Tensor, Gradient]:
    """Return the loss over all blocks and its gradient, without any accumulation."""
    total = sum((w * len(x) * cross_entropy(net(x), y) for x, (y, w) in loader), torch.zeros(()))
    count = sum(len(x) for x, _ in loader)
    gradient = torch.autograd.grad(total / count, list(net.parameters()))
    return total.detach() / count, list(gradient)


def distance(one: Gradient, other: Gradient) -> float:
    """Return the largest difference over the largest entry, the worst of all parameters."""
    pairs = zip(one, other, strict=True)
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)


def test_with_fixed_statistics_blocks_give_one_big_batch(net: ResNet18, data_folder: Path) -> None:
    """Also with a smaller last block."""
    net.eval()
    loss, gradient = accumulated(net, blocks(data_folder, 120))
    whole, expected = in_one_graph(net, blocks(data_folder, COUNT))
    assert float(loss) == pytest.approx(float(whole), rel=1e-13)
    assert distance(gradient, expected) < 1e-11


def test_with_their_own_statistics_the_order_of_blocks_does_not_matter(
    net: ResNet18, data_folder: Path
) -> None:
    net.train()
    forward, backward = blocks(data_folder, 128), blocks(data_folder, 128)
    backward.part = range(len(backward.weights))[::-1]
    _, gradient = accumulated(net, forward)
    _, reversed_ = accumulated(net, backward)
    _, expected = in_one_graph(net, forward)
    assert distance(gradient, expected) < 1e-11
    assert distance(reversed_, expected) < 1e-11
    _, one_norm = in_one_graph(net, blocks(data_folder, COUNT))
    assert distance(gradient, one_norm) > 1e-3  # another loss: normalised by all 512 images


def test_the_authors_weights_enter_block_by_block(net: ResNet18, data_folder: Path) -> None:
    """(1/B) (1 - 1/B)^(B - j) of block j's mean, the last images left out."""
    net.train()
    _, gradient = accumulated(net, blocks(data_folder, 120, drop=True, fade=True))
    parts = []
    for j, (x, (y, _)) in enumerate(list(blocks(data_folder, 120))[:4], start=1):
        loss = 0.25 * 0.75 ** (4 - j) * cross_entropy(net(x), y)
        parts.append(torch.autograd.grad(loss, list(net.parameters())))
    expected = [torch.stack(each).sum(0) for each in zip(*parts, strict=True)]
    assert distance(gradient, expected) < 1e-11
