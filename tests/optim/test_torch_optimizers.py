"""All of torch's own optimizers, perturbed: they train, resume in bits, and run hooks once."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from mpgd import MPGD, ChaoticNoise, perturb, perturbed
from mpgd.optim import Perturbed
from tests.optim.descents import INNERS, LOUD, drivers, flat, made, parameters
from tests.optim.workers import batch, run, same_bits, small_net, snapshot, train

NOISE = {"mu": 0.02, "sigma": 0.02}
EVERY = [
    kind
    for kind in vars(torch.optim).values()
    if isinstance(kind, type) and issubclass(kind, Optimizer) and kind is not Optimizer
]
DENSE = [kind for kind in EVERY if kind is not torch.optim.SparseAdam]  # takes no dense gradients


def inputs_of(kind: Any, model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that an optimizer takes: Muon takes matrices."""
    return [p for p in model.parameters() if kind is not torch.optim.Muon or p.dim() == 2]


def of(kind: Any, model: nn.Module, by_class: bool, **noise: float) -> Any:
    """Return an optimizer made as a class, or perturbed after it was made."""
    params = inputs_of(kind, model)
    if by_class:
        return perturbed(kind)(params, lr=0.01, **noise)
    return perturb(kind(params, lr=0.01), **noise)


def steps(model: nn.Module, optimizer: Any, numbers: range) -> None:
    """Take steps with a closure, as LBFGS asks for one."""
    for k in numbers:
        inputs, targets = batch(k)

        def closure(inputs: Tensor = inputs, targets: Tensor = targets) -> Tensor:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            return loss

        optimizer.step(closure)


@pytest.mark.parametrize("by_class", [False, True], ids=["perturb", "perturbed"])
@pytest.mark.parametrize("kind", DENSE, ids=lambda kind: kind.__name__)
def test_each_trains_and_resumes_in_bits(kind: Any, by_class: bool) -> None:
    model, plain = small_net(), small_net()
    optimizer = of(kind, model, by_class, **NOISE)
    assert isinstance(optimizer, kind)
    assert isinstance(optimizer, Perturbed)
    steps(model, optimizer, range(3))
    file = io.BytesIO()
    torch.save((model.state_dict(), optimizer.state_dict()), file)
    file.seek(0)
    steps(model, optimizer, range(3, 6))
    again = small_net()
    other = of(kind, again, by_class, **NOISE)
    weights, state = torch.load(file, weights_only=True)
    again.load_state_dict(weights)
    other.load_state_dict(state)
    steps(again, other, range(3, 6))
    assert same_bits(snapshot(other), snapshot(optimizer))
    steps(plain, kind(inputs_of(kind, plain), lr=0.01), range(6))
    assert not same_bits(list(plain.parameters()), list(model.parameters()))
    assert all(bool(p.isfinite().all()) for p in model.parameters())


@pytest.mark.parametrize("kind", DENSE, ids=lambda kind: kind.__name__)
def test_each_without_noise_is_the_plain_one_in_bits(kind: Any) -> None:
    model, plain = small_net(), small_net()
    steps(model, of(kind, model, False, force=0.0), range(5))
    steps(plain, kind(inputs_of(kind, plain), lr=0.01), range(5))
    assert same_bits(list(model.parameters()), list(plain.parameters()))


@pytest.mark.parametrize("engine", ["torch", "cpu"])
@pytest.mark.parametrize("name", list(INNERS))
def test_a_step_is_the_inner_step_from_the_displaced_parameters(name: str, engine: str) -> None:
    """Written out: x + (sigma lr^gamma v2 - mu lr^gamma v1 x), then the optimizer's own step."""
    optimizer = made(name, parameters([(6, 4), 5], torch.float64), engine=engine)
    plain = INNERS[name](parameters([(6, 4), 5], torch.float64), lr=LOUD["lr"])
    noise = ChaoticNoise(LOUD["gamma"], LOUD["beta"], engine="torch")
    scale = LOUD["lr"] ** LOUD["gamma"]
    states = [
        [noise.init(tuple(p.shape), 0, tensor_id=t, driver_id=d) for d in (0, 1)]
        for t, p in enumerate(flat(plain))
    ]
    for k in range(5):
        with torch.no_grad():
            for p, both in zip(flat(plain), states, strict=True):
                (v, both[0]), (w, both[1]) = (noise.step(state) for state in both)
                p.add_(LOUD["sigma"] * scale * w - LOUD["mu"] * scale * v * p)
        run(plain, 1, first=k)
        run(optimizer, 1, first=k)
        for p, q in zip(flat(optimizer), flat(plain), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-12)


MADE: dict[str, Any] = {
    "MPGD": lambda params: MPGD(params, lr=0.01, **NOISE),
    "perturb": lambda params: perturb(torch.optim.AdamW(params, lr=0.01), **NOISE),
    "perturbed": lambda params: perturbed(torch.optim.AdamW)(params, lr=0.01, **NOISE),
    "fused": lambda params: perturb(torch.optim.AdamW(params, lr=0.01, fused=True), **NOISE),
    "NAdam": lambda params: perturb(torch.optim.NAdam(params, lr=0.01), **NOISE),
}


@pytest.mark.parametrize("name", list(MADE))
def test_hooks_of_all_optimizers_run_once(name: str) -> None:
    torch.optim.AdamW(parameters([1]))  # its construction puts hooks into torch's class
    optimizer, seen = MADE[name](parameters([3])), []
    optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))
    handles = [
        register_optimizer_step_pre_hook(lambda which, *_: seen.append(which)),
        register_optimizer_step_post_hook(lambda which, *_: seen.append(which)),
    ]
    run(optimizer, 1)
    for handle in handles:
        handle.remove()
    assert seen == [optimizer, "before", "after", optimizer]


def test_an_inner_step_with_its_hooks_would_run_them_twice() -> None:
    """Twin of the hooks' tests."""

    class Twice(perturbed(torch.optim.SGD)):  # type: ignore[misc]
        def _inner_step(self, *args: Any) -> Any:
            return torch.optim.SGD.step(self, *args)

    torch.optim.SGD(parameters([1]))
    optimizer, seen = Twice(parameters([3]), lr=0.01, **NOISE), []
    optimizer.register_step_post_hook(lambda *_: seen.append(1))
    run(optimizer, 1)
    assert len(seen) == 2


def test_an_optimizer_may_be_perturbed_in_mid_run_and_go_on_without() -> None:
    """`perturb` returns the same object; its checkpoint loads into a plain one, and back."""
    model = small_net()
    plain = torch.optim.AdamW(model.parameters(), lr=0.01)
    train(model, plain, range(4))
    saved = copy.deepcopy(plain.state_dict())
    optimizer = perturb(plain, **NOISE)
    assert optimizer is plain
    train(model, optimizer, range(4, 6))
    weight = flat(optimizer)[0]
    assert float(optimizer.state[weight]["step"]) == 6
    assert int(drivers(optimizer)["step"]) == 2
    other = torch.optim.AdamW(model.parameters(), lr=0.5)
    other.load_state_dict(optimizer.state_dict())
    assert other.param_groups[0]["lr"] == 0.01
    train(model, other, range(6, 8))
    words = copy.deepcopy(drivers(optimizer))
    optimizer.load_state_dict(saved)  # a plain one: the drivers stay as they are
    assert float(optimizer.state[weight]["step"]) == 4
    assert same_bits(drivers(optimizer), words)
    assert optimizer.param_groups[0]["perturbation.sigma"] == NOISE["sigma"]


def test_sparse_adam_is_refused_before_anything_moves() -> None:
    embedding = nn.Embedding(10, 4, sparse=True)
    before = embedding.weight.detach().clone()
    optimizer = perturb(torch.optim.SparseAdam(list(embedding.parameters())), sigma=0.02)
    embedding(torch.tensor([1, 2])).sum().backward()
    with pytest.raises(RuntimeError, match=r"must be dense .* got layout torch.sparse_coo"):
        optimizer.step()
    assert same_bits(embedding.weight.detach(), before)
