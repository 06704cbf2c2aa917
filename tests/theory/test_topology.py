"""Lifetimes and magnitudes against closed forms, and the bound where every data set is counted."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist
from scipy.stats import binom

from mpgd.theory import (
    lifetime_sum,
    magnitude,
    mutual_information,
    positive_magnitude,
    topological_bound,
)

RULES = {"bound": 1.0, "lipschitz": 1.0, "mutual_information": 0.0, "delta": 0.1}


def cloud(k: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(k, d))


def two_rows() -> np.ndarray:
    """Return distances in a graph: two points joined to each of three others.

    At exp(-s) = 1/sqrt(2) its equations are singular.
    """
    row = np.array([0, 0, 1, 1, 1])
    rho = np.where(row[:, None] == row, 2.0, 1.0)
    np.fill_diagonal(rho, 0.0)
    return rho


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_lifetimes_of_a_line_are_its_gaps(alpha: float) -> None:
    x = np.sort(np.random.default_rng(1).random(50))
    found = lifetime_sum(np.random.default_rng(2).permutation(x)[:, None], alpha)
    assert found == pytest.approx((np.diff(x) ** alpha).sum(), rel=1e-12)


def test_lifetimes_against_scipy() -> None:
    x = cloud(120, 4)
    edges = minimum_spanning_tree(cdist(x, x)).data
    assert lifetime_sum(x, 0.7) == pytest.approx((edges**0.7).sum(), rel=1e-12)
    assert lifetime_sum(cdist(x, x), 0.7, metric="precomputed") == pytest.approx(
        lifetime_sum(x, 0.7), rel=1e-12
    )


def test_magnitude_of_equal_distances() -> None:
    """For k points, all at distance d: k / (1 + (k - 1) exp(-s d)), by symmetry."""
    k, s, d = 7, 1.3, 0.9
    rho = d * (1.0 - np.eye(k))
    expected = k / (1.0 + (k - 1) * math.exp(-s * d))
    assert magnitude(rho, s, metric="precomputed") == pytest.approx(expected, rel=1e-12)
    assert positive_magnitude(rho, s, metric="precomputed") == pytest.approx(expected, rel=1e-12)


def test_magnitude_of_a_line() -> None:
    """On a line: 1 + sum of tanh(s gap / 2) over the gaps (Leinster 2013)."""
    x = np.sort(cloud(40, 1)[:, 0])
    expected = 1.0 + np.tanh(2.5 * np.diff(x) / 2.0).sum()
    assert magnitude(x[:, None], 2.5) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("scale", [1e-17, 1e-12, 1e-6, 0.01])
def test_magnitudes_of_a_line_at_small_scales(scale: float) -> None:
    """Less 1, both are the sum of tanh(s gap / 2), which no rounding may swallow."""
    x = np.sort(cloud(30, 1)[:, 0])
    expected = 1.0 + np.tanh(scale * np.diff(x) / 2.0).sum()
    assert magnitude(x[:, None], scale) == pytest.approx(expected, rel=1e-12)
    assert positive_magnitude(x[:, None], scale) == pytest.approx(expected, rel=1e-7)


def test_a_descent_that_has_converged_is_no_large_set() -> None:
    """Its last points differ by rounding alone; their weights once summed to the points' number."""
    x, H, path = np.array([3.0, -2.0]), np.array([[1.0, 0.3], [0.3, 0.7]]), []
    for _ in range(140):
        path.append(x)
        x = x - 0.5 * H @ (x - [1.0, 1.0 / 3.0])
    for scale in (0.1, 1.0):
        whole, begin = (magnitude(points, scale) for points in (path, path[:40]))
        assert whole == pytest.approx(begin, rel=1e-3)
        assert positive_magnitude(path, scale) == pytest.approx(whole, rel=1e-5)


def test_a_negative_weight_makes_the_positive_magnitude_larger() -> None:
    """Points within a ring of others: at a small scale their weight is below 0."""
    ring = [(math.cos(t), math.sin(t)) for t in np.linspace(0.0, 2.0 * math.pi, 12, False)]
    x = np.array([(0.0, 0.0), (0.9, 0.0), *ring])
    assert positive_magnitude(x, 0.5) > magnitude(x, 0.5) + 0.01
    assert positive_magnitude(x, 200.0) == pytest.approx(len(x), rel=1e-3)
    assert magnitude(x, 1e-4) == pytest.approx(1.0, abs=1e-3)


def test_points_that_coincide_count_once() -> None:
    x = cloud(10, 3)
    twice = np.concatenate([x, x[:4]])
    for f in (lifetime_sum, magnitude, positive_magnitude):
        assert f(twice, 1.0) == pytest.approx(f(x, 1.0), rel=1e-12)
        assert f(cdist(twice, twice), 1.0, metric="precomputed") == pytest.approx(f(x, 1.0))
    assert topological_bound(twice, 50, **RULES) == topological_bound(x, 50, **RULES)


def test_distances_of_near_points_far_out_are_right() -> None:
    x = np.array([[1e6, 1e6], [1e6 + 1e-4, 1e6], [1e6, 1e6 + 3.0]])
    assert lifetime_sum(x) == pytest.approx(3.0 + 1e-4, rel=1e-6)


def packing(rho: np.ndarray, radius: float) -> int:
    """Return how many points a greedy, hence maximal, packing has."""
    kept: list[int] = []
    for i in range(len(rho)):
        if all(rho[i, j] > radius for j in kept):
            kept.append(i)
    return len(kept)


@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_the_packing_step_of_the_proof(alpha: float) -> None:
    """A packing has at most 2 E_alpha / eps^alpha points; without the 2 a line has more."""
    for seed in range(20):
        x = cloud(60, 2, seed)
        for radius in (0.02, 0.2, 1.0, 2.0):
            count = packing(cdist(x, x), radius)
            assert count == 1 or count < 2.0 * lifetime_sum(x, alpha) / radius**alpha
    line = np.arange(5.0)[:, None]
    assert packing(cdist(line, line), 0.999) > lifetime_sum(line, alpha) / 0.999**alpha


def test_the_magnitude_step_of_the_proof() -> None:
    """The largest of any s-Lipschitz f: exp(max f) <= sum of b_j^+ exp(f_j), so <= PMag exp max."""
    x, s = cloud(30, 3), 1.7
    rho = cdist(x, x)
    b = np.maximum(np.linalg.solve(np.exp(-s * rho), np.ones(30)), 0.0)
    rng = np.random.default_rng(3)
    for _ in range(50):
        f = (rng.normal(size=30) - s * rho).max(axis=1)  # a maximum of cones of slope s
        assert math.exp(f.max()) <= (b * np.exp(f)).sum() * (1.0 + 1e-12)


def test_a_short_path_of_many_points_is_a_few_points() -> None:
    found = topological_bound(cloud(300, 1) * 1e-4, 1000, **RULES)
    one = topological_bound(np.zeros((1, 1)), 1000, **RULES)
    assert one.number == one.lifetime - 2.0 * 2.0**-8 / math.sqrt(2000.0)  # the smallest eps
    assert one.magnitude == pytest.approx(one.number, rel=1e-12)
    assert found.magnitude < 1.05 * one.number < found.number
    assert found.lifetime < 0.95 * found.number
    assert found.value == min(found.number, found.lifetime, found.magnitude)


def toy(n: int, pull: float) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """Coin flips, loss |w - z|, two trajectories, and the chance of each given the number of ones.

    The learner draws one of two paths, the more often the first the more ones it has seen.
    """
    paths = [np.linspace(0.5, end, 8)[:, None] for end in (0.95, 0.05)]
    ones = np.arange(n + 1) / n
    first = 0.5 + pull * (ones - 0.5)
    return binom.pmf(np.arange(n + 1), n, 0.5), paths, np.stack([first, 1.0 - first], axis=1)


@pytest.mark.parametrize(("n", "pull"), [(5, 0.0), (5, 0.9), (40, 0.9)])
def test_the_bound_end_to_end_where_the_information_is_known(n: int, pull: float) -> None:
    """Every data set and path, weighted: the chance of a gap above each bound is at most delta."""
    law, paths, choice = toy(n, pull)
    I_inf = mutual_information(law[:, None] * choice, math.inf)
    assert (I_inf == 0.0) == (pull == 0.0)
    ones = np.arange(n + 1) / n
    for delta in (0.5, 0.2, 0.05):
        rules = RULES | {"mutual_information": I_inf, "delta": delta}
        for name in ("number", "lifetime", "magnitude"):
            fails = 0.0
            for k, path in enumerate(paths):
                # |w - z| is linear in z: the gap of w is |1 - 2w| |ones - 1/2|
                worst = np.abs(1.0 - 2.0 * path).max() * np.abs(ones - 0.5)
                limit = getattr(topological_bound(path, n, **rules), name)
                fails += float((law * choice[:, k])[worst > limit].sum())
            assert fails <= delta
            assert limit < 4.0 * 0.9 * 0.5  # not so large that it says nothing


def test_without_the_information_of_a_learner_that_remembers_the_bound_fails() -> None:
    """It learns by heart which of 40 values it saw: R is far from 0, on its data the loss is 0."""
    n, kinds = 12, 40
    rng = np.random.default_rng(4)
    gaps = [1.0 - len(set(rng.integers(kinds, size=n).tolist())) / kinds for _ in range(200)]
    wrong = topological_bound(np.zeros((1, 1)), n, **RULES).value
    assert np.mean(np.array(gaps) > wrong) == 1.0 > RULES["delta"]
    # A set of at most 12 of 40 values is a function of the data; the rarest has chance 40^-12.
    right = RULES | {"mutual_information": n * math.log(kinds)}
    assert topological_bound(np.zeros((1, 1)), n, **right).value > max(gaps)


@pytest.mark.parametrize("change", [{"n": 4000}, {"delta": 0.01}, {"mutual_information": 2.0}])
def test_how_the_bound_moves(change: dict[str, float]) -> None:
    x = cloud(50, 3)
    before = topological_bound(x, 1000, **RULES)
    after = topological_bound(x, **({"n": 1000} | RULES | change))
    for name in ("number", "lifetime", "magnitude"):
        more = getattr(after, name) > getattr(before, name)
        assert more == ("n" not in change)
    assert after.number == pytest.approx(before.number / 2.0) or "n" not in change


def test_all_of_it_scales_with_the_loss() -> None:
    x = cloud(20, 3)
    one = topological_bound(x, 100, **RULES)
    ten = topological_bound(x, 100, **(RULES | {"bound": 10.0, "lipschitz": 10.0}))
    for name, factor in product(("number", "lifetime", "magnitude"), (10.0,)):
        assert getattr(ten, name) == pytest.approx(factor * getattr(one, name), rel=1e-12)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: lifetime_sum([1.0, 2.0]), r"points must have shape \(point, coordinate\), got"),
        (lambda: lifetime_sum([[math.nan]]), "points must be finite, got nan"),
        (lambda: lifetime_sum([[1.0]], 0.0), r"alpha must lie in \(0, inf\), got 0.0"),
        (lambda: lifetime_sum([[1.0]], metric="city"), "metric must be one of 'euclidean'"),
        (lambda: magnitude([[1.0]], -1.0), r"scale must lie in \(0, inf\), got -1.0"),
        (lambda: magnitude([[0.0, 1.0]], 1.0, metric="precomputed"), r"got shape \(1, 2\)"),
        (lambda: magnitude([[1.0]], 1.0, metric="precomputed"), "and 1 on the diagonal"),
        (
            lambda: magnitude([[0.0, 1.0], [2.0, 0.0]], 1.0, metric="precomputed"),
            "symmetric distances, got a difference of 1",
        ),
        (
            lambda: magnitude(two_rows(), math.log(math.sqrt(2.0)), metric="precomputed"),
            "scale must be one where the weights are defined, got 0.346574",
        ),
        (lambda: topological_bound([[0.0]], 0, **RULES), "n must be an integer >= 1, got 0"),
        (
            lambda: topological_bound([[0.0]], 5, **(RULES | {"delta": 1.0})),
            r"delta must lie in \(0, 1\), got 1.0",
        ),
        (
            lambda: topological_bound([[0.0]], 5, **RULES, alpha=1.5),
            r"alpha must lie in \(0, 1\], got 1.5",
        ),
        (
            lambda: topological_bound([[0.0]], 5, **(RULES | {"lipschitz": 0.0})),
            r"lipschitz must lie in \(0, inf\), got 0.0",
        ),
    ],
)
def test_bad_arguments(call, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


def test_unknown_information_has_no_default() -> None:
    with pytest.raises(TypeError, match="mutual_information"):
        topological_bound([[0.0]], 5, bound=1.0, lipschitz=1.0, delta=0.1)


@pytest.mark.parametrize("size", [1e200, 1e-200, 1e-310, 1.0])
def test_distances_of_any_size(size: float) -> None:
    assert lifetime_sum([[0.0], [size], [3.0 * size]]) == pytest.approx(3.0 * size, rel=1e-9)


def test_points_far_from_zero_keep_their_small_distances() -> None:
    x = np.array([[1e6, -1e6], [1e6 + 2.0**-20, -1e6], [1e6, -1e6 + 2.0**-21]])
    assert lifetime_sum(x) == pytest.approx(2.0**-20 + 2.0**-21, rel=1e-12)
    with pytest.raises(ValueError, match="beyond the largest float"):
        lifetime_sum([[-1.7e308], [1.7e308]])


def test_a_tiny_bound_of_the_loss_gives_no_nan() -> None:
    given = {"lipschitz": 1.0, "mutual_information": 0.0, "delta": 0.05}
    found = topological_bound([[0.0], [1.0]], 100, bound=1e-310, **given)
    assert not np.isnan([found.number, found.lifetime, found.magnitude]).any()
