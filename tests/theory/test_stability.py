"""The multiplicative term at a minimum: three statements, each against brute force."""

from __future__ import annotations

from itertools import product
from math import log

import numpy as np
import pytest

from mpgd import ChaoticNoise
from mpgd.theory import decay_of, growth_exponent, levels
from mpgd.theory.phases import stability

GIVEN = {"lr": 0.05, "gamma": 0.6}


def random_hessian(seed: int) -> np.ndarray:
    a = np.random.default_rng(seed).normal(size=(4, 4))
    return a @ a.T + 0.05 * np.eye(4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("decay", [0.01, 0.2, 5.0])
def test_the_extreme_signs_are_all_alike(seed: int, decay: float) -> None:
    hessian = random_hessian(seed)
    mu = levels(decay=decay, **GIVEN).mu
    found = stability(hessian, mu=mu, **GIVEN)
    every = [
        np.linalg.eigvalsh(hessian + decay * np.diag(chi)) for chi in product((1.0, -1.0), repeat=4)
    ]
    assert found.softest == pytest.approx(min(e[0] for e in every))
    assert found.hardest == pytest.approx(0.05 * max(e[-1] for e in every))
    assert found.grows_in_a_phase == (min(e[0] for e in every) < 0)
    assert found.decay == pytest.approx(decay)


def test_descent_in_a_phase_does_what_the_statements_say() -> None:
    """One direction, chi' = -1 and +1, walked."""
    for h, mu, grows in ((0.1, 0.02, False), (0.1, 0.2, True)):
        M = decay_of(mu=mu, **GIVEN)
        x = (1.0 - 0.05 * (h - M)) ** 1000
        assert (x > 1.0) == grows == stability(h, mu=mu, **GIVEN).grows_in_a_phase
    for h, over in ((38.0, False), (39.99, True)):
        M = decay_of(mu=0.2, **GIVEN)
        assert (abs(1.0 - 0.05 * (h + M)) > 1.0) == over == stability(h, mu=0.2, **GIVEN).overshoots


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(("beta", "signs", "longest"), [(0.5, "fresh", None), (0.5, "product", 20)])
def test_the_exponent_is_the_mean_logarithm_of_the_factors(
    beta: float, signs: str, longest: int | None, symmetric: bool
) -> None:
    noise = ChaoticNoise(0.6, beta, signs=signs, longest=longest)
    v = noise.path(400, (4000, 2), seed=1).numpy()
    values = v[..., 0] - v[..., 1] if symmetric else v[..., 0]
    each = np.log(np.abs(1.0 - 0.05 * 2.0 - 0.8 * 0.05**0.6 * values)).mean(axis=0)
    given = {"signs": signs, "symmetric": symmetric, "longest": longest}
    found = growth_exponent(2.0, mu=0.8, beta=beta, **given, **GIVEN)
    error = each.std(ddof=1) / np.sqrt(len(each))
    assert abs(each.mean() - found) < 5 * error
    other = growth_exponent(2.0, mu=0.9, beta=beta, **given, **GIVEN)
    assert abs(each.mean() - other) > 5 * error  # the check can fail


def test_without_noise_the_exponent_is_that_of_descent() -> None:
    assert growth_exponent(3.0, mu=0.0, **GIVEN) == pytest.approx(log(1 - 0.15))
    assert growth_exponent(20.0, mu=0.0, **GIVEN) == -np.inf  # one step to the minimum
    assert stability(1.0, mu=0.0, **GIVEN).shrinks
    assert not stability(-1.0, mu=0.0, **GIVEN).shrinks


@pytest.mark.parametrize("bad", [[[1.0, 2.0], [0.0, 1.0]], [[1.0, 2.0]], [[np.nan]], [[[1.0]]]])
def test_a_hessian_is_symmetric(bad: object) -> None:
    with pytest.raises(ValueError, match="hessian must be a finite symmetric matrix, got shape"):
        stability(bad, mu=0.1, **GIVEN)  # type: ignore[arg-type]
