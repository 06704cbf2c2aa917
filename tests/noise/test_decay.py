"""Correlations of the driver decay like k^(1 - alpha), the rate the paper calls sharp."""

import numpy as np
import pytest

from mpgd import ChaoticNoise


@pytest.mark.parametrize("gamma", [0.55, 0.6, 0.7, 0.8])
def test_correlations_decay_with_the_power_alpha_minus_one(gamma: float) -> None:
    lags = np.array([10**7, 10**8])
    R = ChaoticNoise(gamma).autocovariance(lags).numpy()
    exponent = -np.log(R[1] / R[0]) / np.log(10.0)
    assert exponent == pytest.approx(1.0 / gamma - 1.0, abs=1e-4)
    assert abs(exponent - (1.0 / gamma - 0.9)) > 0.05  # the check can fail


def test_correlations_are_not_summable_above_one_half() -> None:
    """The sums of R up to n keep growing like n^(2 - alpha)."""
    lags = np.arange(1, 2**17)
    R = np.cumsum(ChaoticNoise(0.7).autocovariance(lags).numpy())
    growth = np.log(R[2**17 - 2] / R[2**14 - 2]) / np.log(8.0)
    assert growth == pytest.approx(2.0 - 1.0 / 0.7, abs=0.02)


def test_the_unsigned_map_has_the_same_power() -> None:
    """At beta = 1 no sign changes; lags up to 4,000 come from the renewal equation."""
    R = ChaoticNoise(0.7, beta=1.0).autocovariance(np.array([500, 2000])).numpy()
    assert -np.log(R[1] / R[0]) / np.log(4.0) == pytest.approx(1.0 / 0.7 - 1.0, abs=0.03)
