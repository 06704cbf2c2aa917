"""The gradient of small nets by shallow.c: one hidden ReLU layer, one output, mean square error.

Nets this small are all overhead in tensor operations. `nets.backprop` says the same with tensors,
which is what runs where the library is not there.
"""

from ctypes import c_int64, c_void_p
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from mpgd.library import load
from mpgd_lab.nets.layout import Examples

BLOCK: Final = 128  # examples, as in shallow.c
_LOADED: Final = load(Path(__file__).with_name("shallow.c"))


def is_available() -> bool:
    """Return whether the library is there."""
    return _LOADED.library is not None


def shallow_gradient(x: Tensor, examples: Examples) -> tuple[Tensor, Tensor]:
    """Return the losses (net,) at ``x`` (net, element) and the gradients (net, element)."""
    if _LOADED.library is None:
        raise ImportError(f"this needs compiled kernels, and {_LOADED.reason}")
    features, count = examples.columns.shape[1:]
    hidden = (x.shape[1] - 1) // (features + 2)
    losses, gradient = x.new_empty(len(x)), torch.empty_like(x)
    given = (x, examples.columns, examples.targets, losses, gradient, x.new_empty(hidden, BLOCK))
    sizes = (len(x), len(examples.columns) == 1, features, hidden, count)
    tensors = [tensor.contiguous() for tensor in given]
    _LOADED.library.mpgd_differentiate(
        *(c_void_p(tensor.data_ptr()) for tensor in tensors), *map(c_int64, sizes)
    )
    return losses, gradient
