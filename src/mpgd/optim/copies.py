"""Copies of parameters before another optimizer's step, in memory that is kept.

Fresh memory costs many times the copy: the system hands it out page by page. Where the parameters
are more than a cache holds, numba copies past it, which takes two thirds of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

import torch
from torch import Tensor

from mpgd.noise.engines import has_numba
from mpgd.noise.engines.threads import in_parts
from mpgd.optim.kernel_rows import is_simple
from mpgd.optim.shards import local

LARGE: Final = 1 << 25  # bytes of parameters that no cache keeps until the next pass
_LINE, _WORD = 64, 4  # bytes


def copied(
    params: Iterable[tuple[Tensor, str | None]], rooms: Mapping[Tensor, Tensor]
) -> dict[Tensor, Tensor]:
    """Return a copy of each parameter, given with its engine; ``rooms`` are earlier copies.

    Examples:
        >>> p = torch.tensor([1.0, 2.0])
        >>> first = copied([(p, None)], {})
        >>> second = copied([(p.add_(1), None)], first)
        >>> second[p], second[p] is first[p]
        (tensor([2., 3.]), True)
    """
    if torch.compiler.is_compiling():
        return {p: local(p).clone() for p, _ in params}
    parts = [(p, local(p), engine) for p, engine in params]
    is_large = sum(x.nbytes for _, x, _ in parts) > LARGE
    return {p: _copied(x, rooms.get(p), is_large, engine) for p, x, engine in parts}


def _copied(x: Tensor, room: Tensor | None, is_large: bool, engine: str | None) -> Tensor:
    if room is None or _form(room) != _form(x):
        return x.clone()
    if not (is_large and engine != "torch" and has_numba() and _are_words(x, room)):
        return room.copy_(x)
    from mpgd.optim.kernels import copy_words

    in_parts(x.nbytes // _WORD, partial(copy_words, x.data_ptr(), room.data_ptr()))
    return room


def _form(x: Tensor) -> tuple[object, ...]:
    return x.shape, x.stride(), x.dtype, x.device


def _are_words(x: Tensor, room: Tensor) -> bool:
    """Return whether whole words are copied, to the beginning of a line of the cache."""
    on_cpu = is_simple(x, True) and is_simple(room, True)
    return on_cpu and x.nbytes % _WORD == 0 and room.data_ptr() % _LINE == 0
