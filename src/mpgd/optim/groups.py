"""Parameter groups for the usual wishes, and how large the perturbation is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from mpgd.optim.misnamed import refuse_unknown
from mpgd.optim.settings import NAMES, PREFIX, Settings, keywords_in, make_settings
from mpgd.optim.sizes import accumulated, bursts, phase_pushes, root_mean_square, sizes_of
from mpgd.optim.torch_keywords import TORCHS
from mpgd.optim.wrapper import Perturbed
from mpgd.parameters import check_integer


def param_groups(
    model: nn.Module,
    perturb: Callable[[str, Tensor], bool] | str = "all",
    *,
    wrapped: bool = False,
    **settings: Any,
) -> list[dict[str, Any]]:
    """Return two groups: the parameters to perturb, with ``settings``, and the rest, plain.

    Args:
        model: whose parameters.
        perturb: a function of (name, parameter), or ``"all"``, ``"first"`` (the first module
            with parameters of its own, the input layer), ``"matrices"`` (no biases and norms:
            parameters of at least two dimensions).
        wrapped: whether the groups are for an optimizer that `mpgd.perturb` wraps; settings then
            have the prefix ``perturbation.``.
        settings: of the perturbed group, such as ``mu`` and ``sigma``.

    Examples:
        >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        >>> groups = param_groups(model, perturb="first", mu=0.03, sigma=0.01)
        >>> [len(group["params"]) for group in groups], groups[1]["mu"]
        ([2, 2], 0.0)
    """
    if not wrapped:  # else `mpgd.perturb` does it
        refuse_unknown(settings, ("lr", *NAMES, *TORCHS), "MPGD", prefix="")
    chosen = perturb if callable(perturb) else _named_choice(model, perturb)
    named = list(model.named_parameters())
    inside = [(name, p) for name, p in named if chosen(name, p)]
    names = {name for name, _ in inside}
    outside = [(name, p) for name, p in named if name not in names]
    if not inside:
        raise ValueError(f"perturb chose none of {[name for name, _ in named]}")
    prefix = PREFIX if wrapped else ""
    given = {prefix + name: value for name, value in settings.items()}
    groups: list[dict[str, Any]] = [{"params": inside, **given}]
    nothing = {"mu": 0.0, "sigma": 0.0, "force": None, "decay": None}
    plain = {prefix + name: value for name, value in nothing.items()}
    return [*groups, {"params": outside, **plain}] if outside else groups


def _named_choice(model: nn.Module, choice: str) -> Callable[[str, Tensor], bool]:
    if choice == "all":
        return lambda name, p: True
    if choice == "matrices":
        return lambda name, p: p.dim() >= 2
    if choice == "first":
        owners = [m for m in model.modules() if any(True for _ in m.parameters(recurse=False))]
        own = {id(p) for p in owners[0].parameters(recurse=False)} if owners else set()
        return lambda name, p: id(p) in own
    raise ValueError(
        f"perturb must be a function or one of 'all', 'first', 'matrices', got {choice!r}"
    )


@dataclass(frozen=True)
class PerturbationSize:
    """How large a group's perturbation is at its present step size.

    Attributes:
        multiplicative: the root mean square of mu lr^gamma v1, relative to a coordinate.
        additive: the root mean square of sigma lr^gamma v2. Stable noise has none: its scale.
        step_size: the present lr.
        force: the push of one laminar step divided by lr, sigma c0 lr^(gamma-1): what the gradient
            has to hold against. Symmetric noise has up to twice that. None without phases.
        decay: likewise mu c0 lr^(gamma-1), a curvature.
        burst: one kick, sigma lr^gamma abs(c1). None without phases.
        accumulated: what the additive push comes to over the steps that were asked for: its root
            mean square times steps^gamma (steps^(1/2) for Gaussian noise, and beyond ``longest``).
        relative: accumulated, over the root mean square of the group's weights, plus the same of
            the multiplicative push, which is relative already. None if all weights are 0.
        reach: force over the root mean square of the group's gradients: below 1 a phase cannot
            climb a slope as steep as the present one. None without gradients or phases.

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

    Most of it comes from the settings alone; ``reach`` reads the gradients once, and with ``steps``
    the weights are read too. Momentum p adds gradients up to 1/(1 - p) of them, which force has to
    hold against; so ``reach`` is (1 - p) times what it is without. The unit of `mpgd.perturb` is
    the inner optimizer's update divided by lr. That is measured only when it was asked for: a call
    makes the next step measure it, and the call after that step returns ``reach``.

    Args:
        optimizer: an `mpgd.MPGD`, a `mpgd.perturb`, or any other, which has sizes 0.
        steps: over how many steps the pushes are added up.

    Examples:
        >>> from mpgd.optim.descent import MPGD
        >>> optimizer = MPGD([nn.Parameter(nn.Linear(2, 2).weight.data)], lr=1.0, sigma=0.5)
        >>> round(perturbation_sizes(optimizer)[0].additive, 4)
        0.514
    """
    steps = None if steps is None else check_integer("steps", steps, 1)
    found = []
    for number, group in enumerate(optimizer.param_groups):
        settings = make_settings(keywords_in(group))
        slope = _slope(optimizer, number, group) if settings.is_perturbed else None
        found.append(_size(group, settings, steps, slope))
    return found


def _size(
    group: dict[str, Any], settings: Settings, steps: int | None, slope: float | None
) -> PerturbationSize:
    eta = float(group["lr"])
    if not settings.is_perturbed or eta == 0:
        return PerturbationSize(0.0, 0.0, eta)
    decay, force = phase_pushes(settings, eta)
    size = PerturbationSize(*sizes_of(settings, eta), eta, force, decay, bursts(settings, eta)[1])
    if force is not None and slope:
        size = replace(size, reach=force / slope)
    if steps is None:
        return size
    share, push = accumulated(settings, eta, steps)
    weights = root_mean_square(group["params"])
    relative = share + push / weights if weights else None
    return replace(size, accumulated=push, relative=relative)


def _slope(optimizer: Optimizer, number: int, group: dict[str, Any]) -> float | None:
    """Return what a force is measured against: the size of the gradient, or of an inner update."""
    if isinstance(optimizer, Perturbed):
        return optimizer.measured_update(number)
    gradients = [p.grad for p in group["params"] if p.grad is not None]
    momentum, dampening = (float(group.get(name, 0.0)) for name in ("momentum", "dampening"))
    if not gradients or momentum >= 1.0:
        return None
    return root_mean_square(gradients) * (1.0 - dampening) / (1.0 - momentum)
