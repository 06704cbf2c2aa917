"""The displacement x <- (x - m x) + n of a group's parameters, before the optimizer's own step.

    reference   plain torch operations, on any device and for any noise: the truth
    gpu_kernel  the kernel in Triton: one launch for all parameters of a group
    traced      the whole as one operator that `torch.compile` does not look into

On a CPU a kernel in C takes all parameters of a group in one call. A kernel gets rows of addresses,
not tensors, because unpacking an array costs more than displacing a thousand elements. It trusts
them, so `mpgd.optim.state.check_orbits` comes first. All of them give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from mpgd.noise import NoiseState
from mpgd.noise.counter_hash import make_key
from mpgd.noise.engines import FLOATS, cpu, kernel_for
from mpgd.noise.engines.cpu import Row, Term
from mpgd.optim.displacement import reference
from mpgd.optim.displacement.reference import Target
from mpgd.optim.distributed import are_overlapping
from mpgd.optim.settings import TWIN, Settings
from mpgd.optim.state import SHARED, State, int_scalar
from mpgd.optim.update import strengths

_PLAIN: Final = (Tensor, nn.Parameter)


def displace(targets: Sequence[Target], settings: Settings, eta: float, m: float | None) -> None:
    """Displace local parts of parameters that are due, and advance their orbits.

    Args:
        targets: the parts.
        settings: of their group.
        eta: the step size, above 0.
        m: of the shared multiplicative driver; None if there is none.
    """
    due = [target for target in targets if settings.is_active(target.step)]
    if len(due) > 1 and are_overlapping([target.x for target in due]):
        # threads would race on shared memory: one after the other
        for target in due:
            displace([target], settings, eta, m)
        return
    scales = _scales(settings, eta)
    shared = None if m is None else scales[0] * m
    alike: dict[tuple[torch.dtype, torch.device], list[Target]] = {}
    for target in due:
        alike.setdefault((target.x.dtype, target.x.device), []).append(target)
    for (dtype, device), some in alike.items():
        kernel = kernel_for(settings.engine, device)
        takes = kernel is not None and dtype in FLOATS[kernel]
        if kernel == "triton" and any(d and d.is_stable for d in settings.drivers):
            takes = False  # that kernel has float32 only
        rows = [_row(target) if takes else None for target in some]
        lines = [row for row in rows if row is not None]
        if lines and kernel == "triton":
            from mpgd.optim.displacement.gpu_kernel import launch

            launch(lines, dtype, device, settings, scales, shared)
        elif lines:
            cpu.displace(lines, dtype, *_terms(settings, scales, shared), twins=settings.twins)
        pairs = list(zip(some, rows, strict=True))
        for target in [target for target, row in pairs if row is None]:
            reference.displace(target, settings, scales, shared)
        if lines:
            # autograd saw nothing of it
            increment_version([target.x for target, row in pairs if row is not None])


@lru_cache(maxsize=256)
def _scales(settings: Settings, eta: float) -> tuple[float, float]:
    m, n = strengths(eta, *settings.sizes, settings.exponents)
    return float(m), float(n)


@lru_cache(maxsize=256)
def _terms(
    settings: Settings, scales: tuple[float, float], shared: float | None
) -> tuple[Term | None, Term | None]:
    """Return m and n for the CPU's kernel; None for a noise that is not in use."""
    m, n = (
        Term(driver, scale) if size else None
        for driver, scale, size in zip(settings.drivers, scales, settings.sizes, strict=True)
    )
    return (m if shared is None else Term(None, shared)), n


def _row(target: Target) -> Row | None:
    """Return a part as a row; None if its elements are not one after the other."""
    x, offset = target.x, target.place.offset
    if offset is None or type(x) not in _PLAIN or not x.is_contiguous():
        return None
    words = [0] * (2 * TWIN)
    for number, orbit in target.orbits.items():
        words[number] = orbit.data_ptr()
    m, n, twin_m, twin_n = words
    return Row(x.data_ptr(), m, n, twin_m, twin_n, x.numel(), offset, target.key, target.step)


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
