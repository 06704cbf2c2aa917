"""The state of a noise: the orbit, the step count and the key, all tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mpgd.noise.counter import make_key
from mpgd.parameters import check_integer, check_seed


@dataclass(frozen=True, eq=False)
class NoiseState:
    """What a noise needs to go on.

    Attributes:
        s: the orbits in the Abel coordinate with the sign chi in the sign bit, float64; noises
            without memory keep only the shape here, in an expanded zero.
        step: how many steps were taken, an int64 scalar.
        key: the stream, an int64 scalar made from (seed, tensor, driver).

    Examples:
        >>> NoiseState(torch.ones(3), torch.tensor(0), torch.tensor(7)).s.shape
        torch.Size([3])
    """

    s: Tensor
    step: Tensor
    key: Tensor


def new_state(
    shape: tuple[int, ...], seed: int, device: torch.device, tensor_id: int, driver_id: int
) -> NoiseState:
    """Return the state of a noise without memory at step 0."""
    tensor_id = check_integer("tensor_id", tensor_id, 0)
    driver_id = check_integer("driver_id", driver_id, 0)
    key = make_key(check_seed(seed), tensor_id, driver_id)
    return NoiseState(
        s=torch.zeros((), dtype=torch.float64, device=device).expand(shape),
        step=torch.zeros((), dtype=torch.int64, device=device),
        key=torch.tensor(key, dtype=torch.int64, device=device),
    )
