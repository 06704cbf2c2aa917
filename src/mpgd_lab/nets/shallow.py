"""The gradient of small nets, compiled: one hidden ReLU layer, one output, mean square error.

    h = relu(W X + b),   r = V h + c - y,   d = r where h > 0,       loss = mean of r^2
    dV = 2/n r h^T,   dc = 2/n sum r,   dW = 2/n V^T * d X^T,   db = 2/n V^T * sum d

Nets this small are all overhead in tensor operations. Here one net after the other goes through
the data in blocks that stay in the first-level cache, so what a net becomes does not depend on
its neighbours in any bit. Sums may be taken in any order and products fused, which is what lets
them fill vector registers. `nets.backprop` says the same with tensors, which is what runs without
numba; import this file only where numba is installed.
"""

from functools import partial
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mpgd.noise.engines import compiled
from mpgd_lab.nets.layout import Examples

Floats = NDArray[np.float64]

BLOCK: Final = 128  # examples
FREE: Final = {"reassoc", "contract", "nsz"}


def shallow_gradient(x: Tensor, examples: Examples) -> tuple[Tensor, Tensor]:
    """Return the losses (net,) at ``x`` (net, element) and the gradients (net, element)."""
    losses, gradient = x.new_empty(len(x)), torch.empty_like(x)
    tensors = (x, examples.columns, examples.targets, losses, gradient)
    arrays: list[Any] = [tensor.numpy() for tensor in tensors]
    differentiate(*arrays)
    return losses, gradient


def inlined(function: Any) -> Any:
    """Compile as a part of the kernel that calls it.

    Compiled apart, numba would keep two copies of it, and which one runs would depend on whether
    the caller was compiled now or comes from the cache: with free sums that changes bits.
    """
    return compiled.inlined(function, error_model="numpy", fastmath=FREE)


@inlined
def product(a: Floats, b: Floats) -> float:
    """Return the inner product."""
    total = 0.0
    for e in range(len(a)):
        total += a[e] * b[e]
    return total


@inlined
def residuals(x: Floats, X: Floats, first: int, y: Floats, h: Floats, r: Floats) -> None:
    """Fill h = relu(W X + b) and r = V h + c - y on the examples from ``first`` on."""
    features, hidden, n = len(X), len(h), len(y)
    b, V, c = x[hidden * features :], x[hidden * (features + 1) :], x[-1]
    r[:] = c - y
    for j in range(hidden):
        row = h[j, :n]
        row[:] = b[j]
        for f in range(features):
            column, w = X[f, first : first + n], x[j * features + f]
            for e in range(n):
                row[e] += w * column[e]
        v = V[j]
        for e in range(n):
            row[e] = row[e] if row[e] > 0.0 else 0.0
            r[e] += v * row[e]


@inlined
def add_derivatives(g: Floats, X: Floats, first: int, h: Floats, r: Floats) -> None:
    """Add r h^T, sum r, d X^T and sum d, with d = r where h > 0; h is overwritten by d."""
    features, hidden, n = len(X), len(h), len(r)
    b, V = g[hidden * features :], g[hidden * (features + 1) :]
    for j in range(hidden):
        d = h[j, :n]
        V[j] += product(r, d)
        total = 0.0
        for e in range(n):
            d[e] = r[e] if d[e] > 0.0 else 0.0
            total += d[e]
        b[j] += total
        for f in range(features):
            g[j * features + f] += product(d, X[f, first : first + n])
    g[-1] += r.sum()


@inlined
def scale(g: Floats, x: Floats, features: int, factor: float) -> None:
    """Multiply by the factor 2/n, and dW and db by V."""
    hidden = (len(x) - 1) // (features + 2)
    V = x[hidden * (features + 1) :]
    g *= factor
    for j in range(hidden):
        g[j * features : (j + 1) * features] *= V[j]
        g[hidden * features + j] *= V[j]


@partial(compiled.jitted, error_model="numpy", fastmath=FREE)
def differentiate(
    x: Floats, columns: Floats, targets: Floats, losses: Floats, gradient: Floats
) -> None:
    """Fill losses and gradients: ``x`` (net, element), ``columns`` (net or 1, feature, example)."""
    features, examples = columns.shape[1:]
    h = np.empty(((x.shape[1] - 1) // (features + 2), BLOCK))
    r = np.empty(BLOCK)
    gradient[:] = 0.0
    losses[:] = 0.0
    for net in range(len(x)):
        own = net if len(columns) > 1 else 0
        for first in range(0, examples, BLOCK):
            part = slice(first, first + BLOCK)
            y = targets[own, part]
            residuals(x[net], columns[own], first, y, h, r[: len(y)])
            losses[net] += product(r[: len(y)], r[: len(y)])
            add_derivatives(gradient[net], columns[own], first, h, r[: len(y)])
        losses[net] /= examples
        scale(gradient[net], x[net], features, 2.0 / examples)
