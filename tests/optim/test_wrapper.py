"""`perturb`: any torch optimizer's step, plus the perturbation of where the step started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

import mpgd
from mpgd import ChaoticNoise, perturb
from tests.optim.workers import batch, run, same_bits, set_gradients, small_net, snapshot, train
from tests.optim.wrapped import INNERS, LOUD, VARIANTS, flat, vectors


@pytest.mark.parametrize("engine", ["torch", "cpu"])
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
    for engine in ("torch", "cpu"):
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

    It is one graph, though torch breaks it on purpose in the `step` of its own optimizers.
    """
    settings = {**LOUD, **variant, "engine": "torch"}
    eager, compiled = (perturb(INNERS[name](vectors(1)), **settings) for _ in range(2))
    step = torch.compile(compiled.step, backend="aot_eager", fullgraph=True)
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
