"""Copies of parameters before another optimizer's step, in memory that is kept.

Fresh memory costs many times the copy: the system hands it out page by page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from mpgd.optim.shards import local


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
    return {p: _copied(local(p), rooms.get(p)) for p, _ in params}


def _copied(x: Tensor, room: Tensor | None) -> Tensor:
    return x.clone() if room is None or _form(room) != _form(x) else room.copy_(x)


def _form(x: Tensor) -> tuple[object, ...]:
    return x.shape, x.stride(), x.dtype, x.device
