"""The gradient of nets with one hidden ReLU layer, one output and mean square error, compiled.

    h = relu(W X + b),   r = V h + c - y,   d = r where h > 0,       loss = mean of r^2
    dV = 2/n r h^T,   dc = 2/n sum r,   dW = 2/n V^T * d X^T,   db = 2/n V^T * sum d

Nets this small are all overhead in tensor operations. Here one net after the other goes through
the data in blocks that stay in the first-level cache, so what a net becomes does not depend on
its neighbours in any bit. `backprop` says the same with tensors, and is what runs without numba.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mpgd.experiments.backprop import Examples
from mpgd.experiments.losses import Loss, mean_square
from mpgd.experiments.nets import Layout
from mpgd.noise.engines import has_numba


def is_shallow(layout: Layout, loss: Loss, dtype: torch.dtype) -> bool:
    """Return whether `gradient` can differentiate these nets here."""
    one_layer = len(layout.widths) == 3 and layout.widths[-1] == 1
    functions = (layout.hidden, layout.output, loss) == (torch.relu, None, mean_square)
    return one_layer and functions and dtype == torch.float64 and has_numba()


def gradient(x: Tensor, examples: Examples) -> tuple[Tensor, Tensor]:
    """Return the losses (net,) at ``x`` (net, element) and the gradients (net, element)."""
    from mpgd.experiments.shallow_kernel import differentiate

    losses, found = x.new_empty(len(x)), torch.empty_like(x)
    tensors = (x, examples.columns, examples.targets, losses, found)
    arrays: list[Any] = [tensor.numpy() for tensor in tensors]
    differentiate(*arrays)
    return losses, found
