"""Stochastic rounding of one tensor, and of what another optimizer wrote.

`stochastic_rounding` says how a number is rounded. Here the elements of a tensor are found, also of
a DTensor, and the fastest engine is asked; all of them give the same bits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mpgd.noise import stochastic_rounding as rounding
from mpgd.noise.counter_hash import flat_index, hash_elements, make_key, step_key
from mpgd.noise.engines import cpu, kernel_for
from mpgd.optim.shards import like, local, place_of
from mpgd.parameters import check_integer, check_seed


def stochastic_round(
    x: Tensor, dtype: torch.dtype, *, seed: int, step: int, stream: int = 0
) -> Tensor:
    """Return ``x`` in a half type, each element rounded up or down by chance and right in the mean.

    The chance is a function of (seed, stream, element, step) alone. So the result does not depend
    on the device, the number of threads, or how a DTensor is sharded.

    Args:
        x: of dtype float32, any shape; a DTensor too.
        dtype: ``torch.bfloat16`` or ``torch.float16``.
        seed: of the chance.
        step: the number of the step; another one gives independent chances.
        stream: tells tensors apart that are rounded at the same step.

    Examples:
        >>> x = torch.full((100_000,), 1.001)  # its neighbours are 1 and 1.0078125
        >>> y = stochastic_round(x, torch.bfloat16, seed=0, step=0)
        >>> sorted(set(y.tolist())), round(float(y.float().mean()), 3)
        ([1.0, 1.0078125], 1.001)
    """
    if x.dtype != torch.float32:
        raise TypeError(f"x must be a float32 tensor, got {x.dtype}; convert it by x.float()")
    if not rounding.is_half(dtype):
        raise ValueError(f"dtype must be torch.bfloat16 or torch.float16, got {dtype}")
    stream, step = check_integer("stream", stream, 0), check_integer("step", step, 0)
    key = step_key(make_key(check_seed(seed), stream, rounding.DRIVER), step)
    return like(x, round_part(x, dtype, key))


def round_part(x: Tensor, dtype: torch.dtype, key: int) -> Tensor:
    """Return the local part of a float32 tensor in a half type, given the key of the step."""
    part, place = local(x).detach().resolve_neg(), place_of(x)
    offset = place.offset
    if kernel_for(None, part.device) == "cpu" and offset is not None and part.is_contiguous():
        return cpu.round_halves(part, dtype, key, offset)
    index = place.index(part.device)
    index = flat_index(place.shape, part.device) if index is None else index
    return rounding.rounded(part, hash_elements(index, key), dtype)
