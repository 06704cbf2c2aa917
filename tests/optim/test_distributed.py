"""Two gloo processes on one machine, started by the test: DDP, FSDP2 and full batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

import mpgd
from tests.optim import workers
from tests.optim.workers import (
    SETTINGS,
    in_two_processes,
    make_optimizer,
    results,
    same_bits,
    snapshot,
    train_odd,
)

# a hang is a failure
pytestmark = pytest.mark.timeout(120)


OWN, SHARED = SETTINGS, {**SETTINGS, "shared_multiplicative": True, "symmetric": True}
JOBS: list[tuple[str, int, dict[str, Any]]] = [
    ("mpgd", 0, {"engine": "cpu"}),
    ("mpgd", 0, {"engine": "torch", "symmetric": True}),
    ("mpgd", 0, {"foreach": True, "shared_multiplicative": True}),
    ("mpgd", 0, {"noise": "gaussian"}),
    ("mpgd", 1, {"engine": "cpu"}),
    ("mpgd", 1, {"foreach": True}),
    ("adamw", 0, {}),
    ("sgd", 1, {"engine": "torch"}),
]
ROUNDED: list[dict[str, Any]] = [
    {"momentum": 0.9},
    {"engine": "torch", "noise": "gaussian"},
    {"foreach": True, "weight_decay": 0.1},
    {"inner": "adamw"},
]
KINDS = ["mpgd", "adamw"]
UNEVEN, EMPTY = [[9, 9, 4], [9, 2]], [[5, 5], []]
TASKS: dict[str, tuple[Any, ...]] = {
    "own": (workers.train_under_ddp, OWN),
    "shared": (workers.train_under_ddp, SHARED),
    "sharded": (workers.train_under_fsdp, JOBS),
    "saved": (workers.save_from_two, KINDS),
    "rounded": (workers.round_on_shards, ROUNDED),
    "compiled": (workers.compile_on_shards, {**SETTINGS, "engine": "cpu"}),
    "uneven": (workers.full_batch_of_shards, UNEVEN, True),
    "empty": (workers.full_batch_of_shards, EMPTY, True),
    "group": (workers.full_batch_of_shards, UNEVEN, False),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all tasks on two processes, once; the folder has their results and checkpoints."""
    return in_two_processes(tmp_path_factory.mktemp("processes"), TASKS)


@pytest.mark.parametrize(("name", "settings"), [("own", OWN), ("shared", SHARED)])
def test_ranks_of_ddp_agree_whatever_their_global_seeds(
    name: str, settings: dict[str, Any], folder: Path
) -> None:
    one, other = results(folder, name)
    assert same_bits(one, other)
    model = workers.small_net()
    alone = mpgd.MPGD(model.parameters(), **settings)
    workers.train(model, alone, range(20))
    single = snapshot(alone)
    assert same_bits(one["state"], single["state"])
    for a, b in zip(one["parameters"], single["parameters"], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)  # gradients are summed in parts


def test_sharded_orbits_are_those_of_the_whole(folder: Path) -> None:
    """FSDP2, rows and columns, uneven and empty shards: orbits in bits, parameters to rounding."""
    both = results(folder, "sharded")
    assert same_bits(both[0], both[1])
    for (kind, axis, settings), found in zip(JOBS, both[0], strict=True):
        model = workers.even_net() if axis else workers.odd_net()
        optimizer = make_optimizer(kind, model.parameters(), **settings)
        train_odd(model, optimizer, range(15))
        whole = workers.gathered(optimizer)
        for number, values in whole["state"].items():
            ours = found["state"][number]
            assert values.keys() == ours.keys()
            mine = mpgd.optim.wrapper.PREFIX if kind != "mpgd" else ""
            for name in (name for name in values if name.startswith(mine)):
                assert same_bits(ours[name], values[name]), (kind, axis, settings, name)
        for a, b in zip(found["parameters"], whole["parameters"], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_a_compiled_step_on_shards_has_the_plain_bits(folder: Path) -> None:
    for plain, compiled in results(folder, "compiled"):
        assert same_bits(plain, compiled)


def test_halves_on_shards_are_rounded_as_the_whole(folder: Path) -> None:
    """Bits: gradients are given, so that nothing but the cut tells the runs apart."""
    both = results(folder, "rounded")
    assert same_bits(both[0], both[1])
    for settings, found in zip(ROUNDED, both[0], strict=True):
        whole = workers.rounded_ends(settings, lambda x, axis: x)
        for ours, expected in zip(found, whole, strict=True):
            assert same_bits(ours, expected.detach()), settings


# torch's checkpointing still names parts of itself by deprecated ways
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning:torch.distributed")
def test_a_run_on_two_processes_resumes_on_two_and_on_one(folder: Path) -> None:
    both = results(folder, "saved")
    assert same_bits(both[0], both[1])
    for kind, (at_save, end, again) in zip(KINDS, both[0], strict=True):
        assert same_bits(again, end)
        model = workers.odd_net()
        with torch.no_grad():
            for p in model.parameters():
                p.zero_()
        optimizer = make_optimizer(kind, model.parameters())
        weights, state = get_state_dict(model, optimizer)
        content = {"model": weights, "optimizer": state}
        dcp.load(content, checkpoint_id=folder / kind, no_dist=True)
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state)
        assert same_bits(workers.gathered(optimizer), at_save)
        train_odd(model, optimizer, range(10, 25))
        found = workers.gathered(optimizer)
        prefix = mpgd.optim.wrapper.PREFIX if kind != "mpgd" else ""
        for number, values in end["state"].items():
            for name in (name for name in values if name.startswith(prefix)):
                assert same_bits(found["state"][number][name], values[name])
        for a, b in zip(found["parameters"], end["parameters"], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "sizes"), [("uneven", UNEVEN), ("empty", EMPTY), ("group", UNEVEN)]
)
def test_full_batches_of_two_processes_are_one_big_batch(
    name: str, sizes: list[list[int]], folder: Path
) -> None:
    """Ranks with different numbers of examples and of batches, one of them with none."""
    one, other = results(folder, name)
    assert same_bits(one, other)
    losses, gradients, parameters = one
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
