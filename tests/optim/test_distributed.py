"""Two gloo processes on one machine have the bits of one: DDP, FSDP, ZeRO, tensor parallelism.

Every rank sees the same batches, or is given the same gradients, so that nothing but the cut tells
two processes from one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mpgd
from mpgd import GaussianNoise
from tests.optim import processes, workers
from tests.optim.checkpoints import SHARED
from tests.optim.processes import (
    Job,
    bare_net,
    even_net,
    gathered,
    in_two_processes,
    odd_net,
    results,
    train_odd,
)
from tests.optim.workers import SETTINGS, make_optimizer, same_bits

# a hang is a failure; torch's checkpointing still names parts of itself by deprecated ways
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning:torch.distributed"),
]
JOBS: list[Job] = [
    ("mpgd", {"engine": "cpu", "momentum": 0.9}),
    ("mpgd", {"engine": "torch", "symmetric": True}),
    ("mpgd", {"noise": SHARED}),
    ("adamw", {"noise": GaussianNoise()}),
    ("sgd", {}),
    ("adagrad", {"engine": "torch"}),
]
KINDS = ["mpgd", "adamw"]
SAVED = [(kind, *both) for kind in KINDS for both in ((False, False), (True, False), (True, True))]
COMPILED = [("mpgd", {}), ("sgd", {"engine": "torch"})]
UNEVEN, EMPTY = [[9, 9, 4], [9, 2]], [[5, 5], []]
TASKS: dict[str, tuple[Any, ...]] = {
    "ddp": (processes.train_under, nn.parallel.DistributedDataParallel, JOBS),
    "rows": (processes.train_under, processes.sharded, JOBS),
    "columns": (processes.step_on_columns, JOBS),
    "saved": (processes.save_and_resume, SAVED),
    "broadcast": (processes.broadcast_whole, KINDS),
    "swapped": (processes.swap_under_fsdp, KINDS),
    "zero": (processes.partition,),
    "flat": (processes.flatten, KINDS),
    "rounded": (processes.round_on_shards, [*KINDS, "sgd"]),
    "compiled": (processes.train_under, processes.sharded, COMPILED, True),
    "uneven": (processes.full_batch_of_shards, UNEVEN, True),
    "empty": (processes.full_batch_of_shards, EMPTY, True),
    "group": (processes.full_batch_of_shards, UNEVEN, False),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all tasks on two processes, once; the folder has their results and checkpoints."""
    return in_two_processes(tmp_path_factory.mktemp("processes"), TASKS)


def agreed(folder: Path, name: str) -> Any:
    """Return what both ranks gave."""
    one, other = results(folder, name)
    assert same_bits(one, other)
    return one


def alone(kind: str, steps: int = 6, net: Any = odd_net, **settings: Any) -> dict[str, Any]:
    """Return what one process ends with."""
    model = net()
    optimizer = make_optimizer(kind, model.parameters(), **settings)
    train_odd(model, optimizer, range(steps))
    return gathered(optimizer)


@pytest.mark.parametrize(("name", "jobs"), [("ddp", JOBS), ("rows", JOBS), ("compiled", COMPILED)])
def test_training_on_two_ranks_has_the_bits_of_one(
    name: str, jobs: list[Job], folder: Path
) -> None:
    for (kind, settings), found in zip(jobs, agreed(folder, name), strict=True):
        assert same_bits(found, alone(kind, **settings)), (kind, settings)


def test_columns_have_the_bits_of_the_whole(folder: Path) -> None:
    found = iter(agreed(folder, "columns"))
    for kind, settings in JOBS:
        model = even_net()
        optimizer = make_optimizer(kind, model.parameters(), **settings)
        processes.given_steps(list(model.parameters()), optimizer, range(6))
        whole = gathered(optimizer)
        assert same_bits(next(found), whole), ("FSDP2", kind, settings)
        assert same_bits(next(found), whole), ("tensor parallel", kind, settings)


def test_a_run_on_two_ranks_resumes_on_two_and_on_one(folder: Path) -> None:
    """In the bits of one process that never stopped; with a group without noise, and flattened."""
    for (kind, plain, flatten), ends in zip(SAVED, agreed(folder, "saved"), strict=True):
        whole, model = odd_net(), odd_net()
        never_stopped, optimizer = (processes.grouped(kind, m, plain) for m in (whole, model))
        train_odd(whole, never_stopped, range(8))
        place = str(folder / f"{kind} {plain} {flatten}")
        with torch.no_grad():
            for p in model.parameters():
                p.zero_()
        processes.load_whole(model, optimizer, place, flatten, no_dist=True)
        train_odd(model, optimizer, range(4, 8))
        expected = gathered(never_stopped)
        for found in (*ends, gathered(optimizer)):
            assert same_bits(found, expected), (kind, plain, flatten)


@pytest.mark.parametrize(("name", "steps"), [("broadcast", 8), ("swapped", 6)])
def test_a_broadcast_state_and_replaced_parameters_go_on(
    name: str, steps: int, folder: Path
) -> None:
    for kind, found in zip(KINDS, agreed(folder, name), strict=True):
        expected = alone(kind, steps, symmetric=True)
        for end in found if name == "broadcast" else [found]:
            assert same_bits(end, expected), kind


def test_under_zero_the_bits_are_those_of_one_process(folder: Path) -> None:
    for kind, (whole, resumed) in agreed(folder, "zero").items():
        assert same_bits(resumed, whole)
        assert same_bits(whole, alone(kind, 8)["parameters"])


def test_under_fsdp1_the_noise_is_that_of_one_process(folder: Path) -> None:
    one, other = results(folder, "flat")
    errors = one.pop("errors"), other.pop("errors")  # each names the shape of its own part
    assert same_bits(one, other)
    for key, found in one.items():
        kind, net = key.split()
        end = alone(kind, net=bare_net if net == "bare" else odd_net, symmetric=True)
        assert same_bits(found, end["parameters"]), key
    for mixed, unnumbered in errors:
        assert "holds 6 tensors" in mixed
        assert "wrap the model with use_orig_params=True" in mixed
        assert "number_parameters(model) on the wrapped model" in unnumbered


def test_halves_on_shards_are_rounded_as_the_whole(folder: Path) -> None:
    for kind, found in zip(TASKS["rounded"][1], agreed(folder, "rounded"), strict=True):
        whole = processes.rounded_ends(kind, lambda x, axis: x)
        assert same_bits(found, [x.detach() for x in whole]), kind


@pytest.mark.parametrize(
    ("name", "sizes"), [("uneven", UNEVEN), ("empty", EMPTY), ("group", UNEVEN)]
)
def test_full_batches_of_two_processes_are_one_big_batch(
    name: str, sizes: list[list[int]], folder: Path
) -> None:
    """Ranks with different numbers of examples and of batches, one of them with none."""
    losses, gradients, parameters = agreed(folder, name)
    model = workers.small_net(dtype=torch.float64)
    inputs, targets = (x.double() for x in workers.batch(0, size=sum(map(sum, sizes))))
    optimizer = mpgd.MPGD(model.parameters(), **SETTINGS)
    for k in range(3):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        torch.testing.assert_close(losses[k], loss.detach(), rtol=1e-12, atol=0)
        optimizer.step()
    for p, x, g in zip(model.parameters(), parameters, gradients, strict=True):
        torch.testing.assert_close(p.detach(), x, rtol=1e-11, atol=1e-12)
        torch.testing.assert_close(p.grad, g, rtol=1e-11, atol=1e-12)
