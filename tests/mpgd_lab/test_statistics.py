from __future__ import annotations

from math import inf, isnan, nan

import numpy as np
import pytest
from scipy.stats import rankdata, ttest_1samp, wilcoxon

from mpgd_lab.content.tables import Setting, scheme_table, terminal_table
from mpgd_lab.schemes import Scheme, runs_of
from mpgd_lab.store import Record
from mpgd_lab.verdicts import (
    Measure,
    Verdict,
    by_scheme,
    by_seed,
    interval,
    judge_claim,
    paired_difference,
    summary,
    worst_of,
)


def records(scheme: Scheme, values: list[float]) -> list[Record]:
    runs = runs_of("test", "paper", [scheme], range(1, len(values) + 1), {})
    return [
        Record(run, {"error": x}, {}, 0.0, {}, None) for run, x in zip(runs, values, strict=True)
    ]


def test_std_is_that_of_a_sample() -> None:
    assert summary([1.0, 2.0, 3.0, 4.0]).std == pytest.approx(np.std([1, 2, 3, 4], ddof=1))
    assert summary([1.0, 2.0]).text(2) == "1.50 (0.71)"
    assert isnan(summary([1.0]).std)


def test_where_all_runs_diverged_words_say_so() -> None:
    lost = {1: nan, 2: nan}
    assert summary(lost.values()).text(2) == "all 2 diverged"
    assert paired_difference(lost, {1: 1.0, 2: 2.0}).text(2) == "nothing to compare"
    assert paired_difference({1: 3.0}, {1: 1.0}).text(1) == "+2.0 [1 seed]"


def test_runs_that_diverged_are_counted_and_count_as_the_worst() -> None:
    assert summary([1.0, nan, 3.0]).text(1) == "2.0 (1.4), 1 diverged"
    mine, theirs = {1: 1.0, 2: nan, 3: 2.0}, {1: 0.0, 2: 0.0, 3: 0.0}
    assert worst_of([mine, theirs], "lower") == 2.0
    assert worst_of([mine, theirs], "higher") == 0.0
    d = paired_difference(mine, theirs, worst=2.0)
    assert (d.mean, d.count, d.diverged) == (pytest.approx(5 / 3), 3, 1)
    left_out = paired_difference(mine, theirs)
    assert (left_out.mean, left_out.count, left_out.diverged) == (1.5, 2, 1)
    assert paired_difference({1: inf}, {1: 0.0}).count == 0
    assert paired_difference({1: nan}, {1: nan}, worst=7.0).mean == 0.0


def test_only_seeds_that_both_have_are_paired() -> None:
    d = paired_difference({1: 1.0, 2: 5.0, 3: 9.0}, {2: 4.0, 3: 7.0, 4: 0.0})
    assert (d.mean, d.count) == (1.5, 2)
    with pytest.raises(ValueError, match=r"no seed is in both, got \[1\] and \[2\]"):
        paired_difference({1: 0.0}, {2: 0.0})


def test_the_interval_and_the_tests_are_students_and_wilcoxons() -> None:
    d = np.random.default_rng(1).normal(0.3, 2.0, size=12)
    found, test = interval(d), ttest_1samp(d, 0.0)
    ends = test.confidence_interval(0.95)
    assert (found.low, found.high) == (pytest.approx(ends.low), pytest.approx(ends.high))
    assert found.p_mean == pytest.approx(test.pvalue)
    assert found.p_rank == pytest.approx(wilcoxon(d).pvalue)
    assert found.rank == pytest.approx(np.sum(np.sign(d) * rankdata(np.abs(d))))
    assert found.detectable == pytest.approx(2.8 * d.std(ddof=1) / np.sqrt(12))


@pytest.mark.parametrize("n", [6, 8, 13, 14])
def test_ties_and_zeros_have_scipys_p(n: int) -> None:
    d = np.round(np.random.default_rng(n).normal(0.5, 1.0, size=n) * 2) / 2
    assert len(set(np.abs(d))) < n
    assert interval(d).p_rank == pytest.approx(wilcoxon(d, zero_method="pratt").pvalue)


def test_equal_differences_have_no_error() -> None:
    assert interval(np.ones(5)).p_mean == 0.0
    nothing = interval(np.zeros(5))
    assert (nothing.p_mean, nothing.p_rank, nothing.rank) == (1.0, 1.0, 0.0)


def test_a_row_shows_ours_beside_the_printed_number_and_two_differences() -> None:
    everything = [
        *records(Scheme(), [1.0, 2.0] * 3),
        *records(Scheme("matched", False, 0.6), [2.0, 3.0] * 3),
        *records(Scheme("chaotic", False, 0.6, 0.5), [0.5, 1.5] * 3),
    ]
    measure = Measure("error", "error", 1, lambda name: {"gd": "1.4 (0.7)"}.get(name, ""))
    table = scheme_table("errors", [Setting("here", everything, measure)], "lower")
    title, headings, (gd, gaussian, mpgd) = terminal_table(table)
    assert title == "errors"
    assert headings == ["scheme", "printed", "ours", "minus descent", "minus Gaussian"]
    assert gd == ["gd", "1.4 (0.7)", "1.5 (0.5)", "", ""]
    assert gaussian[3:] == ["+1.0 [+1.0, +1.0]", ""]
    assert mpgd[3:] == ["-0.5 [-0.5, -0.5]", "-1.5 [-1.5, -1.5]"]
    schemes = by_scheme(everything)
    ours = [schemes["mpgd plain 0.6 beta 0.5"]]
    assert judge_claim("less", "lower", ours, [schemes["gd"]], "error").word == "supported"


def test_a_run_that_ends_at_an_absurd_number_has_diverged() -> None:
    """One error of 1e30 would make every mean of its table, and the worst outcome of all."""
    found = by_seed(records(Scheme(), [0.4, 1e30, -2e3, 999.0, inf]), "error")
    assert [seed for seed, x in found.items() if not isnan(x)] == [1, 4]
    assert summary(found.values()).diverged == 3
    assert worst_of([found], "lower") == 999.0


@pytest.mark.parametrize("family", [1, 48])
def test_as_many_seeds_as_would_decide_give_the_power(family: int) -> None:
    d = np.random.default_rng(0).normal(0.1, 1.0, 20)
    verdict = Verdict("", "lower", interval(d), p=(1.0, 1.0), family_size=family)
    seeds = verdict.deciding_seeds

    def power(count: int) -> float:
        draws = np.random.default_rng(1).normal(d.mean(), d.std(ddof=1), (2000, count))
        return float(np.mean(ttest_1samp(draws, 0.0, axis=1).pvalue < 0.05 / family))

    assert power(round(seeds)) == pytest.approx(0.8, abs=0.03)
    assert power(round(seeds / 2)) < 0.6
    assert Verdict("", "lower", interval(d), p=(0.01, 0.01)).deciding_seeds == 0
