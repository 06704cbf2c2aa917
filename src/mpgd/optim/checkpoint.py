"""Loading an optimizer's state without losing a bit of its orbits.

`torch.optim.Optimizer.load_state_dict` casts every state tensor except ``step`` to the
parameter's dtype, so the words of an orbit would resume somewhere else. These two
hooks go around its work: one checks the whole state before anything is changed, the other puts
the saved bits back after the cast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from mpgd.noise import ChaoticNoise
from mpgd.noise.word import steps_to_go
from mpgd.optim.orbits import BUFFER, int_scalar, needed, orbit_name
from mpgd.optim.settings import (
    DEFAULTS,
    NAMES,
    TWIN,
    Settings,
    check_keywords,
    make_settings,
    pair,
)
from mpgd.optim.shards import local

LARGE_KEYS: Final = frozenset(orbit_name(number) for number in range(2 * TWIN))
ORBIT_KEYS: Final = LARGE_KEYS | {"shared", "shared_twin"}
STEP_KEYS: Final = frozenset({"step", "shared_step"})
ALL_KEYS: Final = ORBIT_KEYS | STEP_KEYS | {"key", "tables"}
SINCE_THEN: Final = {  # keywords that earlier checkpoints lack
    "first_sign",
    "longest",
    "force",
    "decay",
    "stream",
    "rounding",
}
T = TypeVar("T")


def load(
    optimizer: Optimizer,
    state_dict: dict[str, Any],
    original: Callable[[dict[str, Any]], None],
    check_group: Callable[[dict[str, Any]], object],
) -> None:
    """Run ``original(state_dict)``, checked before and with the orbits' bits restored after.

    If something is wrong all the same, what was there is put back: torch loads into new objects.
    """
    seen: dict[str, Any] = {}

    def check(_: Optimizer, incoming: dict[str, Any]) -> dict[str, Any]:
        incoming = with_noises(optimizer.param_groups, incoming)
        check_state(optimizer.param_groups, incoming)
        for number, group in enumerate(incoming["param_groups"]):
            _named(f"param_groups[{number}] of the state", check_group, group)
        seen.update(incoming)
        return incoming

    def restore(_: Optimizer) -> None:
        for parameter, _group, values in pairs(optimizer.param_groups, seen):
            if values:
                optimizer.state[parameter].update(own_state(values, parameter))

    handles = [
        optimizer.register_load_state_dict_pre_hook(check),
        optimizer.register_load_state_dict_post_hook(restore, prepend=True),
    ]
    before = optimizer.state, optimizer.param_groups
    try:
        original(as_mapping(state_dict, "the state", "state", "param_groups"))
    except Exception:
        optimizer.state, optimizer.param_groups = before
        raise
    finally:
        for handle in handles:
            handle.remove()


def as_mapping(value: Any, what: str = "the state", *names: str) -> dict[str, Any]:
    """Return a dictionary's copy, or raise if it is none or lacks one of the names."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} must be a dict, got {type(value).__name__}")
    for name in names:
        if name not in value:
            raise ValueError(f"{what} lacks {name!r}")
        kind = Mapping if name == "state" else (list, tuple)
        if not isinstance(value[name], kind):
            rule = "a dict" if name == "state" else "a list"
            raise ValueError(f"{name!r} of {what} must be {rule}, got {type(value[name]).__name__}")
    return dict(value)


def in_words(state_dict: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a state dict with plain values only: noises as texts, numpy's numbers as Python's.

    A schedule may have set the latter, and ``torch.load(weights_only=True)`` refuses them.
    """
    groups = [_group_in_words(group, prefix) for group in state_dict["param_groups"]]
    return {**state_dict, "param_groups": groups}


def _group_in_words(group: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return a group whose noise, which may have been set in mid-run, is what words say of it."""
    group = {name: _as_pythons(value) for name, value in group.items()}
    if isinstance(group.get(prefix + "noise", ""), str):
        return group
    plain = check_keywords({name: group[prefix + name] for name in NAMES})
    if not isinstance(plain["noise"], str):
        plain["noise"] = _said(plain["noise"])
    return group | {prefix + name: value for name, value in plain.items()}


def _as_pythons(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple):
        return type(value)(_as_pythons(each) for each in value)
    return value


def _said(noise: Any) -> list[str]:
    return [repr(each) for each in pair("noise", noise)]


def with_noises(groups: Sequence[Any], state_dict: dict[str, Any]) -> dict[str, Any]:
    """Return a saved state with the optimizer's own noises where the texts say the same."""
    found = []
    for number, saved in enumerate(state_dict["param_groups"]):
        saved = as_mapping(saved, f"param_groups[{number}] of the state", "params")
        saved = {name: getattr(DEFAULTS, name) for name in SINCE_THEN} | saved
        if isinstance(saved.get("noise"), (list, tuple)) and number < len(groups):
            noise = groups[number]["noise"]
            own = noise if isinstance(noise, str) else _said(noise)
            if list(saved["noise"]) != own:
                raise ValueError(
                    f"param_groups[{number}] was saved with the noises {saved['noise']}, the "
                    f"optimizer has {own}: build it with the same ones"
                )
            saved = saved | {"noise": noise}
        found.append(saved)
    return {**state_dict, "param_groups": found}


def pairs(
    groups: Sequence[Any], state_dict: dict[str, Any]
) -> Iterator[tuple[Tensor, dict[str, Any], dict[str, Any]]]:
    """Yield (parameter, its saved group, its saved state), in order."""
    for group, saved in zip(groups, state_dict["param_groups"], strict=True):
        for parameter, name in zip(group["params"], saved["params"], strict=True):
            yield parameter, saved, state_dict["state"].get(name, {})


def check_state(groups: Sequence[Any], state_dict: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the keywords of all saved groups; raise if this is no state of these parameters."""
    sizes = [len(group["params"]) for group in groups]
    saved = [len(group["params"]) for group in state_dict["param_groups"]]
    if sizes != saved:
        raise ValueError(
            f"the state has groups of {saved} parameters, the optimizer has groups of {sizes}"
        )
    _check_names([name for group in state_dict["param_groups"] for name in group["params"]])
    keywords, made = [], []
    for number, group in enumerate(state_dict["param_groups"]):
        missing = set(NAMES) - group.keys()
        if missing:
            raise ValueError(
                f"param_groups[{number}] of the state lacks {sorted(missing)}: "
                "it was not written by a perturbed optimizer; around one of torch's, made by "
                "perturb, its own states are loaded by optimizer.inner.load_state_dict"
            )
        what = f"param_groups[{number}] of the state"
        keywords.append(_named(what, check_keywords, group))
        made.append(_named(what, make_settings, group))
        _check_longest(number, groups[number], group, made[-1])
    leaders = {id(group["params"][0]) for group in groups if group["params"]}
    settings_of = [each for each, size in zip(made, sizes, strict=True) for _ in range(size)]
    for ordinal, (parameter, _group, values) in enumerate(pairs(groups, state_dict)):
        if not isinstance(values, Mapping):
            kind = type(values).__name__
            raise ValueError(f"the state of parameter {ordinal} must be a dict, got {kind}")
        _check_tensors(ordinal, parameter, values, settings_of[ordinal])
        if settings_of[ordinal].is_needed(local(parameter).dtype):
            _check_parameter(ordinal, settings_of[ordinal], values, id(parameter) in leaders)
    return keywords


def _named(what: str, check: Callable[[dict[str, Any]], T], group: dict[str, Any]) -> T:
    """Return ``check(group)``; whatever is wrong is a ValueError that says where."""
    try:
        return check(group)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ValueError(f"{what}: {error}") from error


def _check_names(names: list[Any]) -> None:
    """Raise if parameters are not named by numbers or texts, or two by the same."""
    for name in names:
        if isinstance(name, bool) or not isinstance(name, (int, str)):
            raise ValueError(f"'params' of the state must be numbers or names, got {name!r}")
    if len(set(names)) < len(names):
        raise ValueError(f"'params' of the state must differ from each other, got {names}")


def _check_longest(
    number: int, own: dict[str, Any], saved: dict[str, Any], settings: Settings
) -> None:
    """Raise if a perturbed group was saved with another longest phase: its orbits are others."""
    if settings.is_perturbed and own["longest"] != saved["longest"]:
        raise ValueError(
            f"param_groups[{number}] was saved with longest={saved['longest']}, the optimizer has "
            f"longest={own['longest']}: build it with the same one"
        )


def _check_buffer(ordinal: int, parameter: Tensor, buffer: Any) -> None:
    """Raise if a saved momentum is none of this parameter."""
    is_one = isinstance(buffer, Tensor) and buffer.shape == parameter.shape
    if buffer is not None and not (is_one and buffer.layout is torch.strided):
        kind = getattr(buffer, "shape", type(buffer).__name__)
        raise ValueError(
            f"{BUFFER!r} of parameter {ordinal} must be a dense tensor of shape "
            f"{tuple(parameter.shape)}, got {kind}"
        )


def _check_tensors(
    ordinal: int, parameter: Tensor, values: dict[str, Any], settings: Settings
) -> None:
    """Raise if a saved tensor has another shape or dtype than this parameter's would."""
    _check_buffer(ordinal, parameter, values.get(BUFFER))
    shape = (*parameter.shape, 2) if parameter.is_complex() else tuple(parameter.shape)
    for name in sorted(values.keys() & ALL_KEYS):
        rule, found = shape if name in LARGE_KEYS else (), values[name]
        if name in STEP_KEYS and type(found) is int:  # some clients write a count as a number
            _check_numbers(f"{name!r} of parameter {ordinal}", name, found, settings)
            continue
        if not isinstance(found, Tensor) or tuple(found.shape) != rule:
            kind = getattr(found, "shape", type(found).__name__)
            raise ValueError(
                f"{name!r} of parameter {ordinal} must have shape {tuple(rule)}, got {kind}"
            )
        if found.layout is not torch.strided or found.is_meta:
            raise ValueError(
                f"{name!r} of parameter {ordinal} must be a dense tensor with memory, got layout "
                f"{found.layout} on {found.device}"
            )
        dtype = torch.int32 if name in ORBIT_KEYS else torch.int64
        # orbits of noises that the kernels do not know may have any dtype
        is_chaotic = settings.drivers[int(name.startswith("additive"))] is not None
        if found.dtype == torch.float64 and dtype == torch.int32 and is_chaotic:
            raise ValueError(
                f"{name!r} of parameter {ordinal} is an orbit of the earlier float64 driver, "
                "which the 32-bit driver cannot take up; start the noise anew from the saved "
                "parameters"
            )
        if found.dtype != dtype and (name not in ORBIT_KEYS or is_chaotic):
            raise ValueError(f"{name!r} of parameter {ordinal} must be {dtype}, got {found.dtype}")
        _check_numbers(f"{name!r} of parameter {ordinal}", name, found, settings)


def _check_numbers(what: str, name: str, found: Tensor | int, settings: Settings) -> None:
    """Raise on a count below 0, and on an orbit that is at no place it could be at.

    Every 32-bit word is a place on a chaotic orbit, see `mpgd.noise.word`, if phases may have any
    length. Orbits of other noises must be finite.
    """
    if name in STEP_KEYS and not 0 <= int(found) < 2**62:
        raise ValueError(f"{what} must be at least 0 and below 2^62, got {int(found)}")
    if name not in ORBIT_KEYS or not isinstance(found, Tensor):
        return
    if found.is_floating_point() and not bool(local(found).isfinite().all()):
        raise ValueError(f"{what} must be finite")
    noise = settings.noises[int(name.startswith("additive"))]
    longest = noise.longest if isinstance(noise, ChaoticNoise) else None
    if longest is not None and bool((steps_to_go(local(found)) > longest).any()):
        raise ValueError(f"{what} has a phase longer than longest={longest}: the word is damaged")


def _check_parameter(ordinal: int, settings: Settings, values: dict[str, Any], leads: bool) -> None:
    """Raise if something is missing, or was made with other tables."""
    missing = [name for name in needed(settings, leads) if name not in values]
    if missing:
        if missing[0] == "tables" and any(d and d.is_normal for d in settings.drivers):
            raise ValueError(
                f"the Gaussian noise of parameter {ordinal} was saved without the fingerprint of "
                "its tables: it is of an earlier generator, whose bits this version does not have; "
                "start the noise anew from the saved parameters"
            )
        raise ValueError(f"the state of parameter {ordinal} lacks {missing[0]!r}")
    if settings.tables is not None and int(values["tables"]) != settings.tables:
        raise ValueError(
            f"parameter {ordinal} was saved with other tables (fingerprint "
            f"{int(values['tables'])}) than this version computes ({settings.tables}); "
            "its orbit cannot go on bit for bit"
        )


@torch.inference_mode(False)  # as the states that are made
def own_state(values: dict[str, Any], parameter: Tensor) -> dict[str, Any]:
    """Return exact copies of saved tensors: orbits beside the parameter, scalars on the CPU."""
    devices = {name: parameter.device if name in LARGE_KEYS else "cpu" for name in ALL_KEYS}
    return {
        name: _tensor(value).detach().to(device=devices[name], copy=True).contiguous()
        for name, value in values.items()
        if name in ALL_KEYS
    }


def _tensor(value: Tensor | int) -> Tensor:
    return value if isinstance(value, Tensor) else int_scalar(value)
