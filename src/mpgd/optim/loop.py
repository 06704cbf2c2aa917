"""The plain loop: the update of one parameter with torch operations, the truth of all fast paths.

Temporaries of a large parameter would take many times its memory. So it is worked on in parts, each
from its noise to its new values. An element's bits do not depend on the part it is in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from mpgd.optim.orbits import State, terms
from mpgd.optim.settings import Settings
from mpgd.optim.shards import local
from mpgd.optim.update import Scalar, descended, displacement, precision_of

PART: Final = 1 << 18  # elements worked on at a time
Change = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]


def descend_one(
    p: Tensor,
    state: State,
    settings: Settings,
    eta: Scalar,
    shared: Tensor | None,
    maximize: bool,
) -> None:
    """Update one parameter in place and advance its drivers, all but the step count."""

    def change(x: Tensor, gradient: Tensor, m: Tensor | None, n: Tensor | None) -> Tensor:
        return descended(x, -gradient if maximize else gradient, eta, m, n)

    _change(p, local(p.grad), state, settings, eta, shared, change)  # type: ignore[arg-type]


def displace_one(
    p: Tensor,
    old: Tensor | None,
    state: State,
    settings: Settings,
    eta: Scalar,
    shared: Tensor | None,
) -> None:
    """Add the perturbation to a parameter that was ``old`` before the step."""

    def change(x: Tensor, start: Tensor, m: Tensor | None, n: Tensor | None) -> Tensor:
        return x + displacement(start, m, n)

    start = local(p) if old is None else old  # without a multiplicative term it is not read
    _change(p, start, state, settings, eta, shared, change)


def _change(
    p: Tensor,
    other: Tensor,
    state: State,
    settings: Settings,
    eta: Scalar,
    shared: Tensor | None,
    change: Change,
) -> None:
    """Set x to ``change(x, other, m, n)``, computed in the parameter's precision."""
    x, precision = local(p), precision_of(local(p).dtype)
    if not _is_in_parts(x, state, settings):
        m, n = terms(p, state, settings, eta, shared)
        x.copy_(change(x.to(precision), other.to(precision), m, n))
        return
    line, others = x.reshape(-1), other.reshape(-1)  # copies, where they are not contiguous
    for first in range(0, line.numel(), PART):
        part = slice(first, min(first + PART, line.numel()))
        m, n = terms(p, state, settings, eta, shared, part)
        line[part] = change(line[part].to(precision), others[part].to(precision), m, n)
    if not x.is_contiguous():
        x.copy_(line.view(x.shape))


def _is_in_parts(x: Tensor, state: State, settings: Settings) -> bool:
    """Return whether a parameter is large, and its noises are known to work on parts."""
    if torch.compiler.is_compiling() or x.numel() <= PART:
        return False
    used = zip(settings.sizes, settings.drivers, strict=True)
    if any(size and driver is None for size, driver in used):
        return False
    orbits = [local(state[name]) for name, _, _ in settings.orbits]
    return all(words.shape == x.shape and words.is_contiguous() for words in orbits)
