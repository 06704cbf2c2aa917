"""Random numbers that are functions of (seed, tensor, element, step), and of nothing else.

    uniform(x, seed=0, tensor=3, step=7)

gives every element of a tensor its number: the same on a CPU and a GPU, on one thread and on many,
and for a DTensor on each rank the numbers of the elements it has. Nothing has a state, so there is
nothing to save, and any step can be asked for. The bits are those of the optimizers' own hash,
`mpgd.noise.counter_hash`, under a driver number that they do not use.

Examples:
    >>> bits(torch.zeros(3), seed=0, step=7).shape
    torch.Size([3])
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from mpgd.noise import counter_hash as counter
from mpgd.noise.memoryless import UNIT, integers
from mpgd.optim.distributed import like, local, place_of
from mpgd.parameters import check_integer, check_seed

DRIVER: Final = 5  # 0 to 3 are the noises and their twins, 4 is stochastic rounding


def bits(x: Tensor, *, seed: int, step: int, tensor: int = 0) -> Tensor:
    """Return 64 random bits for every element of ``x``, int64; the upper ones are the best.

    Args:
        x: only its shape, device and sharding count. A complex element counts as two.
        seed: a non-negative integer.
        step: the number of the draw.
        tensor: tells tensors apart.

    Examples:
        >>> x = torch.empty(4, 3)
        >>> whole = bits(x, seed=1, step=0)
        >>> whole.shape, torch.equal(whole, bits(x, seed=1, step=0))
        (torch.Size([4, 3]), True)
    """
    return like(x, counter.hash_elements(*_place(x, seed, step, tensor)))


def uniform(x: Tensor, *, seed: int, step: int, tensor: int = 0) -> Tensor:
    """Return a float64 number in (0, 1) for every element of ``x``; arguments as in `bits`.

    Examples:
        >>> u = uniform(torch.empty(100_000), seed=1, step=0)
        >>> round(float(u.mean()), 2), bool((u > 0).all() and (u < 1).all())
        (0.5, True)
    """
    return like(x, counter.uniform(counter.hash_elements(*_place(x, seed, step, tensor))))


def normal(
    x: Tensor, *, seed: int, step: int, tensor: int = 0, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return a standard normal number for every element of ``x``; arguments as in `bits`.

    It is a multiple of 2^-27 below 8, found by integers alone and rounded once to ``dtype``; to
    float16, which cannot hold the integers, by way of float32.

    Examples:
        >>> z = normal(torch.empty(100_000), seed=1, step=0)
        >>> z.dtype, round(float(z.std()), 2)
        (torch.float32, 1.0)
    """
    if not dtype.is_floating_point:
        raise TypeError(f"dtype must be a floating-point type, got {dtype}")
    wide = torch.float32 if dtype == torch.float16 else dtype
    return like(x, (integers(*_place(x, seed, step, tensor)).to(wide) * UNIT).to(dtype))


def _place(x: Tensor, seed: int, step: int, tensor: int) -> tuple[Tensor, int]:
    """Return the index of every local element in the whole tensor, and the key of the step."""
    place, device = place_of(x), local(x).device
    index = place.index(device)
    index = counter.flat_index(place.shape, device) if index is None else index
    tensor, step = check_integer("tensor", tensor, 0), check_integer("step", step, 0)
    key = counter.make_key(check_seed(seed), tensor, DRIVER)
    return index, counter.step_key(key, step)
