"""Values of a noise for many steps at a time, from the compiled kernels where there are any.

A stream fills a buffer (step, path, component) with the values of the next steps. What it writes
is what `noise.step` would return, step after step, in bits.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import torch
from torch import Tensor

from mpgd.limits.drivers import DrivingNoise
from mpgd.noise import GaussianNoise, NoiseState, StableNoise
from mpgd.noise.counter_hash import flat_index, step_key_tensor
from mpgd.noise.engines import cpu, use_cpu_kernels
from mpgd.noise.memoryless import MemorylessNoise
from mpgd.noise.phased import PhasedNoise

Fill = Callable[[Tensor], None]

BLOCK: Final = 1 << 17  # values in a buffer; it should stay in the processor's cache


def open_stream(noise: DrivingNoise, shape: tuple[int, int], seed: int, driver_id: int) -> Fill:
    """Return a function that fills a buffer (step, *shape) with the next values of ``noise``."""
    components = getattr(noise, "components", None)
    if components not in (None, shape[1]):
        raise ValueError(
            f"{noise!r} has {components} components, but its coupling takes {shape[1]} drivers"
        )
    # Components of one orbit: then an element of the state is a whole path's driver.
    alone = shape if components is None else shape[:1]
    state = noise.init(alone, seed, "cpu", driver_id=driver_id)
    if isinstance(noise, PhasedNoise | GaussianNoise | StableNoise):
        engine = noise.engine if isinstance(noise, PhasedNoise) else None
        if use_cpu_kernels(engine, state.word.device):
            return _kernel_stream(noise, state)
    if isinstance(noise, MemorylessNoise):
        return _drawn_stream(noise, state)
    return _stepwise_stream(noise, state)


def by_step(
    noises: Sequence[DrivingNoise],
    widths: Sequence[int],
    scales: Sequence[float],
    paths: int,
    steps: int,
    seed: int,
) -> Iterator[list[Tensor]]:
    """Yield the values (path, width) of every noise times its scale, step by step."""
    shapes = [(paths, width) for width in widths]
    pairs = enumerate(zip(noises, shapes, strict=True))
    fills = [open_stream(noise, shape, seed, i) for i, (noise, shape) in pairs]
    largest = max((p * r for p, r in shapes), default=1)
    rows = max(1, min(steps, BLOCK // max(1, largest)))
    buffers = [torch.empty((rows, *shape), dtype=torch.float64) for shape in shapes]
    for first in range(0, steps, rows):
        count = min(rows, steps - first)
        for fill, buffer, scale in zip(fills, buffers, scales, strict=True):
            fill(buffer[:count])
            buffer[:count].mul_(scale)
        for k in range(count):
            yield [buffer[k] for buffer in buffers]


def _kernel_stream(noise: PhasedNoise | GaussianNoise | StableNoise, state: NoiseState) -> Fill:
    words, clock = state.word if noise.has_orbit else None, _Clock(state)

    def fill(out: Tensor) -> None:
        cpu.advance(noise.driver, words, out, clock.key, clock.passed(len(out)), len(out))

    return fill


def _drawn_stream(noise: MemorylessNoise, state: NoiseState) -> Fill:
    """Draw the values of all steps of a buffer with the same tensor operations."""
    index, clock = flat_index(tuple(state.word.shape)), _Clock(state)

    def fill(out: Tensor) -> None:
        first = clock.passed(len(out))
        keys = step_key_tensor(state.key, torch.arange(first, first + len(out)))
        out.copy_(noise.draw(index, keys.view(-1, *[1] * index.dim())))

    return fill


def _stepwise_stream(noise: DrivingNoise, state: NoiseState) -> Fill:
    def fill(out: Tensor) -> None:
        nonlocal state
        for row in out:
            value, state = noise.step(state)
            row.copy_(value)

    return fill


class _Clock:
    """Counts the steps of a state."""

    def __init__(self, state: NoiseState) -> None:
        self.key, self.step = int(state.key), int(state.step)

    def passed(self, count: int) -> int:
        """Return the steps before the next ``count``, and take those."""
        before = self.step
        self.step += count
        return before
