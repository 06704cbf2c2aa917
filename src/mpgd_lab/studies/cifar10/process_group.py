"""One training by several processes, started by `torchrun`, with the result of one process.

Each process goes through a run of neighbouring blocks. `mpgd.full_batch` adds up the gradients;
batch norm's running statistics need more care. After blocks 1..B of one process they are

    r = (1 - m)^B r_0 + sum over j of m (1 - m)^(B - j) (statistics of block j)

which is linear: a process that starts at zero has its own part of the sum after its blocks, up to
the factor (1 - m)^(blocks after its own). The first process starts at r_0 and the parts add up.
"""

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

T = TypeVar("T")

PATIENCE: Final = timedelta(days=1)  # one process may still be busy with a run of its own


@dataclass(frozen=True)
class Processes:
    """This process's number and how many there are.

    Examples:
        >>> [list(Processes(rank, 3).part(7)) for rank in range(3)]
        [[0, 1], [2, 3], [4, 5, 6]]
    """

    rank: int = 0
    count: int = 1

    def part(self, items: int) -> range:
        """Return this process's share of ``items`` neighbours."""
        return range(items * self.rank // self.count, items * (self.rank + 1) // self.count)

    def total(self, x: Tensor) -> Tensor:
        """Return the sum of ``x`` over all processes."""
        if self.count > 1:
            dist.all_reduce(x)
        return x

    def same(self, value: T) -> T:
        """Return the first process's ``value`` in all, once all have come here."""
        if self.count == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box)
        return box[0]

    @property
    def group(self) -> dist.ProcessGroup | None:
        """All processes, as `mpgd.full_batch` wants them; the seed makes their models equal."""
        return dist.group.WORLD if self.count > 1 else None

    def begin_statistics(self, model: nn.Module) -> None:
        """Before the blocks: let all but the first process start at zero."""
        if self.rank > 0:
            for norm in _norms(model):
                for r in (norm.running_mean, norm.running_var, norm.num_batches_tracked):
                    r.zero_()  # type: ignore[union-attr]

    def end_statistics(self, model: nn.Module, later: int) -> None:
        """After the blocks: add up the parts; ``later`` blocks come after this process's own."""
        if self.count == 1:
            return
        for norm in _norms(model):
            assert norm.momentum is not None
            for r in (norm.running_mean, norm.running_var):
                dist.all_reduce(r.mul_((1 - norm.momentum) ** later))  # type: ignore[union-attr]
            dist.all_reduce(norm.num_batches_tracked)


def _norms(model: nn.Module) -> Iterator[nn.BatchNorm2d]:
    return (module for module in model.modules() if isinstance(module, nn.BatchNorm2d))


@contextmanager
def processes(device: str) -> Iterator[Processes]:
    """Join the processes that `torchrun` started; without it there is one.

    Modules of torch that are imported while there is a group keep it as a default argument. Its
    threads then live for ever, and one that frees a tensor while Python ends aborts the process;
    so what an optimizer imports late is imported first.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Processes()
        return
    importlib.import_module("torch._dynamo")
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device == "cuda" else "gloo", timeout=PATIENCE)
    try:
        yield Processes(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
