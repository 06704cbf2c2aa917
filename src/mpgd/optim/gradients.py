"""Gradients that no step can take are refused before anything is changed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from mpgd.optim.shards import meets


def refuse_sparse(param_groups: Iterable[dict[str, Any]]) -> None:
    """Raise on a sparse gradient, before anything is changed."""
    for p in chain.from_iterable(group["params"] for group in param_groups):
        if p.grad is not None and p.grad.layout is not torch.strided:
            raise RuntimeError(
                f"gradients must be dense (torch.strided), got layout {p.grad.layout} "
                f"for a parameter of shape {tuple(p.shape)}"
            )


def refuse_overlap(params: Iterable[Tensor]) -> None:
    """Raise on a gradient that shares a part of its parameter's memory, as `torch.optim.SGD`."""
    for p in params:
        g = p.grad
        if g is not None and type(g) is Tensor and meets(p, g):
            raise RuntimeError(
                f"the gradient of a parameter of shape {tuple(p.shape)} must not lie in a part of "
                "the parameter's memory: clone() it"
            )
