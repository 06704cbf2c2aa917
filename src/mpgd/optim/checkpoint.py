"""The drivers in an optimizer's state dict, saved and loaded without losing a bit.

A state dict has torch's form, with our entries among the inner optimizer's: keywords in the groups,
drivers in the states, each under the prefix. Optimizers whose state dict has a form of its own get
one more entry, ``"perturbation"``.

`torch.optim.Optimizer.load_state_dict` casts every state tensor except ``step`` to the parameter's
dtype, so the words of an orbit would resume somewhere else. They go around it: they are taken out
of what the inner optimizer loads, checked before anything is changed, and copied as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from mpgd.noise.word import steps_to_go
from mpgd.optim.distributed import local
from mpgd.optim.settings import NAMES, Settings, check_keywords, make_settings, pair
from mpgd.optim.state import (
    ELEMENTS,
    ENTRIES,
    PART,
    SCALARS,
    STEPS,
    State,
    exact_copies,
    needed_entries,
)

ENTRY: Final = "perturbation"  # of a state dict that has not torch's form
ORBIT_ENTRIES: Final = frozenset({*ELEMENTS, *SCALARS})
Groups = Sequence[MutableMapping[str, Any]]


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


# Saving ------------------------------------------------------------------------------------------


def merge(
    packed: Any, groups: Groups, orbits: Mapping[Tensor, State], prefix: str
) -> dict[str, Any]:
    """Return the inner optimizer's state dict with the drivers in it."""
    params = [p for group in groups for p in group["params"]]
    if not _has_torch_form(packed, groups):
        numbers = {p: number for number, p in enumerate(params)}
        own = [
            {n: group[prefix + n] for n in NAMES}
            | {"params": [numbers[p] for p in group["params"]]}
            for group in groups
        ]
        states = {k: dict(orbits[p]) for k, p in enumerate(params) if p in orbits}
        own = [_plain_group(group, "") for group in own]
        return {**packed, ENTRY: {"state": states, "param_groups": own}}
    names = [name for group in packed["param_groups"] for name in group["params"]]
    state = dict(packed["state"])
    for name, p in zip(names, params, strict=True):
        if p in orbits:
            state[name] = {
                **state.get(name, {}),
                **{prefix + n: value for n, value in orbits[p].items()},
            }
        elif orbits:  # distributed checkpoints refuse a state that only some parameters have
            state.setdefault(name, {})
    plain = [_plain_group(group, prefix) for group in packed["param_groups"]]
    return {**packed, "state": state, "param_groups": plain}


def _has_torch_form(packed: Any, groups: Groups) -> bool:
    """Return whether a state dict has torch's own form, with a dictionary for each parameter."""
    if not isinstance(packed, Mapping) or not {"state", "param_groups"} <= packed.keys():
        return False
    sizes = [len(group.get("params", ())) for group in packed["param_groups"]]
    if sizes != [len(group["params"]) for group in groups]:
        return False
    names = [name for group in packed["param_groups"] for name in group["params"]]
    return all(isinstance(packed["state"].get(name, {}), Mapping) for name in names)


def _plain_group(group: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return a group with plain values only: noises as texts, numpy's numbers as Python's.

    A schedule may have set the latter, and ``torch.load(weights_only=True)`` refuses them.
    """
    plain = {name: _plain_value(value) for name, value in group.items()}
    noise = group.get(prefix + "noise")
    return plain if noise is None else plain | {prefix + "noise": _reprs(noise)}


def _plain_value(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple):
        return type(value)(_plain_value(each) for each in value)
    return value


def _reprs(noise: Any) -> list[str] | None:
    return None if noise is None else [repr(each) for each in pair("noise", noise)]


# Loading -----------------------------------------------------------------------------------------


def split(saved: Mapping[str, Any], prefix: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the inner optimizer's state dict, and ours; None if there is none of ours."""
    if ENTRY in saved:
        rest = {name: value for name, value in saved.items() if name != ENTRY}
        return rest, as_mapping(saved[ENTRY], repr(ENTRY), "state", "param_groups")
    saved = as_mapping(saved, "the state", "state", "param_groups")
    groups = [
        as_mapping(group, f"param_groups[{k}] of the state", "params")
        for k, group in enumerate(saved["param_groups"])
    ]
    keywords = {prefix + name: name for name in NAMES}
    entries = {prefix + name: name for name in ENTRIES}
    plain_groups = [{k: v for k, v in group.items() if k not in keywords} for group in groups]
    own_groups = [
        {"params": group["params"]} | {keywords[k]: v for k, v in group.items() if k in keywords}
        for group in groups
    ]
    plain_state, states = {}, {}
    for name, values in saved["state"].items():
        if isinstance(values, Mapping) and values.keys() & entries.keys():
            states[name] = {entries[k]: v for k, v in values.items() if k in entries}
            values = {k: v for k, v in values.items() if k not in entries}
        if not isinstance(values, Mapping) or values:  # `merge` made the empty ones
            plain_state[name] = values
    is_ours = any(len(group) > 1 for group in own_groups)
    own = {"state": states, "param_groups": own_groups} if is_ours else None
    return {**saved, "state": plain_state, "param_groups": plain_groups}, own


def checked(
    own: dict[str, Any] | None, groups: Groups, present: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]] | None, dict[Tensor, State] | None]:
    """Return the keywords and the drivers of a state dict; raise if they are not of these groups.

    Args:
        own: our part of a state dict, as `split` gives it.
        groups: of the optimizer.
        present: the keywords that the groups have now; noises are compared with theirs.
    """
    if own is None:
        return None, None
    sizes = [len(group["params"]) for group in groups]
    saved = [len(as_mapping(group, "a group", "params")["params"]) for group in own["param_groups"]]
    if sizes != saved:
        raise ValueError(
            f"the state has groups of {saved} parameters, the optimizer has groups of {sizes}"
        )
    names = [name for group in own["param_groups"] for name in group["params"]]
    _check_names(names)
    keywords = [_checked_group(k, group, present[k]) for k, group in enumerate(own["param_groups"])]
    settings = [make_settings(group) for group in keywords]
    params = [(k, place, p) for k, g in enumerate(groups) for place, p in enumerate(g["params"])]
    orbits: dict[Tensor, State] = {}
    for ordinal, ((k, place, p), name) in enumerate(zip(params, names, strict=True)):
        values = as_mapping(own["state"].get(name, {}), f"the state of parameter {ordinal}")
        _check_tensors(ordinal, p, values, settings[k])
        # without noise, one that was saved in full precision has no state: its rounding starts now
        if settings[k].is_perturbed or (values and settings[k].needs_state(local(p).dtype)):
            _check_complete(ordinal, settings[k], values, is_first=place == 0)
        if values:
            orbits[p] = exact_copies(values, p)
    return keywords, orbits


def _checked_group(
    number: int, saved: Mapping[str, Any], present: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the keywords of a saved group, with the present noise where the texts say the same."""
    what = f"param_groups[{number}] of the state"
    if missing := set(NAMES) - saved.keys():
        raise ValueError(f"{what} lacks {sorted(missing)}")
    text, own = saved["noise"], _reprs(present["noise"])
    if (list(text) if isinstance(text, (list, tuple)) else text) != own:
        raise ValueError(
            f"{what} was saved with noise={text}, the optimizer has {own}: build it with the same"
        )
    try:
        return check_keywords({**saved, "noise": present["noise"]})
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{what}: {error}") from error


def _check_names(names: list[Any]) -> None:
    """Raise if parameters are not named by numbers or texts, or two by the same."""
    for name in names:
        if isinstance(name, bool) or not isinstance(name, (int, str)):
            raise ValueError(f"'params' of the state must be numbers or names, got {name!r}")
    if len(set(names)) < len(names):
        raise ValueError(f"'params' of the state must differ from each other, got {names}")


def _check_tensors(ordinal: int, p: Tensor, values: Mapping[str, Any], settings: Settings) -> None:
    """Raise if a saved tensor has another shape or dtype than this parameter's would."""
    shape = (*p.shape, 2) if p.is_complex() else tuple(p.shape)
    for name in sorted(values.keys() & set(ENTRIES)):
        what, value = f"{name!r} of parameter {ordinal}", values[name]
        rule = shape if name in ELEMENTS else ()
        if name not in ORBIT_ENTRIES and type(value) is int:  # some clients write numbers
            _check_numbers(what, name, value, settings)
            continue
        if not isinstance(value, Tensor) or tuple(value.shape) != rule:
            kind = getattr(value, "shape", type(value).__name__)
            raise ValueError(f"{what} must have shape {tuple(rule)}, got {kind}")
        if value.layout is not torch.strided or value.is_meta:
            raise ValueError(
                f"{what} must be a dense tensor with memory, got layout {value.layout} on "
                f"{value.device}"
            )
        dtype = torch.int32 if name in ORBIT_ENTRIES else torch.int64
        # orbits of noises that the kernels do not know may have any dtype
        is_free = name in ORBIT_ENTRIES and settings.drivers[_which(name)] is None
        if value.dtype != dtype and not is_free:
            raise ValueError(f"{what} must be {dtype}, got {value.dtype}")
        _check_numbers(what, name, value, settings)


def _which(name: str) -> int:
    return int(name.startswith("additive"))


def _check_numbers(what: str, name: str, value: Tensor | int, settings: Settings) -> None:
    """Raise on a count below 0, and on an orbit that is at no place it could be at.

    Every 32-bit word is a place on a chaotic orbit if phases may have any length. Orbits of other
    noises must be finite.
    """
    if (name in STEPS or name == "ordinal") and not 0 <= int(value) < 2**62:
        raise ValueError(f"{what} must be at least 0 and below 2^62, got {int(value)}")
    if name not in ORBIT_ENTRIES or not isinstance(value, Tensor):
        return
    if value.is_floating_point() and not bool(local(value).isfinite().all()):
        raise ValueError(f"{what} must be finite")
    noise = settings.noises[_which(name)]
    longest = getattr(noise, "longest", None)
    parts = torch.split(local(value).reshape(-1), PART) if longest is not None else ()
    if any([bool((steps_to_go(part) > longest).any()) for part in parts]):
        raise ValueError(f"{what} has a phase longer than longest={longest}: the word is damaged")


def _check_complete(
    ordinal: int, settings: Settings, values: Mapping[str, Any], is_first: bool
) -> None:
    """Raise if something is missing, or was made with other tables."""
    missing = [name for name in needed_entries(settings, is_first) if name not in values]
    if missing:
        raise ValueError(f"the state of parameter {ordinal} lacks {missing[0]!r}")
    if settings.tables is not None and int(values["tables"]) != settings.tables:
        raise ValueError(
            f"parameter {ordinal} was saved with other tables (fingerprint "
            f"{int(values['tables'])}) than this version computes ({settings.tables}); "
            "its orbit cannot go on bit for bit"
        )
