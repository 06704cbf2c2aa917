"""The drivers as `optimizer.state` shows them, under the prefix.

They live beside `state` and appear there once the inner optimizer has made entries of its own: many
optimizers take a parameter whose state is not empty for one they have seen. Flattened distributed
checkpoints read names there, and ZeRO writes what it loads there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from mpgd.optim.distributed import local
from mpgd.optim.state import ENTRIES, exact_copies


class Words(Tensor):
    """Integers that `Tensor.to` moves to another device but never makes floating-point.

    An optimizer around a perturbed one may save what it sees in `state` by torch's own function and
    load it by torch's own, which casts.

    Examples:
        >>> torch.tensor([7]).as_subclass(Words).to(torch.float32).dtype
        torch.int64
    """

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Return the same integers, on the device that is named."""
        moved = Tensor.to(self, *args, **kwargs)
        return moved if moved.dtype == self.dtype else Tensor.to(self, device=moved.device)

    def __deepcopy__(self, memo: dict[int, Any]) -> Words:
        """Return a copy that keeps its dtype too."""
        copied: Words = self.as_subclass(Tensor).clone().as_subclass(Words)
        memo[id(self)] = copied
        return copied


torch.serialization.add_safe_globals([Words])  # so that weights_only loads what others saved


def shown(value: Any) -> Any:
    """Return an integer tensor as `Words` of the same memory, and others as they are."""
    is_plain = type(value) is Tensor and not value.is_floating_point()
    return value.as_subclass(Words) if is_plain else value


def show(optimizer: Any, stepped: bool) -> None:
    """Let `state` show the drivers of parameters that have an inner state.

    With ``stepped``, also of those that have taken a step: the inner optimizer keeps nothing.
    """
    left, prefix = [], optimizer._prefix
    for p in optimizer._unshown:
        inner = optimizer.state.get(p)
        has_inner = bool(inner) if isinstance(inner, dict) else inner is not None
        if not (has_inner or (stepped and p.grad is not None)):
            left.append(p)
            continue
        values = optimizer.state[p]
        if isinstance(values, dict):
            for name, x in optimizer._orbits[p].items():
                old = values.get(prefix + name)
                if old is None or local(old).data_ptr() != local(x).data_ptr():
                    values[prefix + name] = shown(x)
            optimizer._marks[p] = values.get(prefix + "ordinal")
    optimizer._unshown = left


def hide(optimizer: Any, params: Iterable[Tensor]) -> None:
    """Let `state` show nothing of parameters in no group, on which torch's state_dict fails."""
    names = [optimizer._prefix + name for name in ENTRIES]
    for p in params:
        values = optimizer.state.get(p)
        if optimizer._marks.pop(p, None) is not None and isinstance(values, dict):
            for name in names:
                values.pop(name, None)
            if not values:
                del optimizer.state[p]


def adopt(optimizer: Any, params: Iterable[Tensor]) -> None:
    """Take up the drivers that somebody else wrote into `state`."""
    prefix = optimizer._prefix
    for p in params:
        values = optimizer.state[p]
        written = {name: values[prefix + name] for name in ENTRIES if prefix + name in values}
        own = optimizer._orbits.get(p, {}).get("ordinal")
        if written and (own is None or own.data_ptr() != written["ordinal"].data_ptr()):
            optimizer._orbits[p] = exact_copies(written, p)
            optimizer._keys.pop(p, None)
