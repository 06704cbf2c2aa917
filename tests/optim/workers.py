"""What the optimizer tests share: models, comparisons in bits, and functions of child processes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn

import mpgd

ORBITS = ("multiplicative", "additive", "multiplicative_twin", "additive_twin")

# --- comparisons -------------------------------------------------------------------------------


def bits(x: Tensor) -> Tensor:
    """Return the bytes of a tensor: unlike its values they tell -0.0 from 0.0 and have no NaN."""
    plain = x.detach().clone(memory_format=torch.contiguous_format)
    return plain.view(-1).view(torch.uint8)


def same_bits(a: Any, b: Any) -> bool:
    """Return whether two nests of tensors and plain values agree in every bit."""
    if isinstance(a, Tensor):
        return (
            isinstance(b, Tensor)
            and (a.shape, a.dtype) == (b.shape, b.dtype)
            and torch.equal(bits(a), bits(b))
        )
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_bits(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same_bits, a, b))
    return bool(a == b)


def snapshot(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return a copy of everything a step may change: the state dict and the parameters."""
    packed = {k: v for k, v in optimizer.state_dict().items() if k in ("state", "param_groups")}
    parameters = [p.detach() for group in optimizer.param_groups for p in group["params"]]
    return deepcopy({**packed, "parameters": parameters})


def hooked(optimizer: torch.optim.Optimizer, seen: list[str]) -> list[Any]:
    """Register a hook of every kind, each of which says that it ran, and return the handles."""
    return [
        optimizer.register_step_pre_hook(lambda *_: seen.append("before step")),
        optimizer.register_step_post_hook(lambda *_: seen.append("after step")),
        optimizer.register_state_dict_pre_hook(lambda _: seen.append("before state")),
        optimizer.register_state_dict_post_hook(lambda _, s: {**s, "extra": 1}),
        optimizer.register_load_state_dict_pre_hook(lambda _, s: seen.append("before load")),
        optimizer.register_load_state_dict_post_hook(lambda _: seen.append("after load")),
    ]


# --- models ------------------------------------------------------------------------------------


def small_net(seed: int = 0, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    """Return a 5-7-3 net with its own initialisation; the global generator is left alone."""
    generator = torch.Generator().manual_seed(seed)
    net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) / 2)
    return net.to(dtype)


def set_gradients(parameters: Any, k: int) -> None:
    """Give every parameter a gradient that depends on (k, its place, its shape) alone."""
    for place, p in enumerate(parameters):
        generator = torch.Generator().manual_seed(1000 * k + place)
        real = torch.randn((*p.shape, 2), generator=generator, dtype=torch.float64)
        g = torch.view_as_complex(real) if p.is_complex() else real[..., 0]
        p.grad = g.to(p.dtype)


def run(optimizer: torch.optim.Optimizer, steps: int, first: int = 0) -> None:
    """Take steps with made-up gradients."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for k in range(first, first + steps):
        set_gradients(parameters, k)
        optimizer.step()


def batch(k: int, size: int = 8) -> tuple[Tensor, Tensor]:
    """Return the inputs and targets of step k."""
    generator = torch.Generator().manual_seed(k)
    return torch.randn(size, 5, generator=generator), torch.randn(size, 3, generator=generator)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    """Take steps on the batches of the given numbers."""
    for k in steps:
        inputs, targets = batch(k)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()


def scaled_steps(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.amp.GradScaler:
    """Take four steps with a scaler; the third has an infinite gradient and must change nothing."""
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for k in range(4):
        inputs, targets = batch(k)
        optimizer.zero_grad()
        scaler.scale(nn.functional.mse_loss(model(inputs), targets)).backward()
        if k == 2:
            next(model.parameters()).grad[0, 0] = float("inf")
        before = snapshot(optimizer)
        scaler.step(optimizer)
        scaler.update()
        assert same_bits(snapshot(optimizer), before) == (k == 2)
    return scaler


# --- several processes -------------------------------------------------------------------------

SETTINGS: dict[str, Any] = {"lr": 0.05, "mu": 0.1, "sigma": 0.1, "gamma": 0.6, "beta": 0.5}


def in_two_processes(folder: Path, tasks: dict[str, tuple[Any, ...]]) -> Path:
    """Run all tasks on two processes, once; the folder has what they return."""
    mp.start_processes(start_process, (str(folder), tasks), nprocs=2, start_method="spawn")
    return folder


def results(folder: Path, name: str) -> list[Any]:
    """Return what the task gave on each rank."""
    return [torch.load(folder / f"{name}{rank}.pt", weights_only=True) for rank in (0, 1)]


def start_process(rank: int, folder: str, tasks: dict[str, tuple[Any, ...]]) -> None:
    """Be one of two processes: run every (function, *arguments) and save what they return.

    DDP and FSDP keep the group's threads, and one of them may abort the process when Python ends;
    so the process ends without it.
    """
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meet",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=60),
    )
    try:
        for name, (task, *args) in tasks.items():
            torch.save(task(rank, folder, *args), Path(folder) / f"{name}{rank}.pt")
        dist.barrier()
    finally:
        dist.destroy_process_group()
    os._exit(0)


def train_under_ddp(rank: int, folder: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Train on a different half of each batch per rank, after seeding each rank differently."""
    torch.manual_seed(100 + rank)
    model = nn.parallel.DistributedDataParallel(small_net())
    optimizer = mpgd.MPGD(model.parameters(), **settings)
    for k in range(20):
        inputs, targets = batch(k)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs[rank::2]), targets[rank::2]).backward()
        optimizer.step()
    return snapshot(optimizer)


def make_optimizer(kind: str, parameters: Any, **settings: Any) -> torch.optim.Optimizer:
    """Return MPGD, or a perturbed optimizer, by name."""
    given = {**SETTINGS, **settings}
    if kind == "mpgd":
        return mpgd.MPGD(parameters, **given)
    lr = given.pop("lr")
    inner: dict[str, Callable[[], torch.optim.Optimizer]] = {
        "sgd": lambda: torch.optim.SGD(parameters, lr=lr, momentum=0.9),
        "adamw": lambda: torch.optim.AdamW(parameters, lr=lr),
        "adagrad": lambda: torch.optim.Adagrad(parameters, lr=lr),
    }
    return mpgd.perturb(inner[kind](), **given)


def odd_net() -> nn.Sequential:
    """Return a net whose tensors do not divide evenly by two, one of them of a single row."""
    generator = torch.Generator().manual_seed(3)
    net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.Linear(3, 1))
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) / 2)
    return net


def train_odd(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    """Train `odd_net`; every rank sees the same batches, so the mean gradient is everybody's."""
    for k in steps:
        inputs, targets = batch(k)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets[:, :1]).backward()
        optimizer.step()


def gathered(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return parameters and drivers' states with every sharded tensor put together."""
    packed = optimizer.state_dict()

    def whole(x: Any) -> Any:
        return x.full_tensor().clone() if hasattr(x, "full_tensor") else deepcopy(x)

    parameters = [p.detach() for group in optimizer.param_groups for p in group["params"]]
    state = {
        name: {key: whole(value) for key, value in values.items()}
        for name, values in packed["state"].items()
    }
    return {"state": state, "parameters": [whole(p) for p in parameters]}


def sharded_model(axis: int) -> nn.Module:
    """Return `odd_net` under FSDP2, layer by layer, cut along an axis where there is one."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard

    model = odd_net()

    def cut(p: nn.Parameter) -> Shard:
        return Shard(axis if p.dim() > axis and p.shape[axis] % 2 == 0 else 0)

    if axis:
        model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 6), nn.Linear(6, 1))
        model.load_state_dict(even_weights(model))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, shard_placement_fn=cut)
    fully_shard(model)
    return model


def even_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return weights that do not depend on the global generator."""
    generator = torch.Generator().manual_seed(5)
    state = model.state_dict()
    return {name: torch.randn(p.shape, generator=generator) / 2 for name, p in state.items()}


def even_net() -> nn.Module:
    """Return the unsharded twin of ``sharded_model(axis=1)``."""
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 6), nn.Linear(6, 1))
    model.load_state_dict(even_weights(model))
    return model


def train_under_fsdp(rank: int, folder: str, jobs: list[tuple[str, int, dict[str, Any]]]) -> Any:
    """Run several (kind, axis, settings) on sharded parameters; return what each ends with."""
    found = []
    for kind, axis, settings in jobs:
        model = sharded_model(axis)
        optimizer = make_optimizer(kind, model.parameters(), **settings)
        train_odd(model, optimizer, range(15))
        found.append(gathered(optimizer))
    return found


def rounded_ends(settings: dict[str, Any], place: Callable[[Tensor, int], Tensor]) -> list[Tensor]:
    """Return bfloat16 parameters after steps that are rounded stochastically, and draws of theirs.

    ``place`` puts a tensor where its parts are to be, cut along an axis.
    """
    generator, axes = torch.Generator().manual_seed(0), (0, 1, 0)
    shapes = ((7, 5), (4, 6), (1,))
    whole = [torch.randn(shape, generator=generator).bfloat16() for shape in shapes]
    params = [nn.Parameter(place(x, axis)) for x, axis in zip(whole, axes, strict=True)]
    inner = settings.get("inner")
    optimizer = (
        mpgd.perturb(torch.optim.AdamW(params, lr=0.05), sigma=0.1, rounding="stochastic")
        if inner
        else mpgd.MPGD(params, **SETTINGS, **settings, rounding="stochastic")
    )
    for k in range(4):
        for p, axis in zip(params, axes, strict=True):
            generator = torch.Generator().manual_seed(k)
            p.grad = place(torch.randn(p.shape, generator=generator).bfloat16(), axis)
        optimizer.step()
    wide = place(torch.linspace(1.0, 2.0, 35).view(7, 5), 0)
    drawn = mpgd.counter.normal(wide, seed=1, step=2)
    return [*params, mpgd.optim.stochastic_round(wide, torch.bfloat16, seed=1, step=2), drawn]


def round_on_shards(rank: int, folder: str, jobs: list[dict[str, Any]]) -> Any:
    """Return what `rounded_ends` gives on DTensors, uneven and empty shards among them."""
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    mesh = init_device_mesh("cpu", (2,))

    def place(x: Tensor, axis: int) -> Tensor:
        return distribute_tensor(x, mesh, [Shard(axis)])

    return [[x.full_tensor().detach() for x in rounded_ends(job, place)] for job in jobs]  # type: ignore[attr-defined]


def compile_on_shards(rank: int, folder: str, settings: dict[str, Any]) -> Any:
    """Take plain and compiled steps on sharded parameters; return what both end with."""
    found = []
    for compiles in (False, True):
        model = sharded_model(0)
        optimizer = mpgd.MPGD(model.parameters(), **settings)
        if compiles:
            optimizer.step = torch.compile(optimizer.step, backend="aot_eager", fullgraph=True)  # type: ignore[method-assign]
        train_odd(model, optimizer, range(4))
        found.append(gathered(optimizer))
    return found


def save_from_two(rank: int, folder: str, kinds: list[str]) -> Any:
    """Train sharded, save with `torch.distributed.checkpoint`, go on; return the end."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    found = []
    for kind in kinds:
        model = sharded_model(0)
        optimizer = make_optimizer(kind, model.parameters())
        train_odd(model, optimizer, range(10))
        weights, state = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": state}, checkpoint_id=f"{folder}/{kind}")
        at_save = gathered(optimizer)
        train_odd(model, optimizer, range(10, 25))
        # the same again from disk, on two processes: bit for bit
        again = sharded_model(0)
        other = make_optimizer(kind, again.parameters())
        weights, state = get_state_dict(again, other)
        dcp.load({"model": weights, "optimizer": state}, checkpoint_id=f"{folder}/{kind}")
        set_state_dict(again, other, model_state_dict=weights, optim_state_dict=state)
        train_odd(again, other, range(10, 25))
        found.append((at_save, gathered(optimizer), gathered(other)))
    return found


def full_batch_of_shards(rank: int, folder: str, sizes: list[list[int]], ddp: bool) -> Any:
    """Return the full-batch loss, gradients and one step from uneven shards, one per rank."""
    model: nn.Module = small_net(dtype=torch.float64)
    group = None if ddp else dist.group.WORLD
    if ddp:
        model = nn.parallel.DistributedDataParallel(model)
    inputs, targets = (x.double() for x in batch(0, size=sum(map(sum, sizes))))
    first = sum(map(sum, sizes[:rank]))
    loader = []
    for size in sizes[rank]:
        loader.append((inputs[first : first + size], targets[first : first + size]))
        first += size
    closure = mpgd.full_batch(model, nn.functional.mse_loss, loader, group=group)
    optimizer = mpgd.MPGD(model.parameters(), **SETTINGS)
    losses = [optimizer.step(closure) for _ in range(3)]
    return losses, [p.grad for p in model.parameters()], [p.detach() for p in model.parameters()]


# --- a training run that can be killed ---------------------------------------------------------


def digits_net() -> nn.Sequential:
    """Return a small convolutional net for 8 x 8 images, the same in every process."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


def digits() -> tuple[Tensor, Tensor]:
    """Return the first 512 of scikit-learn's digits."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = torch.tensor(data.images[:512] / 16.0, dtype=torch.float32)
    return images[:, None], torch.tensor(data.target[:512])


def train_digits(kind: str, folder: Path, epochs: int, die_after: int | None) -> None:
    """Train, saving after every step; resume from what the folder holds.

    ``die_after`` is the step after which the process kills itself, without a chance to clean up.
    """
    images, labels = digits()
    model = digits_net()
    settings: dict[str, Any] = {"mu": 0.005, "sigma": 0.01, "gamma": 0.6, "beta": 0.5, "seed": 1}
    if kind == "mpgd":
        optimizer: torch.optim.Optimizer = mpgd.MPGD(model.parameters(), lr=0.5, **settings)
    else:
        inner = torch.optim.AdamW(model.parameters(), lr=0.01)
        optimizer = mpgd.perturb(inner, **settings)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * 8)
    kept, losses = folder / "checkpoint.pt", []
    if kept.exists():
        saved = torch.load(kept, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        losses = saved["losses"]
    for k in range(len(losses), epochs * 8):
        part = slice(64 * (k % 8), 64 * (k % 8) + 64)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[part]), labels[part])
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        content = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "losses": losses,
        }
        torch.save(content, kept.with_suffix(".new"))
        os.replace(kept.with_suffix(".new"), kept)
        if die_after == k:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    torch.set_num_threads(1)
    name, place, count, last = sys.argv[1:]
    train_digits(name, Path(place), int(count), None if last == "-" else int(last))
