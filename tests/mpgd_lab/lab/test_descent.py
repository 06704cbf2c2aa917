"""The lab's descent: the paper's equation, in units of a phase, on landscapes seen from above."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mpgd import GaussianNoise, TelegraphNoise
from mpgd.noise import ColouredNoise
from mpgd.theory import force_of
from mpgd.theory.phases.laminar import decay_of
from mpgd_lab.lab import descent
from mpgd_lab.lab.landscapes import LANDSCAPES, rastrigin_loss
from mpgd_lab.lab.settings import LANDSCAPE_NAMES, Settings
from mpgd_lab.lab.simulation import make_noise
from mpgd_lab.studies.compare.functions import Rastrigin
from mpgd_lab.studies.valley import training as valley

Array = NDArray[np.float64]
SMALL = Settings(gamma=0.6, beta=0.5, seed=7, steps=300, force=0.183, decay=0.0733)
MPGD = descent.NAMES.index("mpgd")
WILD = Settings(eta=0.5, force=0.7, decay=0.7, steps=200)


def by_hand(settings: Settings, v1: Array, v2: Array, run: int) -> Array:
    """Return the path of one run by the paper's equation (8), (time, element)."""
    land, eta, gamma = LANDSCAPES[settings.landscape], settings.eta, settings.gamma
    found = descent.levels_of(settings)
    x = land.start([settings.seed + run])[0]
    path = [x]
    for first, second in zip(v1, v2, strict=True):
        multiplied = found.mu * eta**gamma * first * x
        x = x - eta * land.slope(x) - multiplied + found.sigma * eta**gamma * second
        path.append(x)
    return np.stack(path)


@pytest.mark.parametrize("landscape", LANDSCAPE_NAMES)
@pytest.mark.parametrize("scheme", ["plain", "symmetric", "product"])
def test_descent_is_the_formula(scheme: str, landscape: str) -> None:
    settings = replace(SMALL, scheme=scheme, steps=60, dwell=30.0, landscape=landscape)
    x, off = descent.walk(settings, range(61))
    noise, d = make_noise(settings), LANDSCAPES[landscape].dimension
    v = noise.path(60, (4 if scheme == "symmetric" else 2, descent.RUNS, d), seed=7).numpy()
    twins = scheme == "symmetric"
    v1, v2 = (v[:, 0] - v[:, 2], v[:, 1] - v[:, 3]) if twins else (v[:, 0], v[:, 1])
    pairs = {"gd": (np.zeros_like(v1),) * 2, "mpgd": (v1, v2)}
    for name, rival in {
        "gaussian": GaussianNoise(noise.variance * (2 if twins else 1)),
        "coloured": ColouredNoise(30.0, noise.laminar_value**2),
        "telegraph": TelegraphNoise(30.0),
    }.items():
        w = rival.path(60, (2, descent.RUNS, d), seed=7).numpy()
        w = w * noise.laminar_value if name == "telegraph" else w
        pairs[name] = (w[:, 0], w[:, 1])
    assert set(pairs) == set(descent.NAMES)
    for run, name in product((0, 5), pairs):
        first, second = pairs[name]
        expected = by_hand(settings, first[:, run], second[:, run], run)
        found = x[:, descent.NAMES.index(name), run]
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
    assert (off == -1).all()


def test_a_telegraph_pushes_by_the_force_of_the_slider() -> None:
    """On a plane, one step is eta F, whatever gamma is."""
    for gamma in (0.6, 0.8):
        settings = replace(SMALL, gamma=gamma, decay=0.0, landscape="rastrigin")
        _, n = next(descent.terms(settings))
        push = np.abs(n[descent.NAMES.index("telegraph")])
        np.testing.assert_allclose(push, settings.eta * settings.force, rtol=1e-12)


def test_the_sliders_are_force_and_decay() -> None:
    found = descent.descent(SMALL)
    assert force_of(lr=0.01, sigma=found["sigma"], gamma=0.6) == pytest.approx(0.183)
    assert decay_of(lr=0.01, mu=found["mu"], gamma=0.6) == pytest.approx(0.0733)


def test_the_defaults_are_the_papers_valley() -> None:
    found = descent.levels_of(Settings())
    assert (round(found.mu, 4), round(found.sigma, 4)) == (0.02, 0.05)


def test_descent_is_drawn_as_it_went() -> None:
    found, (x, _) = descent.descent(SMALL), descent.walk(SMALL, range(301))
    way = found["schemes"]["mpgd"]
    assert found["moments"] == list(range(301))
    assert way["across"] == x[:, MPGD, 0, -1].tolist()
    assert way["up"] == pytest.approx(np.linalg.norm(x[:, MPGD, 0, :-1], axis=1).tolist())
    trace = valley.trace(torch.from_numpy(x[:, MPGD, 0]))
    assert way["watched"] == pytest.approx(trace.tolist())
    ranked = valley.trace(torch.from_numpy(x[-1, MPGD])).sort().values
    assert [q[-1] for q in way["quartiles"]] == pytest.approx(ranked[[8, 16, 24]].tolist())


def test_the_valley_is_the_experiments() -> None:
    x = valley.start([3, 4]) + 0.1
    trace, slope = valley.gradient(x)
    land = LANDSCAPES["valley"]
    np.testing.assert_allclose(land.watched(x.numpy()), trace.numpy())
    np.testing.assert_allclose(land.slope(x.numpy()), slope.numpy())
    np.testing.assert_array_equal(land.start([3, 4]), valley.start([3, 4]).numpy())


def test_rastrigin_is_the_function_divided_by_twenty() -> None:
    land, x = LANDSCAPES["rastrigin"], np.random.default_rng(0).uniform(-4, 4, (3, 5, 2))
    place = torch.from_numpy(x)
    ours = Rastrigin().gradient(place, torch.zeros_like(place)) / 20
    np.testing.assert_allclose(land.slope(x), ours.numpy(), atol=1e-12)
    h = 1e-6
    numeric = (rastrigin_loss(x + h) - rastrigin_loss(x - h)) / (2 * h)
    np.testing.assert_allclose(land.slope(x), numeric, atol=1e-8)
    np.testing.assert_allclose(land.watched(x), rastrigin_loss(x).sum(-1))


@pytest.mark.parametrize("landscape", LANDSCAPE_NAMES)
@pytest.mark.parametrize("force", [0.0, 0.2, 2.0, 6.0])
def test_the_frame_holds_every_way_that_does_not_run_off(landscape: str, force: float) -> None:
    found = descent.descent(Settings(landscape=landscape, force=force, decay=0.0, steps=400))
    for way in found["schemes"].values():
        assert way["off"] is None
        for name in ("across", "up"):
            low, high = found["view"][name]
            assert low <= min(way[name]) <= max(way[name]) <= high
        assert max(way["watched"]) < found["top"]


def test_a_path_that_runs_off_is_named_with_its_step() -> None:
    found, (x, off) = descent.descent(WILD), descent.walk(WILD, range(201))
    way = found["schemes"]["mpgd"]
    assert 0 < way["off"] == off[MPGD, 0] < 200
    assert np.isfinite(x[way["off"] - 1, MPGD, 0]).all()
    assert np.isnan(x[way["off"] :, MPGD, 0]).all()
    assert way["up"][way["off"] - 1] is not None
    assert way["up"][way["off"]] is None
    assert way["watched"][-1] is None
    assert way["gone"] == (off[MPGD] >= 0).sum() > 0
    assert found["schemes"]["gd"]["off"] is None
    assert found["view"]["up"][1] < 60  # not what a path was just before it ran off
    json.dumps(found, allow_nan=False)
