"""The drivers as others see them: in `optimizer.state`, and in state dicts without losing a bit.

**State.** Drivers live beside `state` and appear there under the prefix once the inner optimizer
has made entries of its own: many optimizers take a parameter whose state is not empty for one they
have seen. Flattened distributed checkpoints read names there, and ZeRO writes what it loads there.

**State dict.** It has torch's form, with our entries among the inner optimizer's: keywords in the
groups, drivers in the states, each under the prefix. Optimizers whose state dict has a form of its
own get one more entry, ``"perturbation"``. Torch casts what it loads to the parameter's dtype, so
the words of an orbit go around it: they are checked before anything is changed, and copied.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from mpgd.optim import rounding, state
from mpgd.optim.settings import NAMES, ORBITS, PREFIX, Settings, check_keywords, make_settings, pair
from mpgd.optim.state import ELEMENTS, ENTRIES, SCALARS, State, exact_copies
from mpgd.sharding import local

ENTRY: Final = "perturbation"  # of a state dict that has not torch's form
HOOKS: Final = tuple(
    f"_optimizer_{which}_{when}_hooks"
    for which in ("state_dict", "load_state_dict")
    for when in ("pre", "post")
)
Groups = Sequence[MutableMapping[str, Any]]


# In the state ------------------------------------------------------------------------------------


class Words(Tensor):
    """Integers that `Tensor.to` moves to another device but never makes floating-point.

    An optimizer around a perturbed one may save what it sees in `state` by torch's own function and
    load it by torch's own, which casts.

    Examples:
        >>> torch.tensor([7]).as_subclass(Words).to(torch.float32).dtype
        torch.int64
    """

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Return the same integers, on the device that is named."""
        moved = Tensor.to(self, *args, **kwargs)
        return moved if moved.dtype == self.dtype else Tensor.to(self, device=moved.device)

    def __deepcopy__(self, memo: dict[int, Any]) -> Words:
        """Return a copy that keeps its dtype too."""
        copied: Words = self.as_subclass(Tensor).clone().as_subclass(Words)
        memo[id(self)] = copied
        return copied


torch.serialization.add_safe_globals([Words])  # so that weights_only loads what others saved


def show(optimizer: Any, stepped: bool) -> None:
    """Let `state` show the drivers of parameters that have an inner state.

    With ``stepped``, also of those that have taken a step: the inner optimizer keeps nothing.
    """
    left, prefix = [], optimizer._prefix
    for p in optimizer._unshown:
        inner = optimizer.state.get(p)
        has_inner = bool(inner) if isinstance(inner, dict) else inner is not None
        if not (has_inner or (stepped and p.grad is not None)):
            left.append(p)
            continue
        values = optimizer.state[p]
        if isinstance(values, dict):
            for name, x in optimizer._orbits[p].items():
                old = values.get(prefix + name)
                if old is None or local(old).data_ptr() != local(x).data_ptr():
                    is_plain = type(x) is Tensor and not x.is_floating_point()
                    values[prefix + name] = x.as_subclass(Words) if is_plain else x
            optimizer._marks[id(p)] = p, values.get(prefix + "ordinal")
    optimizer._unshown = left


def hide(optimizer: Any, params: Iterable[Tensor]) -> None:
    """Let `state` show nothing of parameters in no group, on which torch's state_dict fails."""
    for p in params:
        values = optimizer.state.get(p)
        if optimizer._marks.pop(id(p), None) is not None and isinstance(values, dict):
            for name in ENTRIES:
                values.pop(optimizer._prefix + name, None)
            if not values:
                del optimizer.state[p]


def adopt(optimizer: Any, params: Iterable[Tensor]) -> None:
    """Take up the drivers that somebody else wrote into `state`."""
    prefix = optimizer._prefix
    for p in params:
        values = optimizer.state[p]
        written = {name: values[prefix + name] for name in ENTRIES if prefix + name in values}
        own = optimizer._orbits.get(p, {}).get("ordinal")
        if written and (own is None or own.data_ptr() != written["ordinal"].data_ptr()):
            optimizer._orbits[p] = exact_copies(written, p)
            optimizer._keys.pop(p, None)


# Saving ------------------------------------------------------------------------------------------


@contextmanager
def _without_hooks(optimizer: Any, *names: str) -> Iterator[list[list[Any]]]:
    """Let the user's hooks of some kinds wait: they are to see the whole state dict."""
    kept = [getattr(optimizer, name) for name in names]
    for name in names:
        setattr(optimizer, name, OrderedDict())
    try:
        yield [list(hooks.values()) for hooks in kept]
    finally:
        for name, hooks in zip(names, kept, strict=True):
            setattr(optimizer, name, hooks)


def save(optimizer: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the inner optimizer's state dict with the drivers in it, under the prefix."""
    optimizer._fit()
    with _without_hooks(optimizer, HOOKS[1]) as (hooks,):
        inner = optimizer._inner.state_dict(optimizer, *args, **kwargs)
        packed = merge(inner, optimizer.param_groups, optimizer._orbits, optimizer._prefix)
    for hook in hooks:
        packed = hook(optimizer, packed) or packed
    return packed


def merge(
    packed: Any, groups: Groups, orbits: Mapping[Tensor, State], prefix: str
) -> dict[str, Any]:
    """Return the inner optimizer's state dict with the drivers in it."""
    params = [p for group in groups for p in group["params"]]
    if not _has_torch_form(packed, groups):
        numbers = {p: number for number, p in enumerate(params)}
        own = []
        for group in groups:
            keywords = _plain_group({n: group[prefix + n] for n in NAMES}, "")
            own.append(keywords | {"params": [numbers[p] for p in group["params"]]})
        states = {k: dict(orbits[p]) for k, p in enumerate(params) if p in orbits}
        return {**packed, ENTRY: {"state": states, "param_groups": own}}
    names = [name for group in packed["param_groups"] for name in group["params"]]
    merged = dict(packed["state"])
    for name, p in zip(names, params, strict=True):
        if orbits:  # distributed checkpoints refuse a state that only some parameters have
            own_entries = {prefix + n: value for n, value in orbits.get(p, {}).items()}
            merged[name] = {**merged.get(name, {}), **own_entries}
    plain = [_plain_group(group, prefix) for group in packed["param_groups"]]
    return {**packed, "state": merged, "param_groups": plain}


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


def load(optimizer: Any, state_dict: Any) -> None:
    """Load both states; the orbits keep their bits, and nothing changes if they do not fit.

    A plain checkpoint of the inner optimizer loads too, and leaves the drivers as they are.
    """
    optimizer._fit()
    groups, prefix = optimizer.param_groups, optimizer._prefix
    own_keywords = [{n: group[prefix + n] for n in NAMES} for group in groups]
    given = as_mapping(state_dict)
    before = optimizer.state, groups
    with _without_hooks(optimizer, *HOOKS[2:]) as (first, last):
        for hook in first:
            given = hook(optimizer, given) or given
        plain, own = split(given, prefix)
        keywords, orbits = checked(own, groups, own_keywords)
        try:
            optimizer._inner.load_state_dict(optimizer, plain)
            rounding.restore_dtypes(optimizer, plain, keywords or own_keywords)
        except Exception:
            optimizer.state, optimizer.param_groups = before
            raise
        for group, values in zip(optimizer.param_groups, keywords or own_keywords, strict=True):
            group.update({prefix + name: value for name, value in values.items()})
        if orbits is not None:
            optimizer._orbits, optimizer._keys, optimizer._batches = orbits, {}, {}
        optimizer._rounded = set()
        optimizer._unshown = list(optimizer._orbits)
        show(optimizer, stepped=False)
    for hook in last:
        hook(optimizer)


def as_mapping(value: Any, what: str = "the state", *names: str) -> dict[str, Any]:
    """Return a dictionary's copy, or raise if it is none or lacks one of the names."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} must be a dict, got {type(value).__name__}")
    for name in names:
        if name not in value:
            raise ValueError(f"{what} lacks {name!r}")
        kind, rule = (Mapping, "a dict") if name == "state" else ((list, tuple), "a list")
        if not isinstance(value[name], kind):
            raise ValueError(f"{name!r} of {what} must be {rule}, got {type(value[name]).__name__}")
    return dict(value)


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
    other = "" if prefix else PREFIX  # MPGD and perturb(SGD) load each other's
    if not any(prefix + name in group for group in groups for name in NAMES):
        is_other = any(other + "symmetric" in group for group in groups)
        prefix = other if is_other else prefix
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

    ``own`` is our part of it, as `split` gives it, and ``present`` are the keywords that the groups
    have now; noises are compared with theirs.
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
    for name in names:
        if isinstance(name, bool) or not isinstance(name, (int, str)):
            raise ValueError(f"'params' of the state must be numbers or names, got {name!r}")
    if len(set(names)) < len(names):
        raise ValueError(f"'params' of the state must differ from each other, got {names}")
    keywords = [_checked_group(k, group, present[k]) for k, group in enumerate(own["param_groups"])]
    params = [(k, p) for k, group in enumerate(groups) for p in group["params"]]
    settings = [make_settings(group) for group in keywords]
    orbits: dict[Tensor, State] = {}
    for ordinal, ((k, p), name) in enumerate(zip(params, names, strict=True)):
        values = as_mapping(own["state"].get(name, {}), f"the state of parameter {ordinal}")
        for entry in sorted(values.keys() & set(ENTRIES)):
            _check_entry(f"{entry!r} of parameter {ordinal}", entry, values[entry], p, settings[k])
        # without noise, one that was saved in full precision has no state: its rounding starts now
        if settings[k].is_perturbed or (values and settings[k].needs_state(local(p).dtype)):
            for entry in state.needed_entries(settings[k]):
                if entry not in values:
                    raise ValueError(f"the state of parameter {ordinal} lacks {entry!r}")
            tables = settings[k].tables
            if tables is not None and int(values["tables"]) != tables:
                raise ValueError(
                    f"parameter {ordinal} was saved with other tables (fingerprint "
                    f"{int(values['tables'])}) than this version computes ({tables}); its orbit "
                    "cannot go on bit for bit"
                )
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


def _check_entry(what: str, name: str, value: Any, p: Tensor, settings: Settings) -> None:
    """Raise if a saved value is not what this parameter's would be.

    A count is at least 0. Every 32-bit word is a place on a chaotic orbit. Orbits of noises that
    the kernels do not know have any dtype, but finite numbers.
    """
    is_orbit = name in (*ELEMENTS, *SCALARS)
    if is_orbit or type(value) is not int:  # some clients write a count as a number
        shape = (*p.shape, *((2,) if p.is_complex() else ())) if name in ELEMENTS else ()
        if not isinstance(value, Tensor) or tuple(value.shape) != shape:
            kind = getattr(value, "shape", type(value).__name__)
            raise ValueError(f"{what} must have shape {shape}, got {kind}")
        if value.layout is not torch.strided or value.is_meta:
            raise ValueError(
                f"{what} must be a dense tensor with memory, got layout {value.layout} on "
                f"{value.device}"
            )
        which = int(name.startswith(ORBITS[1]))
        dtype = torch.int32 if is_orbit else torch.int64
        if value.dtype != dtype and not (is_orbit and settings.drivers[which] is None):
            raise ValueError(f"{what} must be {dtype}, got {value.dtype}")
    if name in ("step", "ordinal") and not 0 <= int(value) < 2**62:
        raise ValueError(f"{what} must be at least 0 and below 2^62, got {int(value)}")
    if is_orbit:
        words = local(value)
        if words.is_floating_point() and not bool(words.isfinite().all()):
            raise ValueError(f"{what} must be finite")
