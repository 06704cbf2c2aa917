"""Many small fully connected nets of one shape, trained as one.

The parameters of all nets are one matrix (net, element); a layer is one batched product. A net's
elements are ordered as `torch.nn.Sequential` orders its parameters: weight, bias, weight, bias.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

Activation = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Layout:
    """The shape of a net.

    Attributes:
        widths: of its layers, from the input to the output.
        hidden: the activation between layers.
        output: the activation after the last one.
    """

    widths: tuple[int, ...]
    hidden: Activation
    output: Activation | None = None

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the parameters, in order."""
        pairs = zip(self.widths[:-1], self.widths[1:], strict=True)
        return [shape for inner, outer in pairs for shape in ((outer, inner), (outer,))]

    @property
    def size(self) -> int:
        """The number of parameters."""
        return sum(prod(shape) for shape in self.shapes)

    def initial(self, seeds: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Return torch's default initialisation after `manual_seed`, (net, element).

        Torch's global generator is put back afterwards.
        """
        with torch.random.fork_rng():
            return torch.stack([self._initial_one(seed, dtype) for seed in seeds])

    def _initial_one(self, seed: int, dtype: torch.dtype) -> Tensor:
        torch.manual_seed(seed)
        pairs = zip(self.widths[:-1], self.widths[1:], strict=True)
        layers = [nn.Linear(inner, outer, dtype=dtype) for inner, outer in pairs]
        return torch.cat([p.detach().reshape(-1) for layer in layers for p in layer.parameters()])

    def forward(self, x: Tensor, inputs: Tensor) -> Tensor:
        """Return the outputs of all nets: ``x`` (net, element), ``inputs`` (example, feature).

        The result is (net, example) for one output, else (net, example, output).
        """
        flat = torch.split(x, [prod(shape) for shape in self.shapes], dim=1)
        pairs = zip(flat, self.shapes, strict=True)
        parts = [part.view(len(x), *shape) for part, shape in pairs]
        h = inputs.expand(len(x), *inputs.shape)
        for layer in range(len(self.widths) - 1):
            weight, bias = parts[2 * layer], parts[2 * layer + 1]
            h = torch.baddbmm(bias[:, None, :], h, weight.transpose(1, 2))
            last = layer == len(self.widths) - 2
            activation = self.output if last else self.hidden
            h = h if activation is None else activation(h)
        return h.squeeze(-1)


def gradients(loss: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the losses (net,) at ``x`` (net, element) and every net's own gradient."""
    x = x.detach().requires_grad_()
    losses = loss(x)
    (gradient,) = torch.autograd.grad(losses.sum(), x)
    return losses.detach(), gradient
