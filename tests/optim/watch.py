"""Watch the tensors of torch operations: their dtypes, and how much memory they hold at once."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Watch(TorchDispatchMode):
    """Note what the operations inside the ``with`` work on.

    Attributes:
        dtypes: of all tensors that went in or came out.
        peak: the most bytes that tensors made here held at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[torch.dtype] = set()
        self.peak = 0
        self._held: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operation and look at its tensors."""
        kwargs = kwargs or {}
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        before = {x.untyped_storage()._cdata for x in given}
        out = func(*args, **kwargs)
        made = [x for x in tree_leaves(out) if isinstance(x, Tensor)]
        self.dtypes |= {x.dtype for x in (*given, *made)}
        for x in made:
            storage = x.untyped_storage()
            if storage._cdata not in before | self._held.keys():
                self._held[storage._cdata] = storage.nbytes()
                weakref.finalize(storage, self._held.pop, storage._cdata)
        self.peak = max(self.peak, sum(self._held.values()))
        return out
