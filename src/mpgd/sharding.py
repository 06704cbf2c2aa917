"""Which elements of a whole tensor a local part holds.

The numbers of an element depend on its flat index in the whole tensor. On one process that is 0, 1,
2, ...; for a part of a DTensor (FSDP2, tensor parallelism) it follows from the placement. Other
shards do not say where they are from, so it is noted.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import torch
from torch import Tensor, nn

PLAIN: Final = (Tensor, nn.Parameter)


@dataclass(frozen=True)
class Place:
    """The local part of a parameter: its shape, and its elements' places in the whole."""

    shape: tuple[int, ...]  # a complex element counts as two real ones
    offset: int | None = 0  # the first element's flat index, if the part is contiguous in the whole
    strides: tuple[int, ...] = ()  # of the whole, and
    corner: tuple[int, ...] = ()  # the index of the part's first element, otherwise

    def index(self, device: torch.device) -> Tensor | None:
        """Return the flat index of every element, or None where that is 0, 1, 2, ..."""
        if self.offset == 0:
            return None
        return self.part_index(device, slice(0, math.prod(self.shape))).view(self.shape)

    def part_index(self, device: torch.device, part: slice) -> Tensor:
        """Return the flat index of some of the elements."""
        here = torch.arange(part.start, part.stop, device=device)
        if self.offset is not None:
            return here + self.offset
        total = torch.zeros_like(here)
        for size, stride, first in zip(
            reversed(self.shape), reversed(self.strides), reversed(self.corner), strict=True
        ):
            total += (here % size + first) * stride
            here = here // size
        return total


OFFSET: Final = "_mpgd_offset"  # an attribute of the parameter, which torch.compile understands


def note_offset(parameter: Tensor, offset: int) -> None:
    """Note the flat index of a parameter's first element in the tensor it is a part of."""
    setattr(parameter, OFFSET, offset)


def offset_of(parameter: Tensor) -> int:
    """Return what was noted of a parameter, else 0."""
    return getattr(parameter, OFFSET, 0)


def is_sharded(tensor: Tensor) -> bool:
    """Return whether ``tensor`` is a DTensor, without importing torch.distributed for others."""
    sharded = sys.modules.get("torch.distributed.tensor")
    return type(tensor) not in PLAIN and sharded is not None and isinstance(tensor, sharded.DTensor)


def local(tensor: Tensor) -> Tensor:
    """Return the local part of a tensor, with complex numbers as pairs; it shares memory."""
    part = local_part(tensor)
    return torch.view_as_real(part.resolve_conj()) if part.is_complex() else part


def local_part(tensor: Tensor) -> Tensor:
    """Return the local part of a tensor as it is."""
    is_plain = type(tensor) in PLAIN or not is_sharded(tensor)  # the usual case first
    return tensor if is_plain else tensor.to_local()  # type: ignore[attr-defined]


def place_of(parameter: Tensor) -> Place:
    """Return the place of a parameter's local part."""
    pairs = (2,) if parameter.is_complex() else ()
    if not is_sharded(parameter):
        return Place((*parameter.shape, *pairs), offset_of(parameter) * (2 if pairs else 1))
    mesh, placements = parameter.device_mesh, tuple(parameter.placements)  # type: ignore[attr-defined]
    return _place_in(tuple(parameter.shape), pairs, mesh, placements)


@lru_cache(maxsize=4096)
def _place_in(shape: tuple[int, ...], pairs: tuple[int, ...], mesh: Any, placements: Any) -> Place:
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    local_shape, corner = compute_local_shape_and_global_offset(shape, mesh, placements)
    part, whole = (*local_shape, *pairs), (*shape, *pairs)
    corner = (*corner, *(0 for _ in pairs))
    strides = tuple(torch.Size(whole[axis + 1 :]).numel() for axis in range(len(whole)))
    first = sum(c * s for c, s in zip(corner, strides, strict=True))
    rows = all(a == b for a, b in zip(part[1:], whole[1:], strict=True))
    return Place(part, first if rows else None, strides, corner)


def like(parameter: Tensor, part: Tensor) -> Tensor:
    """Return ``part`` with the parameter's sharding: a DTensor if the parameter is one."""
    if not is_sharded(parameter):
        return part
    from torch.distributed.tensor import DTensor

    shape = torch.Size((*parameter.shape, *((2,) if parameter.is_complex() else ())))
    strides = tuple(torch.Size(shape[axis + 1 :]).numel() for axis in range(len(shape)))
    mesh, placements = parameter.device_mesh, parameter.placements  # type: ignore[attr-defined]
    return DTensor.from_local(part, mesh, placements, run_check=False, shape=shape, stride=strides)


def are_overlapping(params: Sequence[Tensor]) -> bool:
    """Return whether two of some parameters share memory, as tied ones do.

    The answer is remembered for the addresses and lengths, which seldom change.
    """
    plain = [p for p in params if type(p) in PLAIN]
    return _do_overlap(tuple([p.data_ptr() for p in plain]), tuple([p.nbytes for p in plain]))


@lru_cache(maxsize=256)
def _do_overlap(addresses: tuple[int, ...], lengths: tuple[int, ...]) -> bool:
    ends = sorted((a, a + n) for a, n in zip(addresses, lengths, strict=True) if n)
    return any(left[1] > right[0] for left, right in pairwise(ends))
