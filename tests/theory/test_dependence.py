"""A tail index of rows with memory: the comparison with shuffled rows, and the remedy."""

import warnings

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.stats import t

from mpgd.theory import DependenceWarning, tail_index
from mpgd.theory.tails import dependence
from tests.theory.test_tails import METHODS, stable

N = 4000


def remembering(alpha: float, coefficient: float, n: int, seed: int) -> NDArray[np.float64]:
    """Return a stationary AR(1) sequence; its rows are stable as its innovations are."""
    e = stable(alpha, 0.0, (n + 200,), seed)
    return np.asarray(lfilter([1.0], [1.0, -coefficient], e))[200:]


def test_memory_reads_as_a_heavy_tail_and_is_warned_of() -> None:
    """The rows are Gaussian: their index is 2."""
    x = remembering(2.0, 0.5, N, seed=0)
    with pytest.warns(DependenceWarning, match=r"the tail index 1\.\d\d is 2\.00 when they are"):
        found = tail_index(x)
    assert found.high < 1.7
    assert found.shuffled == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("alpha", [1.3, 2.0])
def test_independent_rows_are_not_warned_of(alpha: float) -> None:
    """Warnings are errors here. Of 100 samples one is warned of with chance 0.01."""
    for x in stable(alpha, 0.0, (100, 500), seed=1):
        found = tail_index(x)
        assert abs(1 / found.shuffled - 1 / found.value) < 0.25


def test_false_warnings_are_as_rare_as_stated() -> None:
    """At a level of 5 % in place of 1e-4, the comparison is wrong in 5 % of samples."""
    level = t.ppf(0.975, dependence.SHUFFLES - 1) / dependence.SURPRISE
    wrong = 0
    for x in stable(1.5, 0.0, (400, 300, 1), seed=2):
        rng = np.random.default_rng(3)
        found = [dependence.growth(rng.permutation(x)).mean() for _ in range(dependence.SHUFFLES)]
        away = abs(dependence.growth(x).mean() - np.mean(found))
        spread = np.std(found, ddof=1) * np.sqrt(1 + 1 / dependence.SHUFFLES)
        wrong += away > level * dependence.SURPRISE * spread
    assert 4 < wrong < 45  # 20 expected, 4.4 their deviation
    assert pytest.approx(t.ppf(1 - 0.5e-4, dependence.SHUFFLES - 1), abs=0.01) == 4.97


@pytest.mark.parametrize("method", ["log_moments", "mcculloch"])
@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_blocks_cover_what_order_alone_does_not(method: str, alpha: float) -> None:
    """Nominal 95 % of 100 samples; 84 or fewer has chance 4e-5 at 95 %."""
    samples = [remembering(alpha, 0.5, N, seed) for seed in range(100)]
    found = [tail_index(x, method, dependence="blocks") for x in samples]
    assert sum(e.low <= alpha <= e.high for e in found) > 84
    if method == "log_moments":  # the check can fail
        naive = [tail_index(x, method, dependence="ignore") for x in samples]
        assert sum(e.low <= alpha <= e.high for e in naive) < 20


@pytest.mark.parametrize("method", METHODS)
def test_blocks_of_independent_rows_find_the_index(method: str) -> None:
    x = stable(1.5, 0.0, (N, 2), seed=5)
    found = tail_index(x, method, dependence="blocks")
    assert found.low <= 1.5 <= found.high
    assert np.isnan(found.shuffled)


@pytest.mark.parametrize("method", METHODS[1:])
def test_methods_without_order_keep_their_value_and_widen(method: str) -> None:
    x = remembering(1.5, 0.9, N, seed=6)
    plain, blocks = (tail_index(x, method, dependence=d) for d in ("warn", "blocks"))
    assert plain.value == plain.shuffled == blocks.value
    assert blocks.low <= plain.low < plain.high <= blocks.high
    assert blocks.high - blocks.low > plain.high - plain.low


def test_ignoring_it_says_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(tail_index(remembering(2.0, 0.5, N, 0), dependence="ignore").shuffled)


def test_strided_blocks_are_far_apart() -> None:
    """Of 112 rows m is 6: a block has rows 18 apart."""
    x = np.random.default_rng(0).normal(size=(112, 1))
    rows = x[7 : 6 * 18 : 18]
    expected = (np.log(abs(rows.sum())) - np.log(abs(rows)).mean()) / np.log(6)
    assert dependence.growth(x, strided=True)[7] == pytest.approx(expected)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.9999])
def test_students_quantile_is_scipys(level: float) -> None:
    assert dependence._student(level) == pytest.approx(t.ppf((1 + level) / 2, 7), rel=1e-9)


def test_a_bad_choice() -> None:
    with pytest.raises(ValueError, match=r"dependence must be one of 'warn', .*, got 'shuffle'"):
        tail_index(np.random.default_rng(0).normal(size=200), dependence="shuffle")
