"""The noise of many training runs at once, bit for bit what each run alone would see.

A run with seed s is perturbed as `mpgd.MPGD(..., seed=s)` would perturb it: element i of its t-th
tensor has the drivers of (s, t, driver, i). All runs of one scheme share a map, so their orbits
are one flat tensor (run, element) that is advanced in one go.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from mpgd.noise import ChaoticNoise, GaussianNoise, StableNoise
from mpgd.noise.counter import make_key, step_key_tensor
from mpgd.noise.engines import tensor

Noise = ChaoticNoise | GaussianNoise | StableNoise
Shapes = Sequence[tuple[int, ...]]


class NoiseBank:
    """One driver of every element of every run.

    Args:
        noise: the noise; all runs share it.
        seeds: one per run.
        shapes: of the tensors of a run, in order.
        driver: 0 multiplicative, 1 additive, 2 and 3 their twins.

    Examples:
        >>> bank = NoiseBank(ChaoticNoise(0.6), seeds=[1, 2], shapes=[(3, 4), (3,)], driver=1)
        >>> bank.next().shape
        torch.Size([2, 15])
    """

    def __init__(self, noise: Noise, seeds: Sequence[int], shapes: Shapes, driver: int) -> None:
        sizes = torch.tensor([prod(shape) for shape in shapes])
        self.noise, self.step = noise, torch.zeros((), dtype=torch.int64)
        self._keys = torch.tensor(
            [[make_key(seed, ordinal, driver) for ordinal in range(len(sizes))] for seed in seeds]
        )
        self._sizes = sizes
        index = torch.cat([torch.arange(int(size)) for size in sizes])
        self._index = index.repeat(len(seeds), 1)
        self.s = self._start(seeds, shapes, driver)

    def _start(self, seeds: Sequence[int], shapes: Shapes, driver: int) -> Tensor | None:
        if not isinstance(self.noise, ChaoticNoise):
            return None
        rows = [
            [
                self.noise.init(shape, seed, tensor_id=ordinal, driver_id=driver).s.reshape(-1)
                for ordinal, shape in enumerate(shapes)
            ]
            for seed in seeds
        ]
        return torch.stack([torch.cat(row) for row in rows])

    def next(self) -> Tensor:
        """Return the values at this step, (run, element) float64, and advance."""
        keys = step_key_tensor(self._keys, self.step).repeat_interleave(self._sizes, dim=1)
        self.step += 1
        if self.s is None or not isinstance(self.noise, ChaoticNoise):
            return self.noise.draw(self._index, keys)  # type: ignore[union-attr]
        flat = (self.s.view(-1), keys.reshape(-1), self._index.view(-1))
        value, following = tensor.advance(self.noise.driver, *flat)
        self.s = following.view_as(self.s)
        return value.view_as(self.s)
