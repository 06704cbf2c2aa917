"""Whether an optimizer that has loaded a checkpoint can step from it.

Torch loads a state without looking into it, and a missing or wrong entry shows at the next step,
half of which is done by then. Here a small parameter takes two steps with the same class and
settings; its state shows which entries there must be, and of which shape. Then small parameters
with the entries that a group's states have take a step together: torch's fused and foreach steps
take a whole group at once, and may stumble over what each parameter alone could do without.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim import optimizer as machinery

from mpgd.optim.settings import check_learning_rate
from mpgd.parameters import check_flag

HOOKS = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
OPTIONAL = {"SGD": ("momentum_buffer",)}  # what may be None until the first step


@dataclass(frozen=True)
class Probe:
    """A small parameter, and its state before and after steps with a group's settings.

    The second state is None for a class that takes no such step: one that needs a closure, sparse
    gradients or a matrix.
    """

    kind: type[Optimizer]
    given: Mapping[str, Any]
    model: Tensor
    start: Mapping[str, Any]
    stepped: Mapping[str, Any] | None


def is_torchs(optimizer: Optimizer) -> bool:
    """Return whether an optimizer is one of torch's own."""
    return f"{type(optimizer).__module__}.".startswith("torch.optim.")


@contextmanager
def without_global_hooks() -> Iterator[None]:
    """Let hooks of all optimizers rest: a step inside another, or a trial, is not theirs."""
    kept = {name: getattr(machinery, name) for name in HOOKS if hasattr(machinery, name)}
    for name in kept:
        setattr(machinery, name, OrderedDict())
    try:
        yield
    finally:
        for name, hooks in kept.items():
            setattr(machinery, name, hooks)


def check_saved(
    optimizer: Optimizer, saved: Mapping[str, Any], moved: Set[int | str] = frozenset()
) -> None:
    """Raise if a state dict of torch's form is none that the optimizer's class has written.

    Of a class that is not torch's own nothing is known but that tensors have memory and counts are
    not negative.

    Args:
        optimizer: which is to load it.
        saved: the state dict.
        moved: the names of parameters that are known to have taken steps. One of the others may
            have no state because it never had a gradient.
    """
    first = 0
    for number, (own, group) in enumerate(
        zip(optimizer.param_groups, saved["param_groups"], strict=True)
    ):
        if "lr" in group:
            check_learning_rate(group["lr"])
        states = [saved["state"].get(name) for name in group["params"]]
        if is_torchs(optimizer):
            probes = _probes(optimizer, number, {**own, **group}, own["params"])
            for ordinal, (p, values, probe) in enumerate(
                zip(own["params"], states, probes, strict=True), first
            ):
                if values or optimizer.state.get(p):  # a group added later may have none
                    _check_shapes(ordinal, p, values, probe)
        for ordinal, values in enumerate(states, first):
            if isinstance(values, Mapping):
                _check_values(ordinal, values)
        if is_torchs(optimizer):
            known = [name in moved for name in group["params"]]
            _check_together(number, first, probes, states, known)
        first += len(states)


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


def _check_shapes(ordinal: int, parameter: Tensor, values: Any, probe: Probe) -> None:
    """Raise if a state lacks an entry, or one has not the shape that its class would give it."""
    if not probe.start and (values is None or values == {}):
        return  # it is made in the first step
    if not isinstance(values, Mapping):
        raise ValueError(f"the state of parameter {ordinal} must be a dict, got {values!r}")
    optional = OPTIONAL.get(probe.kind.__name__, ())
    for name, expected in (probe.stepped or {}).items():
        if name not in values:
            raise ValueError(f"the state of parameter {ordinal} lacks {name!r}")
        if isinstance(expected, Tensor) and not (values[name] is None and name in optional):
            what = f"{name!r} of parameter {ordinal}"
            _check_tensor(what, parameter, values[name], probe.model, expected)


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


def _check_together(
    number: int,
    first: int,
    probes: Sequence[Probe],
    states: Sequence[Any],
    moved: Sequence[bool],
) -> None:
    """Raise if small parameters with a group's states, one for each form, cannot take a step."""
    forms: dict[Any, tuple[Probe, dict[str, Any]]] = {}
    lacking = []
    for ordinal, (probe, values, has_moved) in enumerate(
        zip(probes, states, moved, strict=True), first
    ):
        if probe.stepped is None or not (values or has_moved):
            continue
        small = _small(values or {}, probe.stepped)
        forms[id(probe), tuple(map(_form, small.items()))] = (probe, small)
        if any(small.get(name) is None for name in probe.stepped):
            lacking.append(ordinal)
    try:
        _step_together(list(forms.values()))
    except Exception as error:
        rest = f"; parameters {lacking} have less than a whole state" if lacking else ""
        raise ValueError(
            f"param_groups[{number}] cannot take a step from its states: {error}{rest}"
        ) from error


def _small(values: Mapping[str, Any], stepped: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a small parameter with the entries, and the dtypes, of ``values``."""
    return {
        name: stepped[name].to(value.dtype)
        if isinstance(value, Tensor) and isinstance(stepped[name], Tensor)
        else value
        for name, value in values.items()
        if name in stepped
    }


def _form(item: tuple[str, Any]) -> tuple[str, Any]:
    return item[0], getattr(item[1], "dtype", type(item[1]))


def _step_together(forms: Sequence[tuple[Probe, Mapping[str, Any]]]) -> None:
    if not forms:
        return
    kind, given = forms[0][0].kind, forms[0][0].given
    models = [nn.Parameter(torch.zeros_like(probe.model)) for probe, _ in forms]
    optimizer = kind(models, **given)
    saved = {n: dict(small) for n, (_, small) in enumerate(forms) if small}
    optimizer.load_state_dict({**optimizer.state_dict(), "state": saved})
    for model in models:
        model.grad = torch.zeros_like(model)
    optimizer.step()


def _probes(
    optimizer: Optimizer, number: int, group: Mapping[str, Any], params: Sequence[Tensor]
) -> list[Probe]:
    """Return a probe for each parameter of a group, the same for those that are alike."""
    known: dict[Any, Probe] = {}
    keys = [(p.dim(), p.dtype, p.device) for p in params]
    for key, parameter in zip(keys, params, strict=True):
        if key not in known:
            known[key] = _probed(optimizer, number, group, parameter)
    return [known[key] for key in keys]


def _probed(
    optimizer: Optimizer, number: int, group: Mapping[str, Any], parameter: Tensor
) -> Probe:
    kind = type(optimizer)
    try:
        return _stepped(kind, group, parameter)
    except Exception as error:
        try:
            _stepped(kind, optimizer.defaults, parameter)
        except Exception:
            return Probe(kind, {}, parameter, {}, None)
        raise ValueError(f"param_groups[{number}]: {error}") from error


def _stepped(kind: type[Optimizer], group: Mapping[str, Any], like: Tensor) -> Probe:
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
    return Probe(kind, given, model, start, dict(probe.state.get(model, {})))
