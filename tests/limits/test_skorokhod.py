from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import linprog

from mpgd.limits.paths.skorokhod import skorokhod_distance

TOPOLOGIES = ["J1", "SM1"]
CLOSE = 1e-11  # of SM1's bisection


def random_path(rng: np.random.Generator, n: int, d: int = 1) -> tuple[np.ndarray, np.ndarray]:
    times = np.concatenate(([0.0], np.sort(rng.random(n - 2)), [1.0]))
    return rng.normal(0.0, 0.3, (n, d)).cumsum(axis=0), times


def distance(a: tuple, b: tuple, topology: str, band: int | None = None) -> float:
    return skorokhod_distance(a[0], b[0], topology, a[1], b[1], band)


# References, written from the definitions.


def staircases(i: int, j: int, n: int, m: int) -> Iterator[list[tuple[int, int]]]:
    """All ways to go from the pair (i, j) of values to (n, m): x, y or both move on."""
    if (i, j) == (n, m):
        yield [(i, j)]
        return
    for k, h in ((i + 1, j), (i, j + 1), (i + 1, j + 1)):
        if k <= n and h <= m:
            for rest in staircases(k, h, n, m):
                yield [(i, j), *rest]


def cheapest_time_change(steps: list[tuple[int, int]], s: np.ndarray, t: np.ndarray) -> float:
    """The smallest sup |lambda - id| of a lambda that meets the pairs in this order.

    A linear programme: one corner (a_k, b_k) of lambda per step, in order, with a_k a jump of x
    if x moves and b_k one of y if y moves; minimise e subject to |a_k - b_k| <= e.
    """
    k = len(steps) - 1
    cost = np.append(np.zeros(2 * k), 1.0)
    bounds: list[tuple[float, float]] = [(0.0, 1.0)] * (2 * k) + [(0.0, 1.0)]
    rows = []
    for step in range(k):
        (i, j), (i_next, j_next) = steps[step], steps[step + 1]
        if i_next > i:
            bounds[step] = (s[i_next], s[i_next])
        if j_next > j:
            bounds[k + step] = (t[j_next], t[j_next])
        for sign in (1.0, -1.0):
            row = np.zeros(2 * k + 1)
            row[step], row[k + step], row[-1] = sign, -sign, -1.0
            rows.append(row)
        for start in (0, k):
            if step + 1 < k:
                row = np.zeros(2 * k + 1)
                row[start + step], row[start + step + 1] = 1.0, -1.0
                rows.append(row)
    result = linprog(cost, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), bounds=bounds)
    return float(result.fun) if result.status == 0 else np.inf


def j1_by_enumeration(a: tuple, b: tuple) -> float:
    (x, s), (y, t) = a, b
    n, m = len(x) - 1, len(y) - 1
    last = float(np.linalg.norm(x[n] - y[m]))  # the end of the interval is kept
    best = np.inf
    for steps in staircases(0, 0, n - 1, m - 1):
        space = max(last, *(float(np.linalg.norm(x[i] - y[j])) for i, j in steps))
        if space < best:
            time = cheapest_time_change(steps, s, t) if len(steps) > 1 else 0.0
            best = min(best, max(space, time))
    return best


def sampled_graph(path: tuple, mesh: float) -> np.ndarray:
    x, s = path
    corners = [np.append(s[0], x[0])]
    for i in range(1, len(x)):
        corners += [np.append(s[i], x[i - 1]), np.append(s[i], x[i])]
    points = [corners[0]]
    for a, b in pairwise(corners):
        pieces = max(1, int(np.ceil(np.linalg.norm(b - a) / mesh)))
        points += [a + (b - a) * k / pieces for k in range(1, pieces + 1)]
    return np.array(points)


def discrete_frechet(P: np.ndarray, Q: np.ndarray) -> float:
    """At least the Frechet distance, and above it by less than the mesh."""
    gaps = P[:, None] - Q[None]
    D = np.maximum(np.abs(gaps[..., 0]), np.linalg.norm(gaps[..., 1:], axis=-1))
    for i in range(len(P)):
        for j in range(len(Q)):
            before = [
                D[k, h] for k, h in ((i - 1, j), (i, j - 1), (i - 1, j - 1)) if min(k, h) >= 0
            ]
            D[i, j] = max(D[i, j], min(before)) if before else D[i, j]
    return float(D[-1, -1])


@pytest.mark.parametrize("seed", range(12))
def test_j1_against_all_staircases(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = 1 + seed % 2
    a, b = (
        random_path(rng, int(rng.integers(3, 6)), d),
        random_path(rng, int(rng.integers(3, 6)), d),
    )
    if seed % 3:  # near paths, where the time change decides
        b = (10.0 * a[0] + rng.normal(0.0, 0.01, a[0].shape), a[1] + 0.0)
        b[1][1:-1] = np.sort(rng.random(len(a[1]) - 2))
        a = (10.0 * a[0], a[1])
    assert distance(a, b, "J1") == pytest.approx(j1_by_enumeration(a, b), abs=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_sm1_against_the_discrete_frechet_distance(d: int) -> None:
    mesh = 0.02
    for seed in range(4):
        rng = np.random.default_rng(seed)
        a, b = random_path(rng, 5, d), random_path(rng, 6, d)
        above = discrete_frechet(sampled_graph(a, mesh), sampled_graph(b, mesh))
        assert above - mesh <= distance(a, b, "SM1") <= above + CLOSE


# Cases by hand.


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize(("shift", "jump"), [(0.1, 2.0), (0.25, 0.3), (0.3, 0.2), (0.05, 50.0)])
def test_one_jump_shifted_in_time(topology: str, shift: float, jump: float) -> None:
    """Either time is moved by the shift, or the paths differ by the jump meanwhile."""
    x = np.array([0.0, jump, jump])
    got = skorokhod_distance(x, x, topology, [0.0, 0.5, 1.0], [0.0, 0.5 + shift, 1.0])
    assert got == pytest.approx(min(shift, jump), rel=CLOSE)


@pytest.mark.parametrize("delta", [0.2, 0.01, 1e-5])
@pytest.mark.parametrize("direction", [np.array([1.0]), np.array([0.6, 0.0, -0.8])])
def test_one_jump_split_in_two(delta: float, direction: np.ndarray) -> None:
    """J1 must set the half-way value against 0 or 1; SM1 only moves half the jump by delta."""
    whole, halves = np.outer([0.0, 1.0, 1.0], direction), np.outer([0.0, 0.5, 1.0, 1.0], direction)
    times = [0.0, 0.5, 1.0], [0.0, 0.5, 0.5 + delta, 1.0]
    assert skorokhod_distance(whole, halves, "J1", *times) == pytest.approx(0.5, rel=1e-12)
    assert skorokhod_distance(whole, halves, "SM1", *times) == pytest.approx(delta, rel=CLOSE)


def test_sm1_may_not_turn_back_on_a_jump() -> None:
    """On its way up by 4, y falls back by 1; the jump of x can only wait, half of that away."""
    x, y = np.array([0.0, 4.0, 4.0]), np.array([0.0, 2.5, 1.5, 4.0, 4.0])
    times = [0.0, 0.5, 1.0], [0.0, 0.499, 0.5, 0.501, 1.0]
    assert skorokhod_distance(x, y, "SM1", *times) == pytest.approx(0.5, rel=CLOSE)
    assert skorokhod_distance(x, y, "J1", *times) == pytest.approx(2.5, rel=1e-12)


@pytest.mark.parametrize("height", [0.0, 0.3, 1.0])
def test_sm1_may_not_turn_back_on_a_jump_in_the_plane(height: float) -> None:
    """As above, with the two middle values off the line: balls around them must still overlap."""
    x = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 0.0]])
    y = np.array([[0.0, 0.0], [2.5, height], [1.5, height], [4.0, 0.0], [4.0, 0.0]])
    times = [0.0, 0.5, 1.0], [0.0, 0.499, 0.5, 0.501, 1.0]
    got = skorokhod_distance(x, y, "SM1", *times)
    assert got == pytest.approx(np.hypot(0.5, height), rel=CLOSE)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_both_ends_are_kept(topology: str) -> None:
    """The value at the last time stands alone, and no time change moves it."""
    assert skorokhod_distance([0.0, 0.0, 1.0], [0.0, 0.0, 4.0], topology) == 3.0
    assert skorokhod_distance([2.0, 0.0, 0.0], [0.0, 0.0, 0.0], topology) == 2.0
    # A jump at the last time: J1 cannot move it, the graph of SM1 can be walked up earlier.
    moved = skorokhod_distance([0.0, 0.0, 1.0], [0.0, 1.0, 1.0], topology)
    assert moved == (1.0 if topology == "J1" else 0.5)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_single_value_is_a_constant_path(topology: str) -> None:
    assert skorokhod_distance([1.0], [1.5, 0.0, 3.0], topology) == 2.0
    assert skorokhod_distance([[0.0, 0.0]], [[3.0, 4.0]], topology) == 5.0


# Identities.


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("d", [1, 2, 4])
def test_is_a_metric(topology: str, d: int) -> None:
    rng = np.random.default_rng(d)
    for _ in range(25):
        a, b, c = (random_path(rng, int(rng.integers(3, 30)), d) for _ in range(3))
        ab = distance(a, b, topology)
        assert ab > 0.0
        assert ab == pytest.approx(distance(b, a, topology), rel=CLOSE)
        assert ab <= (distance(a, c, topology) + distance(c, b, topology)) * (1 + CLOSE)
        assert distance(a, a, topology) == 0.0


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("d", [1, 3])
def test_is_zero_for_the_same_path_on_a_finer_grid(topology: str, d: int) -> None:
    values = np.random.default_rng(3).normal(size=(9, d))
    finer = np.repeat(values, 2, axis=0)[:-1]
    assert skorokhod_distance(values, finer, topology) == 0.0
    assert skorokhod_distance(values, finer + 1e-3, topology) > 0.0


def test_order_of_the_topologies_and_of_the_uniform_distance() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x, y = rng.standard_t(1.5, (2, 40, 2)).cumsum(axis=1) / 10
        sm1, j1 = (skorokhod_distance(x, y, topology) for topology in ("SM1", "J1"))
        assert sm1 <= j1 * (1 + CLOSE)
        assert j1 <= np.linalg.norm(x - y, axis=1).max() * (1 + 1e-12)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("d", [1, 2])
def test_scales_with_time_and_space_together(topology: str, d: int) -> None:
    rng = np.random.default_rng(0)
    a, b = random_path(rng, 20, d), random_path(rng, 25, d)
    value = distance(a, b, topology)
    for scale in (3.0, 2.0**600, 2.0**-300):
        scaled = distance((a[0] * scale, a[1] * scale), (b[0] * scale, b[1] * scale), topology)
        assert scaled == pytest.approx(scale * value, rel=CLOSE)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("d", [1, 2])
def test_a_band_is_an_upper_bound_that_falls_to_the_distance(topology: str, d: int) -> None:
    loose = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        a, b = random_path(rng, 40, d), random_path(rng, 55, d)
        exact = distance(a, b, topology)
        banded = [distance(a, b, topology, band) for band in (0, 1, 3, 10, 30, 55, 10**9)]
        assert all(p >= q * (1 - CLOSE) for p, q in zip(banded, [*banded[1:], exact], strict=True))
        assert banded[-2] == pytest.approx(exact, rel=CLOSE)
        loose += banded[0] > exact * 1.01
    assert loose > 0  # the band is not without effect


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_result_below_the_band_in_time_is_exact(topology: str) -> None:
    x = np.random.default_rng(0).standard_t(1.5, 400).cumsum()
    x[-20:] = x[-20]
    y = np.concatenate((x[:1].repeat(7), x[:-7]))
    step, band = 1 / 399, 40
    value = skorokhod_distance(x, y, topology, band=band)
    assert value == pytest.approx(7 * step, rel=1e-10)
    assert value < band * step
    assert value == pytest.approx(skorokhod_distance(x, y, topology), rel=CLOSE)
    assert skorokhod_distance(x, y, topology, band=3) > 1.1 * value


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_band_zero_on_a_common_grid_is_the_uniform_distance_in_j1(topology: str) -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 50))
    got = skorokhod_distance(x, y, topology, band=0)
    uniform = np.abs(x - y).max()
    assert got == uniform if topology == "J1" else got <= uniform


# Errors.


@pytest.mark.parametrize("topology", ["J2", "j1", None])
def test_refuses_topologies(topology: str) -> None:
    with pytest.raises(ValueError, match=r"topology must be one of \('J1', 'SM1'\), got"):
        skorokhod_distance([0.0, 1.0], [0.0, 1.0], topology)


def test_refuses_paths() -> None:
    with pytest.raises(ValueError, match=r"y must be finite, got inf at index 1"):
        skorokhod_distance([0.0, 1.0], [0.0, np.inf])
    with pytest.raises(ValueError, match=r"x must have a point .* got shape \(0,\)"):
        skorokhod_distance([], [0.0, 1.0])
    with pytest.raises(ValueError, match=r"same number of coordinates, got 1 and 2"):
        skorokhod_distance([0.0, 1.0], np.zeros((3, 2)))


def test_refuses_times() -> None:
    x = [0.0, 1.0, 2.0]
    with pytest.raises(ValueError, match=r"times_x must increase strictly, got 0\.7 then 0\.5 at"):
        skorokhod_distance([0.0, *x], x, "J1", [0.0, 0.7, 0.5, 1.0])
    with pytest.raises(ValueError, match=r"times_y must hold one time per value, 3 of them"):
        skorokhod_distance(x, x, "J1", None, [0.0, 1.0])
    with pytest.raises(ValueError, match=r"times_y must be finite, got nan at index 1"):
        skorokhod_distance(x, x, "J1", None, [0.0, np.nan, 1.0])
    with pytest.raises(ValueError, match=r"same times, got \[0, 2\] and \[0, 1\]"):
        skorokhod_distance(x, x, "J1", [0.0, 1.0, 2.0])


def test_refuses_bands() -> None:
    with pytest.raises(ValueError, match=r"band must be None or an integer >= 0, got -1"):
        skorokhod_distance([0.0, 1.0], [0.0, 1.0], band=-1)
    with pytest.raises(TypeError, match=r"cannot be interpreted as an integer"):
        skorokhod_distance([0.0, 1.0], [0.0, 1.0], band=2.5)
