"""The lab's numbers are the library's, digit for digit."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from mpgd import ChaoticNoise, GaussianNoise, StableLaw, TelegraphNoise, ThalerMap
from mpgd.noise import ColouredNoise
from mpgd_lab.lab import simulation
from mpgd_lab.lab.settings import MOST_STEPS, Settings

SMALL = Settings(gamma=0.6, beta=0.5, seed=7, steps=300)


def test_the_perturbation_is_the_path() -> None:
    path = ChaoticNoise(0.6, 0.5).path(300, seed=7)
    assert simulation.orbit(SMALL)["v"] == path.tolist()
    printed = replace(SMALL, scheme="product")
    assert (
        simulation.orbit(printed)["v"]
        == ChaoticNoise(0.6, 0.5, signs="product").path(300, seed=7).tolist()
    )
    pair = ChaoticNoise(0.6, 0.5).path(300, (2,), seed=7)
    symmetric = simulation.orbit(replace(SMALL, scheme="symmetric"))
    assert symmetric["v"] == (pair[:, 0] - pair[:, 1]).tolist()


def test_rivals_stand_where_chaotic_values_stand() -> None:
    """Telegraph and coloured noise have variance c0^2, the Gaussian that of chaotic values."""
    noise, found = ChaoticNoise(0.6, 0.5), simulation.orbit(replace(SMALL, dwell=7.0))["rivals"]
    expected = {
        "telegraph": noise.laminar_value * TelegraphNoise(7.0).path(300, seed=7),
        "coloured": noise.laminar_value * ColouredNoise(7.0).path(300, seed=7),
        "gaussian": noise.variance**0.5 * GaussianNoise().path(300, seed=7),
    }
    assert found == {name: v.tolist() for name, v in expected.items()}


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
    assert np.abs(found["running"]).max() < found["edges"][-1]


@pytest.mark.parametrize(
    ("scheme", "beta", "law"),
    [
        ("plain", 0.5, StableLaw(1 / 0.6, 0.5)),
        ("symmetric", 0.5, StableLaw(1 / 0.6, scale=2**0.6)),
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


@pytest.mark.parametrize("gamma", [0.501, 0.55, 0.99])
@pytest.mark.parametrize("beta", [-1.0, 1.0])
def test_the_ends_of_the_sliders_give_numbers(gamma: float, beta: float) -> None:
    settings = Settings(gamma=gamma, beta=beta, steps=50)
    for work in (simulation.orbit, simulation.sums):
        json.dumps(work(settings), allow_nan=False)
