"""The distribution of torch: values, gradients, draws, shapes, constraints, dtypes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torch.distributions import Cauchy, biject_to

from mpgd.stable import StableLaw
from mpgd.stable.sampling import chambers_mallows_stuck, reparametrized
from mpgd.stable.torch import Stable

LEVEL = 1e-5
FORMS = ["S0", "S1"]


def parameters(*values: float) -> list[torch.Tensor]:
    return [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in values]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("alpha", "beta"), [(0.7, -0.4), (1.3, 0.4), (1.8, 0.0)])
def test_gradients_by_finite_differences(alpha: float, beta: float, form: str) -> None:
    """In the value and all four parameters."""
    theta = parameters(alpha, beta, 0.2, 1.5)
    x = torch.tensor([-3.0, 0.1, 7.0], dtype=torch.float64, requires_grad=True)
    p = torch.tensor([0.02, 0.5, 0.9], dtype=torch.float64, requires_grad=True)
    for name, value in (("log_prob", x), ("cdf", x), ("icdf", p)):

        def function(value: torch.Tensor, *theta: torch.Tensor, name: str = name) -> torch.Tensor:
            return getattr(Stable(*theta, form), name)(value)

        assert torch.autograd.gradcheck(function, (value, *theta), eps=1e-5, rtol=1e-5, atol=1e-5)


def test_values_are_those_of_the_law() -> None:
    law, (alpha,) = StableLaw(1.4, 0.3, 1.0, 2.0), parameters(1.4)
    ours = Stable(alpha.detach(), 0.3, 1.0, 2.0)
    x = torch.linspace(-9.0, 9.0, 19, dtype=torch.float64)
    assert torch.equal(ours.log_prob(x), torch.from_numpy(law.logpdf(x.numpy())))
    assert torch.equal(ours.cdf(x), torch.from_numpy(law.cdf(x.numpy())))
    narrow = Stable(torch.tensor(1.5), 0.5)
    values = narrow.log_prob(x.float())
    assert values.dtype == narrow.sample((2,)).dtype == torch.float32
    exact = StableLaw(1.5, 0.5).logpdf(x.numpy())
    np.testing.assert_allclose(values.numpy(), exact, rtol=1e-6)
    torch.testing.assert_close(Stable(1.0).log_prob(x), Cauchy(0.0, 1.0).log_prob(x).float())


def test_second_derivatives_are_refused() -> None:
    (alpha,) = parameters(1.5)
    (slope,) = torch.autograd.grad(
        Stable(alpha).log_prob(alpha.new_tensor(0.5)), alpha, create_graph=True
    )
    with pytest.raises(NotImplementedError, match="first derivatives only"):
        slope.backward()


def test_draws_of_the_smooth_formula_are_those_of_the_published_one() -> None:
    rng = np.random.default_rng(2)
    delta, W = 0.5 * np.pi * rng.random(2000), rng.standard_exponential(2000)
    sign = np.where(rng.random(2000) < 0.5, 1.0, -1.0)
    angle = sign * (0.5 * np.pi - delta)
    for alpha, beta in ((0.4, 1.0), (0.91, -0.5), (1.0, 0.7), (1.07, 1.0), (1.6, -1.0), (2.0, 0.0)):
        x = reparametrized(np, sign, delta, W, np.full(2000, alpha), beta, "S1")
        expected = chambers_mallows_stuck(angle, W, alpha, beta)
        np.testing.assert_allclose(x, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_samples_follow_the_law(form: str) -> None:
    torch.manual_seed(0)
    for alpha, beta in ((0.6, 1.0), (1.0, 0.5), (1.5, -0.7)):
        x = (
            Stable(torch.tensor(alpha, dtype=torch.float64), beta, 0.5, 1.5, form)
            .sample((20_000,))
            .numpy()
        )
        assert kstest(x, StableLaw(alpha, beta, 0.5, 1.5, form).cdf).pvalue > LEVEL
        assert kstest(x, StableLaw(alpha, beta, 0.7, 1.5, form).cdf).pvalue < LEVEL


@pytest.mark.parametrize("alpha", [0.7, 1.0, 1.6])
def test_pathwise_gradients_are_derivatives_of_means(alpha: float) -> None:
    """Of h = tanh: d E h(X) / d theta = -int h'(x) dF/d theta dx, within 5 standard errors."""
    torch.manual_seed(1)
    theta = parameters(alpha, 0.4, 0.3, 1.2)
    count = 40_000
    wide = [t.detach().expand(count).clone().requires_grad_() for t in theta]
    torch.tanh(Stable(*wide, "S0").rsample()).sum().backward()
    grid = torch.linspace(-15.0, 15.0, 1501, dtype=torch.float64)
    weight = 1.0 / torch.cosh(grid) ** 2
    mean = -torch.trapezoid(weight * Stable(*theta, "S0").cdf(grid), grid)
    exact = torch.autograd.grad(mean, theta)
    for each, expected in zip(wide, exact, strict=True):
        assert each.grad is not None
        error = each.grad.std() / count**0.5
        assert abs(each.grad.mean() - expected) < 5.0 * error + 1e-6
        assert error < 0.02  # the check can fail


def test_shapes_and_expand() -> None:
    law = Stable(torch.tensor([[0.8], [1.5]]), torch.tensor([0.0, 0.5, -1.0]))
    assert law.batch_shape == (2, 3)
    assert law.event_shape == ()
    assert law.rsample((4,)).shape == (4, 2, 3)
    assert law.log_prob(torch.zeros(3)).shape == law.icdf(torch.tensor(0.3)).shape == (2, 3)
    wide = law.expand((5, 2, 3))
    assert wide.batch_shape == (5, 2, 3)
    assert torch.equal(wide.log_prob(torch.ones(()))[4], law.log_prob(torch.ones(())))
    assert law.mean[0].isnan().all()
    assert torch.equal(law.variance, torch.full((2, 3), torch.inf))
    assert Stable(2.0, scale=3.0).variance == 18.0
    expected = torch.as_tensor(StableLaw(1.5, 0.5, 1.0, 2.0, "S0").mean()).float()
    torch.testing.assert_close(Stable(1.5, 0.5, 1.0, 2.0, "S0").mean, expected)


def test_constraints() -> None:
    index = Stable.arg_constraints["alpha"]
    alpha = biject_to(index)(torch.linspace(-5.0, 5.0, 11))
    assert index.check(alpha).all()
    assert index.check(torch.tensor([0.0, 1.0, 2.0, 2.1])).tolist() == [False, True, True, False]
    for wrong in ({"alpha": 0.0}, {"alpha": 2.1}, {"beta": 1.5}, {"scale": 0.0}, {"alpha": np.nan}):
        with pytest.raises(ValueError, match="Expected parameter"):
            Stable(**{"alpha": 1.5, **wrong}, validate_args=True)  # torch.compile turns it off
    with pytest.raises(ValueError, match="must be 'S0' or 'S1', got 'S2'"):
        Stable(1.5, parametrization="S2")
    with pytest.raises(ValueError, match=r"value must lie in \[0, 1\]"):
        Stable(1.5, validate_args=True).icdf(torch.tensor(1.5))


def test_parameters_can_be_learned() -> None:
    """A few steps of Adam on the log likelihood come near the maximum likelihood fit."""
    x = StableLaw(1.4, 0.0, 1.0, 2.0, "S0").rvs(300, random_state=0)
    best = StableLaw.fit(x, fix_beta=0.0)
    raw = torch.tensor([0.0, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([raw], lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        law = Stable(2.0 * raw[0].sigmoid(), 0.0, raw[1], raw[2].exp(), "S0")
        loss = -law.log_prob(torch.from_numpy(x)).mean()
        loss.backward()
        optimizer.step()
    assert -loss.item() * 300 > best.log_likelihood - 0.5
