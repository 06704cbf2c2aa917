"""Buckets: the parameters that an optimizer steps together, when it works on stand-ins.

To the optimizer a bucket is all of its parameters. Entries that it changes in its groups, such as a
step count, are put back before a group's second bucket, so that they change once.

An optimizer that couples tensors, by a norm of all gradients or a count of its calls, must get one
bucket with all parameters. A trial on three small tensors finds those.

Adam and AdamW treat elements one by one. So the stand-ins of their half parameters are pieces that
stay in the cache, and torch's fused kernel steps them. It computes whole vectors otherwise than the
elements behind the last one, so pieces are padded: then the bits do not depend on the sharding.
"""

from __future__ import annotations

import ctypes
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from mpgd.noise.engines.cpu import Slot
from mpgd.noise.half_rounding import is_half, salt_of
from mpgd.optim.distributed import Place, is_sharded, local, place_of
from mpgd.optim.settings import Settings

SIZE: Final = 1 << 20  # elements of a bucket; a larger parameter is one by itself
PIECE: Final = 1 << 19  # elements that Adam steps at a time
VECTORS: Final = 64  # elements: a multiple of every vector of torch's kernels
MOMENTS: Final = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
Bucket = dict[int, list[Tensor]]  # parameters by the number of their group


class RoundedRow(NamedTuple):
    """A part of a parameter, and of its states, to be rounded.

    Attributes:
        slots: what to round, all of one size.
        place: that of the parameter.
        key: of its rounding in this step.
        first: the part's first element in the local part.
    """

    slots: list[Slot]
    place: Place
    key: int
    first: int = 0


def cut(optimizer: Any, every: Bucket, settings: list[Settings]) -> Iterator[Bucket]:
    """Yield buckets; first one of all that need no stand-in, then Adam's. Each group is in one."""
    halves: list[tuple[int, Tensor]] = []
    full: Bucket = {}
    pieces: Bucket = {}
    for number, params in every.items():
        for p in params:
            if not is_rounded(settings[number], p):
                full.setdefault(number, []).append(p)
            elif is_adam(optimizer, optimizer.param_groups[number], settings[number], p):
                pieces.setdefault(number, []).append(p)
            else:
                halves.append((number, p))
    if full:
        yield full
    for number, params in pieces.items():
        yield {number: params}
    bucket: Bucket = {}
    size = 0
    for number, p in halves:
        if size + local(p).numel() > SIZE and bucket:
            yield bucket
            bucket, size = {}, 0
        bucket.setdefault(number, []).append(p)
        size += local(p).numel()
    if bucket:
        yield bucket


def each(optimizer: Any, buckets: list[Bucket], take: Callable[[Bucket], None]) -> None:
    """Call ``take`` with each bucket while it is all that the optimizer has."""
    groups: list[dict[str, Any]] = optimizer.param_groups
    params = [group["params"] for group in groups]
    entries = [{k: v for k, v in group.items() if k != "params"} for group in groups]
    begun: set[int] = set()
    try:
        for bucket in buckets:
            for number in bucket:
                group, values = groups[number], entries[number]
                if number in begun:
                    for name in group.keys() - values.keys() - {"params"}:
                        del group[name]  # some make a count in their first step
                    group.update(values)
                group["params"] = bucket[number]
            begun |= bucket.keys()
            optimizer.param_groups = [groups[number] for number in bucket]
            take(bucket)
    finally:
        optimizer.param_groups = groups
        for group, own in zip(groups, params, strict=True):
            group["params"] = own


class Workspace:
    """Memory for float32 copies, the same for each bucket: fresh pages cost more than a step.

    The optimizer keeps it from step to step: at most 16 MB, and none for optimizers of others.

    Args:
        size: how many elements; a copy that does not fit gets memory of its own.
    """

    def __init__(self, size: int) -> None:
        self.used = 0
        self.memory = torch.empty(size, dtype=torch.float32, device="cpu")

    def widened(self, x: Tensor) -> Tensor:
        """Return a float32 copy."""
        end = self.used + x.numel()
        is_plain = not is_sharded(x) and x.layout is torch.strided and x.device.type == "cpu"
        if not is_plain or end > self.memory.numel():
            return x.detach().to(torch.float32, copy=True)
        part = self.memory[self.used : end].view(x.shape)
        self.used = end
        return part.copy_(x.detach())


def workspace(optimizer: Any, bucket: Bucket) -> Workspace:
    """Return memory for a bucket.

    Optimizers of other libraries may keep a gradient as it is, so they get none.
    """
    copies = 2 if optimizer._rounding.state_dtype is None else 4
    count = sum(local(p).numel() for params in bucket.values() for p in params)
    return _kept_workspace(optimizer, 0 if optimizer._bare is None else copies * min(SIZE, count))


def _kept_workspace(optimizer: Any, size: int) -> Workspace:
    if optimizer._workspace is None or optimizer._workspace.memory.numel() < size:
        optimizer._workspace = Workspace(size)
    made: Workspace = optimizer._workspace
    made.used = 0
    return made


@lru_cache(maxsize=1)
def _trim() -> Any:
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return getattr(library, "malloc_trim", None)


def return_memory() -> None:
    """Give free pages back to the system, where glibc can.

    Float32 states that live until they are rounded leave holes between the halves that stay. They
    are too small for the next ones, and would take up to 3 bytes a parameter.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


def is_rounded(settings: Settings, p: Tensor) -> bool:
    """Return whether a step of a parameter goes through a stand-in."""
    return settings.rounds and p.grad is not None and is_half(local(p).dtype)


def is_narrow(optimizer: Any, p: Tensor, value: Tensor) -> bool:
    """Return whether a state is kept in the states' dtype; a parameter without axes has none."""
    return optimizer._rounding.state_dtype is not None and p.dim() > 0 and value.shape == p.shape


# Adam, piece by piece --------------------------------------------------------------------------


def is_adam(optimizer: Any, group: dict[str, Any], settings: Settings, p: Tensor) -> bool:
    """Return whether `step_adam` steps a parameter: on a CPU, where nobody chose another way."""
    if optimizer._bare is None or not isinstance(optimizer, torch.optim.Adam):
        return False
    is_free = group["foreach"] is None and group["fused"] is not False
    is_plain = is_rounded(settings, p) and p.grad is not None and p.grad.layout is torch.strided
    return is_free and is_plain and local(p).device.type == "cpu"


class _Opened(NamedTuple):
    """A parameter during its step."""

    p: Tensor
    place: Place
    steps: Tensor
    pieces: list[tuple[Tensor, ...]]  # of the parameter, its gradient and its moments
    kept: list[tuple[Tensor, ...]]  # of its moments after the step
    results: list[tuple[Tensor, Tensor]]  # tensors that are not contiguous, and their elements


class _Batch(NamedTuple):
    """Pieces that are stepped together: what the kernel takes, and what follows it."""

    wide: list[list[Tensor]]  # parameters, gradients, moments
    steps: list[Tensor]
    pairs: list[tuple[Tensor, Tensor]]  # a parameter and its piece
    rows: list[RoundedRow]
    copies: list[tuple[Tensor, Tensor]]  # float32 moments and their padded pieces
    ended: list[_Opened]


def step_adam(
    optimizer: Any,
    group: dict[str, Any],
    keys: dict[Tensor, int],
    displace: Callable[[list[tuple[Tensor, Tensor]]], None] | None,
    round_all: Callable[[list[RoundedRow]], None],
) -> None:
    """Take the step of Adam or AdamW.

    Args:
        optimizer: rounds stochastically.
        group: of the parameters.
        keys: of the roundings of the parameters to step.
        displace: moves the stand-ins of whole parameters first; None steps them in pieces.
        round_all: rounds them.
    """
    width = 5 if group["amsgrad"] else 4
    sizes = [-(-local(p).numel() // VECTORS) * VECTORS for p in keys]
    piece = PIECE if displace is None else max([VECTORS, *sizes])
    capacity = min(max(PIECE, piece), sum(sizes))
    room = _kept_workspace(optimizer, width * min(capacity, SIZE)).memory
    room = room if capacity <= SIZE else torch.zeros(width * capacity)
    room = room[: width * capacity].view(width, capacity)
    batch, used = _Batch([[] for _ in range(width)], [], [], [], [], []), 0
    for p, key in keys.items():
        opened, first = _open(optimizer, group, p, piece), 0
        for parts, kept in zip(opened.pieces, opened.kept, strict=True):
            count = len(parts[0])
            padded = -(-count // VECTORS) * VECTORS
            if used + padded > capacity:
                _flush(optimizer, group, batch, displace, round_all)
                used = 0
            slots = _add(batch, opened, room[:, used : used + padded].unbind(), parts, kept)
            batch.rows.append(RoundedRow(slots, opened.place, key, first))
            used, first = used + padded, first + count
        batch.ended.append(opened)
    _flush(optimizer, group, batch, displace, round_all)


def _open(optimizer: Any, group: dict[str, Any], p: Tensor, piece: int) -> _Opened:
    """Return a parameter with its moments, which are made at its first step."""
    state, names = optimizer.state[p], MOMENTS[: 3 if group["amsgrad"] else 2]
    dtype = optimizer._rounding.state_dtype if is_narrow(optimizer, p, p) else torch.float32
    if "step" not in state:
        state["step"] = torch.tensor(0.0)
        state.update({name: torch.zeros_like(p, dtype=dtype) for name in names})
    state["step"] += 1
    old = [state[name] for name in names]
    # float32 moments may become halves, which are then rounded, and halves may become float32
    new = [x if x.dtype == dtype else torch.zeros_like(x, dtype=dtype) for x in old]
    state.update(zip(names, new, strict=True))
    targets = [local(x).detach() for x in (p, *new)]
    flat = [x.contiguous().view(-1) for x in targets]
    results = [(a, b) for a, b in zip(targets, flat, strict=True) if not a.is_contiguous()]
    assert p.grad is not None
    pairs = zip(old, new, flat[1:], strict=True)
    moments = [c if a is b else local(a).detach().contiguous().view(-1) for a, b, c in pairs]
    sources = [flat[0], local(p.grad).detach().contiguous().view(-1), *moments]
    pieces = list(zip(*(torch.split(x, piece) for x in sources), strict=True))
    kept = list(zip(*(torch.split(x, piece) for x in flat[1:]), strict=True))
    return _Opened(p, place_of(p), state["step"], pieces, kept, results)


def _add(
    batch: _Batch,
    opened: _Opened,
    room: tuple[Tensor, ...],
    parts: tuple[Tensor, ...],
    kept: tuple[Tensor, ...],
) -> list[Slot]:
    """Add a piece, widened and padded; a float32 moment without padding is stepped in place."""
    count = len(parts[0])
    is_whole = count == len(room[0])
    narrow = room if is_whole else tuple(x[:count] for x in room)
    wide, slots, widened = list(room), [Slot(narrow[0], parts[0])], list(range(len(room)))
    for k, result in enumerate(kept, 2):
        if result.dtype != torch.float32:
            slots.append(Slot(narrow[k], result, salt_of(MOMENTS[k - 2])))
        elif is_whole and parts[k].dtype == torch.float32:
            wide[k] = parts[k]
            widened.remove(k)
        else:
            batch.copies.append((result, narrow[k]))
    torch._foreach_copy_([narrow[k] for k in widened], [parts[k] for k in widened])
    for own, x in zip(batch.wide, wide, strict=True):
        own.append(x)
    batch.steps.append(opened.steps)
    batch.pairs.append((opened.p, narrow[0]))
    return slots


def _flush(
    optimizer: Any,
    group: dict[str, Any],
    batch: _Batch,
    displace: Callable[[list[tuple[Tensor, Tensor]]], None] | None,
    round_all: Callable[[list[RoundedRow]], None],
) -> None:
    """Step the pieces of a batch and round them; empty it."""
    if displace is not None and batch.pairs:
        displace(batch.pairs)
    x, gradients, first, second, *largest = batch.wide
    is_decoupled = group["decoupled_weight_decay"]
    step: Any = torch._fused_adamw_ if is_decoupled else torch._fused_adam_
    beta1, beta2 = map(float, group["betas"])
    if x:
        step(
            *(x, gradients, first, second, largest[0] if largest else [], batch.steps),
            **{name: float(group[name]) for name in ("lr", "weight_decay", "eps")},
            **{name: group[name] for name in ("amsgrad", "maximize")},
            **{"beta1": beta1, "beta2": beta2},
        )
    round_all(batch.rows)
    for kept, piece in batch.copies:
        kept.copy_(piece)
    for opened in batch.ended:
        for target, elements in opened.results:
            target.copy_(elements.view(target.shape))
        if optimizer._rounding.free_gradients:
            opened.p.grad = None
    torch.autograd.graph.increment_version([opened.p for opened in batch.ended])
    used: list[list[Any]] = [*batch.wide, *batch[1:]]
    for each_list in used:
        each_list.clear()


def is_separable(optimizer: Any) -> bool:
    """Return whether an optimizer treats tensors one by one, so that buckets give the same bits.

    Torch's own do. Of another class, a new object with the same settings steps three small tensors
    together and one after the other. What cannot be built or tried so counts as coupled.
    """
    if optimizer._bare is not None:
        return True
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            return _equal(_trial(optimizer, True), _trial(optimizer, False))
    except Exception:
        return False


def _trial(optimizer: Any, together: bool) -> Any:
    """Return all that four steps change, with gradients from 10^-3 to 10^3."""
    first, last = optimizer.param_groups[0], optimizer.param_groups[-1]
    pairs = (first, first["params"][0]), (first, first["params"][-1]), (last, last["params"][-1])
    shapes = [tuple(min(size, 4) for size in p.shape) for _, p in pairs]
    params: list[Tensor] = [
        nn.Parameter(torch.linspace(-1, 1, 1 + torch.Size(s).numel())[1:].view(s)) for s in shapes
    ]
    known = {**vars(optimizer), **first}
    names = inspect.signature(optimizer._inner).parameters.keys() - {"params"}
    groups = [{k: v for k, v in group.items() if k != "params"} for group in (first, last)]
    for group, own in zip(groups, (params[:2], params[2:]), strict=True):
        group.update(params=own, lr=float(group["lr"]) or 0.01)
    inner = optimizer._inner(groups, **{name: known[name] for name in names if name in known})
    torch.manual_seed(0)
    a, b, c = params
    buckets: list[Bucket] = [{0: [a, b], 1: [c]}] if together else [{0: [a]}, {0: [b]}, {1: [c]}]
    for size in (1.0, 1e-3, 1e3, 1.0):
        for p in params:
            p.grad = size * torch.randn(p.shape)
        each(inner, buckets, lambda bucket: inner.step())
    counts = {k: v for k, v in vars(inner).items() if isinstance(v, (int, float, Tensor))}
    states = [inner.state.get(p) for p in params]
    common = {k: v for k, v in inner.state.items() if not isinstance(k, Tensor)}
    entries = [{k: v for k, v in g.items() if k != "params"} for g in inner.param_groups]
    return [[p.detach() for p in params], states, common, counts, entries]


def _equal(a: Any, b: Any) -> bool:
    """Return whether two nests of tensors and plain values are equal."""
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_equal(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b)
