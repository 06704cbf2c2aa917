"""Whether an optimizer that has loaded a checkpoint can step from it.

Torch loads a state without looking into it, and a missing or wrong entry shows at the next step,
half of which is done by then. Here a small parameter takes two steps with the same class and
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
from mpgd.parameters import check_flag

OPTIONAL = ("momentum_buffer",)  # may be None until the first step
Known = dict[tuple[Any, ...], tuple[Tensor, dict[str, Any], dict[str, Any] | None]]


def is_torchs(optimizer: Optimizer) -> bool:
    """Return whether an optimizer is one of torch's own."""
    return type(optimizer).__module__.startswith("torch.optim.")


def check_saved(optimizer: Optimizer, saved: Mapping[str, Any]) -> None:
    """Raise if a state dict of torch's form is none that the optimizer's class has written.

    Of a class that is not torch's own nothing is known but that tensors have memory and counts are
    not negative.
    """
    known: Known = {}
    ordinal = 0
    for number, (own, group) in enumerate(
        zip(optimizer.param_groups, saved["param_groups"], strict=True)
    ):
        if "lr" in group:
            check_learning_rate(group["lr"])
        for parameter, name in zip(own["params"], group["params"], strict=True):
            values = saved["state"].get(name)
            if is_torchs(optimizer):
                key = (number, parameter.dim(), parameter.dtype, parameter.device)
                if key not in known:
                    known[key] = _probed(optimizer, number, {**own, **group}, parameter)
                if values or optimizer.state.get(parameter):  # a group added later may have none
                    _check_shapes(ordinal, parameter, values, *known[key])
            if isinstance(values, Mapping):
                _check_values(ordinal, values)
            ordinal += 1


def check_loaded(optimizer: Optimizer, names: Sequence[Set[str]]) -> None:
    """Raise if a group of an optimizer that has loaded a state lacks a setting it had before.

    Args:
        optimizer: which has loaded a checkpoint.
        names: of the settings that each group must have.
    """
    for number, group in enumerate(optimizer.param_groups):
        missing = names[number] - group.keys()
        if missing:
            raise ValueError(f"param_groups[{number}] lacks {sorted(missing)}")
        if "lr" in group:
            check_learning_rate(group["lr"])


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
    ordinal: int,
    parameter: Tensor,
    values: Any,
    model: Tensor,
    start: dict[str, Any],
    stepped: dict[str, Any] | None,
) -> None:
    """Raise if a state lacks an entry, or one has not the shape that its class would give it."""
    if not start and (values is None or values == {}):
        return  # it is made in the first step
    if not isinstance(values, Mapping):
        raise ValueError(f"the state of parameter {ordinal} must be a dict, got {values!r}")
    for name, expected in (stepped or {}).items():
        if name not in values:
            raise ValueError(f"the state of parameter {ordinal} lacks {name!r}")
        if isinstance(expected, Tensor) and not (values[name] is None and name in OPTIONAL):
            _check_tensor(
                f"{name!r} of parameter {ordinal}", parameter, values[name], model, expected
            )


def _check_tensor(
    what: str, parameter: Tensor, found: Any, model: Tensor, expected: Tensor
) -> None:
    is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
    if expected.dim() == 0 and is_number:
        return  # some write a count as a plain number
    if not isinstance(found, Tensor) or found.is_complex() != expected.is_complex():
        raise ValueError(f"{what} must be a tensor like {expected.dtype}, got {found!r}")
    rule = parameter.shape if expected.shape == model.shape else expected.shape
    if expected.shape in (model.shape, ()) and found.shape != rule:
        raise ValueError(f"{what} must have shape {tuple(rule)}, got {tuple(found.shape)}")


def _probed(
    optimizer: Optimizer, number: int, group: Mapping[str, Any], parameter: Tensor
) -> tuple[Tensor, dict[str, Any], dict[str, Any] | None]:
    """Return a small parameter, and its state before and after steps with a group's settings.

    The second state is None for a class that takes no such step, one that needs a closure, sparse
    gradients or a matrix.
    """
    try:
        return _stepped(type(optimizer), group, parameter)
    except Exception as error:
        try:
            _stepped(type(optimizer), optimizer.defaults, parameter)
        except Exception:
            return parameter, {}, None
        raise ValueError(f"param_groups[{number}]: {error}") from error


def _stepped(
    kind: type[Optimizer], group: Mapping[str, Any], like: Tensor
) -> tuple[Tensor, dict[str, Any], dict[str, Any]]:
    names = inspect.signature(kind).parameters
    given = {name: group[name] for name in names if name in group and name != "params"}
    for name in names.keys() & given.keys():
        if isinstance(names[name].default, bool):
            check_flag(name, given[name])
    model = nn.Parameter(torch.zeros((2,) * like.dim(), dtype=like.dtype, device=like.device))
    probe = kind([model], **given)
    start = dict(probe.state.get(model, {}))
    model.grad = torch.zeros_like(model)
    for _ in range(2):  # a dampening is not used before the second
        probe.step()
    return model, start, dict(probe.state.get(model, {}))
