"""Groups for the usual wishes, and the size of the perturbation against measured ones."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from scipy.stats import binom, chi2, kstest
from torch import Tensor, nn

import mpgd
from mpgd import MPGD, ChaoticNoise, StableLaw, ThalerMap, param_groups, perturbation_sizes
from tests.conftest import LEVEL


def net() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3), nn.Linear(3, 1)
    )


def names(group: dict[str, Any]) -> list[str]:
    return [name for name, _ in group["params"]]


def test_choices_by_name_and_by_function() -> None:
    model = net()
    everything = [name for name, _ in model.named_parameters()]
    [group] = param_groups(model, mu=0.1, sigma=0.2)
    assert names(group) == everything
    assert group["mu"] == 0.1
    assert group["sigma"] == 0.2
    inside, outside = param_groups(model, perturb="first", sigma=0.2)
    assert names(inside) == ["0.weight", "0.bias"]
    assert names(inside) + names(outside) == everything
    inside, outside = param_groups(model, perturb="matrices", sigma=0.2)
    assert names(inside) == ["0.weight", "3.weight", "4.weight"]
    assert names(outside) == ["0.bias", "1.weight", "1.bias", "3.bias", "4.bias"]
    inside, outside = param_groups(model, lambda name, p: name.startswith("4"), mu=0.3)
    assert names(inside) == ["4.weight", "4.bias"]
    assert (outside["mu"], outside["sigma"]) == (0.0, 0.0)


def test_the_first_layer_is_found_inside_nested_modules() -> None:
    model = nn.ModuleDict({"body": nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), "head": net()})
    inside, _ = param_groups(model, perturb="first", mu=0.1)
    assert names(inside) == ["body.1.weight", "body.1.bias"]


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_rest_is_plain_even_where_the_defaults_perturb(wrapped: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
    groups = param_groups(model, perturb="first", wrapped=wrapped, gamma=0.7, mu=0.5)
    if wrapped:
        optimizer: Any = mpgd.perturb(torch.optim.AdamW(groups, lr=0.1), sigma=0.2)
    else:
        optimizer = MPGD(groups, lr=0.1, sigma=0.2)
    prefix = "perturbation." if wrapped else ""
    assert [g[prefix + "gamma"] for g in optimizer.param_groups] == [0.7, 0.6]
    assert [g[prefix + "sigma"] for g in optimizer.param_groups] == [0.2, 0.0]
    state = optimizer.state_dict()["state"]
    assert sum(any("additive" in key for key in values) for values in state.values()) == 2
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()


def test_choices_that_make_no_sense_are_refused() -> None:
    model = nn.Linear(2, 1)
    with pytest.raises(ValueError, match=r"perturb chose none of \['weight', 'bias'\]"):
        param_groups(model, perturb=lambda name, p: False, mu=0.1)
    with pytest.raises(ValueError, match="'all', 'first', 'matrices', got 'last'"):
        param_groups(model, perturb="last", mu=0.1)
    with pytest.raises(ValueError, match=r"perturb chose none of \[\]"):
        param_groups(nn.ReLU(), perturb="first", mu=0.1)


# --- sizes -------------------------------------------------------------------------------------


def moves(size: int, **settings: Any) -> tuple[Tensor, Any]:
    """Return one step's perturbation of ones without a gradient, and its announced size."""
    p = nn.Parameter(torch.ones(size, dtype=torch.float64))
    p.grad = torch.zeros_like(p)
    optimizer = MPGD([p], lr=0.3, **settings)
    [announced] = perturbation_sizes(optimizer)
    optimizer.step()
    return p.detach() - 1.0, announced


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("term", ["mu", "sigma"])
def test_chaotic_sizes_are_the_measured_root_mean_square(term: str, symmetric: bool) -> None:
    """Elements are independent, and v^2 has two values: the count of bursts is binomial."""
    gamma, size = 0.65, 200_000
    found, announced = moves(size, gamma=gamma, symmetric=symmetric, **{term: 0.2})
    name, other = ("multiplicative", "additive")[:: 1 if term == "mu" else -1]
    expected = getattr(announced, name)
    assert getattr(announced, other) == 0.0
    noise, scale = ChaoticNoise(gamma), 0.2 * 0.3**gamma
    assert expected == pytest.approx(
        scale * math.sqrt(noise.variance * (2 if symmetric else 1)), rel=1e-13
    )
    if symmetric:
        # Var of the mean square is at most E d^4 / n <= 16 c1^4 / n: eight deviations
        slack = 8 * math.sqrt(16 * noise.burst_value**4 / size) * scale**2
        assert abs(float(found.square().mean()) - expected**2) < slack < 0.2 * expected**2
        return
    bursts = int((found.abs() > 1.01 * scale * abs(noise.laminar_value)).sum())
    law = binom(size, ThalerMap(gamma).burst_probability)
    assert 2 * min(law.cdf(bursts), law.sf(bursts - 1)) > LEVEL
    twin = binom(size, ThalerMap(gamma - 0.02).burst_probability)
    assert 2 * min(twin.cdf(bursts), twin.sf(bursts - 1)) < LEVEL
    laminar, burst = (scale * v for v in (noise.laminar_value, noise.burst_value))
    by_count = ((size - bursts) * laminar**2 + bursts * burst**2) / size
    assert float(found.square().mean()) == pytest.approx(by_count, rel=1e-9)
    assert float(found.square().mean().sqrt()) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    ("settings", "power"),
    [({"symmetric": False}, 0.6), ({"symmetric": True}, 0.6), ({"scaling": "langevin"}, 0.5)],
    ids=str,
)
def test_gaussian_sizes_are_the_measured_root_mean_square(
    settings: dict[str, Any], power: float
) -> None:
    found, announced = moves(100_000, noise="gaussian", sigma=0.2, **settings)
    law, total = chi2(len(found)), float(found.square().sum())

    def p_value(size: float) -> float:
        return 2 * min(law.cdf(total / size**2), law.sf(total / size**2))

    assert p_value(announced.additive) > LEVEL
    assert p_value(1.03 * announced.additive) < LEVEL
    variance = 1.0 if "scaling" in settings else ChaoticNoise(0.6).variance
    twice = 2.0 if settings.get("symmetric") else 1.0
    assert announced.additive == pytest.approx(0.2 * 0.3**power * math.sqrt(variance * twice))


@pytest.mark.parametrize("symmetric", [False, True])
def test_stable_sizes_are_the_scale_of_the_law(symmetric: bool) -> None:
    beta = 0.5
    found, announced = moves(4000, noise="stable", sigma=0.2, beta=beta, symmetric=symmetric)
    assert announced.additive == pytest.approx(0.2 * 0.3**0.6 * (2**0.6 if symmetric else 1.0))
    skew = 0.0 if symmetric else beta
    values = found.numpy() / announced.additive
    assert kstest(values, StableLaw(1 / 0.6, skew).cdf).pvalue > LEVEL
    assert kstest(1.25 * values, StableLaw(1 / 0.6, skew).cdf).pvalue < LEVEL


def test_sizes_follow_groups_and_schedules() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
    settings: dict[str, Any] = {"mu": 0.1, "sigma": 0.2, "gamma": (0.6, 0.7)}
    own, inner = (param_groups(model, "first", wrapped=w, **settings) for w in (False, True))
    for optimizer in (
        MPGD(own, lr=0.5),
        mpgd.perturb(torch.optim.AdamW(inner, lr=0.5)),
    ):
        for lr in (0.5, 0.25, torch.tensor(0.125), 0.0):
            for group in optimizer.param_groups:
                group["lr"] = lr
            first, rest = perturbation_sizes(optimizer)
            eta = float(lr)
            assert (rest.multiplicative, rest.additive, rest.step_size) == (0.0, 0.0, eta)
            expected = [
                size * eta**gamma * math.sqrt(ChaoticNoise(gamma).variance)
                for size, gamma in ((0.1, 0.6), (0.2, 0.7))
            ]
            assert [first.multiplicative, first.additive] == pytest.approx(expected, rel=1e-13)
    plain = torch.optim.SGD(model.parameters(), lr=0.5)
    assert perturbation_sizes(plain) == [mpgd.optim.PerturbationSize(0.0, 0.0, 0.5)]


def test_a_misspelt_setting_is_named() -> None:
    with pytest.raises(ValueError, match="MPGD has no setting 'sigmaa'; did you mean 'sigma'"):
        param_groups(net(), sigmaa=0.1)
    assert param_groups(net(), sigma=0.1, lr=0.5, momentum=0.9)[0]["momentum"] == 0.9
