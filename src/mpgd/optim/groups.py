"""Parameter groups for the usual wishes, and the recipe: a strength as force and stop.

``relative`` of `mpgd.perturbation_sizes` is how far a typical weight is pushed over the training,
in units of the weights' root mean square. It is proportional to the force. So a strength and a
number of steps give the force, and the noise stops after three quarters of the steps: a training
ends with plain steps.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Final

from torch import Tensor, nn

from mpgd.noise.phased import PhasedNoise
from mpgd.optim.diagnostics import SIZES, accumulated, root_mean_square
from mpgd.optim.settings import (
    NAMES,
    PREFIX,
    Keywords,
    make_noises,
    make_settings,
    refuse_unknown,
)
from mpgd.parameters import check_integer, check_nonnegative

STOP: Final = 0.75  # of the steps
SGD_KEYWORDS: Final = (
    *("momentum", "dampening", "weight_decay", "nesterov"),
    *("maximize", "foreach", "fused"),
)


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
        wrapped: whether the groups are for `mpgd.perturb` or `mpgd.perturbed`, whose settings have
            the prefix ``perturbation.``.
        settings: of the perturbed group, such as ``mu`` and ``sigma``.

    Examples:
        >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        >>> groups = param_groups(model, perturb="first", mu=0.03, sigma=0.01)
        >>> [len(group["params"]) for group in groups], groups[1]["mu"]
        ([2, 2], 0.0)
    """
    prefix = PREFIX if wrapped else ""
    refuse_unknown(settings, NAMES if wrapped else ("lr", *NAMES, *SGD_KEYWORDS), prefix)
    chosen = perturb if callable(perturb) else _named_choice(model, perturb)
    named = list(model.named_parameters())
    inside = [(name, p) for name, p in named if chosen(name, p)]
    names = {name for name, _ in inside}
    outside = [(name, p) for name, p in named if name not in names]
    if not inside:
        raise ValueError(f"perturb chose none of {[name for name, _ in named]}")
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


def resolve_strength(
    groups: Sequence[MutableMapping[str, Any]],
    keywords: Keywords,
    prefix: str,
    strength: float | None,
    steps: int | None,
) -> set[int]:
    """Write force and stop into the groups that have no size of their own; return their numbers.

    Args:
        groups: of the optimizer.
        keywords: of the optimizer.
        prefix: of the keywords in the groups.
        strength: the sum of pushes over the weights, as `perturbation_sizes` gives it.
        steps: of the whole training.
    """
    if strength is None and steps is None:
        return set()
    if strength is None or steps is None:
        raise ValueError(
            f"strength and steps are given together, got strength={strength!r}, steps={steps!r}"
        )
    strength, steps = check_nonnegative("strength", strength), check_integer("steps", steps, 1)
    sizes = {name: getattr(keywords, name) for name in SIZES}
    if given := [name for name, value in sizes.items() if value]:
        raise ValueError(f"strength sets the force, got {given[0]}={sizes[given[0]]!r} too")
    resolved = set()
    for number, group in enumerate(groups):
        if any(prefix + name in group for name in sizes):
            continue
        own = {n: group.get(prefix + n, getattr(keywords, n)) for n in NAMES}
        if own["stop"] is None:
            own["stop"] = max(own["start"], round(STOP * steps))
        noise = make_noises(own)[1]
        if not isinstance(noise, PhasedNoise):
            raise ValueError(
                "strength needs a noise with phases, such as ChaoticNoise or TelegraphNoise, got "
                f"noise={noise!r}: give sigma"
            )
        unit = make_settings(own | {"force": 1.0})
        _, push = accumulated(unit, float(group["lr"]), steps)
        weights = root_mean_square(group["params"])
        if strength and not (push and weights):
            raise ValueError(
                "strength compares the noise with the weights at this lr, got "
                f"lr={group['lr']!r} and weights of root mean square {weights:.3g}: give force"
            )
        own["force"] = strength * weights / push if strength else 0.0
        group.update({prefix + name: own[name] for name in ("force", "stop")})
        resolved.add(number)
    return resolved
