from __future__ import annotations

from itertools import pairwise
from math import sqrt

import pytest
import torch
from torch import nn

from mpgd_lab.studies.cifar10.resnet import Block, ResNet18


def blocks(net: ResNet18) -> list[Block]:
    return [module for module in net.modules() if isinstance(module, Block)]


def test_the_real_network_has_the_known_size_and_shape() -> None:
    net = ResNet18()
    widths = [64, 64, 128, 256, 512]
    pairs = list(pairwise(widths))
    branches = sum(9 * a * b + 27 * b * b for a, b in pairs)
    shortcuts = sum(a * b for a, b in pairs if a != b)
    norms = 2 * (64 + sum(4 * b for b in widths[1:]) + sum(widths[2:]))
    expected = 9 * 3 * 64 + branches + shortcuts + norms + 512 * 10 + 10
    assert sum(p.numel() for p in net.parameters()) == expected == 11_173_962
    assert len(blocks(net)) == 8
    assert not any(isinstance(module, nn.MaxPool2d) for module in net.modules())


def test_the_stem_keeps_the_image_and_later_stages_halve_it() -> None:
    net, x = ResNet18(width=2), torch.zeros(1, 3, 32, 32)
    h, sizes = net.stem(x), []
    for block in blocks(net):
        h = block(h)
        sizes.append(tuple(h.shape[1:]))
    assert sizes == [(2 * 2**k, 32 // 2**k, 32 // 2**k) for k in range(4) for _ in range(2)]


def test_with_zero_init_every_block_starts_as_its_shortcut() -> None:
    x = torch.randn(4, 8, 16, 16, generator=torch.Generator().manual_seed(0))
    for zero_init in (True, False):
        block = blocks(ResNet18(width=8, zero_init=zero_init))[0]
        assert torch.equal(block(x), torch.relu(x)) is zero_init


def spread(layer: nn.Module) -> float:
    assert isinstance(layer, nn.Conv2d)
    return float(layer.weight.detach().std())


def test_convolutions_are_kaiming_normal_by_fan_out() -> None:
    net = ResNet18(width=32)
    for name, module in net.named_modules():
        if isinstance(module, nn.Conv2d) and module.weight.numel() > 10_000:
            fan_out = module.out_channels * module.weight[0, 0].numel()
            assert spread(module) == pytest.approx(sqrt(2 / fan_out), rel=0.03), name
    wide = blocks(net)[2].branch[0]  # 32 inputs, 64 outputs: fan-in would differ
    assert spread(wide) != pytest.approx(sqrt(2 / (9 * 32)), rel=0.2)


def test_shortcuts_average_the_pixels_they_merge() -> None:
    """A strided convolution of size 1 would look at one pixel of four."""
    block = blocks(ResNet18(width=2))[2].eval()
    x = torch.zeros(1, 2, 4, 4)
    x[..., 1, 1] = 4.0
    y = torch.zeros(1, 2, 4, 4)
    y[..., 0, 0] = 4.0
    shortcut = block.shortcut
    assert torch.equal(shortcut(x), shortcut(y))
    assert not torch.equal(shortcut(x), shortcut(torch.zeros_like(x)))


def test_the_seed_decides_and_the_global_generator_is_left_alone() -> None:
    before = torch.random.get_rng_state()
    one, same, other = (ResNet18(width=2, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(one.stem.weight, same.stem.weight)
    assert not torch.equal(one.stem.weight, other.stem.weight)
