"""Buckets: the parameters that an optimizer steps together, when it works on stand-ins.

To the optimizer a bucket is all of its parameters. Entries that it changes in its groups, such as a
step count, are put back before a group's second bucket, so that they change once.

An optimizer that couples tensors, by a norm of all gradients or a count of its calls, must get one
bucket with all parameters. A trial on three small tensors finds those.
"""

from __future__ import annotations

import ctypes
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import torch
from torch import Tensor, nn

from mpgd.noise.half_rounding import is_half
from mpgd.optim.distributed import is_sharded, local
from mpgd.optim.settings import Settings

SIZE: Final = 1 << 20  # elements of a bucket; a larger parameter is one by itself
Bucket = dict[int, list[Tensor]]  # parameters by the number of their group


def cut(every: Bucket, settings: list[Settings]) -> Iterator[Bucket]:
    """Yield buckets; first one of all that need no stand-in. Every group is in one of them."""
    halves: list[tuple[int, Tensor]] = []
    full: Bucket = {}
    for number, params in every.items():
        for p in params:
            if p.grad is None or not (settings[number].rounds and is_half(local(p).dtype)):
                full.setdefault(number, []).append(p)
            else:
                halves.append((number, p))
    if full:
        yield full
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


def workspace(optimizer: Any, parts: list[Bucket]) -> Workspace:
    """Return memory for the largest bucket.

    Optimizers of other libraries may keep a gradient as it is, so they get none.
    """
    sizes = [[local(p).numel() for params in b.values() for p in params] for b in parts]
    copies = 2 if optimizer._rounding.state_dtype is None else 4
    size = copies * min(SIZE, max(map(sum, sizes), default=0))
    size = 0 if optimizer._bare is None else size
    if optimizer._workspace is None or optimizer._workspace.memory.numel() < size:
        optimizer._workspace = Workspace(size)
    made: Workspace = optimizer._workspace
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
