"""The lab's numbers are the library's, digit for digit."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.conftest import LEVEL

from mpgd import ChaoticNoise, GaussianNoise, StableLaw, ThalerMap
from mpgd.experiments.valley import training as valley
from mpgd.lab import simulation
from mpgd.lab.settings import MOST_STEPS, Settings

SMALL = Settings(gamma=0.6, beta=0.5, seed=7, steps=300)


def test_the_perturbation_is_the_path() -> None:
    path = ChaoticNoise(0.6, 0.5).path(300, seed=7)
    assert simulation.orbit(SMALL)["v"] == path.tolist()
    printed = replace(SMALL, scheme="product")
    assert (
        simulation.orbit(printed)["v"]
        == ChaoticNoise(0.6, 0.5, "product").path(300, seed=7).tolist()
    )
    pair = ChaoticNoise(0.6, 0.5).path(300, (2,), seed=7)
    symmetric = simulation.orbit(replace(SMALL, scheme="symmetric"))
    assert symmetric["v"] == (pair[:, 0] - pair[:, 1]).tolist()


@pytest.mark.parametrize("scheme", ["plain", "symmetric", "product"])
def test_the_orbit_follows_the_map_and_makes_the_values(scheme: str) -> None:
    found = simulation.orbit(replace(SMALL, scheme=scheme, steps=40))
    T, y = ThalerMap(0.6), np.array(found["y"])
    assert np.allclose(T(y[:-1]), y[1:], rtol=1e-3)  # a word knows s to 2^-18 at a visit
    if scheme != "symmetric":
        expected = np.where(y > T.y_star, -found["burst_value"], found["laminar_value"])
        assert np.allclose(np.abs(found["v"]), expected)


@pytest.mark.parametrize("scheme", ["plain", "symmetric", "product"])
def test_running_sums_end_where_the_histogram_begins(scheme: str) -> None:
    settings = replace(SMALL, scheme=scheme)
    found = simulation.sums(settings)
    ends = [path[-1] for path in found["running"]]
    assert np.allclose(ends, simulation.ends(settings, simulation.SHOWN), rtol=1e-9)
    v = np.array(simulation.orbit(settings)["v"])
    assert found["running"][0][-1] == pytest.approx(v.sum() * 300**-0.6, rel=1e-12)
    mass = np.sum(np.array(found["density"]) * np.diff(found["edges"]))
    assert mass + found["beyond"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("scheme", "beta", "law"),
    [
        ("plain", 0.5, StableLaw(1 / 0.6, 0.5)),
        ("symmetric", 0.5, StableLaw(1 / 0.6, 0.0, 2**0.6)),
        ("product", 0.5, StableLaw(1 / 0.6)),
        ("product", -1.0, StableLaw(1 / 0.6)),
        ("product", 1.0, StableLaw(1 / 0.6, 1.0)),
    ],
)
def test_the_limit_law_is_the_schemes(scheme: str, beta: float, law: StableLaw) -> None:
    """Sums of 8,000 values are within 0.06 of the law drawn, as slow as their convergence is."""
    settings = Settings(gamma=0.6, beta=beta, scheme=scheme, steps=MOST_STEPS)
    found = simulation.sums(settings)
    assert found["limit"] == law.pdf(np.array(found["grid"])).tolist()
    assert found["distance"] < 0.06


def test_the_largest_gamma_has_a_limit_too() -> None:
    assert max(simulation.sums(Settings(gamma=0.99, beta=0.0, steps=100))["limit"]) > 0.1


def by_hand(settings: Settings, v1: torch.Tensor, v2: torch.Tensor, run: int) -> torch.Tensor:
    """Return the path of one run by the paper's equation (8), (time, element)."""
    x, eta, gamma = valley.start([settings.seed + run])[0], settings.eta, settings.gamma
    path = [x]
    for first, second in zip(v1, v2, strict=True):
        g = valley.gradient(x[None])[1][0]
        x = (
            x
            - eta * g
            - settings.mu * eta**gamma * first * x
            + settings.sigma * eta**gamma * second
        )
        path.append(x)
    return torch.stack(path)


@pytest.mark.parametrize("scheme", ["plain", "symmetric", "product"])
def test_descent_is_the_formula(scheme: str) -> None:
    settings = replace(SMALL, scheme=scheme, steps=60)
    x = simulation.walk(settings, list(range(61)))
    noise = simulation.make_noise(settings)
    v = noise.path(60, (4 if scheme == "symmetric" else 2, simulation.RUNS, 11), seed=7)
    v1, v2 = (v[:, 0] - v[:, 2], v[:, 1] - v[:, 3]) if scheme == "symmetric" else v.unbind(1)
    variance = noise.variance * (2 if scheme == "symmetric" else 1)
    w1, w2 = GaussianNoise(variance).path(60, (2, simulation.RUNS, 11), seed=7).unbind(1)
    zero = torch.zeros_like(v1)
    for run in (0, 5):
        pairs = ((zero, zero), (w1, w2), (v1, v2))
        expected = [
            by_hand(settings, first[:, run], second[:, run], run) for first, second in pairs
        ]
        assert torch.allclose(x[:, :, run], torch.stack(expected, dim=1), rtol=1e-12, atol=1e-14)


def test_descent_is_drawn_as_it_went() -> None:
    found, x = simulation.descent(SMALL), simulation.walk(SMALL, list(range(301)))
    way = found["schemes"]["mpgd"]
    assert found["moments"] == list(range(301))
    assert way["v"] == x[:, 2, 0, -1].tolist()
    assert way["length"] == pytest.approx(x[:, 2, 0, :-1].norm(dim=1).tolist())
    assert way["trace"] == pytest.approx(
        (10 * x[:, 2, 0, -1] ** 2 + x[:, 2, 0, :-1].square().sum(1)).tolist()
    )
    ranked = valley.trace(x[-1, 2]).sort().values
    assert [q[-1] for q in way["quartiles"]] == ranked[[8, 16, 24]].tolist()


def test_what_runs_off_is_null_in_json() -> None:
    wild = Settings(eta=0.5, mu=0.5, sigma=0.5, steps=200)
    found = simulation.descent(wild)
    assert found["schemes"]["mpgd"]["trace"][-1] is None
    assert None not in found["schemes"]["gd"]["trace"]
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("gamma", [0.501, 0.55, 0.99])
@pytest.mark.parametrize("beta", [-1.0, 1.0])
def test_the_ends_of_the_sliders_give_numbers(gamma: float, beta: float) -> None:
    settings = Settings(gamma=gamma, beta=beta, steps=50)
    for work in (simulation.orbit, simulation.sums, simulation.descent):
        json.dumps(work(settings), allow_nan=False)


def test_gaussian_values_are_normal() -> None:
    from scipy.stats import kstest

    values = simulation.gaussian_values(200, 3)
    assert torch.equal(values, GaussianNoise().path(200, (2, simulation.RUNS, 11), seed=3))
    assert kstest(values.flatten()[:20_000].numpy(), "norm").pvalue > LEVEL
