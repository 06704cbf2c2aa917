from itertools import combinations, permutations

import numpy as np
import pytest

from mpgd.limits import (
    FlowPath,
    Linear,
    PathDistance,
    PathPair,
    alpha_infinity,
    alpha_p_variation,
    forward_path,
    linear_path,
    p_variation,
    sigma_p_variation,
    skorokhod_distance,
)

ROTATION = Linear([[0.0, -1.0], [1.0, 0.0]])
THETA = 2.5
TRIPLES, PATHS = 1_000, 20


def random_step_path(rng: np.random.Generator, d: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """A few values at random times in [0, 1]; heavy tails, so that paths differ in all ways."""
    n = int(rng.integers(1, 5))
    times = np.sort(np.concatenate([[0.0, 1.0], rng.random(n)]))
    return rng.standard_t(2.0, (n + 2, d)).cumsum(axis=0), times


def detour(x: np.ndarray, y: np.ndarray, s: np.ndarray) -> np.ndarray:
    return linear_path(x, y, s) + 0.5 * np.sin(np.pi * s)[:, None]


@pytest.mark.parametrize("d", [1, 2])
def test_alpha_infinity_with_segments_is_sm1(d: int) -> None:
    """Remark B.1, and with fewer samples too: points on a segment change nothing."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        (x, s), (y, t) = random_step_path(rng, d), random_step_path(rng, d)
        sm1 = skorokhod_distance(x, y, "SM1", s, t)
        for points in (2, 5):
            found = alpha_infinity(PathPair(x, s, points=points), PathPair(y, t, points=points))
            assert found.high == pytest.approx(sm1, rel=1e-11, abs=1e-12)


def test_alpha_infinity_is_a_pseudo_metric_on_a_thousand_triples() -> None:
    """All 1,140 triples of twenty paths, half of them with detours; of the polygons, exactly."""
    rng = np.random.default_rng(1)
    phis = (linear_path, detour)
    paths = [PathPair(*random_step_path(rng), phi=phis[k % 2], points=5) for k in range(PATHS)]
    d = np.zeros((PATHS, PATHS))
    for i, j in permutations(range(PATHS), 2):
        d[i, j] = alpha_infinity(paths[i], paths[j]).high - paths[i].error - paths[j].error
    np.testing.assert_allclose(d, d.T, rtol=1e-11)
    assert all(alpha_infinity(path, path).low == 0.0 for path in paths)
    assert len(list(combinations(range(PATHS), 3))) >= TRIPLES
    for i, j, k in permutations(range(PATHS), 3):
        assert d[i, k] <= (d[i, j] + d[j, k]) * (1.0 + 1e-11)


def test_alpha_p_is_a_pseudo_metric_on_a_thousand_triples() -> None:
    """The triangle inequality between ends of intervals that hold the metric, and symmetry."""
    rng = np.random.default_rng(2)
    paths = [PathPair(*random_step_path(rng), points=2) for _ in range(PATHS)]
    low, high = np.zeros((2, PATHS, PATHS))
    for i, j in permutations(range(PATHS), 2):
        found = alpha_p_variation(paths[i], paths[j], p=1.5)
        low[i, j], high[i, j] = found.low, found.high
    np.testing.assert_allclose(low, low.T, rtol=1e-11)
    np.testing.assert_allclose(high, high.T, rtol=1e-11)
    assert (low <= high).all()
    assert all(alpha_p_variation(path, path, p=1.5).high == 0.0 for path in paths)
    tight = []
    for i, j, k in permutations(range(PATHS), 3):
        around = (high[i, j] + high[j, k]) * (1.0 + 1e-12)
        assert low[i, k] <= around
        tight.append(high[i, k] <= around)
    assert np.mean(tight) > 0.99  # the upper ends alone obey it nearly always
    apart = ~np.eye(PATHS, dtype=bool)
    assert np.median(1.0 - low[apart] / high[apart]) < 0.1  # the stated error, of the distance


def test_reparametrised_path_functions_are_the_same() -> None:
    """Definition B.5: only the curve of a jump counts, not the speed along it."""
    x, times = random_step_path(np.random.default_rng(3))

    def late(x: np.ndarray, y: np.ndarray, s: np.ndarray) -> np.ndarray:
        return detour(x, y, s**2)

    one, two = PathPair(x, times, detour, 65), PathPair(x, times, late, 65)
    assert alpha_infinity(one, two).high < 0.01
    assert alpha_infinity(one, PathPair(x, times, linear_path, 65)).low > 0.2


def test_sigma_p_of_one_jump_moved_in_time_and_height() -> None:
    jump, t = np.array([0.0, 1.0, 1.0]), [0.0, 0.5, 1.0]
    moved = sigma_p_variation(jump, jump, 1.5, t, [0.0, 0.6, 1.0])
    assert (moved.low, moved.high) == pytest.approx((0.1, 0.1))
    higher = sigma_p_variation(jump, 1.3 * jump, 1.5, t, t)
    assert (higher.low, higher.high) == pytest.approx((0.3, 0.3))
    halves = sigma_p_variation(jump, [0.0, 0.5, 1.0, 1.0], 1.5, t, [0.0, 0.5, 0.51, 1.0])
    assert halves.low >= 0.5  # no time change makes one jump into two
    filled = alpha_p_variation(
        PathPair(jump, t), PathPair([0.0, 0.5, 1.0, 1.0], [0.0, 0.5, 0.51, 1.0]), 1.5
    )
    assert filled.high == pytest.approx(0.01)


def test_sigma_p_lies_above_j1_and_below_any_time_change() -> None:
    rng = np.random.default_rng(4)
    for _ in range(100):
        (x, s), (y, t) = random_step_path(rng), random_step_path(rng)
        found = sigma_p_variation(x, y, 1.7, s, t)
        assert found.low >= skorokhod_distance(x - x[0], y - y[0], "J1", s, t) * (1 - 1e-12)
        grid = np.union1d(s, t)
        unmoved = (
            x[np.searchsorted(s, grid, "right") - 1, 0]
            - y[np.searchsorted(t, grid, "right") - 1, 0]
        )
        assert found.high <= p_variation(unmoved, 1.7) * (1.0 + 1e-9)
        shifted = sigma_p_variation(x + 5.0, y, 1.7, s, t)
        assert shifted.high == pytest.approx(found.high, rel=1e-9)  # constants are not seen


def ramp(m: int, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """The driver of Appendix B.3: from 0 to theta between 1/2 and 1/2 + 1/m, in small steps."""
    times = np.concatenate([[0.0], 0.5 + np.arange(1, parts + 1) / (m * parts), [1.0]])
    return np.concatenate([[0.0], THETA * np.arange(1, parts + 1) / parts, [THETA]]), times


def solution_pair(W: np.ndarray, times: np.ndarray) -> PathPair:
    X = forward_path(ROTATION, W, [1.0, 0.0])
    return PathPair(np.column_stack([W, X]), times, points=2)


def test_the_solution_map_of_the_rotation_is_continuous_in_alpha_and_not_in_j1() -> None:
    end = [THETA, np.cos(THETA), np.sin(THETA)]
    values, times = np.array([[0.0, 1.0, 0.0], end, end]), [0.0, 0.5, 1.0]
    limit = PathPair(values, times, FlowPath(ROTATION, r=1), points=129)
    straight = PathPair(values, times)
    alpha, p_alpha, j1, driver, chord = [], [], [], [], []
    for m, parts in ((4, 40), (16, 160), (64, 640)):
        W, t = ramp(m, parts)
        pair = solution_pair(W, t)
        alpha.append(alpha_infinity(pair, limit).high)
        if m < 64:
            p_alpha.append(alpha_p_variation(pair, limit, p=1.5).high)
        chord.append(alpha_infinity(pair, straight).low)
        driver.append(skorokhod_distance(W, [0.0, THETA, THETA], "SM1", t, times))
        j1.append(skorokhod_distance(pair.values, values, "J1", t, times))
    assert driver == pytest.approx([0.25, 1 / 16, 1 / 64], rel=0.1)  # drivers converge in SM1,
    assert alpha[0] > 3.0 * alpha[1] > 9.0 * alpha[2]  # so do the solutions, with phi_b;
    assert alpha[2] < 0.03
    assert p_alpha[0] > 2.0 * p_alpha[1]  # in p-variation too;
    assert min(chord) > 0.5  # not with straight segments, which cut across the circle;
    assert min(j1) > 1.0  # and not in J1, where a jump must be met by a jump


def test_bad_arguments() -> None:
    one = PathPair([0.0, 1.0])
    with pytest.raises(ValueError, match="the same number of coordinates, got 1 and 2"):
        alpha_infinity(one, PathPair([[0.0, 0.0], [1.0, 1.0]]))
    with pytest.raises(ValueError, match=r"start and end at the same times, got \(0.0, 1.0\) and"):
        alpha_p_variation(one, PathPair([0.0, 1.0], [0.0, 2.0]), 1.5)
    with pytest.raises(ValueError, match=r"p must be a finite number >= 1, got 0.5"):
        alpha_p_variation(one, one, 0.5)
    with pytest.raises(ValueError, match="times must increase strictly"):
        sigma_p_variation([0.0, 1.0], [0.0, 1.0], 1.5, [0.0, 0.0], [0.0, 1.0])
    assert PathDistance(1.0, 3.0).error == 2.0
