"""Stochastic rounding of the half parameters of an optimizer.

The inner step works on float32 stand-ins of one bucket of parameters at a time, which are rounded
into them and let go. The states stay in float32, or are rounded to ``state_dtype`` too. See
`mpgd.optim.buckets` for which parameters are stepped together, and for Adam and AdamW.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mpgd.noise.engines.cpu import Slot
from mpgd.noise.stochastic_round import RoundedRow, is_half, round_all, salt_of
from mpgd.optim import buckets
from mpgd.optim.buckets import Bucket, Workspace
from mpgd.optim.diagnostics import level_of_user
from mpgd.optim.displacement import displace
from mpgd.optim.settings import Settings
from mpgd.optim.state import ENTRIES
from mpgd.sharding import are_overlapping, local, place_of


class Rounding(NamedTuple):
    """How an optimizer keeps the states and gradients of its half parameters."""

    state_dtype: torch.dtype | None = None  # of states of a parameter's shape; None: float32
    free_gradients: bool = False  # as soon as a parameter has taken its step


class StandIn(NamedTuple):
    """A half parameter and what stands for it in a step."""

    p: Tensor
    x: nn.Parameter  # float32
    key: int  # of the rounding in this step
    states: dict[str, Tensor]  # those that were widened for the step, as they were


def is_needed(optimizer: Any, settings: list[Settings]) -> bool:
    """Return whether an optimizer has half parameters to round stochastically; raise if it cannot.

    Nothing has moved yet.
    """
    halves: list[Tensor] = []
    for number, (group, each) in enumerate(zip(optimizer.param_groups, settings, strict=True)):
        own = [p for p in group["params"] if is_half(local(p).dtype)]
        if each.rounds:
            halves += own
        elif number in optimizer._rounded and any(_has_float32(optimizer, p) for p in own):
            raise ValueError(
                f"rounding of group {number} was 'stochastic', so its states are float32, and "
                "cannot become 'nearest' in mid-run: set it back"
            )
    if are_overlapping([local(p) for p in halves if p.grad is not None]):
        raise ValueError('rounding="stochastic" cannot take half parameters that share memory')
    inside = [name for name, x in vars(optimizer).items() if isinstance(x, torch.optim.Optimizer)]
    if halves and (inside or isinstance(optimizer, torch.optim.LBFGS)):
        remedy = f": round the steps of its {inside[0]!r} instead" if inside else ""
        raise ValueError(
            f'rounding="stochastic" cannot serve {optimizer._inner.__name__}, which holds on to '
            f"the parameters it was made with{remedy}"
        )
    return bool(halves)


def _has_float32(optimizer: Any, p: Tensor) -> bool:
    values = optimizer.state.get(p, {}).items()
    return any(_is_float32(value) for name, value in values if name != "step")


def _is_float32(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.float32


def step(optimizer: Any, settings: list[Settings], *args: Any, **kwargs: Any) -> Any:
    """Take one perturbed step of an optimizer, its half parameters through stand-ins."""
    groups: list[dict[str, Any]] = optimizer.param_groups
    if optimizer._is_separable is None:
        optimizer._is_separable = buckets.is_separable(optimizer)
        if not optimizer._is_separable:
            warnings.warn(
                f"{optimizer._inner.__name__} is stepped whole, with float32 stand-ins of all half "
                "parameters and gradients at once (8 bytes a parameter): it looks at several "
                "tensors together, or could not be tried alone",
                UserWarning,
                stacklevel=level_of_user(),
            )
    parts: list[Bucket] = [{number: group["params"] for number, group in enumerate(groups)}]
    if optimizer._is_separable:
        parts = buckets.make_buckets(optimizer, settings)
    return step_parts(optimizer, settings, parts, *args, **kwargs)


def step_parts(
    optimizer: Any, settings: list[Settings], parts: list[Bucket], *args: Any, **kwargs: Any
) -> Any:
    """Take the step of some buckets; return the first loss."""
    optimizer._rounded = {number for number, each in enumerate(settings) if each.rounds}
    losses: list[Any] = []

    def take_step(bucket: Bucket) -> None:
        group, number = optimizer.param_groups[0], next(iter(bucket))
        first = next(iter(bucket[number]), None)
        if first is not None and buckets.is_adam(optimizer, group, settings[number], first):
            buckets.step_adam(optimizer, settings[number], bucket[number])
            losses.extend(closure.loss for closure in args[:1] if closure is not None)
            return
        losses.append(_step_bucket(optimizer, settings, bucket, args, kwargs))

    buckets.step_each(optimizer, parts, take_step)
    return losses[0] if losses else None


def _step_bucket(
    optimizer: Any,
    settings: list[Settings],
    bucket: Bucket,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Take the step of a bucket; an error before it is rounded leaves its halves as they were."""
    copies = 2 if optimizer._rounding.state_dtype is None else 4
    count = sum(local(p).numel() for params in bucket.values() for p in params)
    # those of other libraries may keep a gradient, which must not lie in memory that is used again
    size = 0 if optimizer._bare is None else copies * min(buckets.SIZE, count)
    workspace = buckets.workspace(optimizer, size)
    stand_ins, is_taken = list[StandIn](), False
    try:
        for number, group in zip(bucket, optimizer.param_groups, strict=True):
            each, params = settings[number], bucket[number]
            moved = [p for p in params if p.grad is not None]
            rounded = [p for p in moved if buckets.is_rounded(each, p)]
            for p in rounded:  # one by one: `_finish` gives back the states of those that were made
                stand_ins.append(_stand_in(optimizer, p, each, workspace))
            x_of = {s.p: s.x for s in stand_ins}
            group["params"] = [x_of.get(p, p) for p in params]
            eta = float(group["lr"])
            if eta and each.is_perturbed:
                with torch.no_grad():
                    parts = [local(x_of.get(p, p)).detach() for p in moved]
                    targets = [
                        optimizer._target(p, each, x) for p, x in zip(moved, parts, strict=True)
                    ]
                    displace(targets, each, eta)
            # at lr 0 too: states that are rounded again need a new key
            optimizer.count_steps(moved if each.is_perturbed and eta else rounded)
        closure = args[0] if args else None
        if closure is not None:
            closure.params = [p for group in optimizer.param_groups for p in group["params"]]
            closure.closure = partial(_evaluate_again, closure.closure, stand_ins)
            closure.note()
        loss = optimizer._inner_step(*args, **kwargs)
        is_taken = True
        return loss
    finally:
        with torch.no_grad():
            _finish(optimizer, stand_ins, is_taken)


def _evaluate_again(closure: Callable[[], Any], stand_ins: list[StandIn]) -> Any:
    """Evaluate a closure at the stand-ins, rounded to nearest, as SAM asks in mid-step."""
    with torch.no_grad():
        for s in stand_ins:
            s.p.copy_(s.x)
            s.p.grad = None if s.x.grad is None else s.x.grad.to(s.p.dtype)  # perhaps cleared
    loss = closure()
    for s in stand_ins:
        s.x.grad = None if s.p.grad is None else s.p.grad.detach().float()
    return loss


# Stand-ins and their states ----------------------------------------------------------------------


def _stand_in(optimizer: Any, p: Tensor, settings: Settings, workspace: Workspace) -> StandIn:
    """Return the float32 stand-in of a parameter, which has its state from now on."""
    x = nn.Parameter(workspace.widened(p), p.requires_grad)
    assert p.grad is not None
    x.grad = workspace.widened(p.grad)
    if optimizer._rounding.free_gradients:
        p.grad = None
    halves: dict[str, Tensor] = {}
    if p in optimizer.state:
        values = optimizer.state.pop(p)
        halves = {n: v for n, v in values.items() if isinstance(v, Tensor) and is_half(v.dtype)}
        # copies that are not rounded back are the states from now on
        wide = {
            name: workspace.widened(half) if buckets.is_narrow(optimizer, p, half) else half.float()
            for name, half in halves.items()
        }
        optimizer.state[x] = {**values, **wide}
    return StandIn(p, x, buckets.rounding_key(optimizer, p, settings), halves)


def _finish(optimizer: Any, stand_ins: list[StandIn], is_taken: bool) -> None:
    """Round the stand-ins, if their step was taken, and their states; give these back."""
    rows: list[RoundedRow] = []
    for p, x, key, halves in stand_ins:
        slots = [Slot(local(x).detach(), local(p).detach())] if is_taken else []
        if x in optimizer.state:
            optimizer.state[p] = optimizer.state.pop(x)
            slots += _narrowed(optimizer, p, halves)
        if slots:
            rows.append(RoundedRow(slots, place_of(p), key))
    round_all(rows)
    if is_taken:
        torch.autograd.graph.increment_version([s.p for s in stand_ins])
    made = sum(s.out.numel() for row in rows for s in row.slots if s.salt)
    if made > 1 << 16 and not any(s.states for s in stand_ins):
        rows.clear()
        slots = []
        buckets.return_memory()


def _narrowed(optimizer: Any, p: Tensor, halves: dict[str, Tensor]) -> list[Slot]:
    """Put states in the states' dtype in the place of float32 ones; return what to round."""
    values, dtype = optimizer.state[p], optimizer._rounding.state_dtype
    slots = []
    for name, value in list(values.items()) if isinstance(values, dict) else ():
        if _is_float32(value) and name != "step" and buckets.is_narrow(optimizer, p, value):
            half = halves.get(name)
            if half is None or half.dtype != dtype:
                half = torch.empty_like(value, dtype=dtype)
            values[name] = half
            slots.append(Slot(local(value).detach(), local(half), salt_of(name)))
    return slots


def restore_dtypes(optimizer: Any, saved: dict[str, Any], keywords: list[dict[str, Any]]) -> None:
    """Put states of half parameters back after torch has loaded and cast them."""
    groups = zip(optimizer.param_groups, saved.get("param_groups", ()), keywords, strict=False)
    for group, packed, own in groups:
        for p, number in zip(group["params"], packed["params"], strict=True):
            values = saved["state"].get(number, {})
            is_rounded = own["rounding"] == "stochastic" and is_half(local(p).dtype)
            for name, x in values.items() if is_rounded and isinstance(values, dict) else ():
                is_float = isinstance(x, Tensor) and x.is_floating_point()
                if is_float and name != "step" and name not in ENTRIES:
                    wide = torch.float32 if x.dtype == torch.float64 else x.dtype
                    optimizer.state[p][name] = x.detach().to(p.device, wide, copy=True)
