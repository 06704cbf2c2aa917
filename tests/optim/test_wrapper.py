"""`perturb`: any torch optimizer's step, plus the perturbation of where the step started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tests.optim.workers import (
    ORBITS,
    batch,
    run,
    same_bits,
    set_gradients,
    small_net,
    snapshot,
    train,
)
from torch import Tensor, nn
from torch.optim import Optimizer

import mpgd
from mpgd import MPGD, ChaoticNoise, perturb

LOUD: dict[str, Any] = {"mu": 0.3, "sigma": 0.2, "gamma": (0.6, 0.7), "beta": 0.5, "seed": 4}
INNERS: dict[str, Any] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.1, amsgrad=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.05),
}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"symmetric": True},
    {"shared_multiplicative": True, "symmetric": True},
    {"mu": 0.0},
    {"sigma": 0.0, "signs": "product"},
    {"start": 2, "stop": 4},
]


def vectors(count: int = 3, dtype: torch.dtype = torch.float64) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(1)
    return [nn.Parameter(torch.randn(6, 4, generator=generator).to(dtype)) for _ in range(count)]


def flat(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


# --- what a step is ----------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["torch", "numba"])
@pytest.mark.parametrize("name", list(INNERS))
def test_a_step_is_the_inner_step_and_the_displacement_of_the_old_parameters(
    name: str, engine: str
) -> None:
    """Written out: x' = step(x) - mu lr^gamma1 v1 x + sigma lr^gamma2 v2, all with the old x."""
    optimizer = perturb(INNERS[name](vectors()), engine=engine, **LOUD)
    plain = INNERS[name](vectors())
    noises = [ChaoticNoise(gamma, 0.5, engine="torch") for gamma in LOUD["gamma"]]
    states = [
        [noises[d].init((6, 4), 4, tensor_id=t, driver_id=d) for d in (0, 1)] for t in range(3)
    ]
    for k in range(5):
        old = [p.detach().clone() for p in flat(optimizer)]
        run(optimizer, 1, first=k)
        with torch.no_grad():
            for p, x in zip(flat(plain), old, strict=True):
                p.copy_(x)  # the inner optimizer steps from the perturbed parameters
        run(plain, 1, first=k)
        for t, x in enumerate(old):
            values = []
            for d in (0, 1):
                v, states[t][d] = noises[d].step(states[t][d])
                values.append(v)
            shift = -0.3 * 0.05**0.6 * values[0] * x + 0.2 * 0.05**0.7 * values[1]
            expected = flat(plain)[t].detach() + shift
            found = flat(optimizer)[t].detach()
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12, atol=1e-12)


def test_around_sgd_it_is_mpgd_to_rounding() -> None:
    model, other = small_net(dtype=torch.float64), small_net(dtype=torch.float64)
    one = perturb(torch.optim.SGD(model.parameters(), lr=0.05), **LOUD)
    two = mpgd.MPGD(other.parameters(), lr=0.05, **LOUD)
    run(one, 10)
    run(two, 10)
    for p, q in zip(flat(one), flat(two), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", list(INNERS))
def test_without_perturbation_it_is_the_inner_optimizer(name: str) -> None:
    models = [small_net() for _ in range(2)]
    optimizer, plain = (
        perturb(INNERS[name](models[0].parameters())),
        INNERS[name](models[1].parameters()),
    )
    for k in range(200):
        train(models[0], optimizer, range(k, k + 1))
        train(models[1], plain, range(k, k + 1))
        assert same_bits(flat(optimizer), flat(plain))
    assert same_bits(optimizer.state_dict()["state"], plain.state_dict()["state"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_numba_equals_torch(variant: dict[str, Any], dtype: torch.dtype) -> None:
    found = []
    for engine in ("torch", "numba"):
        parameters = [*vectors(2, dtype), nn.Parameter(torch.ones(1025, dtype=dtype))]
        parameters += [nn.Parameter(torch.ones((), dtype=dtype)), nn.Parameter(torch.ones(0))]
        parameters += [nn.Parameter(vectors(1, dtype)[0].detach().t())]
        optimizer = perturb(INNERS["adamw"](parameters), engine=engine, **{**LOUD, **variant})
        run(optimizer, 6)
        content = snapshot(optimizer)
        del content["param_groups"]
        found.append(content)
    assert same_bits(found[0], found[1])


@pytest.fixture
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


# what torch.compile imports uses torch's own deprecated functions
@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize(
    ("name", "variant"), [("sgd", {}), ("adamw", {"start": 1, "stop": 3})], ids=str
)
def test_compiled_it_is_the_same(name: str, variant: dict[str, Any]) -> None:
    """Drivers in bits; parameters as close as torch's own compiled AdamW, which uses float32.

    Not as one graph: torch 2.13 breaks it on purpose in the `step` of its own optimizers.
    """
    settings = {**LOUD, **variant, "engine": "torch"}
    eager, compiled = (perturb(INNERS[name](vectors(1)), **settings) for _ in range(2))
    step = torch.compile(compiled.step, backend="aot_eager")
    for k in range(4):
        run(eager, 1, first=k)
        set_gradients(flat(compiled), k)
        step()
    a, b = snapshot(eager), snapshot(compiled)
    for number, values in a["state"].items():
        for key in (key for key in values if key.startswith("perturbation.")):
            assert same_bits(values[key], b["state"][number][key])
    for p, q in zip(a["parameters"], b["parameters"], strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-5)


# --- one optimizer to the outside --------------------------------------------------------------


@pytest.mark.parametrize("name", ["step", "cosine", "plateau"])
def test_a_schedule_acts_on_both_parts(name: str) -> None:
    p = nn.Parameter(torch.zeros(40, dtype=torch.float64))
    optimizer = perturb(torch.optim.SGD([p], lr=0.5), sigma=0.2, gamma=0.7, seed=3)
    scheduler: Any = {
        "step": lambda: torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.3),
        "cosine": lambda: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10),
        "plateau": lambda: torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, factor=0.3, patience=1
        ),
    }[name]()
    noise = ChaoticNoise(0.7)
    state, rates = noise.init(40, 3, driver_id=1), []
    for _ in range(12):
        lr = optimizer.param_groups[0]["lr"]
        assert optimizer.inner.param_groups[0]["lr"] == lr
        rates.append(lr)
        old, p.grad = p.detach().clone(), torch.full_like(p, 0.25)
        optimizer.step()
        expected = old - lr * 0.25
        if lr > 0:
            v, state = noise.step(state)
            expected = expected + 0.2 * lr**0.7 * v
        torch.testing.assert_close(p.detach(), expected, rtol=1e-12, atol=1e-14)
        scheduler.step(*([1.0] if name == "plateau" else []))
    assert len(set(rates)) > 2


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_at_lr_zero_the_drivers_wait(variant: dict[str, Any]) -> None:
    optimizer = perturb(torch.optim.SGD(vectors(), lr=0.05), **{**LOUD, **variant})
    run(optimizer, 3)
    for value in (0.0, torch.tensor(0.0)):
        optimizer.param_groups[0]["lr"] = value
        before = snapshot(optimizer)
        run(optimizer, 3)
        assert same_bits(snapshot(optimizer), before)


def test_a_tensor_lr_equals_the_number() -> None:
    found = []
    for lr in (0.05, torch.tensor(0.05, dtype=torch.float64)):
        optimizer = perturb(torch.optim.SGD(vectors(), lr=lr, foreach=False), **LOUD)
        run(optimizer, 5)
        found.append(snapshot(optimizer))
    assert same_bits(found[0]["state"], found[1]["state"])
    for a, b in zip(found[0]["parameters"], found[1]["parameters"], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", list(INNERS))
def test_a_closure_is_called_once_with_gradients_on(name: str) -> None:
    model, twin = small_net(), small_net()
    optimizer, other = (perturb(INNERS[name](m.parameters()), **LOUD) for m in (model, twin))
    losses: list[Tensor] = []

    def closure() -> Tensor:
        optimizer.zero_grad()
        inputs, targets = batch(0)
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        losses.append(loss)
        return loss

    with torch.no_grad():
        assert optimizer.step(closure) is losses[0]
    assert len(losses) == 1
    train(twin, other, range(1))
    assert same_bits(snapshot(optimizer), snapshot(other))


def test_lbfgs_which_calls_its_closure_many_times_is_perturbed_once() -> None:
    model, twin = small_net(dtype=torch.float64), small_net(dtype=torch.float64)
    inner = torch.optim.LBFGS(model.parameters(), lr=0.5)
    optimizer = perturb(inner, sigma=0.2, seed=4)
    plain = torch.optim.LBFGS(twin.parameters(), lr=0.5)
    calls = []

    def closure(net: nn.Module, each: Optimizer) -> Tensor:
        each.zero_grad()
        inputs, targets = batch(0)
        loss = nn.functional.mse_loss(net(inputs.double()), targets.double())
        loss.backward()
        calls.append(loss)
        return loss

    first = optimizer.step(lambda: closure(model, optimizer))
    assert len(calls) > 2
    assert first == plain.step(lambda: closure(twin, plain))
    noise = ChaoticNoise(0.6)
    for t, (p, q) in enumerate(zip(flat(optimizer), flat(plain), strict=True)):
        v, _ = noise.step(noise.init(tuple(p.shape), 4, tensor_id=t, driver_id=1))
        expected = q.detach() + 0.2 * 0.5**0.6 * v
        torch.testing.assert_close(p.detach(), expected, rtol=1e-12, atol=1e-12)
    state = optimizer.state_dict()["state"]
    assert all(int(values["perturbation.step"]) == 1 for values in state.values())


# --- groups ------------------------------------------------------------------------------------


def test_groups_keep_their_own_settings() -> None:
    first, second, third = vectors()
    groups = [
        {"params": [first], "mu": 0.0, "sigma": 0.0},
        {"params": [second], "gamma": 0.8, "lr": 0.2},
        {"params": [third]},
    ]
    optimizer = perturb(torch.optim.SGD(groups, lr=0.05), **LOUD)
    assert [g["sigma"] for g in optimizer.param_groups] == [0.0, 0.2, 0.2]
    assert [g["gamma"] for g in optimizer.param_groups] == [(0.6, 0.7), 0.8, (0.6, 0.7)]
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
    optimizer.add_param_group({"params": [late], "sigma": 0.9})
    assert optimizer.param_groups[1]["sigma"] == 0.9
    assert optimizer.param_groups[1]["mu"] == 0.3
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
        for engine in ("torch", "numba"):
            optimizer, twin = (
                perturb(INNERS["sgd"](vectors()), engine=engine, **first) for _ in range(2)
            )
            run(optimizer, 2)
            run(twin, 2)
            optimizer.param_groups[0].update(change)
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


# --- errors ------------------------------------------------------------------------------------

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
    odd = torch.optim.AdamW([{"params": vectors(), **change}])
    with pytest.raises(error, match=text):
        perturb(odd, sigma=0.1)
    optimizer = perturb(INNERS["adamw"](vectors()), **LOUD)
    before = snapshot(optimizer)
    with pytest.raises(error, match=text):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))], **change})
    assert same_bits(snapshot(optimizer), before)


def test_other_mistakes_are_refused() -> None:
    with pytest.raises(TypeError, match=r"perturb\(\) got unknown settings \['lr', 'nu'\]"):
        perturb(INNERS["sgd"](vectors()), nu=1, lr=3)
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


# --- 10-12 around an optimizer -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["sgd", "adamw", "adagrad"])
def test_a_grad_scaler_skips_a_step_with_an_inf_gradient(name: str) -> None:
    model = small_net()
    optimizer = perturb(INNERS[name](model.parameters()), **LOUD)
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


@pytest.mark.parametrize("engine", ["torch", "numba"])
@pytest.mark.parametrize("name", ["sgd", "adamw", "adagrad"])
def test_nan_and_inf_gradients_leave_the_orbits_alone(name: str, engine: str) -> None:
    found = []
    for bad in (0.0, float("nan"), float("inf")):
        optimizer = perturb(INNERS[name](vectors()), engine=engine, **LOUD)
        for k in range(4):
            set_gradients(flat(optimizer), k)
            if k == 1:
                flat(optimizer)[0].grad[0, 0] += bad
            optimizer.step()
        state = optimizer.state_dict()["state"][0]
        orbits = [state[f"perturbation.{key}"].clone() for key in ORBITS[:2]]
        assert all(torch.isfinite(s).all() for s in orbits)
        found.append([orbits, int(state["perturbation.step"]), flat(optimizer)[0][1:].detach()])
    assert same_bits(found[1], found[0])
    assert same_bits(found[2], found[0])


def test_hooks_repr_and_zero_grad() -> None:
    optimizer, seen = perturb(INNERS["adamw"](vectors()), **LOUD), []
    handles = [
        optimizer.register_step_pre_hook(lambda *_: seen.append("before step")),
        optimizer.register_step_post_hook(lambda *_: seen.append("after step")),
        optimizer.register_state_dict_pre_hook(lambda _: seen.append("before state")),
        optimizer.register_state_dict_post_hook(lambda _, s: {**s, "extra": 1}),
        optimizer.register_load_state_dict_pre_hook(lambda _, s: seen.append("before load")),
        optimizer.register_load_state_dict_post_hook(lambda _: seen.append("after load")),
    ]
    run(optimizer, 1)
    saved = optimizer.state_dict()
    assert saved.pop("extra") == 1
    optimizer.load_state_dict(saved)
    assert seen == ["before step", "after step", "before state", "before load", "after load"]
    for handle in handles:
        handle.remove()
    run(optimizer, 1)
    assert len(seen) == 5
    text = repr(optimizer)
    for part in ("Perturbed (", "mu: 0.3", "sigma: 0.2", "weight_decay: 0.1"):
        assert part in text
    optimizer.zero_grad(set_to_none=False)
    assert all(not p.grad.any() for p in flat(optimizer))
    optimizer.zero_grad()
    assert all(p.grad is None for p in flat(optimizer))


def test_the_global_generators_are_left_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    run(perturb(INNERS["adamw"]([nn.Parameter(torch.ones(3))]), **LOUD), 3)
    assert same_bits(torch.get_rng_state(), before)


def test_a_perturbed_optimizer_is_not_perturbed_again() -> None:
    """Both would draw the same orbits."""
    for optimizer in (MPGD(vectors(), lr=0.1, mu=0.1), perturb(torch.optim.SGD(vectors()), mu=0.1)):
        with pytest.raises(ValueError, match="perturbed already: set mu, sigma there"):
            perturb(optimizer, sigma=0.1)
