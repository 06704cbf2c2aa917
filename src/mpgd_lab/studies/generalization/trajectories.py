"""Many small networks trained at once by full-batch descent with unit-variance perturbations.

    x' = x - eta grad(x) - s (u1 x) + s u2,      u = v / sqrt(E v^2)

so every scheme has the same per-step variance s^2, which in the paper's letters is
sigma = mu = s / (eta^gamma sqrt(E v^2)). A network is one hidden ReLU layer; all networks of all
schemes and seeds are rows of one array of parameters, (scheme, seed, parameter). Schemes share
their initial parameters, data and the hash behind their noise, so differences are paired by seed.
Parameters are float64, gradients float32. Examples are the last axis, which is what CPUs like.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mpgd_lab.batched_training import iterate_steps
from mpgd_lab.nets.layout import gradients
from mpgd_lab.studies.generalization.runs import Noise, Training

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Data:
    """Training and test data for every seed, x is (seed, feature, example), y (seed, example)."""

    name: str
    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor

    @property
    def outputs(self) -> int:
        """How many outputs the network has: 1 for a number, else one for every class."""
        return 1 if self.y_train.is_floating_point() else int(self.y_train.max()) + 1


@dataclass(frozen=True, eq=False)
class TrainedNetworks:
    """What came of it: losses (scheme, seed, look), points (scheme, seed, time, coordinate)."""

    train: Array
    test: Array
    points: Array
    hessian_trace: Array


def descend(
    data: Data, noises: Sequence[Noise | None], how: Training, seed: int
) -> TrainedNetworks:
    """Train one network for every noise (None: plain descent) and every seed of ``data``."""
    x = initial(data, how.hidden, seed).expand(len(noises), -1, -1).clone()
    drivers = [_Driver(noise, tuple(x.shape[1:]), how.strength, seed) for noise in noises]
    kept = torch.randperm(x.shape[2], generator=torch.Generator().manual_seed(seed))
    losses, points = [_both(x, data)], []

    def step(x: Tensor, g: Tensor, k: int) -> Tensor:
        pushed = [driver.perturb(row) for driver, row in zip(drivers, x, strict=True)]
        return x - how.eta * g + torch.stack(pushed)

    passed = iterate_steps(x, partial(_gradient, data=data), step, how.steps)
    for k, (x, _) in enumerate(passed, start=1):
        left = how.steps - k
        if left < 2 * how.points and left % 2 == 0:
            points.append(x[..., kept[: how.coordinates]].clone())
        if k % how.every == 0 or left == 0:
            losses.append(_both(x, data))
    both = torch.stack(losses, dim=-1).double().numpy()
    trajectory = torch.stack(points, dim=2).numpy()
    return TrainedNetworks(both[0], both[1], trajectory, hessian_traces(x, data, how.probes, seed))


def initial(data: Data, hidden: int, seed: int) -> Tensor:
    """Return torch's default start of every seed's network, (seed, parameter)."""
    generator = torch.Generator().manual_seed(seed)
    sizes, inputs = _sizes(data, hidden), data.x_train.shape[-2]
    widths = [inputs**-0.5, inputs**-0.5, hidden**-0.5, hidden**-0.5]
    parts = [
        (2 * torch.rand(len(data.x_train), size, generator=generator) - 1) * width
        for size, width in zip(sizes, widths, strict=True)
    ]
    return torch.cat(parts, dim=1).double()


def losses_of(x: Tensor, inputs: Tensor, targets: Tensor, outputs: int) -> Tensor:
    """Return the mean loss of every network, (scheme, seed): cross-entropy or squared error."""
    features = inputs.shape[-2]
    hidden = (x.shape[-1] - outputs) // (features + 1 + outputs)
    sizes = [features * hidden, hidden, hidden * outputs, outputs]
    W, b, V, c = x.float().transpose(0, 1).split_with_sizes(sizes, dim=-1)
    nets = W.shape[:2]
    # One product for all schemes of a seed: its data are read once.
    rows = W.reshape(nets[0], nets[1] * hidden, features) @ inputs
    h = torch.relu(rows.view(*nets, hidden, -1) + b[..., None])
    z = V.reshape(*nets, outputs, hidden) @ h + c[..., None]
    if outputs == 1:
        each = (z[..., 0, :] - targets[:, None]) ** 2
    else:
        chosen = z.gather(-2, targets[:, None, None].expand(-1, nets[1], 1, -1))
        each = z.logsumexp(dim=-2) - chosen[..., 0, :]
    return each.mean(dim=-1).transpose(0, 1)


def hessian_traces(x: Tensor, data: Data, probes: int, seed: int) -> Array:
    """Return Hutchinson's estimate of the training loss's trace of every network.

    All networks see the same random signs, so that differences are paired here too.
    """
    generator = torch.Generator().manual_seed(seed)
    leaf = x.clone().requires_grad_()
    loss = losses_of(leaf, data.x_train, data.y_train, data.outputs).sum()
    (gradient,) = torch.autograd.grad(loss, leaf, create_graph=True)
    traces = torch.zeros(x.shape[:2], dtype=torch.float64)
    for _ in range(probes):
        z = torch.randint(2, x.shape[2:], generator=generator).to(x) * 2 - 1
        (Hz,) = torch.autograd.grad(gradient, leaf, z.expand_as(x), retain_graph=True)
        traces += (Hz * z).sum(dim=-1).double() / probes
    return traces.numpy()


class _Driver:
    """The two drivers of one scheme: values of unit variance times the strength."""

    def __init__(self, noise: Noise | None, shape: tuple[int, ...], s: float, seed: int) -> None:
        self.noise = noise
        if noise is not None:
            self.scale = s / noise.variance**0.5
            self.states = [noise.init(shape, seed, driver_id=which) for which in (0, 1)]

    def perturb(self, x: Tensor) -> Tensor:
        """Return n - m x."""
        if self.noise is None:
            return torch.zeros_like(x)
        v1, self.states[0] = self.noise.step(self.states[0])
        v2, self.states[1] = self.noise.step(self.states[1])
        pushed: Tensor = self.scale * (v2 - v1 * x)
        return pushed


def _gradient(x: Tensor, data: Data) -> tuple[Tensor, Tensor]:
    return gradients(lambda x: losses_of(x, data.x_train, data.y_train, data.outputs), x)


def _both(x: Tensor, data: Data) -> Tensor:
    with torch.no_grad():
        train = losses_of(x, data.x_train, data.y_train, data.outputs)
        return torch.stack([train, losses_of(x, data.x_test, data.y_test, data.outputs)])


def _sizes(data: Data, hidden: int) -> list[int]:
    return [data.x_train.shape[-2] * hidden, hidden, hidden * data.outputs, data.outputs]
