"""Parameter groups for the usual wishes, and how large the perturbation is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from mpgd.optim.settings import PREFIX, keywords_in, make_settings
from mpgd.optim.update import strengths


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
    plain = {prefix + "mu": 0.0, prefix + "sigma": 0.0}
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

    Examples:
        >>> PerturbationSize(multiplicative=0.01, additive=0.02, step_size=0.1).additive
        0.02
    """

    multiplicative: float
    additive: float
    step_size: float


def perturbation_sizes(optimizer: Optimizer) -> list[PerturbationSize]:
    """Return one `PerturbationSize` per parameter group, from its settings alone: cheap to log.

    Examples:
        >>> from mpgd.optim.descent import MPGD
        >>> optimizer = MPGD([nn.Parameter(nn.Linear(2, 2).weight.data)], lr=1.0, sigma=0.5)
        >>> round(perturbation_sizes(optimizer)[0].additive, 4)
        0.514
    """
    return [_size(group) for group in optimizer.param_groups]


def _size(group: dict[str, Any]) -> PerturbationSize:
    eta, settings = float(group["lr"]), make_settings(keywords_in(group))
    if not settings.is_perturbed or eta == 0:
        return PerturbationSize(0.0, 0.0, eta)
    scales = strengths(eta, *settings.sizes, settings.exponents)
    m, n = (
        abs(float(scale)) * noise.spread(settings.twins)
        for scale, noise in zip(scales, settings.noises, strict=True)
    )
    return PerturbationSize(m, n, eta)
