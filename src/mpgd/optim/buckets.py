"""Buckets: the parameters that an optimizer steps together, when it works on stand-ins.

To the optimizer a bucket is all of its parameters. Entries that it changes in its groups, such as a
step count, are put back before a group's second bucket, so that they change once. An optimizer that
couples tensors must get one bucket with all parameters; a trial on three small tensors finds those.

Adam and AdamW treat elements one by one. So the stand-ins of their half parameters are pieces that
stay in the cache, and torch's fused kernel steps them. It computes whole vectors otherwise than the
elements behind the last one, so pieces are padded: then the bits do not depend on the sharding.
"""

from __future__ import annotations

import ctypes
import inspect
import sys
import warnings
from collections.abc import Callable
from itertools import compress
from typing import Any, Final

import torch
from torch import Tensor, nn

from mpgd.noise.counter_hash import extend_key, step_key
from mpgd.noise.engines.cpu import RoundingJob, Slot
from mpgd.noise.stochastic_round import (
    DRIVER,
    RoundedRow,
    is_half,
    round_all,
    rounding_job,
    salt_of,
)
from mpgd.optim.displacement import displace
from mpgd.optim.settings import Settings
from mpgd.sharding import Place, is_sharded, local, place_of

SIZE: Final = 1 << 20  # elements of a bucket; a larger parameter is one by itself
PIECE: Final = 1 << 19  # elements that Adam steps at a time
VECTORS: Final = 64  # elements: a multiple of every vector of torch's kernels
MOMENTS: Final = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
FLOAT32: Final[Any] = {"dtype": torch.float32, "device": "cpu"}  # whatever the defaults are
Bucket = dict[int, list[Tensor]]  # parameters by the number of their group


def is_rounded(settings: Settings, p: Tensor) -> bool:
    """Return whether a step of a parameter goes through a stand-in."""
    return settings.rounds and p.grad is not None and is_half(local(p).dtype)


def is_narrow(optimizer: Any, p: Tensor, value: Tensor) -> bool:
    """Return whether a state is kept in the states' dtype; a parameter without axes has none."""
    return optimizer._rounding.state_dtype is not None and p.dim() > 0 and value.shape == p.shape


def make_buckets(optimizer: Any, settings: list[Settings]) -> list[Bucket]:
    """Return buckets: all that need no stand-in, each group that Adam steps, and the others."""
    full: Bucket = {}
    pieces: Bucket = {}
    others: list[Bucket] = []
    size = 0
    for number, group in enumerate(optimizer.param_groups):
        for p in group["params"]:
            if not is_rounded(settings[number], p):
                full.setdefault(number, []).append(p)
            elif is_adam(optimizer, group, settings[number], p):
                pieces.setdefault(number, []).append(p)
            else:
                size += local(p).numel()
                if size > SIZE or not others:
                    others.append({})
                    size = local(p).numel()
                others[-1].setdefault(number, []).append(p)
    return [*filter(None, [full]), *({number: ps} for number, ps in pieces.items()), *others]


def step_each(optimizer: Any, buckets: list[Bucket], take_step: Callable[[Bucket], None]) -> None:
    """Call ``take_step`` with each bucket while it is all that the optimizer has."""
    groups: list[dict[str, Any]] = optimizer.param_groups
    before = [dict(group) for group in groups]
    begun: set[int] = set()
    try:
        for bucket in buckets:
            for number in bucket:
                if number in begun:
                    groups[number].clear()  # some make a count in their first step
                    groups[number].update(before[number])
                groups[number]["params"] = bucket[number]
            begun |= bucket.keys()
            optimizer.param_groups = [groups[number] for number in bucket]
            take_step(bucket)
    finally:
        optimizer.param_groups = groups
        for group, old in zip(groups, before, strict=True):
            group["params"] = old["params"]


# Memory ----------------------------------------------------------------------------------------


class Workspace:
    """Memory for float32 copies, the same for each bucket: fresh pages cost more than a step.

    The optimizer keeps it from step to step: at most 16 MB, and none for optimizers of others.

    Args:
        size: how many elements; a copy that does not fit gets memory of its own.
    """

    def __init__(self, size: int) -> None:
        self.used = 0
        self.memory = torch.empty(size, **FLOAT32)

    def widened(self, x: Tensor) -> Tensor:
        """Return a float32 copy."""
        end = self.used + x.numel()
        is_plain = not is_sharded(x) and x.layout is torch.strided and x.device.type == "cpu"
        if not is_plain or end > self.memory.numel():
            return x.detach().to(torch.float32, copy=True)
        part = self.memory[self.used : end].view(x.shape)
        self.used = end
        return part.copy_(x.detach())


def workspace(optimizer: Any, size: int) -> Workspace:
    """Return the optimizer's memory, all of it free, for at least ``size`` elements."""
    made: Workspace | None = optimizer._workspace
    if made is None or made.memory.numel() < size:
        made = optimizer._workspace = Workspace(size)
    made.used = 0
    return made


def return_memory() -> None:
    """Give free pages back, where glibc can: states that were float32 for a while leave holes."""
    library: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def rounding_key(optimizer: Any, p: Tensor, settings: Settings) -> int:
    """Return the key of a parameter's rounding in this step."""
    own = extend_key(optimizer._key_of(p, settings), DRIVER)
    return step_key(own, int(optimizer._orbits[p]["step"]))


# Adam, piece by piece --------------------------------------------------------------------------


def is_adam(optimizer: Any, group: dict[str, Any], settings: Settings, p: Tensor) -> bool:
    """Return whether `step_adam` steps a parameter: on a CPU, where nobody chose another way."""
    if optimizer._bare is None or not isinstance(optimizer, torch.optim.Adam):
        return False
    is_free = group["foreach"] is None and group["fused"] is not False
    is_plain = is_rounded(settings, p) and p.grad is not None and p.grad.layout is torch.strided
    return is_free and is_plain and local(p).device.type == "cpu"


class _Batch:
    """Pieces that are stepped together, their stand-ins one after the other in the workspace.

    Args:
        room: the workspace: a row for parameters, one for gradients, and one for each moment.
    """

    def __init__(self, room: Tensor) -> None:
        self.room, self.used = room, 0
        self.columns: list[list[Tensor]] = [[] for _ in room]  # as torch's kernel takes them
        self.steps: list[Tensor] = []
        self.widened: list[tuple[Tensor, Tensor]] = []  # stand-ins, and what is copied there
        self.kept: list[tuple[Tensor, Tensor]] = []  # float32 moments, and their stand-ins
        self.rows: list[RoundedRow] = []
        self.job: RoundingJob | None = None  # the rows, if the kernel can take them
        self.ended: list[Tensor] = []  # parameters with their last piece here

    def add(self, tensors: list[Tensor], place: Place, key: int, first: int) -> None:
        """Add a piece of what `_columns` returns; float32 moments may be stepped in place."""
        sources, moments = tensors[: len(self.room)], tensors[len(self.room) :]
        count = sources[0].numel()
        cells = self.room[:, self.used : self.used + _padded(count)].unbind()
        self.used += len(cells[0])
        slots = [Slot(cells[0][:count].view(sources[0].shape), sources[0])]
        for k, (cell, source) in enumerate(zip(cells, sources, strict=True)):
            part, moment = cell[:count].view(source.shape), moments[k - 2] if k > 1 else None
            if moment is not None and is_half(moment.dtype):
                slots.append(Slot(part, moment, salt_of(MOMENTS[k - 2])))
            elif moment is not None:
                is_same = moment.dtype == source.dtype and source.is_contiguous()
                if is_same and count == len(cell):  # needs no padding
                    self.columns[k].append(source.view(-1))
                    continue
                self.kept.append((moment, part))
            self.columns[k].append(cell)
            self.widened.append((part, source))
        self.rows.append(RoundedRow(slots, place, key, first))


@torch.no_grad()
def step_adam(optimizer: Any, settings: Settings, params: list[Tensor]) -> None:
    """Take the step of half parameters of Adam or AdamW, all of the optimizer's first group."""
    group = optimizer.param_groups[0]
    names = ("lr", "weight_decay", "eps")
    beta1, beta2 = map(float, group["betas"])  # what is wrong raises before anything is changed
    scalars = {name: float(group[name]) for name in names} | {"beta1": beta1, "beta2": beta2}
    eta = scalars["lr"] if settings.is_perturbed else 0.0
    # all at once: between the steps of two batches Python would find nothing in the cache
    batches = _prepared(optimizer, settings, params, is_perturbed=eta != 0)[::-1]
    while batches:
        batch = batches.pop()
        torch._foreach_copy_([x for x, _ in batch.widened], [source for _, source in batch.widened])
        if eta:
            pairs = zip(batch.ended, batch.rows, strict=True)
            targets = [optimizer._target(p, settings, row.slots[0].x) for p, row in pairs]
            displace(targets, settings, eta)
        _step_batch(batch, group, scalars)
        if optimizer._rounding.free_gradients:
            for p in batch.ended:
                p.grad = None
    optimizer.count_steps(params)  # at lr 0 too: moments that are rounded again need a new key


def _prepared(
    optimizer: Any, settings: Settings, params: list[Tensor], is_perturbed: bool
) -> list[_Batch]:
    """Return batches; a parameter that is perturbed or not contiguous is one piece."""
    sizes = [local(p).numel() for p in params]
    columns = [_columns(optimizer, p) for p in params]
    is_whole = [is_perturbed or not all([x.is_contiguous() for x in each]) for each in columns]
    capacity = max([PIECE, *(_padded(size) for size in compress(sizes, is_whole))])
    capacity = min(capacity, sum(map(_padded, sizes)))
    width = 5 if optimizer.param_groups[0]["amsgrad"] else 4
    count = width * capacity
    room = workspace(optimizer, count) if capacity <= SIZE else Workspace(count)
    cells = room.memory[:count].view(width, capacity)
    batches = [_Batch(cells)]
    for p, size, whole, each in zip(params, sizes, is_whole, columns, strict=True):
        place, key = place_of(p), rounding_key(optimizer, p, settings)
        length = max(1, size) if whole else PIECE
        for first in range(0, max(1, size), length):
            parts = each if size <= length else [x.view(-1)[first : first + length] for x in each]
            if batches[-1].used + _padded(parts[0].numel()) > capacity:
                batches.append(_Batch(cells))
            batches[-1].add(parts, place, key, first)
            batches[-1].steps.append(optimizer.state[p]["step"])
        batches[-1].ended.append(p)
    for batch in batches:
        batch.job = rounding_job(batch.rows)
    return batches


def _padded(size: int) -> int:
    return -(-size // VECTORS) * VECTORS


def _columns(optimizer: Any, p: Tensor) -> list[Tensor]:
    """Return a parameter, its gradient, and its moments before and after the step it begins.

    Float32 moments may become halves, which are then rounded, and halves may become float32.
    """
    state = optimizer.state[p]
    names = MOMENTS[: 3 if optimizer.param_groups[0]["amsgrad"] else 2]
    dtype = optimizer._rounding.state_dtype if is_narrow(optimizer, p, p) else torch.float32
    if "step" not in state:
        state["step"] = torch.zeros((), **FLOAT32)
        state.update({name: torch.zeros_like(p, dtype=dtype) for name in names})
    state["step"] += 1
    old = [state[name] for name in names]
    new = [x if x.dtype == dtype else torch.empty_like(x, dtype=dtype) for x in old]
    state.update(zip(names, new, strict=True))
    return [local(x).detach() for x in (p, p.grad, *old, *new)]


def _step_batch(batch: _Batch, group: dict[str, Any], scalars: dict[str, float]) -> None:
    """Step the stand-ins of a batch by torch's fused kernel, and round them."""
    step: Any = torch._fused_adamw_ if group["decoupled_weight_decay"] else torch._fused_adam_
    flags = {name: group[name] for name in ("amsgrad", "maximize")}
    step(*[*batch.columns, []][:5], batch.steps, **scalars, **flags)
    round_all(batch.rows) if batch.job is None else batch.job.run()
    for moment, part in batch.kept:
        moment.copy_(part)
    torch.autograd.graph.increment_version(batch.ended)


# Which optimizers treat tensors one by one -----------------------------------------------------


def is_separable(optimizer: Any) -> bool:
    """Return whether an optimizer treats tensors one by one, so that buckets give the same bits.

    Torch's own do. Of another class, a new object with the same settings steps three small tensors
    together and one after the other. What cannot be built or tried so counts as coupled, and so
    does one that evaluates a closure again, at another point, in one step.
    """
    if optimizer._bare is not None:
        return True
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            return _are_equal(_trial(optimizer, True), _trial(optimizer, False))
    except Exception:
        return False


def _trial(optimizer: Any, together: bool) -> Any:
    """Return all that four steps change, with gradients from 10^-3 to 10^3."""
    first, last = optimizer.param_groups[0], optimizer.param_groups[-1]
    pairs = (first, first["params"][0]), (first, first["params"][-1]), (last, last["params"][-1])
    shapes = [torch.Size(min(size, 4) for size in p.shape) for _, p in pairs]
    params: list[Tensor] = [
        nn.Parameter(torch.linspace(-1, 1, 1 + s.numel(), **FLOAT32)[1:].view(s)) for s in shapes
    ]
    known = {**vars(optimizer), **first}
    names = inspect.signature(optimizer._inner).parameters.keys() - {"params"}
    groups = [{k: v for k, v in group.items() if k != "params"} for group in (first, last)]
    for group, own in zip(groups, (params[:2], params[2:]), strict=True):
        group.update(params=own, lr=float(group["lr"]) or 0.01)
    inner = optimizer._inner(groups, **{name: known[name] for name in names if name in known})
    torch.manual_seed(0)

    def take_step(bucket: Bucket) -> None:
        losses = [torch.zeros((), **FLOAT32)]  # a second evaluation fails
        has_closure = "closure" in inspect.signature(inner.step).parameters
        inner.step(*[losses.pop] if has_closure else [])

    a, b, c = params
    buckets: list[Bucket] = [{0: [a, b], 1: [c]}] if together else [{0: [a]}, {0: [b]}, {1: [c]}]
    for size in (1.0, 1e-3, 1e3, 1.0):
        for p in params:
            p.grad = size * torch.randn(p.shape, **FLOAT32)
        step_each(inner, buckets, take_step)
    counts = {k: v for k, v in vars(inner).items() if isinstance(v, (int, float, Tensor))}
    states = [inner.state.get(p) for p in params]
    common = {k: v for k, v in inner.state.items() if not isinstance(k, Tensor)}
    entries = [{k: v for k, v in g.items() if k != "params"} for g in inner.param_groups]
    return [params, states, common, counts, entries]


def _are_equal(a: Any, b: Any) -> bool:
    """Return whether two nests of tensors and plain values are equal."""
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_are_equal(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_are_equal, a, b))
    return bool(a == b)
