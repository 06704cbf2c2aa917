from functools import cache
from math import log

import numpy as np
import pytest
from numpy.typing import NDArray

from mpgd.theory import dimension
from mpgd.theory.dimension import spanning_tree_edges, trajectory_dimension

Array = NDArray[np.float64]
CANTOR = log(2) / log(3)


def levy_path(alpha: float, n: int, d: int, seed: int = 0) -> Array:
    """Sum isotropic stable steps: a normal vector times the root of a positive stable variate."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(n, d))
    if alpha < 2.0:
        a, u, w = alpha / 2, rng.uniform(0, np.pi, n), rng.exponential(size=n)
        tilt = (np.sin((1 - a) * u) / w) ** ((1 - a) / a)  # Kanter (1975)
        steps *= np.sqrt(np.sin(a * u) / np.sin(u) ** (1 / a) * tilt)[:, None]
    return steps.cumsum(axis=0)


def segment(n: int) -> Array:
    return np.outer(np.random.default_rng(0).random(n), [1.0, 2.0, -1.0])


def cantor(n: int) -> Array:
    digits = np.random.default_rng(0).integers(0, 2, (n, 30))
    return 2 * digits @ 3.0 ** -np.arange(1, 31)


SETS = {
    "segment": (segment, 1.0),
    "cantor": (cantor, CANTOR),
    "stable 1.5 in ten dimensions": (lambda n: levy_path(1.5, n, 10), 1.5),
    "stable 1.8 in ten dimensions": (lambda n: levy_path(1.8, n, 10), 1.8),
    "stable 1.2 in the plane": (lambda n: levy_path(1.2, n, 2), 1.2),
    "stable 1.5 in the plane": (lambda n: levy_path(1.5, n, 2), 1.5),
    "Brownian in three dimensions": (lambda n: levy_path(2.0, n, 3), 2.0),
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
    assert found.low < found.value < found.high
    assert found.method == method


def test_ten_dimensions_tell_alphas_apart() -> None:
    low = estimate("stable 1.5 in ten dimensions", "mst")
    high = estimate("stable 1.8 in ten dimensions", "mst")
    assert low.low < 1.5 < low.high < high.low < 1.8 < high.high


def test_brownian_motion_in_the_plane_reads_low() -> None:
    """The module's text says so: self-crossings make the approach to 2 logarithmic."""
    assert 1.6 < trajectory_dimension(levy_path(2.0, 4096, 2)).value < 1.9


def test_intervals_of_the_tree_cover_paths_without_crossings() -> None:
    """Nominal 95 % over 40 paths; 31 or fewer has chance 1e-4 for a correct interval."""
    found = [trajectory_dimension(levy_path(1.5, 1024, 10, seed)) for seed in range(40)]
    assert sum(f.low <= 1.5 <= f.high for f in found) >= 32
    assert sum(f.low <= 2.0 <= f.high for f in found) < 20  # the check can fail


def test_power_one_reads_a_cantor_set_as_a_line() -> None:
    assert trajectory_dimension(cantor(2048), power=1.0).value == pytest.approx(1.0, abs=0.01)
    assert trajectory_dimension(cantor(2048), power=0.25).value == pytest.approx(CANTOR, abs=0.05)


@pytest.mark.parametrize("d", [1, 2, 7])
def test_edges_are_those_of_scipy_and_of_the_loops(d: int) -> None:
    from scipy.sparse.csgraph import minimum_spanning_tree
    from scipy.spatial.distance import cdist

    x = np.random.default_rng(d).normal(size=(200, d))
    oracle = np.sort(minimum_spanning_tree(cdist(x, x)).data)
    np.testing.assert_allclose(np.sort(spanning_tree_edges(x)), oracle, rtol=1e-12)
    np.testing.assert_allclose(dimension._prim(x.copy()), dimension._prim_loops(x.copy()))


def test_shift_scale_and_repeated_points_do_not_matter() -> None:
    x = levy_path(1.5, 1024, 3)
    value = trajectory_dimension(x).value
    assert trajectory_dimension(1e3 * x + 5.0).value == pytest.approx(value, rel=1e-6)
    assert trajectory_dimension(np.repeat(x, 3, axis=0)).value == value


def test_the_points_are_left_alone() -> None:
    x = levy_path(1.5, 512, 2)
    before = x.copy()
    trajectory_dimension(x)
    np.testing.assert_array_equal(x, before)


def test_box_is_reproducible_from_its_seed() -> None:
    x = segment(8192)
    first = trajectory_dimension(x, "box", seed=1)
    assert trajectory_dimension(x, "box", seed=1) == first
    assert trajectory_dimension(x, "box", seed=2) != first


@pytest.mark.parametrize(
    ("points", "method", "text"),
    [
        (np.ones((1000, 2)), "mst", "points must differ, got 1000 identical ones"),
        (np.ones((1000, 2)), "box", "points must differ, got 1000 identical ones"),
        (np.arange(511.0), "mst", "points must have at least 512 different rows, got 511"),
        (np.arange(8191.0), "box", "points must have at least 8192 different rows, got 8191"),
        ([1.0, np.nan, np.inf], "mst", "points must be finite, got 2 NaN or infinite"),
        (np.ones((2, 2, 2)), "mst", r"shape \(n,\) or \(time, coordinate\), got \(2, 2, 2\)"),
        (np.arange(600.0), "corr", "method must be mst or box, got 'corr'"),
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
