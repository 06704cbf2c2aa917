"""Distances in law: against scipy, against closed forms, and whether the intervals cover."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import energy_distance, ks_2samp, norm, wasserstein_distance

from mpgd.limits.paths.distances import NAMES, Distance, distances_in_law


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ties", [False, True])
def test_the_values_are_scipys(seed: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.standard_t(1.5, size=300), rng.standard_t(1.5, size=170) + 0.3
    if ties:
        x, y = x.round(), y.round()
    found = distances_in_law(x, y, resamples=0)
    assert found["ks"].value == pytest.approx(ks_2samp(x, y).statistic, abs=1e-12)
    assert found["wasserstein"].value == pytest.approx(wasserstein_distance(x, y), rel=1e-12)
    assert found["energy"].value == pytest.approx(energy_distance(x, y), rel=1e-9)
    assert np.isnan(found["ks"].low)


def test_the_energy_distance_of_vectors_is_its_definition() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(40, 3)), rng.normal(0.5, size=(25, 3))

    def mean(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.mean([[np.linalg.norm(p - q) for q in b] for p in a]))

    squared = 2 * mean(x, y) - mean(x, x) - mean(y, y)
    found = distances_in_law(x, y, resamples=0)
    assert found["energy"].value == pytest.approx(np.sqrt(squared), rel=1e-10)
    largest = max(ks_2samp(x[:, k], y[:, k]).statistic for k in range(3))
    assert found["ks"].value == pytest.approx(largest, abs=1e-12)
    column = distances_in_law(x[:, :1], y[:, :1], resamples=0)
    padded = distances_in_law(x * [1, 0, 0], y * [1, 0, 0], resamples=0)
    assert padded["energy"].value == pytest.approx(column["energy"].value, rel=1e-9)


def test_the_energy_distance_sees_dependence_that_margins_do_not() -> None:
    rng = np.random.default_rng(2)
    z = rng.normal(size=(800, 2))
    same, equal = np.repeat(rng.normal(size=(800, 1)), 2, axis=1), rng.normal(size=(800, 2))
    found, control = (distances_in_law(z, w, resamples=50) for w in (same, equal))
    assert found["energy"].low > control["energy"].high
    assert found["ks"].value < 0.1


def test_intervals_cover_a_known_distance() -> None:
    """Two normal laws a unit apart, 60 pairs of samples of 300, nominal 95 %."""
    true = {"ks": 2 * norm.cdf(0.5) - 1, "wasserstein": 1.0}
    grid = np.linspace(-9, 10, 40_001)
    gap = norm.cdf(grid) - norm.cdf(grid - 1)
    true["energy"] = np.sqrt(2 * np.trapezoid(gap**2, grid))
    hits = dict.fromkeys(NAMES, 0)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        found = distances_in_law(rng.normal(size=300), rng.normal(1, size=300), 200, seed=seed)
        for name in NAMES:
            hits[name] += found[name].low <= true[name] <= found[name].high
    assert all(hit >= 50 for hit in hits.values()), hits


def test_intervals_of_equal_laws_begin_at_zero() -> None:
    """Nominally 95 % of them do; 200 pairs, three distances that hang together."""
    zero = []
    for seed in range(200):
        rng = np.random.default_rng(100 + seed)
        found = distances_in_law(rng.normal(size=100), rng.normal(size=150), 100)
        zero.append([found[name].low == 0.0 for name in NAMES])
    assert np.mean(zero, axis=0).min() > 0.88
    assert all(one.low <= one.value <= one.high for one in found.values())


def test_the_seed_decides() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=100), rng.normal(size=100)
    assert distances_in_law(x, y, seed=1) == distances_in_law(x, y, seed=1)
    assert distances_in_law(x, y, seed=1) != distances_in_law(x, y, seed=2)
    assert str(Distance(0.5, 0.25, 0.75, 0.1)) == "0.5000 [0.2500, 0.7500]"
    assert distances_in_law(x, x, resamples=0)["energy"].value == 0.0


def test_refuses() -> None:
    with pytest.raises(ValueError, match=r"x must be finite, got nan at index 1"):
        distances_in_law([0.0, np.nan], [1.0])
    with pytest.raises(ValueError, match=r"y must have a point"):
        distances_in_law([0.0], [])
    with pytest.raises(ValueError, match=r"the same dimension, got 1 and 2"):
        distances_in_law([0.0], [[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"level must lie in \(0, 1\), got 1"):
        distances_in_law([0.0], [1.0], level=1)
    with pytest.raises(ValueError, match=r"resamples must be an integer >= 0, got -1"):
        distances_in_law([0.0], [1.0], resamples=-1)
