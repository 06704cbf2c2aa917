"""What two gloo processes do: functions of (rank, folder, ...), run by `in_two_processes`."""

from __future__ import annotations

import os
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
from tests.optim.workers import SETTINGS, batch, make_optimizer, set_gradients, small_net

Job = tuple[str, dict[str, Any]]  # kind and settings of an optimizer


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
    torch.manual_seed(100 + rank)  # the noise must not depend on it
    try:
        for name, (task, *args) in tasks.items():
            torch.save(task(rank, folder, *args), Path(folder) / f"{name}{rank}.pt")
        dist.barrier()
    finally:
        dist.destroy_process_group()
    os._exit(0)


# --- models and steps ----------------------------------------------------------------------------


def odd_net() -> nn.Sequential:
    """Return a net whose tensors do not divide evenly by two, one of them of a single row."""
    return _filled(nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.Linear(3, 1)))


def even_net() -> nn.Sequential:
    """Return a net that can be cut by columns."""
    return _filled(nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 6), nn.Linear(6, 1)))


def bare_net() -> nn.Sequential:
    """Return `odd_net` without biases: under FSDP1 each layer's flat parameter is one tensor."""
    sizes = ((5, 7), (7, 3), (3, 1))
    return _filled(nn.Sequential(*(nn.Linear(*size, bias=False) for size in sizes)))


def _filled(net: nn.Sequential) -> nn.Sequential:
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) / 2)
    return net


def train_odd(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    """Train on the same batches on every rank: the mean of two equal gradients is exact."""
    for k in steps:
        inputs, targets = batch(k)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets[:, :1]).backward()
        optimizer.step()


def given_steps(params: list[Tensor], optimizer: torch.optim.Optimizer, steps: range) -> None:
    """Take steps with made-up gradients, cut as the parameters are."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    whole = [torch.zeros(p.shape) for p in params]
    for k in steps:
        set_gradients(whole, k)
        for p, x in zip(params, whole, strict=True):
            cut = isinstance(p, DTensor)
            p.grad = distribute_tensor(x.grad, p.device_mesh, p.placements) if cut else x.grad  # type: ignore[attr-defined, arg-type]
        optimizer.step()


def gathered(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return parameters and states with every sharded tensor put together."""

    def whole(x: Any) -> Any:
        return x.full_tensor().clone() if hasattr(x, "full_tensor") else deepcopy(x)

    parameters = [p.detach() for group in optimizer.param_groups for p in group["params"]]
    state = {
        name: {key: whole(value) for key, value in values.items()}
        for name, values in optimizer.state_dict()["state"].items()
    }
    return {"state": state, "parameters": [whole(p) for p in parameters]}


def sharded(model: nn.Sequential, axis: int = 0) -> nn.Sequential:
    """Return a net under FSDP2, layer by layer, cut along an axis where it can be."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard

    def cut(p: nn.Parameter) -> Shard:
        return Shard(axis if p.dim() > axis and p.shape[axis] % 2 == 0 else 0)

    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, shard_placement_fn=cut)
    fully_shard(model)
    return model


# --- tasks ---------------------------------------------------------------------------------------


def train_under(
    rank: int, folder: str, wrap: Callable[..., nn.Module], jobs: list[Job], compiles: bool = False
) -> Any:
    """Train a wrapped model, under FSDP2 with uneven and empty shards; return what it ends with."""
    found = []
    for kind, settings in jobs:
        model = wrap(odd_net())
        optimizer = make_optimizer(kind, model.parameters(), **settings)
        if compiles:
            optimizer.step = torch.compile(optimizer.step, backend="aot_eager", fullgraph=True)  # type: ignore[method-assign]
        train_odd(model, optimizer, range(6))
        found.append(gathered(optimizer))
    return found


def step_on_columns(rank: int, folder: str, jobs: list[Job]) -> Any:
    """Take given steps under FSDP2 by columns, and under tensor parallelism."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    def parallel(model: nn.Module) -> nn.Module:
        plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        return parallelize_module(model, init_device_mesh("cpu", (2,)), plan)  # type: ignore[arg-type]

    found = []
    for kind, settings in jobs:
        for cut in (lambda net: sharded(net, axis=1), parallel):
            model = cut(even_net())
            optimizer = make_optimizer(kind, model.parameters(), **settings)
            given_steps(list(model.parameters()), optimizer, range(6))
            found.append(gathered(optimizer))
    return found


def grouped(kind: str, model: nn.Sequential, plain: bool) -> torch.optim.Optimizer:
    """Return an optimizer of one group, or of two of which one has no noise."""
    if not plain:
        return make_optimizer(kind, model.parameters(), symmetric=True)
    prefix = "" if kind == "mpgd" else "perturbation."
    rest = [p for layer in list(model)[1:] for p in layer.parameters()]
    quiet = {prefix + "mu": 0.0, prefix + "sigma": 0.0}
    return make_optimizer(
        kind, [{"params": list(model[0].parameters())}, {"params": rest, **quiet}]
    )


def load_whole(
    model: nn.Module, optimizer: torch.optim.Optimizer, folder: str, flatten: bool, **keywords: Any
) -> None:
    """Load a distributed checkpoint into a model and its optimizer."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_state_dict,
        set_state_dict,
    )

    options = StateDictOptions(flatten_optimizer_state_dict=flatten)
    weights, state = get_state_dict(model, optimizer, options=options)
    dcp.load({"model": weights, "optimizer": state}, checkpoint_id=folder, **keywords)
    set_state_dict(
        model, optimizer, model_state_dict=weights, optim_state_dict=state, options=options
    )


def save_and_resume(rank: int, folder: str, jobs: list[tuple[str, bool, bool]]) -> Any:
    """Train (kind, plain group, flatten) sharded, save half-way; return both ends."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

    found = []
    for kind, plain, flatten in jobs:
        model, again = sharded(odd_net()), sharded(odd_net())
        optimizer, other = grouped(kind, model, plain), grouped(kind, again, plain)
        train_odd(model, optimizer, range(4))
        options = StateDictOptions(flatten_optimizer_state_dict=flatten)
        weights, state = get_state_dict(model, optimizer, options=options)
        place = f"{folder}/{kind} {plain} {flatten}"
        dcp.save({"model": weights, "optimizer": state}, checkpoint_id=place)
        train_odd(model, optimizer, range(4, 8))
        load_whole(again, other, place, flatten)
        train_odd(again, other, range(4, 8))
        found.append((gathered(optimizer), gathered(other)))
    return found


def broadcast_whole(rank: int, folder: str, kinds: list[str]) -> Any:
    """Gather the whole state on rank 0, broadcast it to new shards, go on; return both ends."""
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_model_state_dict,
        get_optimizer_state_dict,
        set_model_state_dict,
        set_optimizer_state_dict,
    )

    save = StateDictOptions(full_state_dict=True, cpu_offload=True)
    load = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    found = []
    for kind in kinds:
        model, again = sharded(odd_net()), sharded(odd_net())
        optimizer, other = grouped(kind, model, False), grouped(kind, again, False)
        train_odd(model, optimizer, range(4))
        weights = get_model_state_dict(model, options=save)
        state = deepcopy(get_optimizer_state_dict(model, optimizer, options=save))
        train_odd(model, optimizer, range(4, 8))
        set_model_state_dict(again, weights if rank == 0 else {}, options=load)
        set_optimizer_state_dict(again, other, state if rank == 0 else {}, options=load)
        train_odd(again, other, range(4, 8))
        found.append((gathered(optimizer), gathered(other)))
    return found


def swap_under_fsdp(rank: int, folder: str, kinds: list[str]) -> Any:
    """Make the optimizer first, shard the model, and put the new parameters into its groups.

    So does accelerate: it knows the parameters by their addresses, and frees the old ones.
    """
    found = []
    for kind in kinds:
        model = odd_net()
        optimizer = make_optimizer(kind, model.parameters(), symmetric=True)
        names = {p.data_ptr(): name for name, p in model.named_parameters()}
        [group] = optimizer.param_groups
        addresses = [p.data_ptr() for p in group["params"]]
        group["params"] = [torch.empty(1) for _ in addresses]
        new = dict(sharded(model).named_parameters())
        group["params"] = [new[names[address]] for address in addresses]
        train_odd(model, optimizer, range(6))
        found.append(gathered(optimizer))
    return found


def partition(rank: int, folder: str) -> Any:
    """Train under ZeRO, save from rank 0, resume and go on; return parameters of both runs."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    kinds = {"mpgd": mpgd.MPGD, "adamw": mpgd.perturbed(torch.optim.AdamW)}
    found = {}
    for kind, made in kinds.items():
        model, again = odd_net(), odd_net()
        optimizer, other = (
            ZeroRedundancyOptimizer(net.parameters(), made, **SETTINGS) for net in (model, again)
        )
        train_odd(model, optimizer, range(4))
        optimizer.consolidate_state_dict(to=0)
        content = [deepcopy(optimizer.state_dict()) if rank == 0 else None]
        dist.broadcast_object_list(content, src=0)
        again.load_state_dict(deepcopy(model.state_dict()))
        train_odd(model, optimizer, range(4, 8))
        assert content[0] is not None
        other.load_state_dict(content[0])
        train_odd(again, other, range(4, 8))
        found[kind] = [[p.detach().clone() for p in net.parameters()] for net in (model, again)]
    return found


def flatten(rank: int, folder: str, kinds: list[str]) -> Any:
    """Train under FSDP1; return the whole parameters and the errors of what is refused."""
    from torch.distributed.fsdp import FullyShardedDataParallel as Fsdp

    def wrapped(net: nn.Sequential, layers: bool, original: bool) -> Fsdp:
        keywords: dict[str, Any] = {"use_orig_params": original, "device_id": torch.device("cpu")}
        for name, layer in list(net.named_children()) if layers else ():
            if isinstance(layer, nn.Linear):
                setattr(net, name, Fsdp(layer, **keywords))
        return Fsdp(net, **keywords)

    found: dict[str, Any] = {"errors": []}
    for original in (False, True):
        model = wrapped(odd_net(), False, original)
        try:
            if not original:
                mpgd.optim.number_parameters(model)
            make_optimizer("mpgd", model.parameters())
        except ValueError as error:
            found["errors"].append(str(error))
    cases = {"whole": (odd_net, False), "layers": (odd_net, True), "bare": (bare_net, True)}
    for kind in kinds:
        for name, (net, layers) in cases.items():
            model = wrapped(net(), layers, original=name != "bare")
            mpgd.optim.number_parameters(model)
            optimizer = make_optimizer(kind, model.parameters(), symmetric=True)
            train_odd(model, optimizer, range(6))
            with Fsdp.summon_full_params(model):
                linear = [layer for layer in model.modules() if type(layer) is nn.Linear]
                ends = [x for layer in linear for x in (layer.weight, layer.bias) if x is not None]
                found[f"{kind} {name}"] = [x.detach().clone() for x in ends]
    return found


def rounded_ends(kind: str, place: Callable[[Tensor, int], Tensor]) -> list[Tensor]:
    """Return bfloat16 parameters after steps that are rounded stochastically, and draws of theirs.

    ``place`` puts a tensor where its parts are to be, cut along an axis.
    """
    dtypes = (None, torch.bfloat16) if kind == "adamw" else (None,)
    return [x for states in dtypes for x in _rounded_ends(kind, place, states)]


def _rounded_ends(
    kind: str, place: Callable[[Tensor, int], Tensor], states: torch.dtype | None
) -> list[Tensor]:
    generator, axes = torch.Generator().manual_seed(0), (0, 1, 0)
    shapes = ((7, 5), (4, 6), (1,))
    whole = [torch.randn(shape, generator=generator).bfloat16() for shape in shapes]
    params = [nn.Parameter(place(x, axis)) for x, axis in zip(whole, axes, strict=True)]
    optimizer: Any = make_optimizer(kind, params)
    optimizer = mpgd.stochastic_rounding(optimizer, state_dtype=states)
    for k in range(4):
        for p, axis in zip(params, axes, strict=True):
            generator = torch.Generator().manual_seed(k)
            p.grad = place(torch.randn(p.shape, generator=generator).bfloat16(), axis)
        optimizer.step()
    wide = place(torch.linspace(1.0, 2.0, 35).view(7, 5), 0)
    drawn = mpgd.counter.normal(wide, seed=1, step=2)
    rounded = mpgd.optim.stochastic_round(wide, torch.bfloat16, seed=1, step=2)
    wanted = states or torch.float32
    every = [(p, x) for p in params for x in optimizer.state[p].values()]
    moments = [x for p, x in every if x.dtype == wanted and x.shape == p.shape]
    mpgd.add_normal_(params, seed=3, scale=0.1)
    with mpgd.shifted(params, seed=4, scale=0.1):
        moved = [p.detach().clone() for p in params]
    return [*params, *moments, *moved, rounded, drawn]


def round_on_shards(rank: int, folder: str, kinds: list[str]) -> Any:
    """Return what `rounded_ends` gives on DTensors, uneven and empty shards among them."""
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    mesh = init_device_mesh("cpu", (2,))

    def place(x: Tensor, axis: int) -> Tensor:
        return distribute_tensor(x, mesh, [Shard(axis)])

    return [[x.full_tensor().detach() for x in rounded_ends(kind, place)] for kind in kinds]  # type: ignore[attr-defined]


def full_batch_of_shards(rank: int, folder: str, sizes: list[list[int]], ddp: bool) -> Any:
    """Return the full-batch loss, gradients and steps from uneven shards, one per rank."""
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
