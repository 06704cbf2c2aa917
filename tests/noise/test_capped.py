"""Noise with a longest phase: the words of the reference, mean zero, a stationary start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, chisquare, norm

from mpgd import ChaoticNoise, ThalerMap
from mpgd.limits import limit_law
from mpgd.noise import NoiseState, position
from mpgd.noise.capped import capped_law
from mpgd.noise.counter_hash import make_key, step_key
from mpgd.noise.driver import magnitude
from mpgd.noise.engines import has_cpu
from mpgd.noise.word import FAR, FRACTION, LONG, LONGEST, MAGNITUDE, ONE
from mpgd.parameters import LONGEST_PHASE
from tests.conftest import LEVEL
from tests.noise.integer_reference import Reference

ENGINES = ["torch", "cpu"] if has_cpu() else ["torch"]
CAPS = [1, 3, 10, 100, FAR - 1, FAR, 5000, LONGEST]


def steps_to_go(state: NoiseState) -> np.ndarray:
    return position(state).floor().long().numpy()


def after(noise: ChaoticNoise, state: NoiseState, steps: int) -> NoiseState:
    for _ in range(steps):
        _, state = noise.step(state)
    return state


@pytest.mark.parametrize("longest", CAPS)
@pytest.mark.parametrize(("gamma", "signs"), [(0.6, "fresh"), (0.95, "product")])
def test_engines_give_the_words_of_the_reference(gamma: float, signs: str, longest: int) -> None:
    count, beta = 2000, 0.3
    ours = Reference(gamma, beta, signs, longest)
    noises = [
        ChaoticNoise(gamma, beta, signs=signs, engine=engine, longest=longest) for engine in ENGINES
    ]
    states = [noise.init(count, seed=7) for noise in noises]
    key, index = int(states[0].key), np.arange(count)
    start = words = ours.start(index, make_key(key, 0), make_key(key, 1))
    c = np.array([0, noises[0].laminar_value, noises[0].burst_value])
    assert all(np.array_equal(s.word.numpy().view(np.uint32), words) for s in states)
    for k in range(60):
        unit, words = ours.step(words, index, step_key(key, k))
        for n, noise in enumerate(noises):
            v, states[n] = noise.step(states[n])
            assert np.array_equal(states[n].word.numpy().view(np.uint32), words)
            assert np.array_equal(v.numpy(), c[np.abs(unit)] * np.sign(unit))
    free = Reference(gamma, beta, signs).start(index, make_key(key, 0), make_key(key, 1))
    assert longest >= FAR or not np.array_equal(free, start)  # the check can fail


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("longest", [1, 3, 100])
def test_no_phase_is_longer_and_a_cut_one_forgets_its_fraction(longest: int, engine: str) -> None:
    noise = ChaoticNoise(0.9, longest=longest, engine=engine)
    state = noise.init(5000, seed=1)
    cut = 0
    for _ in range(30):
        q = state.word & MAGNITUDE
        assert int(q.max()) == longest * ONE  # the largest word, and it does occur
        before, (_, state) = q, noise.step(state)
        fresh = (before < ONE) & (state.word & MAGNITUDE == longest * ONE)
        cut += int(fresh.sum())
    assert cut > 100


def test_the_largest_word_is_the_longest_phase_with_its_fraction_unknown() -> None:
    assert [magnitude(n) for n in (1, FAR - 1, FAR, LONGEST)] == [
        ONE,
        (FAR - 1) * ONE,
        LONG,
        MAGNITUDE,
    ]
    assert magnitude(None) == MAGNITUDE
    assert LONGEST == LONGEST_PHASE
    assert all(magnitude(n) & FRACTION == 0 for n in (1, 7, FAR - 1))


def test_without_a_longest_phase_nothing_changes() -> None:
    """Golden values of the noise are pinned in test_chaotic.py; this ties `None` to them."""
    plain, none = ChaoticNoise(0.6, 0.5), ChaoticNoise(0.6, 0.5, longest=None)
    assert plain == none
    assert plain.driver is none.driver
    assert plain.driver.law is None
    assert plain.driver.largest == MAGNITUDE


@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize("longest", [1, 3, 10, 100, 5000])
@pytest.mark.parametrize("gamma", [0.55, 0.6, 0.8])
def test_the_mean_is_zero(gamma: float, longest: int, beta: float) -> None:
    """Sums of 50 values from independent orbits; a c1 of the uncut map makes the mean negative."""
    count, steps = 40_000, 50
    noise = ChaoticNoise(gamma, beta, longest=longest)
    totals = noise.birkhoff(steps, count, seed=longest) * steps**gamma
    z = float(totals.mean() / totals.std()) * count**0.5
    assert 2 * norm.sf(abs(z)) > LEVEL
    if (longest, beta) in [(1, 1.0), (3, 1.0), (10, 1.0)]:
        p = capped_law(gamma, longest).burst_probability
        free = ChaoticNoise(gamma).burst_value
        wrong = totals - steps * p * (noise.burst_value - free)  # what c1 of the uncut map adds
        assert 2 * norm.sf(abs(float(wrong.mean() / wrong.std()) * count**0.5)) < LEVEL


def test_the_uncorrected_mean_is_as_large_as_derived() -> None:
    """Three tenths of c0 at gamma 0.6, N = 10; a twentieth at N = 100."""
    for longest, mean in ((10, -0.30), (100, -0.053)):
        p, free = capped_law(0.6, longest).burst_probability, ChaoticNoise(0.6)
        found = (1 - p) + p * free.burst_value / free.laminar_value
        assert found == pytest.approx(mean, abs=0.005)


@pytest.mark.parametrize("longest", [1, 3, 10, 100, 5000])
@pytest.mark.parametrize("gamma", [0.55, 0.8])
def test_the_start_is_stationary(gamma: float, longest: int) -> None:
    """The steps to go follow P(Z) S_n at steps 0, 1, 10 and 100, one point of each orbit."""
    count = 60_000
    noise = ChaoticNoise(gamma, longest=longest)
    law, T = capped_law(gamma, longest), ThalerMap(gamma)
    n = np.arange(min(longest, 12) + 2)
    tail = law.tail(n, T.cdf(T.abel_inverse(n + 0.0)))
    tail[-1] = 0.0 if longest <= 12 else tail[-1]
    expected = -np.diff(tail) * count
    if longest > 12:
        expected = np.append(expected, tail[-1] * count)

    def p_value(found: np.ndarray, law: np.ndarray) -> float:
        counts = np.bincount(np.minimum(found, len(law) - 1), minlength=len(law))
        return float(chisquare(counts, law * count / law.sum()).pvalue)

    state = noise.init(count, seed=3)
    p_values = []
    for steps in (0, 1, 9, 90):
        state = after(noise, state, steps)
        p_values.append(p_value(steps_to_go(state), expected))
    assert min(p_values) > LEVEL / 4
    if longest <= 12:
        free = ChaoticNoise(gamma).init(count, seed=3)
        clipped = np.minimum(steps_to_go(free), longest)  # the uncut start, cut
        assert p_value(clipped, expected) < LEVEL


@pytest.mark.parametrize("longest", [1, 3])
def test_the_start_has_the_joint_law_of_steps_and_fraction(longest: int) -> None:
    """The share in Z stays P(Z). With fractions drawn uniformly it would not."""
    count, noise = 400_000, ChaoticNoise(0.6, longest=longest)
    p = capped_law(0.6, longest).burst_probability
    start = noise.init(count, seed=11)
    uniform = replace(start, word=start.word & ~FRACTION)
    shares = []
    for state in (start, uniform):
        found = []
        for _ in range(longest + 2):
            state = after(noise, state, 1)
            visits = int((steps_to_go(state) == 0).sum())
            found.append(binomtest(visits, count, p).pvalue)
        shares.append(min(found))
    assert shares[0] > LEVEL / (longest + 2)
    assert shares[1] < LEVEL


@pytest.mark.parametrize("gamma", [0.55, 0.6, 0.8, 0.95])
def test_both_ways_to_the_law_meet(gamma: float) -> None:
    """Below 4,096 steps a chain is solved, above the map's own law is cut; they are neighbours."""
    below, above = capped_law(gamma, FAR - 1), capped_law(gamma, FAR)
    T = ThalerMap(gamma)
    cut = float(T.cdf(T.abel_inverse(np.array([FAR + 0.0])))[0])
    assert below.burst_probability == pytest.approx(T.burst_probability / (1 - cut), rel=2e-6)
    assert above.burst_probability < below.burst_probability
    assert above.cut == pytest.approx(
        float(T.cdf(T.abel_inverse(np.array([FAR + 1.0])))[0]), rel=1e-5
    )


@pytest.mark.parametrize(("gamma", "longest"), [(0.6, 3), (0.7, 40), (0.6, 5000)])
def test_variance_and_autocovariance_are_those_of_the_values(gamma: float, longest: int) -> None:
    count, lags = 150_000, [0, 1, 2, 3, 4, 10]
    noise = ChaoticNoise(gamma, longest=longest)
    path = noise.path(11, count, seed=2)
    R, free = noise.autocovariance(lags), ChaoticNoise(gamma).autocovariance(lags)
    assert float(R[0]) == pytest.approx(noise.variance, rel=1e-12)
    for k, lag in enumerate(lags):
        product = path[0] * path[lag]
        spread = max(float(product.std()), 1e-12) / count**0.5
        assert 2 * norm.sf(abs(float(product.mean() - R[k])) / spread) > LEVEL
    if longest < 5000:
        spread = float((path[0] ** 2).std()) / count**0.5
        assert abs(float((path[0] ** 2).mean() - free[0])) > 10 * spread  # the check can fail


def test_the_autocovariance_is_refused_where_it_is_not_known() -> None:
    noise = ChaoticNoise(0.6, 0.5, longest=10)
    with pytest.raises(ValueError, match=r"for beta = 0 only, got beta=0.5 and longest=10"):
        noise.autocovariance([0, 1])


def test_sums_are_normal_and_have_no_stable_limit() -> None:
    noise = ChaoticNoise(0.6, 0.5, longest=10)
    with pytest.raises(ValueError, match=r"grow like k\^\(1/2\).*got longest=10"):
        limit_law(noise)
    sums = noise.birkhoff(3000, 4000, seed=1)
    kurtosis = float(((sums - sums.mean()) / sums.std()).pow(4).mean())
    free = ChaoticNoise(0.6, 0.5).birkhoff(3000, 4000, seed=1)
    assert abs(kurtosis - 3.0) < 4.5 * (24 / 4000) ** 0.5
    assert float(((free - free.mean()) / free.std()).pow(4).mean()) > 10


def test_a_part_starts_as_the_whole_does() -> None:
    for longest in (3, 5000):
        noise = ChaoticNoise(0.6, longest=longest)
        whole, index = noise.init(100, seed=4), torch.arange(30, 60)
        assert torch.equal(noise.init(30, seed=4, index=index).word, whole.word[30:60])


def test_every_longest_has_a_fingerprint_of_its_own() -> None:
    drivers = [ChaoticNoise(0.6, longest=n).driver for n in (None, 1, 2, FAR - 1, FAR, LONGEST)]
    assert len({driver.fingerprint for driver in drivers}) == len(drivers)
    assert len({driver.laminar_value for driver in drivers}) == 1


@pytest.mark.parametrize("longest", [0, -1, LONGEST + 1])
def test_a_longest_out_of_range_is_an_error(longest: int) -> None:
    with pytest.raises(ValueError, match=rf"longest must be an integer in \[1, .*got {longest}"):
        ChaoticNoise(0.6, longest=longest)


@pytest.mark.parametrize("longest", [1.5, True, "10"])
def test_a_longest_that_is_no_integer_is_an_error(longest: object) -> None:
    with pytest.raises(TypeError, match=rf"longest must be an integer in \[1, .*got {longest!r}"):
        ChaoticNoise(0.6, longest=longest)  # type: ignore[arg-type]


def test_the_text_of_a_noise_names_its_longest_phase() -> None:
    assert "longest=10" in repr(ChaoticNoise(0.6, longest=10))
    assert ChaoticNoise(0.6, longest=10) != ChaoticNoise(0.6)
