"""The noise of many training runs at once, bit for bit what each run alone would see.

A run with seed s is perturbed as `mpgd.MPGD(..., seed=s)` would perturb it: element i of its t-th
tensor has the drivers of (s, t, driver, i). All runs of one scheme share a map, so their orbits
are one tensor (driver, run, element) that is advanced in one go.
"""

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np
import torch
from torch import Tensor

from mpgd.noise import ChaoticNoise, GaussianNoise, StableNoise
from mpgd.noise.counter import make_key, step_key_tensor
from mpgd.noise.engines import tensor, use_fused

Noise = ChaoticNoise | GaussianNoise | StableNoise
Shapes = Sequence[tuple[int, ...]]


class NoiseBank:
    """Some drivers of every element of every run: multiplicative, additive, and their twins.

    They are numbered 0 to 3. After ``step`` steps ``words`` holds the states of a chaotic noise,
    (driver, run, element).

    Examples:
        >>> bank = NoiseBank(ChaoticNoise(0.6), seeds=[1, 2], shapes=[(3, 4), (3,)], drivers=[0, 1])
        >>> bank.next().shape
        torch.Size([2, 2, 15])
    """

    def __init__(
        self, noise: Noise, seeds: Sequence[int], shapes: Shapes, drivers: Sequence[int]
    ) -> None:
        self.noise, self.step = noise, 0
        sizes = [prod(shape) for shape in shapes]
        self._sizes = torch.tensor(sizes)
        self._index = torch.cat([torch.arange(size) for size in sizes])
        every = product(drivers, seeds, range(len(sizes)))
        keys = [make_key(seed, ordinal, driver) for driver, seed, ordinal in every]
        self._keys = torch.tensor(keys).view(len(drivers), len(seeds), -1)
        self.words: Tensor | None = None
        if isinstance(noise, ChaoticNoise):
            rows = [_start(noise, seed, shapes, driver) for driver in drivers for seed in seeds]
            self.words = torch.stack(rows).view(len(drivers), len(seeds), -1)

    @property
    def is_fused(self) -> bool:
        """Whether numba advances the states."""
        if not isinstance(self.noise, ChaoticNoise) or self.words is None:
            return False
        return use_fused(self.noise.engine, self.words.device)

    def next(self) -> Tensor:
        """Return the values at this step, (driver, run, element) float64, and advance."""
        value = self._fused() if self.is_fused else self._plain()
        self.step += 1
        return value

    def _fused(self) -> Tensor:
        from mpgd.experiments.banks.kernel import advance_tensors
        from mpgd.noise.engines.fused import arguments, flat

        assert isinstance(self.noise, ChaoticNoise)
        assert self.words is not None
        value = torch.empty_like(self.words, dtype=torch.float64)
        states, values = flat(self.words), flat(value)
        keys, step = self._keys.view(-1).numpy().view(np.uint64), np.uint64(self.step)
        constants = arguments(self.noise.driver)
        advance_tensors(states, values, self._sizes.numpy(), keys, step, *constants)
        return value

    def _plain(self) -> Tensor:
        keys = step_key_tensor(self._keys, torch.tensor(self.step))
        keys = keys.repeat_interleave(self._sizes, dim=-1)
        index = self._index.expand_as(keys)
        if self.words is None or not isinstance(self.noise, ChaoticNoise):
            return self.noise.draw(index, keys)  # type: ignore[union-attr]
        flat = (self.words.view(-1), keys.view(-1), index.reshape(-1))
        value, following = tensor.advance(self.noise.driver, *flat)
        self.words = following.view_as(self.words)
        return value.view_as(self.words)


def _start(noise: ChaoticNoise, seed: int, shapes: Shapes, driver: int) -> Tensor:
    """Return the first states of a run, (element,)."""
    parts = [
        noise.init(shape, seed, tensor_id=ordinal, driver_id=driver).word.view(-1)
        for ordinal, shape in enumerate(shapes)
    ]
    return torch.cat(parts)
