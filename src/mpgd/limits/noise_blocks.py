"""Values of a noise for many steps at a time, from the compiled kernels where there are any.

A stream fills a buffer (step, path, component) with the values of the next steps. What it writes
is what `noise.step` would return, step after step: in bits for chaotic noise, to rounding for
stable noise.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mpgd.limits.drivers import DrivingNoise
from mpgd.noise import ChaoticNoise, NoiseState, StableNoise
from mpgd.noise.counter_hash import step_key
from mpgd.noise.engines import has_numba, use_fused
from mpgd.noise.engines.threads import SMALLEST_PART, in_parts

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
    if isinstance(noise, ChaoticNoise) and use_fused(noise.engine, state.word.device):
        return _chaotic_stream(noise, state)
    if isinstance(noise, StableNoise) and has_numba():
        return _stable_stream(noise, state)
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


def _chaotic_stream(noise: ChaoticNoise, state: NoiseState) -> Fill:
    from mpgd.noise.engines import fused

    words, clock = fused.flat(state.word), _Clock(state)
    constants = fused.arguments(noise.driver)

    def fill(out: Tensor) -> None:
        values, keys = out.view(len(out), -1).numpy(), clock.keys(len(out))

        def run(first: int, last: int) -> None:
            part = words[first:last]
            for row, key in zip(values, keys, strict=True):
                fused.advance_values(part, row[first:last], first, key, *constants)

        in_parts(len(words), run, smallest=max(1, SMALLEST_PART // max(1, len(keys))))

    return fill


def _stable_stream(noise: StableNoise, state: NoiseState) -> Fill:
    from mpgd.limits.stable_kernel import stable_block

    n, clock = state.word.numel(), _Clock(state)

    def fill(out: Tensor) -> None:
        values, keys = out.view(-1).numpy(), clock.keys(len(out))
        in_parts(
            n,
            lambda first, last: stable_block(values, n, first, last, keys, noise.alpha, noise.beta),
            smallest=max(1, SMALLEST_PART // (8 * max(1, len(keys)))),  # each costs 8 chaotic ones
        )

    return fill


def _stepwise_stream(noise: DrivingNoise, state: NoiseState) -> Fill:
    def fill(out: Tensor) -> None:
        nonlocal state
        for row in out:
            value, state = noise.step(state)
            row.copy_(value)

    return fill


class _Clock:
    """The keys of the next steps of a state."""

    def __init__(self, state: NoiseState) -> None:
        self.key, self.step = int(state.key), int(state.step)

    def keys(self, count: int) -> NDArray[np.uint64]:
        steps = range(self.step, self.step + count)
        self.step += count
        return np.array([step_key(self.key, k) % 2**64 for k in steps], dtype=np.uint64)
