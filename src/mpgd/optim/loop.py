"""The plain loop: the update of one parameter with torch operations, the truth of all fast paths.

Temporaries of a large parameter would take many times its memory. So it is worked on in parts, each
from its noise to its new values. An element's bits do not depend on the part it is in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from mpgd.optim.orbits import BUFFER, State, rounded, terms
from mpgd.optim.settings import Settings
from mpgd.optim.shards import local
from mpgd.optim.update import (
    Direction,
    Scalar,
    descended,
    directed,
    displacement,
    precision_of,
)

PART: Final = 1 << 18  # elements worked on at a time
Change = Callable[[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None], Tensor]


def descend_one(
    p: Tensor,
    state: State,
    settings: Settings,
    eta: Scalar,
    shared: Tensor | None,
    how: Direction,
    is_fresh: bool = False,
) -> None:
    """Update one parameter in place and advance its drivers, all but the step count.

    Its buffer, if ``how`` has a momentum, is in its state; a fresh one was never written to.
    """

    def change(
        x: Tensor, gradient: Tensor, buffer: Tensor | None, m: Tensor | None, n: Tensor | None
    ) -> Tensor:
        return descended(x, directed(x, gradient, buffer, is_fresh, how), eta, m, n)

    buffer = local(state[BUFFER]) if how.momentum else None
    others = (local(p.grad), buffer)  # type: ignore[arg-type]
    _change(p, others, state, settings, eta, shared, change)


def keep_direction(
    x: Tensor, gradient: Tensor, buffer: Tensor, is_fresh: bool, how: Direction
) -> None:
    """Take a gradient up into the buffer of a local part, and leave the part as it is."""
    precision = precision_of(x.dtype)
    directed(x.to(precision), gradient.to(precision), buffer, is_fresh, how)


def displace_one(
    p: Tensor,
    old: Tensor | None,
    state: State,
    settings: Settings,
    eta: Scalar,
    shared: Tensor | None,
) -> None:
    """Add the perturbation to a parameter that was ``old`` before the step."""

    def change(
        x: Tensor, start: Tensor, _: Tensor | None, m: Tensor | None, n: Tensor | None
    ) -> Tensor:
        return x + displacement(start, m, n)

    start = local(p) if old is None else old  # without a multiplicative term it is not read
    _change(p, (start, None), state, settings, eta, shared, change)


def _change(
    p: Tensor,
    given: tuple[Tensor, Tensor | None],
    state: State,
    settings: Settings,
    eta: Scalar,
    shared: Tensor | None,
    change: Change,
) -> None:
    """Set x to ``change(x, other, buffer, m, n)``, computed in the parameter's precision."""
    (other, buffer), x, precision = given, local(p), precision_of(local(p).dtype)
    if not _is_in_parts(x, buffer, state, settings):
        m, n = terms(p, state, settings, eta, shared)
        new = change(x.to(precision), other.to(precision), buffer, m, n)
        x.copy_(rounded(new, p, state, settings))
        return
    line, others = x.reshape(-1), other.reshape(-1)  # copies, where they are not contiguous
    for first in range(0, line.numel(), PART):
        part = slice(first, min(first + PART, line.numel()))
        m, n = terms(p, state, settings, eta, shared, part)
        own = None if buffer is None else buffer.view(-1)[part]
        new = change(line[part].to(precision), others[part].to(precision), own, m, n)
        line[part] = rounded(new, p, state, settings, part)
    if not x.is_contiguous():
        x.copy_(line.view(x.shape))


def _is_in_parts(x: Tensor, buffer: Tensor | None, state: State, settings: Settings) -> bool:
    """Return whether a parameter is large, and its noises are known to work on parts."""
    if torch.compiler.is_compiling() or x.numel() <= PART:
        return False
    if buffer is not None and not buffer.is_contiguous():
        return False
    used = zip(settings.sizes, settings.drivers, strict=True)
    if any(size and driver is None for size, driver in used):
        return False
    orbits = [local(state[name]) for name, _, _ in settings.orbits]
    return all(words.shape == x.shape and words.is_contiguous() for words in orbits)
