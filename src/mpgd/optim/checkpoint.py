"""Loading an optimizer's state without losing a bit of its orbits.

`torch.optim.Optimizer.load_state_dict` casts every state tensor except ``step`` to the
parameter's dtype, so the words of an orbit would resume somewhere else. These two
hooks go around its work: one checks the whole state before anything is changed, the other puts
the saved bits back after the cast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch import Tensor
from torch.optim import Optimizer

from mpgd.optim.orbits import needed, orbit_name
from mpgd.optim.settings import DEFAULTS, NAMES, TWIN, Settings, make_settings

LARGE_KEYS: Final = frozenset(orbit_name(number) for number in range(2 * TWIN))
ORBIT_KEYS: Final = LARGE_KEYS | {"shared", "shared_twin"}
ALL_KEYS: Final = ORBIT_KEYS | {"step", "key", "tables", "shared_step"}
SINCE_THEN: Final = {
    "first_sign",
    "longest",
    "force",
    "decay",
}  # keywords that earlier checkpoints lack


def load(
    optimizer: Optimizer, state_dict: dict[str, Any], original: Callable[[dict[str, Any]], None]
) -> None:
    """Run ``original(state_dict)``, checked before and with the orbits' bits restored after."""
    seen: dict[str, Any] = {}

    def check(_: Optimizer, incoming: dict[str, Any]) -> dict[str, Any]:
        incoming = with_noises(optimizer, incoming)
        check_state(optimizer, incoming)
        seen.update(incoming)
        return incoming

    def restore(_: Optimizer) -> None:
        for parameter, _group, values in pairs(optimizer, seen):
            if values:
                optimizer.state[parameter].update(own_state(values, parameter))

    handles = [
        optimizer.register_load_state_dict_pre_hook(check),
        optimizer.register_load_state_dict_post_hook(restore, prepend=True),
    ]
    try:
        original(state_dict)
    finally:
        for handle in handles:
            handle.remove()


def in_words(state_dict: dict[str, Any]) -> dict[str, Any]:
    """Return a state dict whose noises are texts, since a checkpoint holds plain values only."""
    groups = [
        group if isinstance(group.get("noise", ""), str) else group | {"noise": _said(group)}
        for group in state_dict["param_groups"]
    ]
    return {**state_dict, "param_groups": groups}


def _said(group: dict[str, Any]) -> list[str]:
    return [repr(noise) for noise in group["noise"]]


def with_noises(optimizer: Optimizer, state_dict: dict[str, Any]) -> dict[str, Any]:
    """Return a saved state with the optimizer's own noises where the texts say the same."""
    groups = []
    for number, saved in enumerate(state_dict["param_groups"]):
        saved = {name: getattr(DEFAULTS, name) for name in SINCE_THEN} | saved
        if not isinstance(saved.get("noise", ""), str) and number < len(optimizer.param_groups):
            own = optimizer.param_groups[number]
            found = own["noise"] if isinstance(own["noise"], str) else _said(own)
            if list(saved["noise"]) != found:
                raise ValueError(
                    f"param_groups[{number}] was saved with the noises {saved['noise']}, the "
                    f"optimizer has {found}: build it with the same ones"
                )
            saved = saved | {"noise": own["noise"]}
        groups.append(saved)
    return {**state_dict, "param_groups": groups}


def pairs(
    optimizer: Optimizer, state_dict: dict[str, Any]
) -> Iterator[tuple[Tensor, dict[str, Any], dict[str, Any]]]:
    """Yield (parameter, its saved group, its saved state), in order."""
    for group, saved in zip(optimizer.param_groups, state_dict["param_groups"], strict=True):
        for parameter, name in zip(group["params"], saved["params"], strict=True):
            yield parameter, saved, state_dict["state"].get(name, {})


def check_state(optimizer: Optimizer, state_dict: dict[str, Any]) -> None:
    """Raise if ``state_dict`` is not a complete state for these parameters."""
    sizes = [len(group["params"]) for group in optimizer.param_groups]
    saved = [len(group["params"]) for group in state_dict["param_groups"]]
    if sizes != saved:
        raise ValueError(
            f"the state has groups of {saved} parameters, the optimizer has groups of {sizes}"
        )
    made = []
    for number, group in enumerate(state_dict["param_groups"]):
        missing = set(NAMES) - group.keys()
        if missing:
            raise ValueError(
                f"param_groups[{number}] of the state lacks {sorted(missing)}: "
                "it was not written by a perturbed optimizer"
            )
        made.append(make_settings(group))
        _check_longest(number, optimizer.param_groups[number], group, made[-1])
    leaders = {id(group["params"][0]) for group in optimizer.param_groups if group["params"]}
    settings_of = [each for each, size in zip(made, sizes, strict=True) for _ in range(size)]
    for ordinal, (parameter, _group, values) in enumerate(pairs(optimizer, state_dict)):
        _check_tensors(ordinal, parameter, values, settings_of[ordinal])
        if settings_of[ordinal].is_perturbed:
            _check_parameter(ordinal, settings_of[ordinal], values, id(parameter) in leaders)


def _check_longest(
    number: int, own: dict[str, Any], saved: dict[str, Any], settings: Settings
) -> None:
    """Raise if a perturbed group was saved with another longest phase: its orbits are others."""
    if settings.is_perturbed and own["longest"] != saved["longest"]:
        raise ValueError(
            f"param_groups[{number}] was saved with longest={saved['longest']}, the optimizer has "
            f"longest={own['longest']}: build it with the same one"
        )


def _check_tensors(
    ordinal: int, parameter: Tensor, values: dict[str, Any], settings: Settings
) -> None:
    """Raise if a saved tensor has another shape or dtype than this parameter's would."""
    is_chaotic = settings.tables is not None  # other noises have orbits of any dtype
    shape = (*parameter.shape, 2) if parameter.is_complex() else tuple(parameter.shape)
    for name in sorted(values.keys() & ALL_KEYS):
        rule, found = shape if name in LARGE_KEYS else (), values[name]
        if not isinstance(found, Tensor) or tuple(found.shape) != rule:
            kind = getattr(found, "shape", type(found).__name__)
            raise ValueError(
                f"{name!r} of parameter {ordinal} must have shape {tuple(rule)}, got {kind}"
            )
        dtype = torch.int32 if name in ORBIT_KEYS else torch.int64
        if found.dtype == torch.float64 and dtype == torch.int32 and is_chaotic:
            raise ValueError(
                f"{name!r} of parameter {ordinal} is an orbit of the earlier float64 driver, "
                "which the 32-bit driver cannot take up; start the noise anew from the saved "
                "parameters"
            )
        if found.dtype != dtype and (name not in ORBIT_KEYS or is_chaotic):
            raise ValueError(f"{name!r} of parameter {ordinal} must be {dtype}, got {found.dtype}")


def _check_parameter(ordinal: int, settings: Settings, values: dict[str, Any], leads: bool) -> None:
    """Raise if something is missing, or was made with other tables."""
    for name in needed(settings, leads):
        if name not in values:
            raise ValueError(f"the state of parameter {ordinal} lacks {name!r}")
    if settings.tables is not None and int(values["tables"]) != settings.tables:
        raise ValueError(
            f"parameter {ordinal} was saved with other tables (fingerprint "
            f"{int(values['tables'])}) than this version computes ({settings.tables}); "
            "its orbit cannot go on bit for bit"
        )


def own_state(values: dict[str, Any], parameter: Tensor) -> dict[str, Any]:
    """Return exact copies of saved tensors: orbits beside the parameter, scalars on the CPU."""
    devices = {name: parameter.device if name in LARGE_KEYS else "cpu" for name in ALL_KEYS}
    return {
        name: value.detach().to(device=devices[name], copy=True).contiguous()
        for name, value in values.items()
        if name in ALL_KEYS
    }
