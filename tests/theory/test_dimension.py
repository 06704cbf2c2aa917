from functools import cache
from math import isnan, log

import numpy as np
import pytest
from benchmarks.tails import stable_path
from numpy.typing import NDArray

from mpgd.theory.tails import dimension
from mpgd.theory.tails.dimension import spanning_tree_edges, trajectory_dimension

Array = NDArray[np.float64]
CANTOR = log(2) / log(3)


def segment(n: int) -> Array:
    return np.outer(np.random.default_rng(0).random(n), [1.0, 2.0, -1.0])


def cantor(n: int) -> Array:
    digits = np.random.default_rng(0).integers(0, 2, (n, 30))
    return 2 * digits @ 3.0 ** -np.arange(1, 31)


SETS = {
    "segment": (segment, 1.0),
    "cantor": (cantor, CANTOR),
    "stable 1.5 in ten dimensions": (lambda n: stable_path(1.5, n, 10), 1.5),
    "stable 1.8 in ten dimensions": (lambda n: stable_path(1.8, n, 10), 1.8),
    "stable 1.2 in the plane": (lambda n: stable_path(1.2, n, 2), 1.2),
    "stable 1.5 in the plane": (lambda n: stable_path(1.5, n, 2), 1.5),
    "Brownian in three dimensions": (lambda n: stable_path(2.0, n, 3), 2.0),
}
# As stated in the module's text: (mst at 8192 points, box at 16384).
TOLERANCE = dict(
    zip(
        SETS,
        [
            (0.03, 0.08),
            (0.03, 0.08),
            (0.06, 0.3),
            (0.06, 0.3),
            (0.15, 0.3),
            (0.15, 0.3),
            (0.15, 0.4),
        ],
        strict=True,
    )
)


@cache
def estimate(name: str, method: str) -> dimension.Dimension:
    make, _ = SETS[name]
    return trajectory_dimension(make(8192 if method == "mst" else 16384), method)


@pytest.mark.parametrize("method", ["mst", "box"])
@pytest.mark.parametrize("name", SETS)
def test_known_dimensions(name: str, method: str) -> None:
    found, true = estimate(name, method), SETS[name][1]
    tolerance = TOLERANCE[name][method == "box"]
    assert abs(found.value - true) < tolerance
    assert abs(found.value - true - 0.9) > tolerance  # the check can fail
    assert isnan(found.low)
    assert isnan(found.high)
    assert found.method == method


def test_the_tree_reads_brownian_motion_in_the_plane_low() -> None:
    """The module's text says so: self-crossings make the approach to 2 logarithmic."""
    assert 1.6 < trajectory_dimension(stable_path(2.0, 4096, 2), "mst").value < 1.9


PATHS = {
    "Brownian in the plane": (2.0, 2),
    "Brownian in three dimensions": (2.0, 3),
    "stable 1.2 in the plane": (1.2, 2),
    "stable 1.5 in ten dimensions": (1.5, 10),
}


@pytest.mark.parametrize("name", PATHS)
def test_intervals_of_lags_cover(name: str) -> None:
    """Covering 97.5 % (benchmarks/tails.py), 200 paths have 180 or fewer with chance 3e-7."""
    alpha, d = PATHS[name]
    found = [trajectory_dimension(stable_path(alpha, 1024, d, seed)) for seed in range(200)]
    assert sum(f.low <= alpha <= f.high for f in found) > 180
    assert sum(f.low <= alpha - 0.5 <= f.high for f in found) < 20  # the check can fail
    assert all(f.low <= f.value <= f.high and f.method == "lags" for f in found)


def test_lags_are_exact_on_a_line_and_no_more_than_the_space() -> None:
    line = trajectory_dimension(np.outer(np.arange(600.0), [1.0, -2.0]))
    assert (line.value, line.low, line.high) == pytest.approx((1.0, 1.0, 1.0))
    path = trajectory_dimension(stable_path(2.0, 1024, 1))
    assert (path.value, path.low, path.high) == (1.0, 1.0, 1.0)


def test_lags_are_the_slope_written_down() -> None:
    """Of 1024 points the lags are 1, 2, 4, 8, 16."""
    x = stable_path(1.5, 1024, 2)
    lags = np.array([1, 2, 4, 8, 16])
    sizes = [np.mean([log(np.hypot(*(x[t + k] - x[t]))) for t in range(1024 - k)]) for k in lags]
    assert trajectory_dimension(x).value == pytest.approx(1 / np.polyfit(np.log(lags), sizes, 1)[0])


def test_a_path_of_two_regimes_has_a_wide_interval() -> None:
    """Smooth at small lags, Brownian at large ones."""
    steps = np.diff(stable_path(2.0, 4096, 3), axis=0)
    smooth = np.apply_along_axis(np.convolve, 0, steps, np.ones(4), "valid").cumsum(axis=0)
    found = trajectory_dimension(smooth)
    assert found.low < 1.2
    assert found.high > 1.9
    brownian = trajectory_dimension(stable_path(2.0, 4096, 3))
    assert found.high - found.low > brownian.high - brownian.low


def test_lags_refuse_what_is_no_path() -> None:
    with pytest.raises(ValueError, match=r"slope of -?0\.0\d: these are no .* use method='mst'"):
        trajectory_dimension(segment(2048))
    still = np.zeros((2000, 1))
    still[:600, 0] = np.arange(600)
    with pytest.raises(ValueError, match="points must move, got 249 increments of 0 at lag 1"):
        trajectory_dimension(still)


def test_power_one_reads_a_cantor_set_as_a_line() -> None:
    x = cantor(2048)
    assert trajectory_dimension(x, "mst", power=1.0).value == pytest.approx(1.0, abs=0.01)
    assert trajectory_dimension(x, "mst", power=0.25).value == pytest.approx(CANTOR, abs=0.05)


@pytest.mark.parametrize("d", [1, 2, 7])
def test_edges_are_those_of_scipy_and_of_the_loops(d: int) -> None:
    from scipy.sparse.csgraph import minimum_spanning_tree
    from scipy.spatial.distance import cdist

    x = np.random.default_rng(d).normal(size=(200, d))
    oracle = np.sort(minimum_spanning_tree(cdist(x, x)).data)
    np.testing.assert_allclose(np.sort(spanning_tree_edges(x)), oracle, rtol=1e-12)
    np.testing.assert_allclose(np.sqrt(dimension._spanning_tree(x)), spanning_tree_edges(x))


@pytest.mark.parametrize("method", ["lags", "mst"])
def test_shift_and_scale_do_not_matter(method: str) -> None:
    x = stable_path(1.5, 1024, 3)
    value = trajectory_dimension(x, method).value
    assert trajectory_dimension(1e3 * x + 5.0, method).value == pytest.approx(value, rel=1e-6)


def test_repeated_points_do_not_matter_to_the_tree() -> None:
    x = stable_path(1.5, 1024, 3)
    value = trajectory_dimension(x, "mst").value
    assert trajectory_dimension(np.repeat(x, 3, axis=0), "mst").value == value


@pytest.mark.parametrize("method", ["lags", "mst"])
def test_the_points_are_left_alone(method: str) -> None:
    x = stable_path(1.5, 512, 2)
    before = x.copy()
    trajectory_dimension(x, method)
    np.testing.assert_array_equal(x, before)


def test_box_is_reproducible_from_its_seed() -> None:
    x = segment(8192)
    first = trajectory_dimension(x, "box", seed=1).value
    assert trajectory_dimension(x, "box", seed=1).value == first
    assert trajectory_dimension(x, "box", seed=2).value != first


@pytest.mark.parametrize(
    ("points", "method", "text"),
    [
        (np.ones((1000, 2)), "mst", "points must differ, got 1000 identical ones"),
        (np.ones((1000, 2)), "box", "points must differ, got 1000 identical ones"),
        (np.arange(511.0), "lags", "points must have at least 512 different rows, got 511"),
        (np.arange(511.0), "mst", "points must have at least 512 different rows, got 511"),
        (np.arange(8191.0), "box", "points must have at least 8192 different rows, got 8191"),
        ([1.0, np.nan, np.inf], "mst", "points must be finite, got 2 NaN or infinite"),
        (np.ones((2, 2, 2)), "mst", r"shape \(n,\) or \(time, coordinate\), got \(2, 2, 2\)"),
        (np.arange(600.0), "corr", "method must be lags, mst or box, got 'corr'"),
        (np.random.default_rng(0).random((8192, 30)), "box", "points leave 0 box sides"),
    ],
)
def test_bad_points(points: Array, method: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        trajectory_dimension(points, method)


def test_other_bad_arguments() -> None:
    with pytest.raises(ValueError, match=r"power must be finite and at least 0, got -1.0"):
        trajectory_dimension(np.arange(600.0), power=-1.0)
    with pytest.raises(ValueError, match=r"shape \(n >= 2, coordinate\), got \(1, 2\)"):
        spanning_tree_edges([[0.0, 1.0]])
