"""Losses of many nets at once, and their slopes in closed form.

    mean_square     mean of (p - y)^2                          slope 2 (p - y) / n
    cross_entropy   mean of -y log p - (1 - y) log(1 - p)      slope (p - y) / (p (1 - p)) / n
    class_entropy   mean of -log softmax(p)_y                  slope (softmax(p) - [y]) / n

Outputs p are (net, example), targets y (example,) or (net, example); a loss is (net,). Where y is
one of several classes, outputs are (net, example, class).
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy

from mpgd.experiments.nets.layout import gradients

Loss = Callable[[Tensor, Tensor], Tensor]

LEAST_VARIANCE: Final = 1e-12  # of p (1 - p), where torch too stops dividing


def mean_square(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean squared error of each net."""
    return (outputs - targets).square().mean(-1)


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the binary cross-entropy of each net."""
    own = targets.expand_as(outputs)
    return binary_cross_entropy(outputs, own, reduction="none").mean(-1)


def class_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of each net that chooses among classes."""
    right = outputs.gather(-1, targets.expand(outputs.shape[:-1])[..., None])
    return (outputs.logsumexp(-1) - right[..., 0]).mean(-1)


def slope(loss: Loss) -> Loss:
    """Return the function of a loss's derivative by the outputs; by autograd if we have no formula.

    Examples:
        >>> p, y = torch.tensor([[1.0, 2.0]]), torch.tensor([0.0, 0.0])
        >>> slope(mean_square)(p, y)
        tensor([[1., 2.]])
    """
    return _SLOPES.get(loss) or partial(_by_autograd, loss)


def _mean_square(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).mul_(2.0 / outputs.shape[-1])


def _cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    variance = torch.addcmul(outputs, outputs, outputs, value=-1.0).clamp_(min=LEAST_VARIANCE)
    return (outputs - targets).div_(variance).div_(outputs.shape[-1])


def _class_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    n = outputs.shape[-2]
    right = targets.expand(outputs.shape[:-1])[..., None]
    less = outputs.new_full((), -1.0 / n).expand(right.shape)
    chances = outputs.mT.softmax(-2).mT  # backprop keeps classes as rows: ten times faster so
    return chances.div_(n).scatter_add_(-1, right, less)


def _by_autograd(loss: Loss, outputs: Tensor, targets: Tensor) -> Tensor:
    return gradients(lambda leaf: loss(leaf, targets), outputs)[1]


_SLOPES: Final[dict[Loss, Loss]] = {
    mean_square: _mean_square,
    cross_entropy: _cross_entropy,
    class_entropy: _class_entropy,
}
