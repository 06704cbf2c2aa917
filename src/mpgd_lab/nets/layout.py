"""Many small fully connected nets of one shape, trained as one.

The parameters of all nets are one matrix (net, element); a layer is one batched product. A net's
elements are ordered as `torch.nn.Sequential` orders its parameters: weight, bias, weight, bias.
Losses have their slopes in closed form:

    mean_square     mean of (p - y)^2                          slope 2 (p - y) / n
    cross_entropy   mean of -y log p - (1 - y) log(1 - p)      slope (p - y) / (p (1 - p)) / n
    class_entropy   mean of -log softmax(p)_y                  slope (softmax(p) - [y]) / n

Outputs p are (net, example), targets y (example,) or (net, example); a loss is (net,). Where y is
one of several classes, outputs are (net, example, class).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Final, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy

Activation = Callable[[Tensor], Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]

BLOCK: Final = 256  # examples
LEAST_VARIANCE: Final = 1e-12  # of p (1 - p), where torch too stops dividing


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
        """Return `forward` for many examples, some at a time, so that they stay in the cache.

        torch has another product for a batch of one, with other last bits: one net goes twice.
        """
        nets = x if len(x) > 1 else x.repeat(2, 1)
        parts = [self.forward(nets, part) for part in torch.split(inputs, BLOCK)]
        return torch.cat(parts, dim=1)[: len(x)]


@dataclass(frozen=True, eq=False)
class Examples:
    """What nets learn from; a first axis of length 1 is shared by all nets."""

    inputs: Tensor  # (net, example, feature)
    columns: Tensor  # the same as (net, feature, example), in that order in memory
    targets: Tensor  # (net, example)

    @classmethod
    def of(cls, inputs: Tensor, targets: Tensor) -> Self:
        """Return examples: ``inputs`` (example, feature), or (net, example, feature)."""
        inputs = inputs.view(-1, *inputs.shape[-2:]).clone()  # torch aligns what it allocates
        return cls(inputs, inputs.mT.contiguous(), targets.view(len(inputs), -1))

    def part(self, first: int, count: int) -> Self:
        """Return the examples of ``count`` nets."""
        everything = (self.inputs, self.columns, self.targets)
        chosen = (t if len(t) == 1 else t[first : first + count] for t in everything)
        return type(self)(*(t.expand(count, *t.shape[1:]) for t in chosen))


def gradients(loss: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the losses (net,) at ``x`` (net, element) and every net's own gradient."""
    x = x.detach().requires_grad_()
    losses = loss(x)
    (gradient,) = torch.autograd.grad(losses.sum(), x)
    return losses.detach(), gradient


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
