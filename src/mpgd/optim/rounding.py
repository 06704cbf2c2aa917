"""Stochastic rounding: of one tensor, and of the half parameters of a perturbed optimizer.

A step that is smaller than half of a parameter's last place is lost when it is rounded to nearest.
Rounded stochastically it is right in the mean. So the inner step works on float32 stand-ins of the
parameters, which are rounded into them and let go. The states of these parameters stay in float32.

    torch's own optimizers    stand-ins of one bucket of parameters at a time
    others                    stand-ins of all at once: they may look at all tensors together

Optimizers that hold on to the parameters themselves cannot be given stand-ins. A bucket is to the
inner optimizer all of its parameters. Entries that it changes in its groups, such as a step count,
are put back before each bucket but the first, so that they change once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from mpgd.noise import stochastic_rounding as rounding
from mpgd.noise.counter_hash import extend_key, flat_index, hash_elements, make_key, step_key
from mpgd.noise.engines import cpu, kernel_for
from mpgd.noise.stochastic_rounding import is_half
from mpgd.optim.displacement import displace, next_shared
from mpgd.optim.distributed import (
    are_overlapping,
    like,
    local,
    note_offset,
    offset_of,
    place_of,
)
from mpgd.optim.settings import Settings
from mpgd.optim.state import ENTRIES
from mpgd.parameters import check_integer, check_seed

BUCKET: Final = 1 << 20  # elements whose stand-ins are there at a time


def stochastic_round(
    x: Tensor, dtype: torch.dtype, *, seed: int, step: int, stream: int = 0
) -> Tensor:
    """Return ``x`` in a half type, each element rounded stochastically, without bias.

    The chance is a function of (seed, stream, element, step) alone. So the result does not depend
    on the device, the number of threads, or how a DTensor is sharded.

    Args:
        x: of dtype float32, any shape; a DTensor too.
        dtype: ``torch.bfloat16`` or ``torch.float16``.
        seed: of the chance.
        step: the number of the step; another one gives independent chances.
        stream: tells tensors apart that are rounded at the same step.

    Examples:
        >>> x = torch.full((100_000,), 1.001)  # its neighbours are 1 and 1.0078125
        >>> y = stochastic_round(x, torch.bfloat16, seed=0, step=0)
        >>> sorted(set(y.tolist())), round(float(y.float().mean()), 3)
        ([1.0, 1.0078125], 1.001)
    """
    if x.dtype != torch.float32:
        raise TypeError(f"x must be a float32 tensor, got {x.dtype}; convert it by x.float()")
    if not rounding.is_half(dtype):
        raise ValueError(f"dtype must be torch.bfloat16 or torch.float16, got {dtype}")
    stream, step = check_integer("stream", stream, 0), check_integer("step", step, 0)
    key = step_key(make_key(check_seed(seed), stream, rounding.DRIVER), step)
    return like(x, round_part(x, dtype, key))


def round_part(x: Tensor, dtype: torch.dtype, key: int) -> Tensor:
    """Return the local part of a float32 tensor in a half type, given the key of the step."""
    part, place = local(x).detach().resolve_neg(), place_of(x)
    offset = place.offset
    if kernel_for(None, part.device) == "cpu" and offset is not None and part.is_contiguous():
        return cpu.round_halves(part, dtype, key, offset)
    index = place.index(part.device)
    index = flat_index(place.shape, part.device) if index is None else index
    return rounding.rounded(part, hash_elements(index, key), dtype)


# Half parameters of an optimizer -----------------------------------------------------------------


class StandIn(NamedTuple):
    """A half parameter, the float32 tensor that stands for it in a step, and its chances' key."""

    p: Tensor
    x: nn.Parameter
    key: int


def is_needed(optimizer: Any, settings: list[Settings]) -> bool:
    """Return whether an optimizer has half parameters to round stochastically; raise if it cannot.

    Nothing has moved yet.
    """
    halves: list[Tensor] = []
    for number, (group, each) in enumerate(zip(optimizer.param_groups, settings, strict=True)):
        if each.rounds:
            halves += [p for p in group["params"] if is_half(local(p).dtype)]
        elif number in optimizer._rounded and any(
            map(partial(_is_wide, optimizer), group["params"])
        ):
            raise ValueError(
                f"rounding of group {number} was 'stochastic', so its states are float32, and "
                "cannot become 'nearest' in mid-run: set it back"
            )
    if halves:
        _refuse_halves(optimizer, halves)
    return bool(halves)


def _refuse_halves(optimizer: Any, halves: list[Tensor]) -> None:
    if are_overlapping([local(p) for p in halves if p.grad is not None]):
        raise ValueError('rounding="stochastic" cannot take half parameters that share memory')
    inside = [name for name, x in vars(optimizer).items() if isinstance(x, torch.optim.Optimizer)]
    if inside or isinstance(optimizer, torch.optim.LBFGS):
        remedy = f": perturb its {inside[0]!r} instead" if inside else ""
        raise ValueError(
            f'rounding="stochastic" cannot serve {optimizer._inner.__name__}, which holds on to '
            f"the parameters it was made with{remedy}"
        )


def _is_wide(optimizer: Any, p: Tensor) -> bool:
    """Return whether a half parameter has a state in float32."""
    values = optimizer.state.get(p, {}) if is_half(local(p).dtype) else {}
    return any(_is_float32(value) for name, value in values.items() if name != "step")


def _is_float32(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.float32


def step(optimizer: Any, settings: list[Settings], *args: Any, **kwargs: Any) -> Any:
    """Take one perturbed step of an optimizer, its half parameters through stand-ins."""
    groups: list[dict[str, Any]] = optimizer.param_groups
    losses: list[Any] = []
    optimizer._rounded = {number for number, each in enumerate(settings) if each.rounds}
    everyone = [group["params"] for group in groups]
    shared = [
        next_shared(optimizer._orbits[group["params"][0]], each)
        if each.is_perturbed and group["params"] and float(group["lr"])
        else None
        for group, each in zip(groups, settings, strict=True)
    ]
    entries = [{k: v for k, v in group.items() if k != "params"} for group in groups]
    try:
        for bucket in list(_buckets(optimizer, everyone, settings)):
            if losses:
                for group, values in zip(groups, entries, strict=True):
                    for name in group.keys() - values.keys() - {"params"}:
                        del group[name]  # some make a count in their first step
                    group.update(values)
            losses.append(_step_bucket(optimizer, settings, bucket, shared, args, kwargs))
    finally:
        for group, params in zip(groups, everyone, strict=True):
            group["params"] = params
    return losses[0] if losses else None


def _buckets(
    optimizer: Any, everyone: list[list[Tensor]], settings: list[Settings]
) -> Iterator[list[list[Tensor]]]:
    """Yield buckets, each a list of parameters for every group; those in full precision first."""
    if optimizer._bare is None:
        yield everyone
        return
    halves: list[tuple[int, Tensor]] = []
    full: list[list[Tensor]] = [[] for _ in everyone]
    for number, (params, each) in enumerate(zip(everyone, settings, strict=True)):
        for p in params:
            if p.grad is None or not (each.rounds and is_half(local(p).dtype)):
                full[number].append(p)
            else:
                halves.append((number, p))
    if any(full):
        yield full
    bucket: list[list[Tensor]] = [[] for _ in everyone]
    size = 0
    for number, p in halves:
        if size + local(p).numel() > BUCKET and any(bucket):
            yield bucket
            bucket, size = [[] for _ in everyone], 0
        bucket[number].append(p)
        size += local(p).numel()
    if any(bucket):
        yield bucket


def _step_bucket(
    optimizer: Any,
    settings: list[Settings],
    bucket: list[list[Tensor]],
    shared: list[float | None],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Take the step of a bucket; an error leaves its half parameters as they were."""
    stand_ins: list[StandIn] = []
    try:
        for group, each, params, m in zip(
            optimizer.param_groups, settings, bucket, shared, strict=True
        ):
            moved = [p for p in params if p.grad is not None]
            rounded = [p for p in moved if each.rounds and is_half(local(p).dtype)]
            stand_ins += [_stand_in(optimizer, p, each) for p in rounded]
            own = {s.p: s.x for s in stand_ins}
            group["params"] = [own.get(p, p) for p in params]
            eta = float(group["lr"])
            if eta and each.is_perturbed:
                parts = [local(own[p]).detach() if p in own else None for p in moved]
                pairs = zip(moved, parts, strict=True)
                with torch.no_grad():
                    displace([optimizer._target(p, each, x) for p, x in pairs], each, eta, m)
            if eta:
                optimizer.count_steps(moved if each.is_perturbed else rounded)
        closure = args[0] if args else None
        if closure is not None:
            closure.params = [p for group in optimizer.param_groups for p in group["params"]]
            closure.closure = _refuse_second_call
            closure.note()
        loss = optimizer._inner_step(*args, **kwargs)
        with torch.no_grad():
            for p, x, key in stand_ins:
                local(p).copy_(round_part(x, local(p).dtype, key))
        return loss
    finally:
        for p, x, _ in stand_ins:
            if x in optimizer.state:
                optimizer.state[p] = optimizer.state.pop(x)


def _refuse_second_call() -> None:
    raise RuntimeError(
        'rounding="stochastic" cannot serve an optimizer that evaluates its closure more than once'
    )


def _stand_in(optimizer: Any, p: Tensor, settings: Settings) -> StandIn:
    """Return the float32 stand-in of a parameter, which has its state from now on."""
    x = nn.Parameter(p.detach().float(), p.requires_grad)
    assert p.grad is not None
    x.grad = p.grad.float()
    if offset_of(p):
        note_offset(x, offset_of(p))
    if p in optimizer.state:
        optimizer.state[x] = {name: _wide(value) for name, value in optimizer.state.pop(p).items()}
    turn = int(optimizer._orbits[p]["step"])
    key = step_key(extend_key(optimizer._key_of(p, settings), rounding.DRIVER), turn)
    return StandIn(p, x, key)


def _wide(value: Any) -> Any:
    is_low = isinstance(value, Tensor) and is_half(value.dtype)
    return value.float() if is_low else value


def keep_float32(optimizer: Any, saved: dict[str, Any], keywords: Any) -> None:
    """Put float32 states of half parameters back after torch has loaded and cast them."""
    rounds = [own["rounding"] == "stochastic" for own in keywords or []]
    groups = zip(optimizer.param_groups, saved.get("param_groups", ()), rounds, strict=False)
    for group, packed, is_stochastic in groups:
        for p, name in zip(group["params"], packed["params"], strict=True):
            values = saved["state"].get(name, {})
            if is_stochastic and is_half(local(p).dtype) and isinstance(values, dict):
                for key, value in values.items():
                    if _is_float32(value) and key != "step" and key not in ENTRIES:
                        optimizer.state[p][key] = value.detach().to(p.device, copy=True)
