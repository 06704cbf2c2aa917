"""Whether an optimizer that has loaded a checkpoint can step from it.

Torch loads a state without looking into it, and a missing or wrong entry shows at the next step,
half of which is done by then. Here a small parameter takes one step with the same class and
settings; its state shows which entries there must be, and of which shape.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence, Set
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from mpgd.optim.settings import check_learning_rate

OPTIONAL = ("momentum_buffer",)  # may be None until the first step
HOW = ("foreach", "fused", "capturable", "differentiable")  # say how to compute, not what


def check_loaded(optimizer: Optimizer, names: Sequence[Set[str]]) -> None:
    """Raise if a group or a state is one that the optimizer's class could not have made.

    Args:
        optimizer: which has loaded a checkpoint.
        names: of the settings that each group must have.
    """
    is_torchs = type(optimizer).__module__.startswith("torch.optim.")
    ordinal = 0
    for number, group in enumerate(optimizer.param_groups):
        missing = names[number] - group.keys()
        if missing:
            raise ValueError(f"param_groups[{number}] lacks {sorted(missing)}")
        if "lr" in group:
            check_learning_rate(group["lr"])
        for parameter in group["params"]:
            values = optimizer.state.get(parameter)
            if is_torchs:
                _check_shapes(optimizer, number, ordinal, parameter, values)
            if isinstance(values, Mapping):
                _check_values(ordinal, values)
            ordinal += 1


def _check_values(ordinal: int, values: Mapping[Any, Any]) -> None:
    """Raise on a tensor without dense memory and on a step count that is none."""
    for name, value in values.items():
        if isinstance(value, Tensor) and (value.layout is not torch.strided or value.is_meta):
            raise ValueError(
                f"{name!r} of parameter {ordinal} must be a dense tensor with memory, got layout "
                f"{value.layout} on {value.device}"
            )
    step = values.get("step")
    if isinstance(step, Tensor) and step.numel() == 1:
        step = step.item()
    if isinstance(step, (int, float)) and not 0 <= step < float("inf"):
        raise ValueError(f"'step' of parameter {ordinal} must be at least 0, got {step}")


def _check_shapes(
    optimizer: Optimizer, number: int, ordinal: int, parameter: Tensor, values: Any
) -> None:
    """Raise if a state lacks an entry, or one has not the shape that its class would give it."""
    group = optimizer.param_groups[number]
    start, model, stepped = _probed(optimizer, number, group, parameter)
    if not values and values is not None and not start:
        return  # it is made in the first step
    if values is None and not start:
        return
    if not isinstance(values, Mapping):
        raise ValueError(f"the state of parameter {ordinal} must be a dict, got {values!r}")
    for name, expected in (stepped or {}).items():
        if name not in values:
            raise ValueError(f"the state of parameter {ordinal} lacks {name!r}")
        found = values[name]
        if not isinstance(expected, Tensor) or (found is None and name in OPTIONAL):
            continue
        is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
        if expected.dim() == 0 and is_number:
            continue
        if not isinstance(found, Tensor):
            raise ValueError(f"{name!r} of parameter {ordinal} must be a tensor, got {found!r}")
        rule = parameter.shape if expected.shape == model.shape else expected.shape
        if expected.shape in (model.shape, ()) and found.shape != rule:
            raise ValueError(
                f"{name!r} of parameter {ordinal} must have shape {tuple(rule)}, "
                f"got {tuple(found.shape)}"
            )


def _probed(
    optimizer: Optimizer, number: int, group: Mapping[str, Any], parameter: Tensor
) -> tuple[dict[str, Any], Tensor, dict[str, Any] | None]:
    """Return the state of a small parameter before and after one step, and that parameter.

    The second state is None for a class that cannot take a step like this.
    """
    kind = type(optimizer)
    names = inspect.signature(kind).parameters
    given = {name: group[name] for name in names if name in group and name not in ("params", *HOW)}
    model = nn.Parameter(torch.zeros((2,) * parameter.dim(), dtype=parameter.dtype))
    try:
        probe = kind([model], **given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"param_groups[{number}]: {error}") from error
    start = dict(probe.state.get(model, {}))
    model.grad = torch.zeros_like(model)
    try:
        probe.step()
    except Exception:  # one that needs a closure, sparse gradients or a matrix says so
        return start, model, None
    return start, model, dict(probe.state.get(model, {}))
