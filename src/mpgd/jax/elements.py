"""The number of each element in its whole array; what the noise knows of an element's place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import jax.numpy as jnp
from jax import Array, lax

from mpgd.parameters import check_shape

MOST_ELEMENTS: Final = 2**32


def element_index(
    shape: int | tuple[int, ...],
    within: int | tuple[int, ...] | None = None,
    offset: Sequence[int | Array] | None = None,
) -> Array:
    """Return the flat index of each element of a block in the whole array, uint32.

    The noise of an element depends on this number. Arrays that `jax.jit` shards need nothing, as
    their shape is the whole one. In `jax.shard_map` a function sees blocks, and says where they
    lie.

    Args:
        shape: the shape of the block.
        within: the shape of the whole array; by default the block is all of it.
        offset: where the block begins, one number an axis; by default at 0.

    Examples:
        >>> element_index((2, 2), within=(4, 3), offset=(2, 1)).tolist()
        [[7, 8], [10, 11]]
    """
    shape = check_shape(shape)
    whole = shape if within is None else check_shape(within)
    start: Sequence[int | Array] = (0,) * len(shape) if offset is None else offset
    if not len(shape) == len(whole) == len(start):
        raise ValueError(
            f"shape, within and offset must have one number per axis, got {shape}, {whole} and "
            f"{len(start)} offsets"
        )
    if math.prod(whole) > MOST_ELEMENTS:
        raise ValueError(
            f"an array must have at most 2^32 elements to be perturbed, got shape {whole}; "
            "split it into several"
        )
    # Axis by axis, and not by reshaping a range: so a compiler that shards an axis shards this.
    index = jnp.zeros(shape, jnp.uint32)
    for axis, first in enumerate(start):
        along = lax.broadcasted_iota(jnp.uint32, shape, axis) + jnp.asarray(first, jnp.uint32)
        index = index + along * jnp.uint32(math.prod(whole[axis + 1 :]))
    return index
