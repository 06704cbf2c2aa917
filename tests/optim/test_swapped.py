"""Parameters that are replaced inside the groups: the state follows, and nothing is left behind."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.optim.workers import make_optimizer, run, same_bits, snapshot
from tests.optim.wrapped import flat, vectors

KINDS = ["mpgd", "sgd", "adamw", "adagrad"]


def swap(optimizer: Any, make: Any) -> None:
    for group in optimizer.param_groups:
        group["params"] = [make(p) for p in group["params"]]


def same(p: Any) -> nn.Parameter:
    return nn.Parameter(p.detach().clone())


@pytest.mark.parametrize("engine", ["torch", "numba"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_drivers_follow_their_parameters(kind: str, engine: str) -> None:
    """Before the first step all goes on as if nothing had happened, later the noise does."""
    twin = make_optimizer(kind, vectors(), engine=engine)
    optimizer = make_optimizer(kind, vectors(), engine=engine)
    swap(optimizer, same)
    run(optimizer, 3)
    run(twin, 3)
    assert same_bits(snapshot(optimizer)["parameters"], snapshot(twin)["parameters"])
    swap(optimizer, same)
    before = optimizer.state_dict()  # works, though torch's own would fail on a state left behind
    assert same_bits(before["state"], twin.state_dict()["state"])
    assert {id(p) for p in optimizer.state} == {id(p) for p in flat(optimizer)}
    run(optimizer, 2, first=3)
    run(twin, 2, first=3)
    assert same_bits(snapshot(optimizer), snapshot(twin))


@pytest.mark.parametrize("kind", ["mpgd", "sgd"])
def test_another_shape_is_started_anew(kind: str) -> None:
    optimizer = make_optimizer(kind, vectors(), engine="torch", symmetric=True)
    run(optimizer, 2)
    if kind == "sgd":
        optimizer.inner.state.clear()  # type: ignore[attr-defined]
    swap(optimizer, lambda p: nn.Parameter(torch.ones(5)))
    fresh = make_optimizer(kind, [nn.Parameter(torch.ones(5)) for _ in range(3)], engine="torch")
    optimizer.state_dict()
    prefix = "" if kind == "mpgd" else "perturbation."
    for number in range(3):
        a, b = (o.state_dict()["state"][number][prefix + "additive"] for o in (optimizer, fresh))
        assert same_bits(a, b)
    run(optimizer, 1)
