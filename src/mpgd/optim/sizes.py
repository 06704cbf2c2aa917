"""How far a perturbation pushes: in a phase, in a burst, over many steps; and a warning.

With strengths m = mu eta^gamma1 and n = sigma eta^gamma2 of a chaotic noise with values c0 and c1,

    decay = m c0 / eta        force = n c0 / eta        burst = n |c1|

are what a laminar phase bends and tilts the loss by, and one kick. Sums of N values grow like
N^gamma, so over N steps the additive push comes to about its root mean square times N^gamma. Where
phases have at most L steps, that holds to N = L, and beyond the growth is N^(1/2).
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any, Final, TypeGuard

import torch
from torch import Tensor, nn

from mpgd.noise import ChaoticNoise, Noise
from mpgd.noise.driver import Driver
from mpgd.optim.settings import Settings
from mpgd.optim.shards import local
from mpgd.optim.update import strengths

WATCHED_STEPS: Final = 1000  # over so many the push is compared with the weights


class PerturbationWarning(UserWarning):
    """The perturbation is larger than the weights it perturbs.

    Examples:
        >>> from mpgd import MPGD
        >>> weights = nn.Parameter(torch.ones(3))
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", PerturbationWarning)
        ...     optimizer = MPGD([weights], lr=0.1, sigma=100.0)
    """


def sizes_of(settings: Settings, eta: float) -> tuple[float, float]:
    """Return the root mean squares of the multiplicative and the additive term."""
    scales = strengths(eta, *settings.sizes, settings.exponents)
    first, second = (
        abs(float(scale)) * noise.spread(settings.twins)
        for scale, noise in zip(scales, settings.noises, strict=True)
    )
    return first, second


def phase_pushes(settings: Settings, eta: float) -> tuple[float | None, float | None]:
    """Return decay and force; None for a noise that has no phases."""
    scales = strengths(eta, *settings.sizes, settings.exponents)
    first, second = (
        abs(float(scale)) * driver.laminar_value / eta if _has_phases(driver) else None
        for scale, driver in zip(scales, settings.drivers, strict=True)
    )
    return first, second


def bursts(settings: Settings, eta: float) -> tuple[float | None, float | None]:
    """Return what one visit to Z multiplies and pushes by; None for a noise that has none."""
    scales = strengths(eta, *settings.sizes, settings.exponents)
    first, second = (
        abs(float(scale) * driver.burst_value) if _has_phases(driver) else None
        for scale, driver in zip(scales, settings.drivers, strict=True)
    )
    return first, second


def _has_phases(driver: Driver | None) -> TypeGuard[Driver]:
    return driver is not None and not driver.is_normal


def growth(noise: Noise, steps: int) -> float:
    """Return what the size of a value is multiplied by over so many steps.

    Examples:
        >>> growth(ChaoticNoise(0.75), 16), growth(ChaoticNoise(0.75, longest=16), 64)
        (8.0, 16.0)
    """
    longest = noise.longest if isinstance(noise, ChaoticNoise) else None
    if longest is None or steps <= longest:
        return math.pow(steps, noise.exponent)
    return math.pow(longest, noise.exponent) * math.sqrt(steps / longest)


def accumulated(settings: Settings, eta: float, steps: int) -> tuple[float, float]:
    """Return what both terms come to over ``steps`` steps, as far as these are perturbed."""
    end = steps if settings.stop is None else min(steps, settings.stop)
    steps = max(0, end - settings.start)
    pairs = zip(sizes_of(settings, eta), settings.noises, strict=True)
    first, second = (size * growth(noise, steps) if steps else 0.0 for size, noise in pairs)
    return first, second


def root_mean_square(tensors: Iterable[Tensor]) -> float:
    """Return the root mean square of all elements of local parts; 0 if there are none.

    The integers of a quantized layer, which no step changes, do not count.

    Examples:
        >>> root_mean_square([torch.tensor([6.0, -8.0]), torch.zeros(2)])
        5.0
    """
    total, count = 0.0, 0
    for tensor in tensors:
        part = local(tensor.detach())
        if not part.is_floating_point():
            continue
        if part.dtype.itemsize == 1:  # float8, which has no norm
            part = part.float()
        norm = torch.linalg.vector_norm(part, dtype=_wide(part.dtype))
        total, count = total + float(norm) ** 2, count + part.numel()
    return math.sqrt(total / count) if count else 0.0


def update_size(group: Mapping[str, Any], old: Mapping[Tensor, Tensor]) -> float | None:
    """Return the root mean square of what an optimizer did to a group's old values, over lr."""
    eta = float(group["lr"])
    moved = [local(p) - old[p] for p in group["params"] if p.grad is not None]
    return root_mean_square(moved) / eta if moved and eta else None


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def warn_if_large(number: int, group: Mapping[str, Any], settings: Settings) -> bool:
    """Warn if a group's perturbation exceeds the size of its weights; return whether it does.

    That is their root mean square: biases that start at 0 count as the small part of a group that
    they are, and a group of zeros is not compared with.
    """
    eta = float(group["lr"])
    parts = [local(p) for p in group["params"]]
    if not settings.is_perturbed or eta == 0 or not all(map(_is_real, parts)):
        return False
    weights = root_mean_square(parts)
    if not 0.0 < weights < math.inf:
        return False
    share, push = accumulated(settings, eta, WATCHED_STEPS)
    kick = [size or 0.0 for size in bursts(settings, eta)]
    long, short = share + push / weights, kick[0] + kick[1] / weights
    if long <= 1.0 and short <= 1.0:
        return False
    warnings.warn(
        f"the perturbation of group {number} is larger than its weights, whose root mean square is "
        f"{weights:.2g}: over {WATCHED_STEPS} steps it comes to about {long:.2g} times that, one "
        f"burst to {short:.2g} times; lower sigma and mu (or force and decay), see "
        "mpgd.perturbation_sizes, or ignore mpgd.optim.PerturbationWarning",
        PerturbationWarning,
        stacklevel=level_of_user(),
    )
    return True


def level_of_user() -> int:
    """Return how many calls up the first one is that is neither ours nor torch's."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and _package(frame) in ("mpgd", "torch"):
        frame, level = frame.f_back, level + 1
    return level


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _is_real(x: Tensor) -> bool:
    """Return whether a tensor has numbers to look at; a meta or fake one has none."""
    return type(x) in (Tensor, nn.Parameter) and not x.is_meta
