"""Every group of a perturbed optimizer has its own settings; wrong ones are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from mpgd import MPGD, perturb
from mpgd.optim.inner import with_prefix
from tests.optim.workers import ORBITS, run, same_bits, set_gradients, snapshot
from tests.optim.wrapped import INNERS, LOUD, flat, vectors


def test_groups_keep_their_own_settings() -> None:
    first, second, third = vectors()
    groups = [
        {"params": [first], "perturbation.mu": 0.0, "perturbation.sigma": 0.0},
        {"params": [second], "perturbation.gamma": 0.8, "lr": 0.2},
        {"params": [third]},
    ]
    optimizer = perturb(torch.optim.SGD(groups, lr=0.05), **LOUD)
    assert [g["perturbation.sigma"] for g in optimizer.param_groups] == [0.0, 0.2, 0.2]
    assert [g["perturbation.gamma"] for g in optimizer.param_groups] == [
        (0.6, 0.7),
        0.8,
        (0.6, 0.7),
    ]
    plain = torch.optim.SGD([vectors()[0]], lr=0.05)
    for k in range(3):
        set_gradients([first, second, third], k)
        flat(plain)[0].grad = first.grad.clone()
        optimizer.step()
        plain.step()
    assert same_bits(first, flat(plain)[0])
    assert 0 not in optimizer.state_dict()["state"]  # no drivers, and SGD has no momentum
    assert set(optimizer.state_dict()["state"]) == {1, 2}


def test_a_group_added_later_leaves_the_others_alone() -> None:
    optimizer, twin = (perturb(INNERS["sgd"](vectors(1)), **LOUD) for _ in range(2))
    run(optimizer, 3)
    run(twin, 3)
    late = nn.Parameter(torch.ones(6, 4, dtype=torch.float64))
    optimizer.add_param_group({"params": [late], "perturbation.sigma": 0.9})
    assert optimizer.param_groups[1]["perturbation.sigma"] == 0.9
    assert optimizer.param_groups[1]["perturbation.mu"] == 0.3
    assert optimizer.param_groups[1]["lr"] == 0.05
    run(optimizer, 3, first=3)
    run(twin, 3, first=3)
    one, other = optimizer.state_dict()["state"], twin.state_dict()["state"]
    assert same_bits(one[0], other[0])
    assert same_bits(flat(optimizer)[0], flat(twin)[0])
    assert int(one[1]["perturbation.step"]) == 3
    for name in ORBITS[:2]:
        a, b = (one[n][f"perturbation.{name}"].abs() for n in (0, 1))
        assert not (a == b).any()


def test_raising_mu_or_sigma_later_creates_the_drivers_then() -> None:
    for first, change in (
        ({}, {"mu": 0.3}),
        ({"mu": 0.3}, {"sigma": 0.2}),
        ({"mu": 0.3}, {"symmetric": True}),
        ({"sigma": 0.2, "shared_multiplicative": True}, {"mu": 0.3}),
    ):
        for engine in ("torch", "cpu"):
            optimizer, twin = (
                perturb(INNERS["sgd"](vectors()), engine=engine, **first) for _ in range(2)
            )
            run(optimizer, 2)
            run(twin, 2)
            optimizer.param_groups[0].update(with_prefix(change))
            run(optimizer, 2, first=2)
            run(twin, 2, first=2)
            assert not any(map(same_bits, flat(optimizer), flat(twin)))


@pytest.mark.parametrize("shared", [False, True])
def test_a_parameter_without_a_gradient_waits(shared: bool) -> None:
    settings = {**LOUD, "shared_multiplicative": shared}
    optimizer = perturb(INNERS["adamw"](vectors()), **settings)
    run(optimizer, 2)
    for k in range(2, 5):
        set_gradients(flat(optimizer), k)
        flat(optimizer)[1].grad = None
        before = snapshot(optimizer)
        optimizer.step()
        after = snapshot(optimizer)
        assert same_bits(after["state"][1], before["state"][1])
        assert same_bits(after["parameters"][1], before["parameters"][1])
        assert not same_bits(after["state"][0], before["state"][0])


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"mu": -0.1}, ValueError, r"mu must lie in \[0, inf\), got -0.1"),
    ({"sigma": float("nan")}, ValueError, "sigma must lie .* got nan"),
    ({"gamma": 0.4}, ValueError, r"gamma must lie in \(0.5, 1\), got 0.4"),
    ({"beta": (0.0, 3)}, ValueError, r"beta must lie in \[-1, 1\], got 3"),
    ({"seed": "a"}, TypeError, "seed must be an integer .* got 'a'"),
    ({"signs": "none"}, ValueError, "signs must be one of .* got 'none'"),
    ({"engine": "c"}, ValueError, "engine must be one of .* got 'c'"),
    ({"start": 3, "stop": 1}, ValueError, "stop must not come before start, which is 3, got 1"),
]


@pytest.mark.parametrize(("change", "error", "text"), BAD, ids=[str(b[0]) for b in BAD])
def test_bad_settings_are_refused_and_the_optimizer_is_left_as_it_was(
    change: dict[str, Any], error: type[Exception], text: str
) -> None:
    inner = INNERS["adamw"](vectors())
    before = snapshot(inner)
    with pytest.raises(error, match=text):
        perturb(inner, **change)
    assert same_bits(snapshot(inner), before)
    odd = torch.optim.AdamW([{"params": vectors(), **with_prefix(change)}])
    with pytest.raises(error, match=text):
        perturb(odd, sigma=0.1)
    optimizer = perturb(INNERS["adamw"](vectors()), **LOUD)
    before = snapshot(optimizer)
    with pytest.raises(error, match=text):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))], **with_prefix(change)})
    assert same_bits(snapshot(optimizer), before)


def test_other_mistakes_are_refused() -> None:
    with pytest.raises(TypeError, match=r"perturb\(\) got an unexpected keyword argument 'nu'"):
        perturb(INNERS["sgd"](vectors()), nu=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"must be a torch.optim.Optimizer, got \[\]"):
        perturb([], mu=0.1)  # type: ignore[arg-type]
    inner = INNERS["sgd"](vectors())
    inner.param_groups[0]["lr"] = -1.0
    with pytest.raises(ValueError, match=r"lr must lie in \[0, inf\), got -1.0"):
        perturb(inner, mu=0.1)
    del inner.param_groups[0]["lr"]
    with pytest.raises(ValueError, match="every group needs an 'lr' to scale the perturbation"):
        perturb(inner, mu=0.1)
    optimizer = perturb(INNERS["sgd"](vectors()), mu=0.1)
    before = snapshot(optimizer)
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        optimizer.add_param_group({"params": flat(optimizer)[:1]})
    assert same_bits(snapshot(optimizer), before)
    run(optimizer, 2)


@pytest.mark.parametrize("in_closure", [False, True])
def test_sparse_gradients_are_refused_before_anything_changes(in_closure: bool) -> None:
    """Also those that only the closure makes."""
    optimizer = perturb(torch.optim.SGD(vectors(), lr=0.05), **LOUD)
    before = snapshot(optimizer)

    def closure() -> float:
        set_gradients(flat(optimizer), 0)
        # torch 2.13 warns when a sparse tensor is made without saying whether to check it
        with torch.sparse.check_sparse_tensor_invariants():
            flat(optimizer)[1].grad = flat(optimizer)[1].grad.to_sparse()
        return 0.0

    if not in_closure:
        closure()
    with pytest.raises(RuntimeError, match=r"must be dense .* torch.sparse_coo .* shape \(6, 4\)"):
        optimizer.step(closure if in_closure else None)
    assert same_bits(snapshot(optimizer), before)


def test_a_perturbed_optimizer_is_not_perturbed_again() -> None:
    """Both would draw the same orbits."""
    for optimizer in (MPGD(vectors(), lr=0.1, mu=0.1), perturb(torch.optim.SGD(vectors()), mu=0.1)):
        with pytest.raises(ValueError, match="perturbed already: set mu, sigma there"):
            perturb(optimizer, sigma=0.1)
