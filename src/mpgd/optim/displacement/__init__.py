"""The displacement x <- (x - m x) + n of a group's parameters, before the optimizer's own step.

    reference   plain torch operations, on any device and for any noise: the truth
    kernel_rows parameters as rows of integers, for the kernels
    cpu, gpu    the kernels: one call, or one launch, for all parameters of a group
    traced      the whole as one operator that `torch.compile` does not look into

All of them give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mpgd.noise import NoiseState
from mpgd.noise.counter_hash import make_key
from mpgd.optim.displacement import kernel_rows, reference
from mpgd.optim.displacement.target import Target
from mpgd.optim.settings import TWIN, Settings
from mpgd.optim.state import SHARED, State, int_scalar
from mpgd.optim.update import strengths


def displace(targets: Sequence[Target], settings: Settings, eta: float, m: float | None) -> None:
    """Displace local parts of parameters that are due, and advance their orbits.

    Args:
        targets: the parts.
        settings: of their group.
        eta: the step size, above 0.
        m: of the shared multiplicative driver; None if there is none.
    """
    due = [target for target in targets if settings.is_active(target.step)]
    if not due:
        return
    scale0, scale1 = strengths(eta, *settings.sizes, settings.exponents)
    scales = float(scale0), float(scale1)
    shared = None if m is None else scales[0] * m
    for target in kernel_rows.displace(due, settings, scales, shared):
        reference.displace(target, settings, scales, shared)


def next_shared(state: State, settings: Settings) -> float | None:
    """Return the value of a group's shared multiplicative driver, if it has one, and advance it."""
    if not settings.shared:
        return None
    step = int(state["shared_step"])
    state["shared_step"] += 1
    if not settings.is_active(step):
        return 0.0
    value = 0.0
    for sign, number, name in ((1.0, 0, "shared"), (-1.0, TWIN, "shared_twin")):
        if sign > 0 or settings.twins:
            key = int_scalar(make_key(settings.seed, SHARED, number))
            word: Tensor = state.get(name, torch.zeros((), dtype=torch.float64, device="cpu"))
            v, following = settings.noises[0].step(NoiseState(word, int_scalar(step), key))
            value += sign * float(v)
            if name in state:
                word.copy_(following.word)
    return value
