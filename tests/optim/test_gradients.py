"""Gradients that are missing, infinite or of no use: orbits wait or go on, or nothing moves."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mpgd import MPGD, perturb, perturbed
from tests.optim.descents import (
    INNERS,
    KINDS,
    PATHS,
    SHARED,
    core,
    drivers,
    flat,
    made,
    orbits,
    parameters,
)
from tests.optim.workers import (
    bits,
    run,
    same_bits,
    scaled_steps,
    set_gradients,
    small_net,
    snapshot,
    train,
)


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("variant", [{}, {"noise": SHARED}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_parameter_without_a_gradient_waits(
    kind: str, variant: dict[str, Any], path: dict[str, Any]
) -> None:
    """Once, or for good as in a frozen layer; the others do not notice."""
    optimizer, twin = (made(kind, parameters([30, 20]), **variant, **path) for _ in range(2))
    alone = made(kind, parameters([30]), **variant, **path)
    p, q = flat(optimizer)
    for k in range(6):
        set_gradients([p, q], k)
        if k >= 2:
            q.grad = None
        before = deepcopy(drivers(optimizer, 1))
        optimizer.step()
        assert same_bits(drivers(optimizer, 1), before) == (k >= 2)
    run(twin, 2)
    run(alone, 6)
    assert same_bits(q.detach(), flat(twin)[1].detach())
    assert same_bits(p.detach(), flat(alone)[0].detach())
    set_gradients([p, q], 6)
    optimizer.step()
    assert int(drivers(optimizer, 1)["step"]) == 3
    assert not same_bits(orbits(optimizer, 1), orbits(twin, 1))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", ["mpgd", "sgd", "adamw", "adagrad"])
def test_a_scaler_skips_a_step_with_an_infinite_gradient(kind: str, fused: bool) -> None:
    """Nothing moves in that step; the others are those of a run without a scaler and without it."""
    model, twin = small_net(), small_net()
    how: dict[str, Any] = {"fused": True} if fused else {}

    def make(params: Any) -> Any:
        if kind == "mpgd":
            return made(kind, params, **how)
        return perturb(INNERS[kind](params, lr=0.05, **how), mu=0.3, sigma=0.2)

    optimizer, other = make(model.parameters()), make(twin.parameters())
    scaler = scaled_steps(model, optimizer)
    assert scaler.get_scale() == 4.0
    assert not hasattr(optimizer, "found_inf")
    for k in (0, 1, 3):  # a power of two scales exactly
        train(twin, other, range(k, k + 1))
    assert same_bits(snapshot(optimizer), snapshot(other))


def test_a_scaler_that_left_the_skipping_to_us_would_be_seen() -> None:
    """Twin: torch's fused AdamW takes the scale itself, and we would have moved by then."""

    class Open(perturbed(torch.optim.AdamW)):  # type: ignore[misc]
        _step_supports_amp_scaling = True

    model = small_net()
    with pytest.raises(AssertionError):
        scaled_steps(model, Open(model.parameters(), lr=0.05, fused=True, sigma=0.2))


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_nan_and_infinite_gradients_leave_the_orbits_alone(kind: str, path: dict[str, Any]) -> None:
    """And the parameters are NaN where those of the plain optimizer are."""
    optimizer, twin = (made(kind, parameters([40]), **path) for _ in range(2))
    plain = (torch.optim.SGD if kind == "mpgd" else INNERS[kind])(parameters([40]), lr=0.05)
    p, q, r = (flat(o)[0] for o in (optimizer, twin, plain))
    for k in range(6):
        set_gradients([p], k)
        q.grad, r.grad = p.grad.clone(), p.grad.clone()
        if k == 1:
            for x in (p, r):
                x.grad[:3] = torch.tensor([float("nan"), float("inf"), -float("inf")])
        for each in (optimizer, twin, plain):
            each.step()
        if k == 1:
            assert same_bits(p.isnan(), r.isnan())
    assert same_bits(orbits(optimizer), orbits(twin))
    assert same_bits(p[3:].detach(), q[3:].detach())
    assert not torch.isfinite(p[:3]).any()


# --- what is refused is refused before anything moves ------------------------------------------


def _sparse(p: nn.Parameter) -> None:
    # torch 2.13 warns when a sparse tensor is made without saying whether to check it
    with torch.sparse.check_sparse_tensor_invariants():
        p.grad = torch.ones(40).to_sparse()


def _integer(p: nn.Parameter) -> None:
    p.requires_grad_(False)
    p.grad = None
    p.data = torch.ones(40, dtype=torch.int64)
    p.grad = torch.ones(40, dtype=torch.int64)


def _tiny(p: nn.Parameter) -> None:
    p.grad = None
    p.data = torch.ones(40).to(torch.float8_e4m3fn)
    p.grad = torch.ones(40).to(torch.float8_e4m3fn)


def _inside(p: nn.Parameter) -> None:
    base = torch.linspace(-1, 1, 50)
    p.data = base[:40]
    p.grad = base[10:]


REFUSED: list[tuple[Any, str]] = [
    (_sparse, r"gradients must be dense .* got layout torch.sparse_coo .* shape \(40,\)"),
    (_integer, "a parameter of torch.int64 cannot take a step, but has a gradient"),
    (_tiny, "a parameter of torch.float8_e4m3fn cannot take a step, but has a gradient"),
    (_inside, r"the gradient of .* shape \(40,\) must not lie in a part of the parameter's memory"),
]


@pytest.mark.parametrize("in_closure", [False, True])
@pytest.mark.parametrize("engine", ["torch", "cpu"])
@pytest.mark.parametrize(("spoil", "text"), REFUSED, ids=[f.__name__ for f, _ in REFUSED])
def test_gradients_that_no_step_can_take_are_refused(
    spoil: Any, text: str, engine: str, in_closure: bool
) -> None:
    """Also those that only the closure makes; the parameter before the wrong one stays too."""
    optimizer = made("sgd", parameters([7, 40]), engine=engine)
    params = flat(optimizer)

    def closure() -> float:
        set_gradients(params, 0)
        spoil(params[1])
        return 0.0

    closure()
    before, words = [bits(p) for p in params], [orbits(optimizer, k) for k in (0, 1)]
    with pytest.raises(RuntimeError, match=text):
        optimizer.step(closure if in_closure else None)
    assert same_bits([bits(p) for p in params], before)
    assert same_bits([orbits(optimizer, k) for k in (0, 1)], words)
    assert not optimizer.state


def test_torch_refuses_steps_of_integers_too() -> None:
    p = nn.Parameter(torch.ones(3, dtype=torch.int64), requires_grad=False)
    p.grad = torch.ones(3, dtype=torch.int64)
    for make in (lambda: torch.optim.SGD([p], lr=0.1), lambda: MPGD([p], lr=0.1, force=0.0)):
        with pytest.raises(RuntimeError, match="For integral input tensors, argument alpha"):
            make().step()


@pytest.mark.parametrize("name", ["additive", "multiplicative"])
@pytest.mark.parametrize("engine", ["torch", "cpu"])
def test_orbits_are_looked_at_before_anything_moves(engine: str, name: str) -> None:
    optimizer = made("adamw", parameters([600, 3]), engine=engine)
    before, words = core(optimizer)["parameters"], drivers(optimizer, 1)[name]
    set_gradients(flat(optimizer), 0)
    for wrong, text in (
        (words.double(), "must be a contiguous tensor .* int32 .* got torch.float64"),
        (words[:2], r"must be a contiguous tensor .* int32 .* got torch.int32 of shape \(2,\)"),
        (words, "has no memory any more"),
    ):
        drivers(optimizer, 1)[name] = wrong
        if wrong is words:
            words.untyped_storage().resize_(0)
        with pytest.raises(RuntimeError, match=f"{name} of a parameter .*{text}"):
            optimizer.step()
        assert same_bits([p.detach() for p in flat(optimizer)], before)
        assert not optimizer.state


class Failing(torch.optim.SGD):
    """Raises in the middle of a training."""

    fails = False

    def step(self, closure: Any = None) -> Any:
        """Take a step, or fail."""
        if self.fails:
            raise RuntimeError("out of order")
        return super().step(closure)


def test_an_error_of_the_inner_step_leaves_a_perturbed_point_and_a_training_that_goes_on() -> None:
    optimizer = perturb(Failing(parameters([30]), lr=0.05), sigma=0.2)
    run(optimizer, 2)
    before: Tensor = flat(optimizer)[0].detach().clone()
    optimizer.fails = True
    with pytest.raises(RuntimeError, match="out of order"):
        run(optimizer, 1, first=2)
    assert not same_bits(flat(optimizer)[0].detach(), before)
    assert int(drivers(optimizer)["step"]) == 3
    optimizer.fails = False
    run(optimizer, 1, first=3)
    assert int(drivers(optimizer)["step"]) == 4
