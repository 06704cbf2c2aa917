"""How large a perturbation is: in a phase, in a burst, over many steps; warnings; the recipe.

With strengths m = mu eta^gamma1 and n = sigma eta^gamma2 of a chaotic noise with values c0 and c1,

    decay = m c0 / eta        force = n c0 / eta        burst = n |c1|

are what a laminar phase bends and tilts the loss by, and one burst. Sums of N values grow like
N^gamma, so over N steps the additive push comes to about its root mean square times N^gamma. Where
phases have at most L steps, that holds to N = L, and beyond the growth is N^(1/2).
"""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Container, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from mpgd.noise import ChaoticNoise, Noise
from mpgd.noise.driver import outside_modes
from mpgd.noise.phased import PhasedNoise
from mpgd.optim.displacement.reference import strengths
from mpgd.optim.settings import (
    DEFAULTS,
    NAMES,
    PREFIX,
    SIZES,
    Keywords,
    Settings,
    check_noise,
    make_noises,
    make_settings,
)
from mpgd.parameters import check_integer, check_nonnegative
from mpgd.sharding import local

WATCHED_STEPS: Final = 1000  # over so many the push is compared with the weights
LEARNING_RATES: Final = ("lr", "initial_lr", "max_lr")  # as schedulers name them in a group
STOP: Final = 0.75  # of the steps: a training ends with plain ones
PIECE: Final = 1 << 18  # elements that are widened at a time
SAME_NOISE: Final = (
    "two optimizers have the same seed, and so give different tensors the same noise: give one of "
    'them a stream of its own, seed=(0, "critic"), or number the parameters of the model that '
    "they share by mpgd.optim.number_parameters"
)


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
    m, n = strengths(eta, *settings.sizes, settings.exponents)
    first, second = (noise.spread(settings.twins) for noise in settings.noises)
    return abs(float(m)) * first, abs(float(n)) * second


def phase_pushes(settings: Settings, eta: float) -> list[tuple[float, float] | tuple[None, None]]:
    """Return what a step in a phase and one burst push by, for both noises; None without phases."""
    scales = strengths(eta, *settings.sizes, settings.exponents)
    return [
        (None, None)
        if driver is None or not driver.has_phases
        else (abs(float(scale)) * driver.laminar_value, abs(float(scale) * driver.burst_value))
        for scale, driver in zip(scales, settings.drivers, strict=True)
    ]


def growth(noise: Noise, steps: int) -> float:
    """Return what the size of a value is multiplied by over so many steps.

    Examples:
        >>> growth(ChaoticNoise(0.75), 16), growth(ChaoticNoise(0.75, longest=16), 64)
        (8.0, 16.0)
    """
    if not isinstance(noise, ChaoticNoise) and hasattr(noise, "displacement"):
        return float(noise.displacement(steps)) / noise.spread()
    longest = getattr(noise, "longest", None)
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
        if part.is_floating_point():
            # halves and float8 are widened, a piece at a time
            pieces = torch.split(part.reshape(-1), PIECE) if part.dtype.itemsize < 4 else (part,)
            for piece in pieces:
                wide = piece.float() if piece.dtype.itemsize < 4 else piece
                total += float(torch.linalg.vector_norm(wide)) ** 2
            count += part.numel()
    return math.sqrt(total / count) if count else 0.0


def size_of_weights(group: Mapping[str, Any], groups: Iterable[Mapping[str, Any]]) -> float:
    """Return the root mean square of a group's matrices and kernels, else of all groups' matrices.

    Norm layers start at 1 and biases at 0, so they count only where there is nothing else.
    """
    every = (p for each in groups for p in each["params"] if p.dim() >= 2)
    own = root_mean_square(p for p in group["params"] if p.dim() >= 2)
    return own or root_mean_square(every) or root_mean_square(group["params"])


def warn_if_silent(groups: Sequence[Mapping[str, Any]], prefix: str) -> None:
    """Warn if no group asks for a perturbation, be it a force of 0, or for stochastic rounding."""
    silent = {"mu": 0, "sigma": 0, "decay": None, "force": None, "rounding": "nearest"}
    if any(group[prefix + name] != value for group in groups for name, value in silent.items()):
        return
    warnings.warn(
        "no parameter is perturbed: give strength and steps, or force=0 if that is meant",
        UserWarning,
        stacklevel=level_of_user(),
    )


def warn_if_same_noise(optimizer: Any, settings: list[Settings], others: Iterable[Any]) -> None:
    """Warn if another optimizer that has not stepped yet gives other tensors the same noise."""
    pairs = zip(optimizer.param_groups, settings, strict=True)
    mine = {optimizer._key_of(p, s): p for g, s in pairs if s.is_perturbed for p in g["params"]}
    for other in others:
        counts = [state["step"] for state in other._orbits.values() if "step" in state]
        with outside_modes():  # a fake tensor's value is not known
            has_stepped = any(int(count) for count in counts if type(count) is Tensor)
        if other is optimizer or has_stepped:
            continue
        if any(mine.get(key, p) is not p for p, (_, key) in other._keys.items()):
            warnings.warn(SAME_NOISE, UserWarning, stacklevel=level_of_user())
            return


def warn_if_large(
    groups: Sequence[Mapping[str, Any]],
    settings: Sequence[Settings],
    prefix: str,
    recipe: Container[int] = (),
) -> None:
    """Warn of the first group whose perturbation exceeds its weights' root mean square.

    Zeros are not compared with. In the groups ``recipe`` a strength has set the force.
    """
    parts = [local(p) for group in groups for p in group["params"]]
    # a meta or fake tensor has no numbers to look at
    are_real = all(type(x) in (Tensor, nn.Parameter) and not x.is_meta for x in parts)
    for number, (group, each) in enumerate(zip(groups, settings, strict=True)):
        eta = float(group["lr"])
        weights = size_of_weights(group, groups) if each.is_perturbed and eta and are_real else 0.0
        if not 0.0 < weights < math.inf:
            continue
        share, push = accumulated(each, eta, WATCHED_STEPS)
        burst = [size or 0.0 for _, size in phase_pushes(each, eta)]
        long, short = share + push / weights, burst[0] + burst[1] / weights
        if long <= 1.0 and short <= 1.0:
            continue
        given = ["strength"] if number in recipe else [n for n in SIZES if group.get(prefix + n)]
        warnings.warn(
            f"the perturbation of group {number} is larger than its weights, whose root mean "
            f"square is {weights:.2g}: over {WATCHED_STEPS} steps it comes to about {long:.2g} "
            f"times that, one burst to {short:.2g} times; lower {' and '.join(given)}, see "
            "mpgd.perturbation_sizes, or ignore mpgd.optim.PerturbationWarning",
            PerturbationWarning,
            stacklevel=level_of_user(),
        )
        return


def level_of_user() -> int:
    """Return how many calls up the first one is that is neither ours nor torch's."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and re.match(r"(mpgd|torch)\b", frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    return level


@dataclass(frozen=True)
class PerturbationSize:
    """How large a group's perturbation is at its present step size.

    Attributes:
        multiplicative: the root mean square of mu lr^gamma v1, relative to a coordinate.
        additive: the root mean square of sigma lr^gamma v2. Stable noise has none: its scale.
        step_size: the present lr.
        force: the push of one laminar step divided by lr, sigma c0 lr^(gamma-1), in units of the
            gradient. Symmetric noise has up to twice that. None without phases.
        decay: likewise mu c0 lr^(gamma-1), a curvature.
        burst: the push of one burst, sigma lr^gamma abs(c1). None without phases.
        accumulated: what the additive push comes to over the steps that were asked for: its root
            mean square times steps^gamma (steps^(1/2) for Gaussian noise, and beyond ``longest``).
        relative: accumulated, over the root mean square of the group's weights, plus the same of
            the multiplicative push, which is relative already. None if all weights are 0. A group
            of biases and norms has the matrices of all groups as its unit, if there are any.
        reach: force over the root mean square of the group's gradients: below 1 a phase cannot
            climb a slope as steep as the present one. None without gradients or phases, and around
            an optimizer other than SGD.

    Examples:
        >>> PerturbationSize(multiplicative=0.01, additive=0.02, step_size=0.1).additive
        0.02
    """

    multiplicative: float
    additive: float
    step_size: float
    force: float | None = None
    decay: float | None = None
    burst: float | None = None
    accumulated: float | None = None
    relative: float | None = None
    reach: float | None = None


def perturbation_sizes(optimizer: Optimizer, steps: int | None = None) -> list[PerturbationSize]:
    """Return one `PerturbationSize` per parameter group.

    ``reach`` reads the gradients, and ``steps`` the weights. Momentum p adds gradients up to
    1/(1 - p) of them; so ``reach`` is (1 - p) times what it is without. An optimizer other than SGD
    has none: compare the force with its update divided by lr, about 1 for Adam.

    Args:
        optimizer: a perturbed optimizer, or any other, which has sizes 0.
        steps: over how many steps the pushes are added up.

    Examples:
        >>> from mpgd import MPGD
        >>> optimizer = MPGD([nn.Parameter(nn.Linear(2, 2).weight.data)], lr=1.0, sigma=0.5)
        >>> round(perturbation_sizes(optimizer)[0].additive, 4)
        0.514
    """
    steps = None if steps is None else check_integer("steps", steps, 1)
    sizes = []
    for group in optimizer.param_groups:
        # with the prefix or without it: an optimizer around ours has its groups too
        own = {name.removeprefix(PREFIX): group[name] for name in group if name.startswith(PREFIX)}
        own = own or {name: group[name] for name in NAMES if name in group}
        eta, settings = float(group["lr"]), make_settings({**vars(DEFAULTS), **own})
        if not settings.is_perturbed or eta == 0:
            sizes.append(PerturbationSize(0.0, 0.0, eta))
            continue
        (bend, _), (push, burst) = phase_pushes(settings, eta)
        decay, force = (None if each is None else each / eta for each in (bend, push))
        size = PerturbationSize(*sizes_of(settings, eta), eta, force, decay, burst)
        slope = _slope(group) if isinstance(optimizer, torch.optim.SGD) else None
        if force is not None and slope:
            size = replace(size, reach=force / slope)
        if steps is not None:
            share, total = accumulated(settings, eta, steps)
            weights = size_of_weights(group, optimizer.param_groups)
            relative = share + total / weights if weights else None
            size = replace(size, accumulated=total, relative=relative)
        sizes.append(size)
    return sizes


def _slope(group: dict[str, Any]) -> float | None:
    """Return the size of what SGD's momentum makes of the present gradients."""
    gradients = [p.grad for p in group["params"] if p.grad is not None]
    momentum, dampening = (float(group.get(name, 0.0)) for name in ("momentum", "dampening"))
    if not gradients or momentum >= 1.0:
        return None
    return root_mean_square(gradients) * (1.0 - dampening) / (1.0 - momentum)


def resolve_strength(
    groups: Sequence[MutableMapping[str, Any]],
    keywords: Keywords,
    prefix: str,
    strength: float | None,
    steps: int | None,
) -> set[int]:
    """Write force and stop into the groups that have no size of their own; return their numbers.

    ``strength`` is ``relative`` of `perturbation_sizes` over the ``steps`` of the training, which
    is proportional to the force. A scheduler may have begun a warm-up: the highest learning rate
    that a group names counts.
    """
    if strength is None and steps is None:
        return set()
    if strength is None or steps is None:
        raise ValueError(
            f"strength and steps are given together, got strength={strength!r}, steps={steps!r}"
        )
    strength, steps = check_nonnegative("strength", strength), check_integer("steps", steps, 1)
    for name in SIZES:
        if value := getattr(keywords, name):
            raise ValueError(f"strength sets the force, got {name}={value!r} too")
    resolved = set()
    for number, group in enumerate(groups):
        if any(prefix + name in group for name in SIZES):
            continue
        own = {n: group.get(prefix + n, getattr(keywords, n)) for n in NAMES}
        if own["stop"] is None:
            own["stop"] = round(STOP * steps)
        start = check_integer("start", own["start"], 0)
        if start >= check_integer("stop", own["stop"], 0):
            raise ValueError(f"start must lie before stop, here {own['stop']}, got start={start}")
        check_noise(own)
        noise = make_noises(own)[1]
        if not isinstance(noise, PhasedNoise):
            raise ValueError(
                "strength needs a noise with phases, such as ChaoticNoise or TelegraphNoise, got "
                f"noise={noise!r}: give sigma"
            )
        eta = max(float(group[name]) for name in LEARNING_RATES if name in group)
        _, push = accumulated(make_settings(own | {"force": 1.0}), eta, steps)
        weights = size_of_weights(group, groups)
        if strength and not (push and weights):
            raise ValueError(
                "strength compares the noise with the weights at this lr, got "
                f"lr={eta!r} and weights of root mean square {weights:.3g}: give force"
            )
        own["force"] = strength * weights / push if strength else 0.0
        group.update({prefix + name: own[name] for name in ("force", "stop")})
        resolved.add(number)
    return resolved
