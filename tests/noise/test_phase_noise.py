"""Telegraph and phase noise: their laws, their words on every engine, and wrong arguments.

Lengths are counted over 10^8 visits in `benchmarks.phases`; here over fewer.
"""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from mpgd import ChaoticNoise, FastSlow, TelegraphNoise
from mpgd.maps.blocks import block_rows
from mpgd.maps.rows import read
from mpgd.noise import PhaseNoise
from mpgd.noise.engines import cpu
from mpgd.noise.phased import PhasedNoise
from mpgd.noise.word import steps_to_go
from tests.noise.integer_reference import TableReference


def heavy(n: Any) -> Any:
    """Return P(N >= n) of index 3/2."""
    return n**-1.5


NOISES: list[PhasedNoise] = [
    TelegraphNoise(20),
    TelegraphNoise(1),
    TelegraphNoise(3.5, longest=4),
    TelegraphNoise(1e5),
    PhaseNoise([1.0, 0.9, 0.5, 0.5, 0.5, 0.1]),
    PhaseNoise([1.0] * 5000),
    PhaseNoise(heavy),
]


def lengths(noise: PhasedNoise, orbits: int, visits: int) -> np.ndarray:
    """Return the lengths of phases that start with a visit, (visit, orbit)."""
    state = noise.init(orbits, seed=5)
    word, step = state.word, steps_to_go(state.word).to(torch.int64)
    word &= 2**18 - 1
    found = []
    for _ in range(visits):
        cpu.visit(noise.driver, word, step, int(state.key))
        n = steps_to_go(word).to(torch.int64)
        step += 1 + n
        found.append(n.numpy() + 1)
        word &= torch.where(n < 4096, 2**18 - 1, 0).to(torch.int32)
    return np.array(found)


def deviations(noise: Any, law: Any, orbits: int, visits: int) -> np.ndarray:
    """Return how far counts of N > n are from ``law``, in standard errors."""
    found, n = lengths(noise, orbits, visits), np.unique(np.geomspace(1, 10**6, 60).astype(int))
    p, total = law.tail(n), orbits * visits
    seen = np.array([(found > k).sum() for k in n])
    kept = (p * total > 20) & (p < 1)
    return np.asarray((seen - p * total)[kept] / np.sqrt(total * p * (1 - p))[kept])


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_lengths_have_the_law(noise: Any) -> None:
    """About 40 correlated counts each: 4.5 standard errors are beyond LEVEL for all of them."""
    assert np.abs(deviations(noise, noise.law, 4000, 250)).max(initial=0.0) < 4.5


def test_a_law_that_is_a_percent_off_shows() -> None:
    assert np.abs(deviations(TelegraphNoise(20), TelegraphNoise(20.2).law, 4000, 250)).max() > 4.5


def test_a_length_does_not_depend_on_the_one_before() -> None:
    for noise in (TelegraphNoise(5), PhaseNoise([1.0, 0.9, 0.5, 0.5, 0.5, 0.1]), PhaseNoise(heavy)):
        n = np.log(lengths(noise, 4000, 100))
        r = np.corrcoef(n[:-1].reshape(-1), n[1:].reshape(-1))[0, 1]
        assert abs(r) * math.sqrt(n[1:].size) < 4.5


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_words_and_values_are_those_of_the_numpy_reference(noise: Any) -> None:
    reference = TableReference(noise.driver)
    state, torch_noise = noise.init(700, seed=2), replace(noise, engine="torch")
    words, twin = reference.first(700, int(state.key)), state
    for k in range(60):
        assert np.array_equal(state.word.numpy().view(np.uint32), words)
        v, state = noise.step(state)
        w, twin = torch_noise.step(twin)
        units, words = reference.next(words, int(state.key), k)
        assert torch.equal(v, w)
        assert torch.equal(state.word, twin.word)
        assert np.array_equal(v.numpy(), np.sign(units))


@pytest.mark.parametrize(
    "noise", [*NOISES[:3], NOISES[4], ChaoticNoise(0.6, burst=False), ChaoticNoise(0.6)], ids=repr
)
def test_autocovariance_and_displacement_are_those_of_paths(noise: Any) -> None:
    """Means over 20,000 independent paths, within 4.5 of their standard errors."""
    v = noise.path(40, (20_000,), seed=7)
    lags = [0, 1, 2, 5, 10, 30]
    for n, R in zip(lags, noise.autocovariance(lags).tolist(), strict=True):
        product = v[0] * v[n]
        assert abs(float(product.mean()) - R) <= 4.5 * float(product.std()) / 20_000**0.5 + 1e-12
    square = v.sum(0) ** 2
    error = 4.5 * float(square.std()) / 20_000**0.5
    assert abs(float(square.mean()) - noise.displacement(40) ** 2) < error
    assert abs(float(square.mean()) - 1.1 * noise.displacement(40) ** 2) > error / 2


def test_telegraph_has_closed_forms() -> None:
    noise, law = TelegraphNoise(20), TelegraphNoise(20).law
    n = np.arange(3000)
    assert noise.autocovariance(n).numpy() == pytest.approx(law.residual_survival(n), abs=1e-13)
    assert law.mean == pytest.approx(20, rel=1e-12)
    assert law.mean_square / law.mean == pytest.approx(39, rel=1e-12)
    assert noise.limit_law.scale == pytest.approx(math.sqrt(39 / 2), rel=1e-12)
    assert noise.displacement(10**5) / 10**2.5 == pytest.approx(math.sqrt(39), rel=1e-3)
    assert noise.variance == noise.laminar_value == noise.burst_value == 1.0


def test_heavy_phases_tend_to_the_stable_law() -> None:
    """3,000 sums of 20,000 steps; a scale 15 % off is refused, the one of the limit is not."""
    noise = PhaseNoise(heavy)
    sums, law = noise.birkhoff(20_000, 3000, seed=1).numpy(), noise.limit_law
    assert kstest(sums, law.cdf).statistic < 0.03
    assert kstest(sums / 0.85, law.cdf).statistic > 0.03


def test_deterministic_phases_end_on_time() -> None:
    v = PhaseNoise([1.0] * 7).path(70, (500,), seed=1)
    changes = [set((torch.nonzero(x[1:] != x[:-1]) % 7).flatten().tolist()) for x in v.T]
    assert all(len(places) <= 1 for places in changes)
    assert {place for places in changes for place in places} == set(range(7))


def test_the_words_of_chaotic_noise_do_not_depend_on_bursts() -> None:
    one, other = ChaoticNoise(0.6), ChaoticNoise(0.6, burst=False)
    assert torch.equal(one.init(100, 3).word, other.init(100, 3).word)
    assert one.driver.fingerprint == other.driver.fingerprint
    assert other.burst_value == other.laminar_value == one.laminar_value
    assert set(other.path(50, (50,)).abs().unique().tolist()) == {one.laminar_value}


def test_a_noise_can_be_copied_and_compared() -> None:
    noise = PhaseNoise(heavy)
    again = pickle.loads(pickle.dumps(noise))
    assert again == noise
    assert hash(again) == hash(noise)
    assert repr(again) == repr(noise)
    assert torch.equal(again.path(9, (4,)), noise.path(9, (4,)))
    assert PhaseNoise(lambda n: n**-1.6) != noise


def test_a_fast_slow_system_takes_them() -> None:
    system = FastSlow(lambda x: -x, [(0.5, TelegraphNoise(5))])
    limit = system.limit()
    assert limit.couplings[0][1].alpha == 2.0


def test_rows_hold_any_law_of_few_lengths() -> None:
    """100 lengths with random gaps: counted over a grid that has whole rows of 15 octaves."""
    rng = np.random.default_rng(0)
    p = rng.random(200) * (rng.random(200) < 0.5)
    p /= p.sum()
    rows = block_rows(np.arange(201), p)
    n = read(rows, 7, (np.arange(2**22) + 0.5) / 2**22).astype(int)
    assert np.bincount(n, minlength=200) / 2**22 == pytest.approx(p, abs=2e-6)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: TelegraphNoise(0.5), ValueError, r"dwell must lie in \[1, 1e\+06\], got 0.5"),
        (lambda: TelegraphNoise(float("nan")), ValueError, "dwell must lie in"),
        (lambda: TelegraphNoise("20"), TypeError, "dwell must be a number"),
        (lambda: TelegraphNoise(20, longest=0), ValueError, "longest must be an integer in"),
        (lambda: PhaseNoise([1.0, 0.5, 0.6]), ValueError, "must not rise, got 0.6 after 0.5"),
        (lambda: PhaseNoise(lambda n: n / n[-1]), ValueError, "must start at 1"),
        (lambda: PhaseNoise([0.9, 0.5]), ValueError, r"must start at 1.*, got P\(N >= 1\) = 0.9"),
        (lambda: PhaseNoise([1.0, -0.5]), ValueError, "must be at least 0, got -0.5"),
        (lambda: PhaseNoise([1.0, float("nan")]), ValueError, "must be finite, got nan"),
        (lambda: PhaseNoise([]), ValueError, r"must be a list of P\(N >= n\)"),
        (lambda: PhaseNoise(lambda n: n**-0.9), ValueError, "finite mean, .* n.-0.9; set longest"),
        (
            lambda: PhaseNoise(np.append(np.arange(3000, 0, -7).repeat(7), 0) / 3000),
            ValueError,
            "a table cannot hold this law",
        ),
        (lambda: ChaoticNoise(0.6, 0.5, burst=False), ValueError, "burst=False needs beta = 0"),
        (lambda: ChaoticNoise(0.6, burst=0), TypeError, "burst must be True or False"),
        (lambda: TelegraphNoise().displacement(-1), ValueError, "steps must be an integer >= 0"),
        (lambda: TelegraphNoise().autocovariance(0.5), TypeError, "lags must be integers"),
    ],
)
def test_a_wrong_argument_is_named(make: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        make()
