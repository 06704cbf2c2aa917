"""Closures: evaluated once before anything moves, and again wherever the inner step has moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import LBFGS, Optimizer

from mpgd import perturb
from tests.optim.descents import KINDS, drivers, flat, made, parameters
from tests.optim.workers import batch, run, same_bits, small_net, snapshot

NOISE = {"mu": 0.02, "sigma": 0.02}
Closure = Callable[[], Tensor]


class SAM(Optimizer):
    """Sharpness-aware minimization as it is widely written: it moves x through ``p.data``."""

    def __init__(self, params: Any, base: Any = torch.optim.SGD, rho: float = 0.05) -> None:
        super().__init__(params, {"rho": rho, "lr": 0.05})
        self.base = base(self.param_groups)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> None:
        """Take the step of the base with the gradient at the highest point nearby."""
        assert closure is not None
        norm = torch.stack([p.grad.norm() for p in flat(self)]).norm()
        old = [p.data.clone() for p in flat(self)]
        for p in flat(self):
            p.data.add_(p.grad * (self.defaults["rho"] / norm))
        self.zero_grad()
        torch.enable_grad()(closure)()
        for p, x in zip(flat(self), old, strict=True):
            p.data = x
        self.base.step()


ASKING: dict[str, Any] = {
    "LBFGS": lambda params: LBFGS(params, lr=0.1, max_iter=4),
    "LBFGS, line search": lambda params: LBFGS(
        params, lr=1.0, max_iter=6, line_search_fn="strong_wolfe"
    ),
    "SAM": SAM,
}


def train(model: nn.Module, optimizer: Any, steps: int, first: int = 0) -> int:
    """Take steps with a closure, as SAM after a backward pass; return how often it was called."""
    calls = []
    for k in range(first, first + steps):
        inputs, targets = batch(k)

        def closure(inputs: Tensor = inputs, targets: Tensor = targets) -> Tensor:
            calls.append(1)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            return loss

        if isinstance(optimizer, SAM):
            closure()
        optimizer.step(closure)
    return len(calls)


@pytest.mark.parametrize("kind", KINDS)
def test_one_evaluation_with_gradients_on_gives_the_loss_and_the_plain_step(kind: str) -> None:
    model, twin = small_net(), small_net()
    optimizer, other = made(kind, model.parameters()), made(kind, twin.parameters())
    losses: list[Tensor] = []
    inputs, targets = batch(0)

    def closure() -> Tensor:
        optimizer.zero_grad()
        losses.append(nn.functional.mse_loss(model(inputs), targets))
        losses[-1].backward()
        return losses[-1]

    with torch.no_grad():
        assert optimizer.step(closure) is losses[0]
    assert len(losses) == 1
    nn.functional.mse_loss(twin(inputs), targets).backward()
    assert other.step() is None
    assert same_bits(snapshot(optimizer), snapshot(other))


@pytest.mark.parametrize("name", list(ASKING))
def test_without_noise_they_are_the_plain_ones_in_bits(name: str) -> None:
    models = [small_net() for _ in range(2)]
    plain, optimizer = (ASKING[name](list(model.parameters())) for model in models)
    calls = [
        train(models[0], plain, 5),
        train(models[1], perturb(optimizer, force=0.0), 5),
    ]
    assert same_bits(flat(optimizer), flat(plain))
    assert calls[1] - calls[0] == (5 if name == "SAM" else 0)  # which is handed a backward pass


@pytest.mark.parametrize("name", list(ASKING))
def test_with_noise_they_train_and_are_perturbed_once_a_step(name: str) -> None:
    model = small_net()
    optimizer = perturb(ASKING[name](list(model.parameters())), **NOISE)
    train(model, optimizer, 8)
    assert int(drivers(optimizer)["step"]) == 8
    assert all(bool(p.isfinite().all()) for p in flat(optimizer))


def _add(p: Tensor) -> None:
    p.data.add_(1.0)


def _one_element(p: Tensor) -> None:
    p.data.view(-1)[0] += 1.0


def _assign(p: Tensor) -> None:
    p.data = p.data + 1.0


def _in_version(p: Tensor) -> None:
    with torch.no_grad():
        p.view(-1)[7] += 1.0  # of no sample


def _gradient_gone(p: Tensor) -> None:
    p.data.view(-1)[7] += 1.0
    p.grad = None


def _gradient_zeroed(p: Tensor) -> None:
    assert p.grad is not None
    p.grad.zero_()


MOVES = [_add, _one_element, _assign, _in_version, _gradient_gone, _gradient_zeroed]


class Asking(torch.optim.SGD):
    """Moves in some way, asks the closure, and keeps the gradient and the point it belongs to."""

    move: Any = None

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> None:  # type: ignore[override]
        """Move and ask."""
        assert closure is not None
        [p] = flat(self)
        self.move(p)
        torch.enable_grad()(closure)()
        self.seen = p.detach().clone(), p.grad.clone()


@pytest.mark.parametrize("move", MOVES)
def test_a_gradient_is_never_that_of_another_point(move: Any) -> None:
    """However the inner step moves; where it has not moved, it sees that of the old parameters."""
    [p] = parameters([100])
    calls: list[int] = []
    optimizer = perturb(Asking([p], lr=0.1), **NOISE)
    optimizer.move = staticmethod(move)

    def closure() -> Tensor:
        calls.append(1)
        optimizer.zero_grad()
        loss = p.pow(3).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    x, gradient = optimizer.seen
    assert len(calls) == 2
    assert same_bits(gradient, 3 * x.square())
    optimizer.move = staticmethod(lambda p: None)
    start = p.detach().clone()
    optimizer.step(closure)
    x, gradient = optimizer.seen
    assert len(calls) == 3
    assert same_bits(gradient, 3 * start.square())
    assert not same_bits(x, start)


def test_a_nan_is_no_change() -> None:
    [p] = parameters([100])
    with torch.no_grad():
        p[0] = torch.nan
    calls: list[int] = []
    optimizer = perturb(torch.optim.SGD([p], lr=0.1), **NOISE)

    def closure() -> Tensor:
        calls.append(1)
        optimizer.zero_grad()
        loss = p.pow(3).nansum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert len(calls) == 1


def test_a_closure_that_fails_leaves_everything_as_it_was() -> None:
    optimizer = made("adamw", parameters([5, 3]))
    run(optimizer, 2)
    before = snapshot(optimizer)

    def closure() -> Tensor:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        optimizer.step(closure)
    assert same_bits(snapshot(optimizer), before)


class Curved(torch.optim.SGD):
    """Differentiates the gradient again, as AdaHessian and SophiaH."""

    @torch.no_grad()
    def step(self, closure: Any = None, factor: float = 1.0) -> None:  # type: ignore[override]
        """Divide the gradient by the row sums of the Hessian."""
        gradients = [p.grad for p in flat(self)]
        with torch.enable_grad():
            sums = torch.autograd.grad(
                gradients, flat(self), [torch.ones_like(g) for g in gradients]
            )
        for p, g, h in zip(flat(self), gradients, sums, strict=True):
            p.sub_(factor * g / h)


@pytest.mark.filterwarnings("ignore:Using backward")  # torch's, of cycles in memory
@pytest.mark.parametrize("in_closure", [False, True])
def test_a_gradient_with_a_graph_is_differentiated_where_it_was_taken(in_closure: bool) -> None:
    """Newton's step from x on sum x^4 is x/3, and the noise comes on top: equation (8)."""
    [p], [q] = parameters([50], torch.float64), parameters([50], torch.float64)
    optimizer = perturb(Curved([p], lr=0.1), **NOISE, seed=3)
    noise = perturb(torch.optim.SGD([q], lr=0.1), **NOISE, seed=3)

    def closure() -> Tensor:
        optimizer.zero_grad()
        with torch.enable_grad():
            loss = p.pow(4).sum()
            loss.backward(create_graph=True)
        return loss

    closure()
    x, q.grad = p.detach().clone(), torch.zeros_like(q)
    optimizer.step(closure) if in_closure else optimizer.step(None, 2.0)
    noise.step()
    expected = x * (2 / 3 if in_closure else 1 / 3) + (q.detach() - x)
    torch.testing.assert_close(p.detach(), expected, rtol=1e-12, atol=1e-12)
