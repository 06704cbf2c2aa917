"""Figure 1 at small sizes: its numbers, its file, and that a second run reuses the first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mpgd import ChaoticNoise, StableLaw, ThalerMap
from mpgd_lab.catalogue import EXPERIMENTS, find, load
from mpgd_lab.runner import Context, reproduce
from mpgd_lab.studies.driver import EXPERIMENT
from mpgd_lab.studies.driver import training as noise
from mpgd_lab.studies.driver.runs import Sizes
from tests.mpgd_lab.recomputation import check_nothing_again

SMALL = Sizes(50, (100, 2000), count=4000, orbits=20_000, rounds=20, begun=4000, begun_steps=100)


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    context = Context(tmp_path_factory.mktemp("out"))
    reproduce(EXPERIMENT, context, SMALL)
    return context


def test_the_figure_is_a_png(context: Context) -> None:
    assert (context.out / "noise.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_every_run_is_in_the_store(context: Context) -> None:
    parts = [record.run.hyperparameters["part"] for record in context.store.records()]
    assert sorted(parts) == ["orbit"] * 2 + ["start"] * 2 + ["sums"] * 8 + ["tail"]
    assert not context.store.unreadable


def test_only_fresh_signs_keep_the_skewness(context: Context) -> None:
    """Twins: under each rule one of the two distances is small and the other is not."""
    nearer = {}
    for record in context.store.records():
        h, m = record.run.hyperparameters, record.metrics
        if h["part"] == "sums" and h["beta"] == 0.5 and h["steps"] == 2000:
            nearer[record.run.scheme] = m["ks_limit"] < m["ks_symmetric"]
            sampling = 2.2 / np.sqrt(h["count"])  # a perfect sample exceeds it with chance 1e-4
            assert 0 < min(m["ks_limit"], m["ks_symmetric"]) < 0.045 + sampling
    assert nearer == {"fresh": True, "product": False}


def test_the_invariant_start_is_nearer_than_the_uniform_one(context: Context) -> None:
    """The remark of Section 3; points from the invariant law follow it at every k."""
    begun = {
        record.run.hyperparameters["start"]: record
        for record in context.store.records()
        if record.run.hyperparameters["part"] == "start"
    }
    invariant, uniform = begun["invariant"].curves, begun["uniform"].curves
    assert invariant["k"] == [3, 10, 30, 100]
    assert max(invariant["points"]) < 2.2 / np.sqrt(4000) < min(uniform["points"])
    assert invariant["sums"][-1] < uniform["sums"][-1] - 0.01


def test_the_laminar_tail_is_the_exact_one(context: Context) -> None:
    (tail,) = [r for r in context.store.records() if r.run.hyperparameters["part"] == "tail"]
    seen = np.array(tail.curves["longer"])
    ratio = np.array(tail.curves["measured"]) / np.array(tail.curves["exact"])
    error = 1 / np.sqrt(np.maximum(seen, 1))
    assert np.all(np.abs(ratio - 1)[seen > 50] < 5 * error[seen > 50])
    assert tail.metrics["visits"] == pytest.approx(400_000 * 0.242, rel=0.01)


def test_a_second_run_computes_nothing(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    (context.out / "noise.png").unlink()
    check_nothing_again(
        monkeypatch,
        noise,
        "work",
        lambda: reproduce(EXPERIMENT, context, SMALL),
        lambda: reproduce(EXPERIMENT, context, replace(SMALL, count=9)),
    )
    assert (context.out / "noise.png").exists()


def test_the_orbit_is_one_of_the_map() -> None:
    y, v = noise.orbit(ChaoticNoise(0.6, 0.1), 200, seed=3)
    T = ThalerMap(0.6)
    np.testing.assert_allclose(T(y[:-1]), y[1:], rtol=1e-3)  # a word knows s to 2^-18
    np.testing.assert_array_equal(np.abs(v) > 1, y > T.y_star)


def test_the_exact_tail_sums_to_the_mean_length() -> None:
    """Kac: phases and visits alternate, so E(length + 1) P(Z) = 1."""
    head = noise.exact_tail(0.6, np.arange(5000)).sum()
    beyond = noise.exact_tail(0.6, np.array([5000]))[0] * 5000 * 0.6 / 0.4  # it falls like n^-alpha
    assert (1 + head + beyond) * ThalerMap(0.6).burst_probability == pytest.approx(1, rel=1e-3)
    assert abs((1 + head) * ThalerMap(0.6).burst_probability - 1) > 1e-3  # the check can fail


def test_ks_distance_is_scipys() -> None:
    from scipy.stats import kstest

    law = StableLaw(1.5, 0.5)
    x = np.sort(np.random.default_rng(0).normal(size=500))
    assert noise.ks_distance(x, law) == pytest.approx(kstest(x, law.cdf).statistic, abs=1e-14)


def test_a_noise_near_gamma_one_has_its_numbers_and_its_distance(tmp_path: Path) -> None:
    heavy = ChaoticNoise(0.99)
    assert 0.1 < noise.describe(heavy, 100, 50, seed=0)["ks_limit"] <= 1.0
    noise.plot(heavy, 100, 50, 0, tmp_path / "heavy.svg")


def test_the_registry() -> None:
    assert find(["noise"]) == ["noise"]
    assert find([]) == list(EXPERIMENTS)
    assert load("noise") is EXPERIMENT
    with pytest.raises(ValueError, match="'niose'; did you mean 'noise'"):
        find(["niose"])
    with pytest.raises(ValueError, match="'q'; there are: noise, "):
        find(["q"])
