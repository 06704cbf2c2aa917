from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from mpgd_lab.data.cifar10 import Images
from mpgd_lab.studies.cifar10.augmentation import (
    MEANS,
    STDS,
    Blocks,
    augmented,
    block_weights,
    draws,
    standardised,
)
from tests.conftest import LEVEL


def pictures(count: int = 40, side: int = 32) -> Images:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=generator)
    return Images(x, torch.arange(count) % 10)


@pytest.mark.parametrize(("side", "padding"), [(32, 4), (16, 2)])
def test_images_are_padded_cropped_and_flipped(side: int, padding: int) -> None:
    """Against numpy, one image at a time."""
    images, index = pictures(side=side), torch.arange(40)
    found = augmented(images.x, index, seed=3, step=5).numpy()
    rows, columns, flips = (d.tolist() for d in draws(index, 2 * padding + 1, seed=3, step=5))
    for n, image in enumerate(images.x.numpy()):
        padded = np.pad(image, [(0, 0), (padding, padding), (padding, padding)])
        crop = padded[:, rows[n] : rows[n] + side, columns[n] : columns[n] + side]
        assert np.array_equal(found[n], crop[:, :, ::-1] if flips[n] else crop)
    assert 0 < sum(flips) < 40
    assert {0, 2 * padding} <= set(rows) | set(columns)


def test_an_image_is_augmented_alike_in_any_company_and_anew_at_every_step() -> None:
    images, index = pictures(), torch.arange(40)
    whole = augmented(images.x, index, seed=1, step=2)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    assert torch.equal(augmented(images.x[order], order, seed=1, step=2), whole[order])
    for seed, step in ((1, 3), (2, 2)):
        assert not torch.equal(augmented(images.x, index, seed, step), whole)


def test_crops_and_flips_are_uniform_and_independent() -> None:
    def counts(parts: list[Tensor]) -> list[int]:
        rows, columns, flips = parts
        return (rows * 18 + columns * 2 + flips).bincount(minlength=162).tolist()

    found = [draws(torch.arange(50_000), 9, seed=7, step=step) for step in range(4)]
    joined = [torch.cat(parts) for parts in zip(*found, strict=True)]
    assert chisquare(counts(joined)).pvalue > LEVEL
    joined[1] = joined[0]
    assert chisquare(counts(joined)).pvalue < LEVEL  # the check can fail


def test_standardised_images_follow_the_channels_moments() -> None:
    x = pictures(2).x
    found = standardised(x, torch.float64)
    for channel in range(3):
        expected = (x[:, channel].double() / 255 - MEANS[channel]) / STDS[channel]
        torch.testing.assert_close(found[:, channel], expected, rtol=1e-14, atol=1e-14)
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_blocks_go_through_all_images_in_order() -> None:
    blocks = Blocks(pictures(), 16, seed=1, weights=block_weights(40, 16))
    classes = torch.cat([y for _, (y, _) in blocks])
    assert torch.equal(classes, pictures().y)
    assert [len(x) for x, _ in blocks] == [16, 16, 8]
    halves = [Blocks(pictures(), 16, 1, [1.0] * 3, part) for part in (range(1), range(1, 3))]
    assert torch.equal(
        torch.cat([x for half in halves for x, _ in half]), torch.cat([x for x, _ in blocks])
    )


def test_the_authors_drop_images_and_fade_blocks() -> None:
    assert block_weights(40, 16, drop=True) == [1.0, 1.0]
    assert block_weights(50_000, 128) == [1.0] * 391
    faded = block_weights(50_000, 128, drop=True, fade=True)
    assert faded[-1] == 1.0
    assert faded[0] / 390 == pytest.approx((1 / 390) * (1 - 1 / 390) ** 389)
    assert sum(faded) / 390 == pytest.approx(1 - (1 - 1 / 390) ** 390)
