"""Information terms against integrals, and Theorem 4.2's bound where everything in it is known."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import integrate

from mpgd.theory import (
    gaussian_information,
    generalization_bound,
    information_from_samples,
    mutual_information,
    renyi_divergence,
)


def random_law(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    p = rng.exponential(size=shape)
    return np.asarray(p / p.sum())


@pytest.mark.parametrize("t", [-1e-9, -4e-16, 4e-16, 1e-14, 1e-9])
def test_near_order_one_no_digits_are_lost(t: float) -> None:
    p, q = [0.5, 0.5], [0.9, 0.1]
    assert renyi_divergence(p, q, 1.0 + t) == pytest.approx(renyi_divergence(p, q), rel=1e-8)
    assert gaussian_information(0.6, 1.0 + t) == pytest.approx(gaussian_information(0.6), rel=1e-8)


def test_marginals_whose_product_no_float_holds() -> None:
    """Y copies X, which is 1 with probability e: I_1 = -e log e - (1-e) log(1-e), I_oo = -log e."""
    e = 1e-170
    joint = [[1.0, 0.0], [0.0, e]]
    assert mutual_information(joint) == pytest.approx(e - e * math.log(e), rel=0.01)
    assert mutual_information(joint, math.inf) == pytest.approx(-math.log(e), rel=1e-12)
    assert mutual_information(joint, 2.0) == pytest.approx(math.log(2.0), rel=1e-12)


@pytest.mark.parametrize("rho", [0.3, 0.9, 1.1, 2.0, 7.0])
def test_the_divergence_by_its_definition(rho: float) -> None:
    rng = np.random.default_rng(0)
    p, q = random_law(rng, (6,)), random_law(rng, (6,))
    by_hand = math.log((p**rho * q ** (1.0 - rho)).sum()) / (rho - 1.0)
    assert renyi_divergence(p, q, rho) == pytest.approx(by_hand, rel=1e-12)
    assert renyi_divergence(p, p, rho) == pytest.approx(0.0, abs=1e-12)


def test_orders_join_up_and_grow() -> None:
    rng = np.random.default_rng(1)
    p, q = random_law(rng, (3, 4)), random_law(rng, (3, 4))
    orders = [0.2, 0.5, 1.0 - 1e-7, 1.0, 1.0 + 1e-7, 2.0, 50.0, math.inf]
    values = [renyi_divergence(p, q, rho) for rho in orders]
    assert (np.diff(values) > -1e-9).all()
    assert values[2] == pytest.approx(values[3], rel=1e-6) == pytest.approx(values[4], rel=1e-6)
    assert renyi_divergence(p, q, 1e4) == pytest.approx(values[-1], rel=1e-3)


def test_mass_that_the_other_law_lacks() -> None:
    assert renyi_divergence([0.5, 0.5], [1.0, 0.0]) == math.inf
    assert renyi_divergence([0.5, 0.5], [1.0, 0.0], rho=math.inf) == math.inf
    assert renyi_divergence([0.5, 0.5], [1.0, 0.0], rho=0.5) == pytest.approx(math.log(2.0))
    assert renyi_divergence([1.0, 0.0], [0.0, 1.0], rho=0.5) == math.inf


@pytest.mark.parametrize(("r", "rho"), [(0.6, 1.0), (0.6, 2.0), (-0.8, 0.5), (0.3, 3.0)])
def test_two_normal_variables_by_quadrature(r: float, rho: float) -> None:
    det = 1.0 - r**2

    def joint(y: float, x: float) -> float:
        form = (x * x - 2.0 * r * x * y + y * y) / det
        return math.exp(-0.5 * form) / (2.0 * math.pi * math.sqrt(det))

    def single(y: float, x: float) -> float:
        return math.exp(-0.5 * (x * x + y * y)) / (2.0 * math.pi)

    def integrand(y: float, x: float) -> float:
        p, q = joint(y, x), single(y, x)
        return p * math.log(p / q) if rho == 1.0 else p**rho * q ** (1.0 - rho)

    value, _ = integrate.dblquad(integrand, -9.0, 9.0, -9.0, 9.0, epsabs=1e-9, epsrel=1e-9)
    expected = value if rho == 1.0 else math.log(value) / (rho - 1.0)
    assert gaussian_information(r, rho) == pytest.approx(expected, rel=1e-6)


def test_two_normal_variables_at_the_ends() -> None:
    assert gaussian_information(0.5, 2.999) < math.inf
    assert gaussian_information(0.5, 3.0) == math.inf
    assert gaussian_information(0.5, math.inf) == math.inf
    assert gaussian_information(0.5, 1.0 + 1e-8) == pytest.approx(
        gaussian_information(0.5), rel=1e-5
    )


def test_the_estimator_is_near_the_truth_and_less_biased_with_its_correction() -> None:
    rng = np.random.default_rng(2)
    joint = random_law(rng, (3, 4))
    exact = mutual_information(joint)
    flat = joint.ravel()
    found, plain = [], []
    for _ in range(300):
        drawn = rng.choice(12, size=300, p=flat)
        found.append(information_from_samples(drawn // 4, drawn % 4))
        counts = np.bincount(drawn, minlength=12).reshape(3, 4) / 300
        plain.append(mutual_information(counts))
    assert np.mean(found) == pytest.approx(exact, abs=0.003)
    assert np.mean(plain) - exact > 0.007  # (k-1)(l-1)/(2n) = 0.01
    many = rng.choice(12, size=200_000, p=flat)
    for rho in (2.0, math.inf):
        near = information_from_samples(many // 4, many % 4, rho)
        assert near == pytest.approx(mutual_information(joint, rho), rel=0.05)


def toy(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coin flips z and three hypotheses x = P(1): data, empirical gaps, and the one that is chosen.

    The loss |x - z| is bounded by 1 and 1-Lipschitz in x. The learner takes the x with the least
    empirical risk, so the trajectory is one point, a function of the data.
    """
    p, x = 0.5, np.array([0.2, 0.5, 0.8])
    data = np.array(list(product([0, 1], repeat=n)))
    ones = data.mean(axis=1)
    empirical = ones[:, None] * (1.0 - x) + (1.0 - ones[:, None]) * x
    population = p * (1.0 - x) + (1.0 - p) * x
    return data, np.abs(empirical - population), empirical.argmin(axis=1)


@pytest.mark.parametrize("n", [4, 8, 12])
def test_the_bound_end_to_end_where_the_information_is_known(n: int) -> None:
    """All 2^n data sets: E of the worst gap, and its quantiles, against both forms with K = 1."""
    data, gaps, chosen = toy(n)
    joint = np.zeros((len(data), 3))
    joint[np.arange(len(data)), chosen] = 1.0 / len(data)
    I_1, I_inf = mutual_information(joint), mutual_information(joint, math.inf)
    shares = joint.sum(axis=0)
    entropy = -(shares[shares > 0] * np.log(shares[shares > 0])).sum()
    assert pytest.approx(entropy) == I_1  # a function of the data: I_1 is its entropy
    assert I_inf == pytest.approx(-math.log(shares[shares > 0].min()))
    worst = gaps[np.arange(len(data)), chosen]
    known = {"lipschitz": 1.0, "bound": 1.0, "constant": 1.0}
    mean = generalization_bound(1.0, n, mutual_information=I_1, **known)
    assert worst.mean() <= mean.value
    for delta in (0.5, 0.1, 0.01):
        high = generalization_bound(1.0, n, mutual_information=I_inf, delta=delta, **known)
        assert (worst > high.value).mean() <= delta
    assert worst.mean() > 0.02 * mean.value  # a fiftieth of the constant would be contradicted


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: renyi_divergence([0.5, 0.6], [0.5, 0.5]), r"p must be non-negative and sum to 1"),
        (lambda: renyi_divergence([1.0], [0.5, 0.5]), r"the same shape, got \(1,\) and \(2,\)"),
        (lambda: renyi_divergence([1.0], [1.0], 0.0), r"rho must lie in \(0, inf\], got 0.0"),
        (lambda: mutual_information([1.0]), r"joint must be \(values of X, values of Y\), got"),
        (lambda: gaussian_information(1.0), r"r must lie in \(-1, 1\), got 1.0"),
        (lambda: information_from_samples([1], [1, 2]), r"labels of equal number, got shapes"),
    ],
)
def test_bad_arguments(call, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()
