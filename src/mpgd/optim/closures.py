"""A closure that is evaluated before the parameters are perturbed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mpgd.optim.distributed import local


class EvaluatedClosure:
    """A closure that was evaluated: the inner optimizer's first call returns that loss.

    It does so only while no parameter has changed since; SAM moves them before it asks. Writes
    through ``p.data`` do not count in versions, so an element of each parameter is compared too.
    """

    def __init__(self, closure: Callable[[], Any], groups: list[dict[str, Any]]) -> None:
        with torch.enable_grad():
            self.loss = closure()
        self.closure = closure
        self.params: list[Tensor] = [p for group in groups for p in group["params"]]
        self._seen: list[Any] | None = None

    def note(self) -> None:
        """Note what the parameters are now."""
        self._seen = self._fingerprints()

    def _fingerprints(self) -> list[Any]:
        parts = [local(p).detach().reshape(-1) for p in self.params]
        firsts = [float(x[0].real) if x.numel() else 0.0 for x in parts]
        return [
            (p._version, p.data_ptr(), first) for p, first in zip(self.params, firsts, strict=True)
        ]

    def __call__(self) -> Any:
        """Return the loss."""
        seen, self._seen = self._seen, None
        if seen is not None and seen == self._fingerprints():
            return self.loss
        return self.closure()
