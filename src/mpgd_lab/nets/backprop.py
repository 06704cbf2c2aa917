"""The gradients of many nets in closed form, some nets at a time, in buffers made once.

With h_0 the inputs, layers l = 1 ... L and * the entrywise product:

    h_l = f_l(W_l h_(l-1) + b_l)                                          forwards
    delta_L = f_L' * dloss/dh_L,    delta_(l-1) = f_(l-1)' * W_l^T delta_l       backwards
    dW_l = delta_l h_(l-1)^T,       db_l = sum of delta_l over examples

Examples are the last axis, which is what CPUs like. `nets.gradients` says the same by autograd.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

from mpgd_lab.nets.layout import Activation, Examples, Layout, Loss, slope

CACHE: Final = 1 << 23  # bytes that buffers may fill


@dataclass(frozen=True)
class InPlace:
    """An activation f without copies."""

    apply: Callable[[Tensor], Tensor]  # overwrites z by f(z)
    back: Callable[[Tensor, Tensor], Tensor]  # times f'(z), given f(z), which it may overwrite


def _back(kernel: Any, delta: Tensor, h: Tensor) -> Tensor:
    kernel.grad_input(delta, h, grad_input=delta)
    return delta


IN_PLACE: Final[dict[Activation | None, InPlace]] = {
    None: InPlace(lambda z: z, lambda delta, h: delta),
    torch.relu: InPlace(torch.relu_, lambda delta, h: delta.mul_(h.sign_())),
    torch.sigmoid: InPlace(torch.sigmoid_, partial(_back, torch.ops.aten.sigmoid_backward)),
    torch.tanh: InPlace(torch.tanh_, partial(_back, torch.ops.aten.tanh_backward)),
}


class Backpropagation:
    """Computes gradients; an object is for one number of examples and not for two threads.

    Examples:
        >>> from mpgd_lab.nets.layout import mean_square
        >>> layout = Layout((3, 4, 1), torch.relu)
        >>> gradient = Backpropagation(layout, mean_square, examples=10, dtype=torch.float64)
        >>> inputs, targets = torch.rand(10, 3).double(), torch.rand(10).double()
        >>> x = layout.initial([1, 2], torch.float64)
        >>> losses, g = gradient(x, Examples.of(inputs, targets))
        >>> losses.shape, g.shape
        (torch.Size([2]), torch.Size([2, 21]))
    """

    def __init__(self, layout: Layout, loss: Loss, examples: int, dtype: torch.dtype) -> None:
        if not set(layout.activations) <= IN_PLACE.keys():
            raise ValueError(f"activations must be among relu, sigmoid and tanh, got {layout}")
        self.layout, self.loss, self.slope = layout, loss, slope(loss)
        self.functions = [IN_PLACE[activation] for activation in layout.activations]
        one = 2 * sum(layout.widths[1:]) * examples * dtype.itemsize
        self.nets = max(1, CACHE // one)
        shapes = [(self.nets, width, examples) for width in layout.widths[1:]]
        self.h = [torch.empty(shape, dtype=dtype) for shape in shapes]
        self.delta = [torch.empty(shape, dtype=dtype) for shape in shapes[:-1]]

    def __call__(self, x: Tensor, examples: Examples) -> tuple[Tensor, Tensor]:
        """Return the losses (net,) at ``x`` (net, element) and the gradients (net, element)."""
        losses, gradient = x.new_empty(len(x)), torch.empty_like(x)
        for first in range(0, len(x), self.nets):
            part = slice(first, first + self.nets)
            own = examples.part(first, len(x[part]))
            h = self._forward(x[part], own)
            outputs = h[-1].mT.squeeze(-1)
            losses[part] = self.loss(outputs, own.targets)
            delta = self.slope(outputs, own.targets).reshape(h[-1].mT.shape).mT
            self._backward(x[part], gradient[part], own, h, delta)
        return losses, gradient

    def _forward(self, x: Tensor, examples: Examples) -> list[Tensor]:
        """Return h_0 ... h_L."""
        h = [examples.columns, *(buffer[: len(x)] for buffer in self.h)]
        for k, (weight, bias) in enumerate(self.layout.layers(x)):
            self.functions[k].apply(torch.baddbmm(bias, weight, h[k], out=h[k + 1]))
        return h

    def _backward(
        self, x: Tensor, gradient: Tensor, examples: Examples, h: list[Tensor], delta: Tensor
    ) -> None:
        """Fill ``gradient``, given the loss's derivative by the outputs."""
        layers, derivatives = self.layout.layers(x), self.layout.layers(gradient)
        for k in reversed(range(len(layers))):
            delta = self.functions[k].back(delta, h[k + 1])
            d_weight, d_bias = derivatives[k]
            torch.bmm(delta, h[k].mT if k else examples.inputs, out=d_weight)
            torch.sum(delta, 2, keepdim=True, out=d_bias)
            if k:
                delta = torch.bmm(layers[k][0].mT, delta, out=self.delta[k - 1][: len(x)])
