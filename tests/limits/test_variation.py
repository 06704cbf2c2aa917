from itertools import pairwise

import numpy as np
import pytest

from mpgd.limits.paths import variation
from mpgd.limits.paths.variation import p_variation

KINDS = ["gaussian", "stable", "monotone", "constant", "ties", "trend", "plane", "space", "ties_2d"]
EXPONENTS = [1, 1.3, 2, 3]


def by_definition(path: np.ndarray, p: float) -> float:
    """The recursion V(j) = max over i < j of V(i) + |u_j - u_i|^p, over all pairs."""
    u = path.reshape(len(path), -1)
    V = np.zeros(len(u))
    for j in range(1, len(u)):
        V[j] = (V[:j] + np.linalg.norm(u[j] - u[:j], axis=1) ** p).max()
    return float(V[-1] ** (1.0 / p))


def over_all_partitions(path: np.ndarray, p: float) -> float:
    """The supremum itself, over every subset of the inner points."""
    n = len(path)
    best = 0.0
    for chosen in range(2 ** (n - 2)):
        inner = [i for i in range(1, n - 1) if chosen >> (i - 1) & 1]
        points = path[[0, *inner, n - 1]]
        best = max(best, float((np.abs(np.diff(points)) ** p).sum()))
    return best ** (1.0 / p)


def draw(kind: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 150))
    match kind:
        case "gaussian":
            return rng.standard_normal(n).cumsum()
        case "stable":
            return rng.standard_t(1.5, n).cumsum()
        case "monotone":
            return -rng.random(n).cumsum()
        case "constant":
            return np.full(n, rng.normal())
        case "ties":
            return rng.integers(-1, 2, n).cumsum()
        case "trend":
            return np.linspace(0.0, 5.0, n) + 0.3 * rng.standard_normal(n)
        case "plane":
            return rng.standard_t(1.5, (n, 2)).cumsum(axis=0)
        case "space":
            return rng.standard_normal((n, 5)).cumsum(axis=0)
        case _:
            return rng.integers(-1, 2, (n, 2)).cumsum(axis=0)


@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_quadratic_definition(kind: str) -> None:
    """9 kinds of 25 paths, 225 in all, each at four exponents."""
    for seed in range(25):
        path = draw(kind, seed)
        for p in EXPONENTS:
            assert p_variation(path, p) == pytest.approx(by_definition(path, p), rel=1e-12)


@pytest.mark.parametrize("p", [1.3, 2, 3])
def test_equals_the_quadratic_definition_on_long_paths(p: float) -> None:
    """Long enough for several levels of blocks to be skipped and opened again."""
    rng = np.random.default_rng(5)
    for path in (rng.standard_t(1.5, 3000).cumsum(), rng.standard_t(1.5, (2100, 3)).cumsum(axis=0)):
        assert p_variation(path, p) == pytest.approx(by_definition(path, p), rel=1e-12)


@pytest.mark.parametrize("p", EXPONENTS)
def test_the_reference_is_the_supremum_over_partitions(p: float) -> None:
    for seed in range(10):
        path = np.random.default_rng(seed).standard_normal(9).cumsum()
        assert by_definition(path, p) == pytest.approx(over_all_partitions(path, p), rel=1e-12)


def test_neither_the_finest_nor_the_coarsest_partition_is_always_best() -> None:
    """So the comparisons above can fail: both simple guesses are wrong on this path."""
    path = np.array([0.0, 3.0, 2.0, 4.0, -1.0])
    assert p_variation(path, 2) == pytest.approx(np.sqrt(16 + 25))
    assert np.sqrt((np.diff(path) ** 2).sum()) < 6.3
    assert abs(path[-1] - path[0]) < 6.3


@pytest.mark.parametrize("d", [1, 3])
def test_one_is_the_total_variation(d: int) -> None:
    path = np.random.default_rng(0).standard_normal((1000, d)).cumsum(axis=0)
    total = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
    assert p_variation(path, 1) == pytest.approx(total, rel=1e-13)


@pytest.mark.parametrize("p", EXPONENTS)
def test_monotone_paths_have_their_range(p: float) -> None:
    path = np.random.default_rng(0).random(500).cumsum()
    assert p_variation(path, p) == pytest.approx(path[-1] - path[0], rel=1e-13)


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("d", [1, 2])
def test_scaling_translation_and_reversal(p: float, d: int) -> None:
    path = np.random.default_rng(1).standard_t(1.5, (800, d)).cumsum(axis=0)
    value = p_variation(path, p)
    assert p_variation(-3.7 * path, p) == pytest.approx(3.7 * value, rel=1e-12)
    assert p_variation(path + 10.0, p) == pytest.approx(value, rel=1e-12)
    assert p_variation(path[::-1], p) == pytest.approx(value, rel=1e-12)
    assert p_variation(path * 2.0**700, p) == value * 2.0**700  # no square overflows on the way


def test_does_not_increase_in_p_and_tends_to_the_range() -> None:
    path = np.random.default_rng(2).standard_t(1.5, 800).cumsum()
    values = [p_variation(path, p) for p in (1, 1.1, 1.5, 2, 3, 10, 500)]
    assert all(a >= b for a, b in pairwise(values))
    assert values[-1] == pytest.approx(np.ptp(path), rel=1e-2)


@pytest.mark.parametrize("p", EXPONENTS)
def test_single_points_lists_integers_and_columns(p: float) -> None:
    assert p_variation([4.0], p) == 0.0
    assert p_variation([[1.0, 2.0]], p) == 0.0
    assert p_variation([0, 2, 1], p) == p_variation(np.array([[0.0], [2.0], [1.0]]), p)


@pytest.mark.parametrize("p", [0.99, 0, -1.0, float("nan"), float("inf")])
def test_refuses_p(p: float) -> None:
    with pytest.raises(ValueError, match=r"p must be a finite number >= 1, got"):
        p_variation([0.0, 1.0], p)


def test_refuses_paths() -> None:
    with pytest.raises(ValueError, match=r"path must be finite, got nan at index 2"):
        p_variation([0.0, 1.0, np.nan], 2)
    with pytest.raises(ValueError, match=r"path must be finite, got -inf at index \(1, 0\)"):
        p_variation([[0.0, 1.0], [-np.inf, 1.0]], 2)
    with pytest.raises(ValueError, match=r"path must have a point .* got shape \(0,\)"):
        p_variation([], 2)
    with pytest.raises(ValueError, match=r"\(time, coordinate\), got shape \(2, 2, 2\)"):
        p_variation(np.zeros((2, 2, 2)), 2)
    with pytest.raises(TypeError, match=r"path must hold real numbers, got dtype complex128"):
        p_variation(np.array([1j, 2.0]), 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("p", EXPONENTS)
def test_the_partition_attains_the_supremum(kind: str, p: float) -> None:
    for seed in range(5):
        path = draw(kind, seed)
        value, chosen = p_variation(path, p, partition=True)
        assert value == p_variation(path, p)
        assert chosen[0] == 0
        assert chosen[-1] == len(path) - 1
        assert (np.diff(chosen) > 0).all()
        steps = np.diff(path[chosen].reshape(len(chosen), -1), axis=0)
        sums = (np.linalg.norm(steps, axis=1) ** p).sum() ** (1.0 / p)
        assert sums == pytest.approx(value, rel=1e-12)


def test_the_partition_of_short_paths() -> None:
    assert p_variation([3.0], 2, partition=True)[1].tolist() == [0]
    assert p_variation([3.0, 3.0, 3.0], 2, partition=True)[1].tolist() == [0, 2]
    with pytest.raises(TypeError, match="partition must be True or False, got 1"):
        p_variation([3.0], 2, partition=1)  # type: ignore[call-overload]


def test_powers_overflow_to_infinity_as_in_c() -> None:
    assert variation._power(1e300, 2.5) == np.inf
