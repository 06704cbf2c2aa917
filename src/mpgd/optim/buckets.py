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
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from mpgd.noise import half_rounding
from mpgd.noise.counter_hash import extend_key, hash_elements, step_key
from mpgd.noise.engines import cpu, kernel_for
from mpgd.noise.engines.cpu import Slot
from mpgd.noise.half_rounding import is_half, salt_of
from mpgd.optim.displacement import displace
from mpgd.optim.distributed import Place, is_sharded, local, place_of
from mpgd.optim.settings import Settings

SIZE: Final = 1 << 20  # elements of a bucket; a larger parameter is one by itself
PIECE: Final = 1 << 19  # elements that Adam steps at a time
VECTORS: Final = 64  # elements: a multiple of every vector of torch's kernels
MOMENTS: Final = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
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


def workspace(optimizer: Any, size: int) -> Workspace:
    """Return the optimizer's memory, all of it free, for at least ``size`` elements."""
    if optimizer._workspace is None or optimizer._workspace.memory.numel() < size:
        optimizer._workspace = Workspace(size)
    made: Workspace = optimizer._workspace
    made.used = 0
    return made


def return_memory() -> None:
    """Give free pages back to the system, where glibc can.

    Float32 states that live until they are rounded leave holes between the halves that stay. They
    are too small for the next ones, and take 1 byte a parameter with SGD's momentum.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)  # type: ignore[union-attr]


# Rounding --------------------------------------------------------------------------------------


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


def rounding_key(optimizer: Any, p: Tensor, settings: Settings) -> int:
    """Return the key of a parameter's rounding in this step."""
    own = extend_key(optimizer._key_of(p, settings), half_rounding.DRIVER)
    return step_key(own, int(optimizer._orbits[p]["step"]))


def round_all(rows: list[RoundedRow]) -> None:
    """Round parts of parameters and of their states."""
    direct: list[tuple[list[Slot], int, int]] = []
    for slots, place, key, first in rows:
        device = slots[0].x.device
        is_direct = place.offset is not None and kernel_for(None, device) == "cpu"
        if is_direct and all(s.x.is_contiguous() and s.out.is_contiguous() for s in slots):
            direct.append((slots, key, (place.offset or 0) + first))
            continue
        index = place.part_index(device, slice(first, first + slots[0].x.numel()))
        h = hash_elements(index, key)
        for x, out, salt in slots:
            out.copy_(half_rounding.rounded(x.reshape(-1), h, out.dtype, salt).view(out.shape))
    if direct:
        cpu.round_rows(direct)


# Adam, piece by piece --------------------------------------------------------------------------


def is_adam(optimizer: Any, group: dict[str, Any], settings: Settings, p: Tensor) -> bool:
    """Return whether `step_adam` steps a parameter: on a CPU, where nobody chose another way."""
    if optimizer._bare is None or not isinstance(optimizer, torch.optim.Adam):
        return False
    is_free = group["foreach"] is None and group["fused"] is not False
    is_plain = is_rounded(settings, p) and p.grad is not None and p.grad.layout is torch.strided
    return is_free and is_plain and local(p).device.type == "cpu"


class _Piece(NamedTuple):
    """Elements of a parameter during its step."""

    p: Tensor
    steps: Tensor
    sources: list[Tensor]  # of the parameter, its gradient and its moments
    results: list[Tensor]  # of the moments after the step
    place: Place
    key: int
    first: int
    is_last: bool
    strided: list[tuple[Tensor, Tensor]]  # tensors that are not contiguous, and their elements


@torch.no_grad()
def step_adam(optimizer: Any, settings: Settings, params: list[Tensor], m: float | None) -> None:
    """Take the step of half parameters of Adam or AdamW, all of the optimizer's first group.

    Args:
        optimizer: rounds stochastically.
        settings: of the group; where it is perturbed, a piece is a whole parameter.
        params: those to step.
        m: the shared multiplicative noise of the group, if there is one.
    """
    group = optimizer.param_groups[0]
    width, sizes = 5 if group["amsgrad"] else 4, [_padded(local(p).numel()) for p in params]
    piece = max([VECTORS, *sizes]) if float(group["lr"]) and settings.is_perturbed else PIECE
    capacity = min(max(PIECE, piece), sum(sizes))
    room = workspace(optimizer, width * min(capacity, SIZE)).memory
    room = room if capacity <= SIZE else torch.zeros(width * capacity)
    room = room[: width * capacity].view(width, capacity)
    batch: list[_Piece] = []
    used = 0
    for p in params:
        for s in _pieces(optimizer, settings, p, piece):
            size = _padded(len(s.sources[0]))
            if used + size > capacity:
                _step_pieces(optimizer, settings, batch, room, m)
                batch, used = [], 0
            batch.append(s)
            used += size
    _step_pieces(optimizer, settings, batch, room, m)
    if float(group["lr"]):
        optimizer.count_steps(params)


def _padded(size: int) -> int:
    return -(-size // VECTORS) * VECTORS


def _pieces(optimizer: Any, settings: Settings, p: Tensor, size: int) -> Iterator[_Piece]:
    """Yield the pieces of a parameter; its moments are made at its first step."""
    state, group = optimizer.state[p], optimizer.param_groups[0]
    names = MOMENTS[: 3 if group["amsgrad"] else 2]
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
    strided = [(a, b) for a, b in zip(targets, flat, strict=True) if not a.is_contiguous()]
    pairs = zip(old, new, flat[1:], strict=True)
    moments = [c if a is b else local(a).detach().contiguous().view(-1) for a, b, c in pairs]
    columns = [flat[0], local(p.grad).detach().contiguous().view(-1), *moments, *flat[1:]]  # type: ignore[arg-type]
    count, width = len(flat[0]), 2 + len(names)
    place, key = place_of(p), rounding_key(optimizer, p, settings)
    for first in range(0, max(1, count), size):
        parts = columns if count <= size else [x[first : first + size] for x in columns]
        given = (place, key, first, first + size >= count, strided)
        yield _Piece(p, state["step"], parts[:width], parts[width:], *given)


def _step_pieces(
    optimizer: Any, settings: Settings, batch: list[_Piece], room: Tensor, m: float | None
) -> None:
    """Step pieces that fit into the room together, widened and padded there, and round them.

    A float32 moment that needs no padding is stepped in place.
    """
    group = optimizer.param_groups[0]
    wide: list[list[Tensor]] = [[] for _ in room]
    widened: list[tuple[Tensor, Tensor]] = []
    kept: list[tuple[Tensor, Tensor]] = []
    rows, used = [], 0
    for s in batch:
        count = len(s.sources[0])
        cells = room[:, used : used + _padded(count)].unbind()
        used += len(cells[0])
        slots = [Slot(cells[0][:count], s.sources[0])]
        for k, (cell, source) in enumerate(zip(cells, s.sources, strict=True)):
            result = s.results[k - 2] if k > 1 else None
            narrow = cell[:count]
            if result is not None and is_half(result.dtype):
                slots.append(Slot(narrow, result, salt_of(MOMENTS[k - 2])))
            elif result is not None and source.dtype == result.dtype and count == len(cell):
                wide[k].append(source)
                continue
            elif result is not None:
                kept.append((result, narrow))
            wide[k].append(cell)
            widened.append((narrow, source))
        rows.append(RoundedRow(slots, s.place, s.key, s.first))
    torch._foreach_copy_([x for x, _ in widened], [source for _, source in widened])
    eta = float(group["lr"])
    if eta and settings.is_perturbed:
        pairs = [(s.p, row.slots[0].x) for s, row in zip(batch, rows, strict=True)]
        targets = [optimizer._target(p, settings, x.view(local(p).shape)) for p, x in pairs]
        displace(targets, settings, eta, m)
    step: Any = torch._fused_adamw_ if group["decoupled_weight_decay"] else torch._fused_adam_
    beta1, beta2 = map(float, group["betas"])
    scalars = {name: float(group[name]) for name in ("lr", "weight_decay", "eps")}
    flags = {name: group[name] for name in ("amsgrad", "maximize")}
    lists = [*[*wide, []][:5], [s.steps for s in batch]]
    step(*lists, beta1=beta1, beta2=beta2, **scalars, **flags)
    round_all(rows)
    for result, narrow in kept:
        result.copy_(narrow)
    ended = [s for s in batch if s.is_last]
    for s in ended:
        for target, elements in s.strided:
            target.copy_(elements.view(target.shape))
        if optimizer._rounding.free_gradients:
            s.p.grad = None
    torch.autograd.graph.increment_version([s.p for s in ended])


# Which optimizers treat tensors one by one -----------------------------------------------------


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
            return _are_equal(_trial(optimizer, True), _trial(optimizer, False))
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
        step_each(inner, buckets, lambda bucket: inner.step())
    counts = {k: v for k, v in vars(inner).items() if isinstance(v, (int, float, Tensor))}
    states = [inner.state.get(p) for p in params]
    common = {k: v for k, v in inner.state.items() if not isinstance(k, Tensor)}
    entries = [{k: v for k, v in g.items() if k != "params"} for g in inner.param_groups]
    return [[p.detach() for p in params], states, common, counts, entries]


def _are_equal(a: Any, b: Any) -> bool:
    """Return whether two nests of tensors and plain values are equal."""
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_are_equal(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_are_equal, a, b))
    return bool(a == b)
