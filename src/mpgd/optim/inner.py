"""What `perturb` does with the optimizer inside: its step, and its part of a checkpoint.

A state dict of torch's own form holds the perturbation's entries beside the inner optimizer's,
under their prefix, because distributed checkpoints cut and join what they find there. Some
optimizers have a form of their own; then all that is the perturbation's is one entry,
``"perturbation"``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, Set
from typing import Any, Final

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim import optimizer as machinery

from mpgd.optim.checkpoint import SINCE_THEN, as_mapping, in_words
from mpgd.optim.inside import HOOKS, check_loaded, check_saved, is_torchs, without_global_hooks
from mpgd.optim.orbits import State
from mpgd.optim.settings import NAMES, PREFIX
from mpgd.optim.views import is_ours, split

FULL_NAMES: Final = tuple((name, PREFIX + name) for name in NAMES)
ROUNDING: Final = PREFIX + "rounding"
ENTRY: Final = PREFIX.rstrip(".")


def with_prefix(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings or states under their names among the inner optimizer's.

    Examples:
        >>> with_prefix({"sigma": 0.1})
        {'perturbation.sigma': 0.1}
    """
    return {PREFIX + name: value for name, value in own.items()}


def drop_own(group: MutableMapping[str, Any]) -> None:
    """Take the perturbation's settings out of a group."""
    for _, name in FULL_NAMES:
        group.pop(name, None)


# The step. ----------------------------------------------------------------------------------------


def bare_step(inner: Optimizer) -> Callable[..., Any] | None:
    """Return the step of one of torch's optimizers without what breaks a compiled graph.

    Torch wraps it to set whether gradients are on, and breaks the graph there on purpose. A
    perturbed step has turned them off already.
    """
    if not is_torchs(inner):
        return None
    function: Any = type(inner).step
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function  # type: ignore[no-any-return]


def inner_step(inner: Optimizer, bare: Callable[..., Any] | None, *closure: Any) -> Any:
    """Take the inner optimizer's step; hooks of all optimizers are left to the outer one."""
    if torch.compiler.is_compiling():
        hooked = inner._optimizer_step_pre_hooks or inner._optimizer_step_post_hooks
        if bare is not None and not hooked:
            return bare(inner, *closure)
        return inner.step(*closure)
    if not any(getattr(machinery, name, None) for name in HOOKS):
        return inner.step(*closure)
    with without_global_hooks():
        return inner.step(*closure)


# The state dict. ----------------------------------------------------------------------------------


def pack(inner: Optimizer, packed: Any, orbits: Mapping[Tensor, State]) -> dict[str, Any]:
    """Return the inner optimizer's state dict with the perturbation's entries."""
    parameters = [p for group in inner.param_groups for p in group["params"]]
    if not _is_usual(inner, packed):
        groups = [split(group)[1] for group in inner.param_groups]
        states = {n: dict(orbits[p]) for n, p in enumerate(parameters) if p in orbits}
        numbers = iter(range(len(parameters)))
        for group, own in zip(inner.param_groups, groups, strict=True):
            own["params"] = [next(numbers) for _ in group["params"]]
        return {**packed, ENTRY: in_words({"state": states, "param_groups": groups})}
    names = [name for group in packed["param_groups"] for name in group["params"]]
    state = dict(packed["state"])
    for name, p in zip(names, parameters, strict=True):
        if p in orbits:
            state[name] = {**state.get(name, {}), **with_prefix(orbits[p])}
    return in_words({**packed, "state": state}, PREFIX)


def _is_usual(inner: Optimizer, packed: Any) -> bool:
    """Return whether a state dict has torch's own form, with a dictionary for each parameter."""
    if not isinstance(packed, Mapping) or not {"state", "param_groups"} <= packed.keys():
        return False
    sizes = [len(group["params"]) for group in inner.param_groups]
    if [len(group.get("params", ())) for group in packed["param_groups"]] != sizes:
        return False
    names = [name for group in packed["param_groups"] for name in group["params"]]
    return all(isinstance(packed["state"].get(name, {}), Mapping) for name in names)


def unpack(inner: Optimizer, saved: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Return the inner optimizer's state dict, and the perturbation's groups and states."""
    if ENTRY in saved:
        own = as_mapping(saved[ENTRY], f"{ENTRY!r} of the state", "state", "param_groups")
        rest = {name: value for name, value in saved.items() if name != ENTRY}
        return rest, own["param_groups"], own["state"]
    as_mapping(saved, "the state", "state", "param_groups")
    groups, plain_groups, names = [], [], set()
    for number, group in enumerate(saved["param_groups"]):
        group = as_mapping(group, f"param_groups[{number}] of the state", "params")
        foreign = {n for n in _at(inner.param_groups, number) if not is_ours(n)}
        plain, own = _split_group(group, foreign)
        plain_groups.append(plain)
        groups.append({**own, "params": group["params"]})
        names |= {name for name in group["params"] if _is_name(name)}
    plain_state, states = {}, {}
    for name, values in saved["state"].items():
        if name in names and isinstance(values, Mapping):
            rest, states[name] = split(values)
            if rest:
                plain_state[name] = rest
        else:
            plain_state[name] = values
    return {**saved, "state": plain_state, "param_groups": plain_groups}, groups, states


def _is_name(name: object) -> bool:
    return isinstance(name, (int, str))


def _at(groups: list[dict[str, Any]], number: int) -> Mapping[str, Any]:
    return groups[number] if number < len(groups) else {}


def _split_group(
    group: Mapping[str, Any], foreign: set[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a saved group's part of the inner optimizer, and the perturbation's settings.

    Checkpoints once had them without a prefix, where a name that the inner optimizer has too, one
    in ``foreign``, stood for both.
    """
    plain, own = split(group)
    if own or not {*NAMES} - SINCE_THEN <= group.keys():
        return plain, own
    kept = {name: v for name, v in plain.items() if name not in NAMES or name in foreign}
    return kept, {name: group[name] for name in NAMES if name in group}


def have_moved(saved: Mapping[str, Any]) -> set[int | str]:
    """Return the names of the parameters whose orbits have counted a step."""
    names = (name for group in saved["param_groups"] for name in group["params"])
    return {name for name in names if int(saved["state"].get(name, {}).get("step", 0))}


def load_inner(inner: Optimizer, saved: Any, moved: Set[int | str]) -> None:
    """Load the inner optimizer's part; if it does not fit, nothing is changed.

    The parameters named in ``moved`` have taken steps.

    Torch's own `load_state_dict` puts new objects in the place of old ones, so that the old ones
    can be put back. One of another class may change what is there, and is tried on a copy first.
    """
    kind = type(inner).__name__
    before = dict(inner.__dict__)
    names = [_saved_names(inner, group) for group in inner.param_groups]
    try:
        if _is_usual(inner, saved) or is_torchs(inner):
            with without_global_hooks():
                check_saved(inner, saved, moved)
        if type(inner).load_state_dict is not Optimizer.load_state_dict:
            trial = _copied(inner)
            if trial is not None:
                trial.load_state_dict(_shallow(saved))
                check_loaded(trial, names)
        inner.load_state_dict(_shallow(saved))
        check_loaded(inner, names)
    except Exception as error:
        inner.__dict__.clear()
        inner.__dict__.update(before)
        raise ValueError(f"the state does not fit the {kind}: {error}") from error


def _saved_names(inner: Optimizer, group: Mapping[str, Any]) -> set[str]:
    """Return the settings a group must have after a load: all but private ones it does not save.

    Heavyball saves none of its own; another optimizer that saves one needs it back.
    """
    names = inner.defaults.keys() & group.keys()
    private = {name for name in names if name.startswith("_")}
    return names - private | (private & _private_saved(inner) if private else set())


def _private_saved(inner: Optimizer) -> set[str]:
    """Return the private settings in an optimizer's own checkpoint; none if it cannot write one."""
    try:
        groups = inner.state_dict()["param_groups"]
        return {name for group in groups for name in group if name.startswith("_")}
    except Exception:
        return set()


def _copied(inner: Optimizer) -> Optimizer | None:
    """Return a copy of an optimizer with the same parameters; None if it cannot be copied."""
    memo: dict[int, Any] = {id(p): p for group in inner.param_groups for p in group["params"]}
    trial: Optimizer = object.__new__(type(inner))
    try:
        trial.__dict__.update(copy.deepcopy(inner.__dict__, memo))
    except Exception:
        return None
    return trial


def _shallow(saved: Any) -> Any:
    """Return a copy of the dictionaries of a state dict; those who load one write into them."""
    if isinstance(saved, Mapping):
        return {name: _shallow(value) for name, value in saved.items()}
    return saved
