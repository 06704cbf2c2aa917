"""The exact full-batch gradient by accumulation over a loader.

    grad R(x) = (1/n) sum over batches of |batch| * grad (mean loss of the batch)

so an unequal last batch counts with its own size. With several processes each goes through its own
loader and the sums are added over all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


def full_batch(
    model: nn.Module,
    loss_fn: Callable[[Any, Any], Tensor],
    loader: Iterable[Any],
    *,
    group: dist.ProcessGroup | None = None,
) -> Callable[[], Tensor]:
    """Return a closure that sets every ``p.grad`` to the full-batch gradient.

    The loader yields (inputs, targets); ``loss_fn(model(inputs), targets)`` is a batch's mean.
    With batch statistics (batch norm in training mode) each batch has its own, as usual.

    Args:
        model: the model, plain or wrapped in DistributedDataParallel.
        loss_fn: the mean loss of a batch.
        loader: goes through the whole training set, in any order.
        group: the processes that share the training set, all with the same parameters. A DDP
            model brings its own.

    Returns:
        A closure for `Optimizer.step`; it returns the mean loss.

    Examples:
        >>> model, data = nn.Linear(2, 1), [(torch.ones(3, 2), torch.ones(3, 1))]
        >>> closure = full_batch(model, nn.functional.mse_loss, data)
        >>> closure().shape, model.weight.grad.shape
        (torch.Size([]), torch.Size([1, 2]))
    """
    if isinstance(model, nn.parallel.DistributedDataParallel):
        group = model.process_group

    def closure() -> Tensor:
        model.zero_grad(set_to_none=True)
        total, count = torch.zeros((), dtype=torch.float64, device="cpu"), 0
        quiet = getattr(model, "no_sync", nullcontext)  # DDP: one reduction, after the last batch
        with torch.enable_grad(), quiet():
            for inputs, targets in loader:
                size = len(inputs)
                if size == 0:
                    continue
                loss = loss_fn(model(inputs), targets)
                if loss.dim() != 0:
                    raise ValueError(f"loss_fn must return a scalar, got shape {tuple(loss.shape)}")
                (loss * size).backward()  # type: ignore[no-untyped-call]
                total, count = total + loss.detach().double().cpu() * size, count + size
        if group is not None:
            total, count = _over_processes(model, group, total, count)
        if count == 0:
            raise ValueError("the loader gave no examples")
        for p in model.parameters():
            if p.grad is not None:
                p.grad.div_(count)
        return total / count

    return closure


def _over_processes(
    model: nn.Module, group: dist.ProcessGroup, total: Tensor, count: int
) -> tuple[Tensor, int]:
    """Add gradients, losses and counts over the processes of a group."""
    for p in model.parameters():
        if p.requires_grad:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            dist.all_reduce(p.grad, group=group)
    device = next(model.parameters()).device
    sums = torch.stack([total, torch.full_like(total, float(count))]).to(device)
    dist.all_reduce(sums, group=group)
    return sums[0].cpu(), int(sums[1])
