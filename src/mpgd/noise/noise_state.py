"""The state of a noise: the orbit, the step count and the key, all tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mpgd.noise.counter_hash import make_key
from mpgd.noise.word import FAR, FRACTION, LONG, MAGNITUDE, ONE
from mpgd.parameters import check_integer, check_seed


@dataclass(frozen=True, eq=False)
class NoiseState:
    """What a noise needs to go on.

    Attributes:
        word: the orbits; those of chaotic noise are int32 words, see `mpgd.noise.word`. Noises
            without memory keep only the shape here, in an expanded zero.
        step: how many steps were taken, an int64 scalar.
        key: the stream, an int64 scalar made from (seed, tensor, driver).

    Examples:
        >>> words = torch.ones(3, dtype=torch.int32)
        >>> NoiseState(words, torch.tensor(0), torch.tensor(7)).word.shape
        torch.Size([3])
    """

    word: Tensor
    step: Tensor
    key: Tensor


def position(state: NoiseState) -> Tensor:
    """Return s of a chaotic noise, a float64 tensor on the CPU: s < 1 is Z, else s steps to go.

    s is exact to 2^-18. After a phase of 4096 steps and more, and in it, the fraction of s is not
    known until the next visit to Z; then s is given as n + 1/2.

    Examples:
        >>> words = torch.tensor([3 << 17, -(2**31) + (3 << 17), 5 << 18], dtype=torch.int32)
        >>> position(NoiseState(words, torch.tensor(0), torch.tensor(7))).tolist()
        [1.5, 1.5, 5.5]
    """
    q = state.word.detach().cpu() & MAGNITUDE
    s = q.to(torch.float64) / ONE
    s = torch.where(q & FRACTION == 0, s + 0.5, s)
    return torch.where(q >= LONG, (q - LONG).to(torch.float64) + (FAR + 0.5), s)


def sign(state: NoiseState) -> Tensor:
    """Return chi of a chaotic noise, +1 or -1, an int32 tensor on the state's device.

    Examples:
        >>> words = torch.tensor([7, -7], dtype=torch.int32)
        >>> sign(NoiseState(words, torch.tensor(0), torch.tensor(7))).tolist()
        [1, -1]
    """
    return 1 + 2 * (state.word >> 31)


def new_state(
    shape: tuple[int, ...], seed: int, device: torch.device, tensor_id: int, driver_id: int
) -> NoiseState:
    """Return the state of a noise without memory at step 0."""
    tensor_id = check_integer("tensor_id", tensor_id, 0)
    driver_id = check_integer("driver_id", driver_id, 0)
    key = make_key(check_seed(seed), tensor_id, driver_id)
    return NoiseState(
        word=torch.zeros((), dtype=torch.int32, device=device).expand(shape),
        step=torch.zeros((), dtype=torch.int64, device=device),
        key=torch.tensor(key, dtype=torch.int64, device=device),
    )
