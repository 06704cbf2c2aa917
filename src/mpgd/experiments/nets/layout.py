"""Many small fully connected nets of one shape, trained as one.

The parameters of all nets are one matrix (net, element); a layer is one batched product. A net's
elements are ordered as `torch.nn.Sequential` orders its parameters: weight, bias, weight, bias.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import torch
from torch import Tensor, nn

Activation = Callable[[Tensor], Tensor]

BLOCK: Final = 256  # examples


@dataclass(frozen=True)
class Layout:
    """The shape of a net."""

    widths: tuple[int, ...]  # of its layers, from the input to the output
    hidden: Activation  # the activation between layers
    output: Activation | None = None  # the activation after the last one

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the parameters, in order."""
        pairs = zip(self.widths[:-1], self.widths[1:], strict=True)
        return [shape for inner, outer in pairs for shape in ((outer, inner), (outer,))]

    @property
    def size(self) -> int:
        """The number of parameters."""
        return sum(prod(shape) for shape in self.shapes)

    @property
    def activations(self) -> list[Activation | None]:
        """What follows each layer."""
        return [self.hidden] * (len(self.widths) - 2) + [self.output]

    def initial(self, seeds: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Return torch's default initialisation after `manual_seed`, (net, element).

        Torch's global generator is put back afterwards.
        """
        with torch.random.fork_rng():
            return torch.stack([self.seeded(seed, dtype) for seed in seeds])

    def seeded(self, seed: int, dtype: torch.dtype) -> Tensor:
        """Seed torch's global generator and return one initialised net, (element,)."""
        torch.manual_seed(seed)
        pairs = zip(self.widths[:-1], self.widths[1:], strict=True)
        layers = [nn.Linear(inner, outer, dtype=dtype) for inner, outer in pairs]
        return torch.cat([p.detach().reshape(-1) for layer in layers for p in layer.parameters()])

    def layers(self, x: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return views of every layer: weight (net, output, input) and bias (net, output, 1)."""
        flat = torch.split(x, [prod(shape) for shape in self.shapes], dim=1)
        pairs = zip(flat, self.shapes, strict=True)
        parts = [part.view(len(x), shape[0], -1) for part, shape in pairs]
        return list(zip(parts[::2], parts[1::2], strict=True))

    def forward(self, x: Tensor, inputs: Tensor) -> Tensor:
        """Return the outputs of all nets: ``x`` (net, element), ``inputs`` (example, feature).

        The result is (net, example) for one output, else (net, example, output). Every net may
        have inputs of its own, (net, example, feature).
        """
        h = inputs.expand(len(x), *inputs.shape[-2:])
        for (weight, bias), activation in zip(self.layers(x), self.activations, strict=True):
            h = torch.baddbmm(bias.mT, h, weight.mT)
            h = h if activation is None else activation(h)
        return h.squeeze(-1)

    @torch.no_grad()
    def outputs(self, x: Tensor, inputs: Tensor) -> Tensor:
        """Return `forward` for many examples, some at a time, so that they stay in the cache."""
        return torch.cat([self.forward(x, part) for part in torch.split(inputs, BLOCK)], dim=1)


@dataclass(frozen=True, eq=False)
class Examples:
    """What nets learn from; a first axis of length 1 is shared by all nets."""

    inputs: Tensor  # (net, example, feature)
    columns: Tensor  # the same as (net, feature, example), in that order in memory
    targets: Tensor  # (net, example)

    @classmethod
    def of(cls, inputs: Tensor, targets: Tensor) -> Examples:
        """Return examples: ``inputs`` (example, feature), or (net, example, feature)."""
        inputs = inputs.view(-1, *inputs.shape[-2:]).clone()  # torch aligns what it allocates
        return cls(inputs, inputs.mT.contiguous(), targets.view(len(inputs), -1))

    def part(self, first: int, count: int) -> Examples:
        """Return the examples of ``count`` nets."""
        everything = (self.inputs, self.columns, self.targets)
        chosen = (t if len(t) == 1 else t[first : first + count] for t in everything)
        return Examples(*(t.expand(count, *t.shape[1:]) for t in chosen))


def gradients(loss: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the losses (net,) at ``x`` (net, element) and every net's own gradient."""
    x = x.detach().requires_grad_()
    losses = loss(x)
    (gradient,) = torch.autograd.grad(losses.sum(), x)
    return losses.detach(), gradient
