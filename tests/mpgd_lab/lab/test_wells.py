"""The lab's two wells: its walkers are the library's, its force that of a phase."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from mpgd import ChaoticNoise, GaussianNoise, StableNoise, TelegraphNoise
from mpgd.noise import ColouredNoise
from mpgd.theory import exit_rate, force_of
from mpgd_lab.lab.settings import Settings
from mpgd_lab.lab.wells import KINDS, NEVER, SHOWN, WALKERS, WIDEST, values, walk, wells
from mpgd_lab.studies.escape.well_shapes import two_slopes

SMALL = Settings(gamma=0.6, beta=0.5, seed=7, steps=120, eta=0.02, force=2.0, dwell=9)


def test_values_are_those_of_the_noises() -> None:
    found = values(SMALL)
    assert found.shape == (120, len(KINDS), WALKERS)
    chaotic = ChaoticNoise(0.6, 0.5)
    np.testing.assert_array_equal(found[:, 0], chaotic.path(120, WALKERS, seed=7).numpy())
    for i, noise in ((1, TelegraphNoise(9)), (2, ColouredNoise(9))):
        expected = chaotic.laminar_value * noise.path(120, WALKERS, seed=7).numpy()
        np.testing.assert_array_equal(found[:, i], expected)
    gaussian = GaussianNoise().path(120, WALKERS, seed=7).numpy() * np.sqrt(chaotic.variance)
    np.testing.assert_allclose(found[:, 3], gaussian)
    stable = StableNoise(1 / 0.6, 0.5).path(120, WALKERS, seed=7).numpy()
    np.testing.assert_allclose(found[:, 4], stable)


def test_symmetric_values_are_differences_and_products_have_a_symmetric_limit() -> None:
    twins = values(replace(SMALL, scheme="symmetric"))
    pair = ChaoticNoise(0.6, 0.5).path(120, (WALKERS, 2), seed=7).numpy()
    np.testing.assert_array_equal(twins[:, 0], pair[..., 0] - pair[..., 1])
    assert set(np.unique(twins[:, 1] / ChaoticNoise(0.6).laminar_value)) == {-2.0, 0.0, 2.0}
    stable = StableNoise(1 / 0.6).path(120, WALKERS, seed=7).numpy()
    np.testing.assert_allclose(twins[:, 4], 2**0.6 * stable)
    np.testing.assert_allclose(values(replace(SMALL, scheme="product"))[:, 4], stable)


def test_walkers_follow_the_recursion() -> None:
    moments, x, off = walk(SMALL, 0.3)
    assert (off == -1).all()
    assert moments == list(range(121))
    assert sorted(set(x[0].ravel())) == [-0.5, 1.5]
    v = values(SMALL)
    expected = x[41] - 0.02 * two_slopes(x[41]) + 0.3 * 0.02**0.6 * v[41]
    np.testing.assert_allclose(x[42], expected)


def test_the_force_is_that_of_the_slider_and_rates_are_the_theorys() -> None:
    found = wells(SMALL)
    assert force_of(lr=0.02, sigma=found["sigma"], gamma=0.6) == pytest.approx(2.0)
    assert found["slopes"] == pytest.approx([np.pi / 3, np.pi])
    wide, narrow = found["leaves"]
    expected = exit_rate(
        two_slopes, (0.0, 3.4), lr=0.02, sigma=found["sigma"], gamma=0.6, beta=0.5, start=1.5
    )
    assert wide == expected.per_time > 0.0
    assert narrow == 0.0
    assert wells(replace(SMALL, force=4.0))["leaves"][1] > 0.0
    assert wells(replace(SMALL, scheme="symmetric"))["leaves"] is None


def test_a_telegraph_leaves_the_wells_whose_walls_its_force_exceeds() -> None:
    """At F = 2, between the slopes, the wide well empties; below both nobody moves."""
    far = replace(SMALL, steps=4000, dwell=20)
    assert wells(far)["schemes"]["telegraph"]["wide"][-1] < 0.02
    assert wells(replace(far, force=1.0))["schemes"]["telegraph"]["wide"][-1] == 0.5


def test_shares_are_those_of_all_walkers() -> None:
    found = wells(SMALL)
    _, x, _ = walk(SMALL, found["sigma"])
    for i, kind in enumerate(KINDS):
        held = found["schemes"][kind]
        assert held["wide"] == (x[:, i] > 0).mean(axis=1).tolist()
        assert np.shape(held["x"]) == (121, SHOWN)
        assert held["wide"][0] == 0.5


def test_without_a_force_nobody_moves_and_with_long_steps_all_is_still_json() -> None:
    still = wells(replace(SMALL, force=0.0))
    assert all(held["wide"][-1] == 0.5 for held in still["schemes"].values())
    wild = wells(
        replace(SMALL, eta=1.0, force=20.0, steps=400)
    )  # 24 eta > 2: the steep wall throws x away
    assert "Infinity" not in json.dumps(wild)
    assert any(x is None for x in wild["schemes"]["mpgd"]["x"][-1])
    count, first = wild["schemes"]["mpgd"]["off"]
    assert 0 < count <= WALKERS
    assert 0 < first < 400
    assert still["schemes"]["mpgd"]["off"] == [0, NEVER]


@pytest.mark.parametrize("force", [2.0, 8.0])
def test_the_frame_holds_the_walkers(force: float) -> None:
    """Those of stable noise jump far; they alone may be beyond the widest frame."""
    found = wells(replace(SMALL, force=force))
    low, high = found["grid"][0], found["grid"][-1]
    assert WIDEST[0] - 0.1 <= low <= -1.0
    assert 3.0 <= high <= WIDEST[1] + 0.1
    for kind in KINDS[:-1]:
        x = np.array(found["schemes"][kind]["x"])
        assert low <= x.min() <= x.max() <= high
