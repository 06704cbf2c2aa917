"""Traces and eigenvalues of the Hessian against the dense one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from mpgd.curvature import hessian_top_eigenvalue, hessian_trace
from tests.curvature.network import data, mse, network


def dense(model: nn.Module, loss_fn: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return the Hessian of the mean loss in eval mode, by torch.autograd.functional."""
    model.eval()
    x, y = data(next(model.parameters()).dtype)
    names = [(k, p.shape, p.numel()) for k, p in model.named_parameters()]
    flat = torch.cat([p.detach().reshape(-1) for p in model.parameters()])

    def loss(w: Tensor) -> Tensor:
        parts = torch.split(w, [size for *_, size in names])
        state = {k: part.reshape(shape) for (k, shape, _), part in zip(names, parts, strict=True)}
        return loss_fn(functional_call(model, state, (x,)), y)

    return torch.autograd.functional.hessian(loss, flat)


def test_the_oracle_on_a_known_hessian() -> None:
    A = torch.tensor([[2.0, 1.0], [1.0, -3.0]])
    found = torch.autograd.functional.hessian(lambda w: 0.5 * w @ A @ w, torch.ones(2))
    torch.testing.assert_close(found, A)


@pytest.mark.parametrize("seed", range(5))
def test_trace_is_within_three_of_its_standard_errors(seed: int) -> None:
    model = network()
    exact = float(torch.trace(dense(model, mse)))
    found = hessian_trace(model, mse, data(), probes=190, seed=seed)
    assert 0.0 < found.stderr < 0.2 * abs(exact)
    assert abs(found.value - exact) < 3 * found.stderr
    assert abs(found.value - 2 * exact) > 3 * found.stderr  # the check can fail


def test_standard_error_is_hutchinsons() -> None:
    """For signs z the variance of z^T H z is 2 (|H|^2 - |diag H|^2)."""
    model = network()
    H = dense(model, mse)
    expected = float(torch.sqrt(2 * (H.square().sum() - H.diagonal().square().sum()) / 150))
    found = hessian_trace(model, mse, data(), probes=150).stderr
    assert found == pytest.approx(expected, rel=0.35)


def test_exact_trace() -> None:
    model = network()
    expected = float(torch.trace(dense(model, mse)))
    for found in (
        hessian_trace(model, mse, data(), exact=True),
        hessian_trace(model, mse, data(), probes=197),
    ):
        assert found.value == pytest.approx(expected, rel=1e-10)
        assert found.stderr == 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_eigenvalues_of_the_dense_hessian(dtype: torch.dtype) -> None:
    model = network()
    values = torch.linalg.eigvalsh(dense(model, mse)).numpy()
    assert values[0] < 0.0 < values[-1]
    model, batch = model.to(dtype), data(dtype)
    for which, true in (
        ("largest", values[-1]),
        ("smallest", values[0]),
        ("magnitude", max(values, key=abs)),
    ):
        found = hessian_top_eigenvalue(model, mse, batch, which=which)
        assert found == pytest.approx(float(true), rel=1e-4)
    assert hessian_top_eigenvalue(model, mse, batch) != pytest.approx(values[-2], rel=1e-4)


def test_largest_goes_by_sign() -> None:
    """Of the eigenvalues 2 and -6 the largest is 2."""
    model = nn.Linear(2, 1, bias=False).double()

    def loss_fn(out: Tensor, target: Tensor) -> Tensor:
        return (out.squeeze() ** 2 * target).sum()

    batch = (torch.eye(2, dtype=torch.float64), torch.tensor([1.0, -3.0]))
    assert hessian_top_eigenvalue(model, loss_fn, batch) == pytest.approx(2.0)
    assert hessian_top_eigenvalue(model, loss_fn, batch, which="magnitude") == pytest.approx(-6.0)
    assert hessian_trace(model, loss_fn, batch).value == pytest.approx(-4.0)


def test_cross_entropy_and_frozen_parameters() -> None:
    """Only parameters that require grad count: the head's own block of the Hessian."""
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    batch = (data()[0], torch.arange(40) % 3)
    model[0].requires_grad_(False)
    features = model[1](model[0](batch[0]))
    head = hessian_trace(model[2], nn.functional.cross_entropy, (features, batch[1]))
    assert hessian_trace(model, nn.functional.cross_entropy, batch) == head


def test_zero_hessian() -> None:
    model = nn.Linear(50, 1)
    batch = (torch.ones(3, 50), torch.zeros(3, 1))
    assert hessian_top_eigenvalue(model, lambda out, _: out.mean(), batch) == 0.0


def test_batches_are_weighted_by_their_size() -> None:
    model, (x, y) = network(), data()
    cut = [(x[:7], y[:7]), (x[7:], y[7:])]
    whole, parts = (hessian_trace(model, mse, d, probes=9).value for d in ((x, y), iter(cut)))
    assert parts == pytest.approx(whole, rel=1e-10)
    equal = np.mean([hessian_trace(model, mse, batch, probes=9).value for batch in cut])
    assert equal != pytest.approx(whole, rel=1e-3)  # the check can fail


@pytest.mark.parametrize("measure", [hessian_trace, hessian_top_eigenvalue])
def test_the_model_and_the_global_generator_are_left_alone(measure: Callable[..., object]) -> None:
    model, batch = network(), data()
    model.train()
    model[1].eval()  # modes differ between modules
    mse(model(batch[0]), batch[1]).backward()
    state = {k: v.clone() for k, v in model.state_dict().items()}
    grads = [p.grad.clone() for p in model.parameters()]
    modes = [m.training for m in model.modules()]
    rng = torch.get_rng_state()
    with torch.no_grad():
        measure(model, mse, batch)
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), grads, strict=True))
    assert [m.training for m in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), rng)


def test_attention_has_a_second_derivative() -> None:
    """Of torch's kernels for it only the plain one has, which is not the one it chooses."""
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(4, 2, 3, batch_first=True, dtype=torch.float64)
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    found = hessian_trace(model, mse, (x, torch.zeros_like(x)), exact=True)
    with sdpa_kernel(SDPBackend.MATH):
        params = list(model.eval().parameters())
        slopes = torch.autograd.grad(mse(model(x), torch.zeros_like(x)), params, create_graph=True)
        expected = sum(
            float(torch.autograd.grad(slope, p, retain_graph=True)[0].view(-1)[k])
            for p, flat in zip(params, slopes, strict=True)
            for k, slope in enumerate(flat.reshape(-1))
        )
    assert found.value == pytest.approx(expected, rel=1e-9)


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated:FutureWarning")
@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.parametrizations.weight_norm])
def test_weight_norm(norm: Callable[[nn.Module], nn.Module]) -> None:
    """Against differences of gradients; by torch's own second derivative it is 10 % off."""
    torch.manual_seed(0)
    model = nn.Sequential(norm(nn.Linear(3, 4)), nn.Tanh(), norm(nn.Linear(4, 1))).double()
    batch = torch.randn(20, 3).double(), torch.randn(20, 1).double()
    exact, h = 0.0, 1e-5
    for p in model.parameters():
        for i in range(p.numel()):
            slopes = []
            for shift in (h, -2 * h):
                p.data.view(-1)[i] += shift
                slopes.append(torch.autograd.grad(mse(model(batch[0]), batch[1]), p)[0].view(-1)[i])
            p.data.view(-1)[i] += h
            exact += float(slopes[0] - slopes[1]) / (2 * h)
    assert hessian_trace(model, mse, batch, exact=True).value == pytest.approx(exact, rel=1e-6)


def test_parameters_of_two_dtypes() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    with_float64 = deepcopy(model)
    with_float64[2].double()
    with_float64[2].register_forward_pre_hook(lambda _, given: (given[0].double(),))
    x, y = data(torch.float32)
    found = hessian_trace(with_float64, mse, (x, y.double()), exact=True)
    assert found.value == pytest.approx(hessian_trace(model, mse, (x, y), exact=True).value, 1e-4)


def test_under_inference_mode_it_is_the_same() -> None:
    model, given = network(), data()
    with torch.inference_mode():
        found = hessian_trace(model, mse, given, probes=5)
    assert found == hessian_trace(model, mse, given, probes=5)


def test_mode_returns_after_an_error() -> None:
    model = network().train()
    with pytest.raises(ValueError, match="scalar"):
        hessian_trace(model, lambda out, y: out - y, data())
    assert all(m.training for m in model.modules())


def test_same_seed_same_probes() -> None:
    first, again, other = (
        hessian_trace(network(), mse, data(), probes=10, seed=seed) for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("measure", [hessian_trace, hessian_top_eigenvalue])
@pytest.mark.parametrize(
    ("loss_fn", "text"),
    [
        (lambda out, y: (out - y) ** 2, r"loss_fn must return a scalar tensor, got \(40, 1\)"),
        (lambda out, y: 1.0, "loss_fn must return a scalar tensor, got float"),
        (lambda out, y: mse(out.detach(), y), "loss_fn must return a loss with a graph back"),
        (lambda out, y: y.mean(), "loss_fn must return a loss with a graph back"),
        (lambda out, y: mse(out, y) * torch.nan, "the loss must be finite"),
        (lambda out, y: (out - out).abs().sqrt().sum(), "Hessian-vector product must be finite"),
    ],
)
def test_bad_losses(
    measure: Callable[..., object], loss_fn: Callable[[Tensor, Tensor], Tensor], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        measure(network(), loss_fn, data())


def test_bad_arguments() -> None:
    model = network()
    with pytest.raises(ValueError, match="parameters that require grad, got none"):
        hessian_trace(nn.Tanh(), mse, data())
    with pytest.raises(ValueError, match="parameters that require grad, got none"):
        hessian_top_eigenvalue(network().requires_grad_(False), mse, data())
    with pytest.raises(ValueError, match="data must hold at least one batch, got none"):
        hessian_trace(model, mse, [])
    with pytest.raises(ValueError, match="probes must be an integer >= 2, got 1"):
        hessian_trace(model, mse, data(), probes=1)
    with pytest.raises(TypeError, match=r"seed must be an integer in .* got None"):
        hessian_trace(model, mse, data(), seed=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one example, got empty batches"):
        hessian_trace(model, mse, (torch.zeros(0, 4), torch.zeros(0, 1)))
    with pytest.raises(ValueError, match="iterable of such batches, got a batch of type dict"):
        hessian_trace(model, mse, [{"inputs": torch.zeros(1, 4)}])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="real parameters, got complex ones"):
        hessian_trace(nn.Linear(4, 1, dtype=torch.complex64), mse, data())
    with pytest.raises(ValueError, match=r"which must be one of largest, .* got 'top'"):
        hessian_top_eigenvalue(model, mse, data(), which="top")
    with pytest.raises(ValueError, match="tol must be at least 0, got -1"):
        hessian_top_eigenvalue(model, mse, data(), tol=-1)
    with pytest.raises(RuntimeError, match=r"Lanczos did not reach tol 0.0 in 1 iterations"):
        hessian_top_eigenvalue(model, mse, data(), which="smallest", tol=0.0, max_iterations=1)


def test_missing_scipy_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.sparse.linalg", None)
    with pytest.raises(ImportError, match=r'pip install "mpgd\[lab\]"'):
        hessian_top_eigenvalue(network(), mse, data())
