"""Parameters that are replaced in their groups, and groups that are taken out and come back."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn

from mpgd import perturb
from tests.optim.checkpoints import KINDS, drivers_state
from tests.optim.workers import make_optimizer, run, same_bits, set_gradients, snapshot
from tests.optim.wrapped import flat, vectors


def swap(optimizer: Any, make: Any) -> None:
    for group in optimizer.param_groups:
        group["params"] = [make(p) for p in group["params"]]


def same(p: Any) -> nn.Parameter:
    return nn.Parameter(p.detach().clone())


@pytest.mark.parametrize("engine", ["torch", "cpu"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_drivers_follow_their_parameters(kind: str, engine: str) -> None:
    """As accelerate does with FSDP2; all goes on as if nothing had happened, in a copy too."""
    twin = make_optimizer(kind, vectors(), engine=engine)
    optimizer = make_optimizer(kind, vectors(), engine=engine)
    for first in (0, 3):
        swap(optimizer, same)
        run(optimizer, 3, first)
        run(twin, 3, first)
    optimizer = deepcopy(optimizer)
    swap(optimizer, same)
    assert same_bits(optimizer.state_dict()["state"], twin.state_dict()["state"])
    assert set(optimizer.state) == set(flat(optimizer))
    run(optimizer, 2, first=6)
    run(twin, 2, first=6)
    assert same_bits(snapshot(optimizer), snapshot(twin))


@pytest.mark.parametrize("kind", KINDS)
def test_another_shape_is_started_anew(kind: str) -> None:
    optimizer = make_optimizer(kind, vectors(), engine="torch")
    run(optimizer, 2)
    swap(optimizer, lambda p: nn.Parameter(torch.ones(5)))
    fresh = make_optimizer(kind, [nn.Parameter(torch.ones(5)) for _ in range(3)], engine="torch")
    assert same_bits(drivers_state(optimizer), drivers_state(fresh))
    run(optimizer, 1)


def give_gradients(params: list[nn.Parameter], k: int, waiting: range) -> None:
    set_gradients(params, k)
    for number in waiting:
        params[number].grad = None


@pytest.mark.parametrize("saves", [False, True])
@pytest.mark.parametrize("kind", ["mpgd", "adamw"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_group_that_was_taken_out_and_added_again_goes_on(
    kind: str, place: int, saves: bool
) -> None:
    """Its parameters have waited, as without a gradient; a group that came in between is new."""
    ps, qs = vectors(4), vectors(4)
    optimizer, twin = (
        make_optimizer(kind, [{"params": each[:2]}, {"params": each[2:]}], engine="torch")
        for each in (ps, qs)
    )
    waits, all_go = range(2 * place, 2 * place + 2), range(0)
    for k, waiting in enumerate((all_go, waits, waits, all_go)):
        if k == 1:
            out = optimizer.param_groups.pop(place)
            if saves and kind == "mpgd":  # torch's own fails while moments are of no group
                assert len(optimizer.state_dict()["state"]) == 2
            optimizer.add_param_group({"params": vectors(2)})
        if k == 3:
            optimizer.add_param_group(out)
        for params, each in ((ps, optimizer), (qs, twin)):
            give_gradients(params, k, waiting)
            each.step()
    for p, q in zip(ps, qs, strict=True):
        assert same_bits(p.detach(), q.detach())
        assert same_bits(optimizer._orbits[p], twin._orbits[q])  # type: ignore[attr-defined]
    taken = [int(state["ordinal"]) for state in optimizer._orbits.values()]  # type: ignore[attr-defined]
    assert len(set(taken)) == 6
    assert same_bits(optimizer.state_dict(), deepcopy(optimizer).state_dict())


def test_a_plain_group_does_not_inherit_from_one_that_was_taken_out() -> None:
    groups = [{"params": vectors(1)}, {"params": vectors(1), "perturbation.sigma": 0.0}]
    optimizer = perturb(torch.optim.AdamW(groups, lr=0.1), sigma=0.1)
    run(optimizer, 2)
    [plain] = optimizer.param_groups[1]["params"]
    moments = deepcopy(dict(optimizer.state[plain]))
    optimizer.add_param_group(optimizer.param_groups.pop(0))
    assert same_bits(dict(optimizer.state[plain]), moments)
    assert plain not in optimizer._orbits
