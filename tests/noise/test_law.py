"""The lengths of laminar phases: the inputs of a visit counted, and 10^8 visits.

Both are needed. Counting inputs sees every cell of a table but one visit only. Following orbits
sees what a word forgets between two visits, such as a code that means something else.
"""

from __future__ import annotations

from functools import lru_cache

import mpmath as mp
import numpy as np
import pytest
from benchmarks.visits import (
    BOUNDS,
    RIGHT,
    Counts,
    count,
    exact_tails,
    pair_errors,
    same_orbits,
    sign_errors,
    tail_errors,
)
from scipy.stats import norm, poisson

from mpgd.maps.tables import thaler_tables
from mpgd.noise.word import FRACTION, LONGEST
from tests.conftest import LEVEL
from tests.noise.exact_law import inputs_reaching, visit_law
from tests.noise.integer_reference import evaluate

GAMMAS = [0.52, 0.55, 0.6, 0.75, 0.9, 0.99]

# The longest phase: where the smallest input leads, or the longest that a word can hold.
LONGEST_PHASES = {0.52: 164_456_110, 0.55: 447_478_227}


def lengths(gamma: float) -> list[int]:
    """Return lengths from 1 to the longest, the ends of the words' two formats among them."""
    longest = LONGEST_PHASES.get(gamma, LONGEST)
    spread = np.unique(np.geomspace(1, longest, 25).astype(int)).tolist()
    return sorted({*spread, 4095, 4096, 4097})


@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_inputs_of_a_visit_give_the_law_of_lengths(gamma: float) -> None:
    """To 1e-5 relative where it is at least 2^-32, and within one input beyond."""
    rows, law = thaler_tables(gamma).returns, visit_law(gamma)
    one_input = law.counted(1)
    for n in lengths(gamma):
        counted, exact = law.counted(inputs_reaching(rows, n)), law.tail(n)
        if exact >= 2.0**-32:
            assert abs(counted / exact - 1) < 1e-5, n
        else:
            assert abs(counted - exact) < 1.00001 * one_input, n


def test_the_count_of_inputs_can_fail() -> None:
    rows, law = thaler_tables(0.6).returns, visit_law(0.601)
    assert abs(law.counted(inputs_reaching(rows, 100)) / law.tail(100) - 1) > 1e-3
    wrong = rows.copy()
    wrong[20 * 128 : 21 * 128, 0] += np.uint64(2) << np.uint64(32)  # one octave 2 steps too long
    right = visit_law(0.6)
    octave = right.tail(12_000), right.counted(inputs_reaching(wrong, 12_000))
    assert abs(octave[1] / octave[0] - 1) > 1e-5


@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_longest_phase(gamma: float) -> None:
    rows, longest = thaler_tables(gamma).returns, LONGEST_PHASES.get(gamma, LONGEST)
    smallest = int(evaluate(rows, 7, np.array([1], np.uint64))[0]) >> 32
    assert min(smallest, LONGEST) == longest
    assert inputs_reaching(rows, longest) >= 2  # two inputs that differ in the lowest bit
    if gamma in LONGEST_PHASES:
        assert inputs_reaching(rows, longest + 1) == 0


def test_counting_row_by_row_is_counting_one_by_one() -> None:
    rows = thaler_tables(0.6).returns
    U = np.arange(1, 2**21, 2, dtype=np.uint64)
    b = evaluate(rows, 7, U)
    for n in (3 * 10**7, 10**8, 10**9):
        assert inputs_reaching(rows, n) == 2 * np.count_nonzero(b >= np.uint64(n << 32))


@pytest.mark.parametrize("gamma", [0.6, 0.9])
def test_tails_in_float64_are_those_in_high_precision(gamma: float) -> None:
    exact = [float(visit_law(gamma).tail(int(n))) for n in BOUNDS]
    np.testing.assert_allclose(exact_tails(gamma), exact, rtol=1e-4)
    with mp.workdps(30):
        assert float(visit_law(gamma).tail(0)) == pytest.approx(1.0, abs=1e-20)


@lru_cache(maxsize=4)
def counts(mistake: tuple[int, int]) -> Counts:
    return count(0.6, 0.5, 100_000_000, mistake=mistake)


def tail_p(found: Counts, gamma: float) -> float:
    """Return the p-value of all tails together; rare ones are Poisson."""
    expected, seen = exact_tails(gamma) * found.visits, found.tails
    both = np.minimum(poisson.cdf(seen, expected), poisson.sf(seen - 1, expected))
    p = np.where(expected < 1e4, 2 * both, 2 * norm.sf(np.abs(tail_errors(found, gamma))))
    return float(min(1.0, p.min() * len(p)))


def worst_p(errors: np.ndarray) -> float:
    return float(min(1.0, 2 * norm.sf(np.abs(errors).max()) * errors.size))


def test_1e8_visits_follow_the_law_of_lengths() -> None:
    found = counts(RIGHT)
    assert found.visits == 100_000_000
    assert tail_p(found, 0.6) > LEVEL
    assert np.abs(tail_errors(found, 0.6)).max() < 4
    assert tail_p(found, 0.601) < LEVEL  # the check can fail


def test_the_cell_of_long_phases_taken_for_unknown_shows() -> None:
    """One cell of 2^18 that is drawn anew: one-step tests do not see it, 10^8 visits do."""
    found = counts((FRACTION, 0))
    assert tail_p(found, 0.6) < LEVEL
    assert tail_errors(found, 0.6)[list(BOUNDS).index(4096)] < -10


def test_unknown_taken_for_a_value_shows() -> None:
    """After a long phase orbits would sit next to the fixed point y = 1 for some visits."""
    right, wrong = (count(0.9, 0.5, 20_000_000, mistake=m) for m in (RIGHT, (0, 1)))
    assert tail_p(right, 0.9) > LEVEL
    assert tail_p(wrong, 0.9) < LEVEL


def test_successive_lengths_and_signs_of_1e8_visits() -> None:
    """Lengths depend on each other as the map's own do, and signs on nothing."""
    found = counts(RIGHT)
    assert worst_p(pair_errors(found, 0.6)) > LEVEL
    assert worst_p(sign_errors(found, 0.5)) > LEVEL
    assert worst_p(pair_errors(found, 0.605)) < LEVEL
    assert worst_p(sign_errors(found, 0.501)) < LEVEL


def test_going_from_visit_to_visit_is_going_step_by_step() -> None:
    assert same_orbits(0.6)
