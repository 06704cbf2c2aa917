"""Images in blocks, flipped and cropped anew at every step, on tensors.

An image of 32 x 32 is padded by 4 black pixels on every side, cropped back to its size at a random
place and flipped with probability 1/2; then the training set's channel means are taken off and the
result is divided by its channel standard deviations. The draws of image i at step k are a hash of
(seed, k, i): a run that is resumed, reordered or spread over processes sees the same images.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from mpgd.noise.counter_hash import hash_elements, make_key, upper_bits
from mpgd_lab.data.cifar10 import Images

PADDING: Final = 1 / 8  # of an image's width: 4 of 32 pixels
MEANS: Final = (0.49139968, 0.48215841, 0.44653091)  # of the training images, by channel
STDS: Final = (0.24703223, 0.24348513, 0.26158784)
STREAM: Final = 0x63726F70  # keeps these draws apart from those of the noise

Batch = tuple[Tensor, tuple[Tensor, float]]  # images, (classes, weight of the block)


def standardised(x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return uint8 images as numbers of mean 0 and variance 1 in each channel, channels last."""
    mean, std = (
        torch.tensor(c, dtype=dtype, device=x.device)[:, None, None] for c in (MEANS, STDS)
    )
    return ((x.to(dtype) / 255 - mean) / std).contiguous(memory_format=torch.channels_last)


def augmented(x: Tensor, index: Tensor, seed: int, step: int) -> Tensor:
    """Return uint8 images ``x`` (example, channel, row, column), each cropped and flipped.

    ``index`` holds their numbers in the training set.
    """
    padding = int(x.shape[-1] * PADDING)
    rows, columns, flips = draws(index, 2 * padding + 1, seed, step)
    padded = torch.nn.functional.pad(x, (padding,) * 4)
    height, width = (torch.arange(n, device=x.device) for n in x.shape[2:])
    down = rows[:, None] + height
    across = columns[:, None] + torch.where(flips[:, None], width.flip(0), width)
    example = torch.arange(len(x), device=x.device)[:, None, None]
    cropped = padded.permute(0, 2, 3, 1)[example, down[:, :, None], across[:, None, :]]
    return cropped.permute(0, 3, 1, 2)


def draws(index: Tensor, places: int, seed: int, step: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the first row and column of each crop, below ``places``, and whether it is flipped."""
    h = hash_elements(index, make_key(seed, STREAM, step))
    bits = upper_bits(h, 48)  # so many that the remainders are uniform to 1e-12
    return bits % places, bits // places % places, bits // places**2 % 2 == 1


@dataclass
class Blocks:
    """A training set in blocks, as `mpgd.full_batch` goes through it."""

    images: Images  # the training set
    size: int  # of a block; the last may be smaller
    seed: int  # of the augmentation
    weights: Sequence[float]  # one factor for each block; blocks beyond them are left out
    part: Sequence[int] | None = None  # the numbers of the blocks to go through, by default all
    dtype: torch.dtype = torch.float32  # of the images
    step: int = 0  # the present one; it decides the augmentation

    def __iter__(self) -> Iterator[Batch]:
        """Yield (images, (classes, weight)) of each block."""
        for block in self.part if self.part is not None else range(len(self.weights)):
            index = torch.arange(
                block * self.size,
                min((block + 1) * self.size, len(self.images)),
                device=self.images.x.device,
            )
            yield self.batch(index), (self.images.y[index], self.weights[block])

    def batch(self, index: Tensor) -> Tensor:
        """Return these images, augmented as at the present step."""
        x = augmented(self.images.x[index], index, self.seed, self.step)
        return standardised(x, self.dtype)


def block_weights(count: int, size: int, *, drop: bool = False, fade: bool = False) -> list[float]:
    """Return the factors of the blocks of ``count`` images; 1 for each is the exact full batch.

    The authors' script drops the images after the last whole block (``drop``), and its running
    mean of the gradient fades: of B blocks the j-th counts (1 - 1/B)^(B - j) (``fade``).

    Examples:
        >>> block_weights(300, 128)
        [1.0, 1.0, 1.0]
        >>> weights = block_weights(50_000, 128, drop=True, fade=True)
        >>> len(weights), round(sum(weights) / len(weights), 2)
        (390, 0.63)
    """
    blocks = count // size if drop else -(-count // size)
    return [(1 - 1 / blocks) ** (blocks - j) if fade else 1.0 for j in range(1, blocks + 1)]
