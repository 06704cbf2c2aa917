from __future__ import annotations

from math import inf, isnan

import numpy as np
import pytest

from mpgd.experiments.content.tables import Setting, scheme_table, told
from mpgd.experiments.schemes import Scheme, runs_of
from mpgd.experiments.statistics import (
    Columns,
    Difference,
    Verdict,
    average,
    by_scheme,
    claim,
    interval,
    paired,
    summary,
)
from mpgd.experiments.store import Record


def records(scheme: Scheme, values: list[float]) -> list[Record]:
    runs = runs_of("test", "paper", [scheme], range(1, len(values) + 1), {})
    return [
        Record(run, {"error": x}, {}, 0.0, {}, None) for run, x in zip(runs, values, strict=True)
    ]


def test_std_is_that_of_a_sample() -> None:
    assert summary([1.0, 2.0, 3.0, 4.0]).std == pytest.approx(np.std([1, 2, 3, 4], ddof=1))
    assert summary([1.0, 2.0]).text(2) == "1.50 (0.71)"
    assert isnan(summary([1.0]).std)


def test_runs_that_diverged_are_counted_and_left_out() -> None:
    assert summary([1.0, float("nan"), 3.0]).text(1) == "2.0 (1.4), 1 diverged"
    d = paired({1: 1.0, 2: float("nan"), 3: 2.0}, {1: 0.0, 2: 0.0, 3: 0.0})
    assert (d.mean, d.count, d.diverged) == (1.5, 2, 1)
    said = Verdict("A is more than B", "higher", d).text(1)
    assert said.endswith(
        "over 2 seeds, without 1 in which a run diverged, too few for a "
        "verdict; the smallest difference they could have seen is 1.4"
    )
    assert paired({1: float("inf")}, {1: 0.0}).count == 0


def test_only_seeds_that_both_have_are_paired() -> None:
    d = paired({1: 1.0, 2: 5.0, 3: 9.0}, {2: 4.0, 3: 7.0, 4: 0.0})
    assert (d.mean, d.count) == (1.5, 2)
    with pytest.raises(ValueError, match=r"no seed is in both, got \[1\] and \[2\]"):
        paired({1: 0.0}, {2: 0.0})


def test_the_interval_is_seeded_and_has_the_width_of_the_normal_one() -> None:
    d = np.random.default_rng(1).normal(0.3, 2.0, size=400)
    found = interval(d)
    assert found == interval(d)
    half = 1.96 * d.std(ddof=1) / 20
    assert found.low == pytest.approx(d.mean() - half, abs=0.03)
    assert found.high == pytest.approx(d.mean() + half, abs=0.03)
    assert found.visible == pytest.approx(2.8 * d.std(ddof=1) / 20)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """400 samples of 40: the share that covers 0 has a standard error of 0.011."""
    rng = np.random.default_rng(0)
    found = [interval(rng.normal(size=40)) for _ in range(400)]
    share = np.mean([d.low <= 0.0 <= d.high for d in found])
    assert 0.90 < share < 0.98


@pytest.mark.parametrize(
    ("low", "high", "direction", "word"),
    [
        (-2.0, -1.0, "lower", "supported"),
        (-2.0, -1.0, "higher", "contradicted"),
        (1.0, 2.0, "lower", "contradicted"),
        (1.0, 2.0, "higher", "supported"),
        (-1.0, 2.0, "higher", "undecided"),
        (0.0, 0.0, "lower", "undecided"),
        (-inf, inf, "lower", "undecided"),
    ],
)
def test_a_verdict_is_the_sign_of_the_interval(
    low: float, high: float, direction: str, word: str
) -> None:
    difference = Difference((low + high) / 2 if low > -inf else 0.0, low, high, 0.25, 5)
    verdict = Verdict("A is less than B", direction, difference)  # type: ignore[arg-type]
    assert verdict.word == word
    assert verdict.text(2).startswith(f"A is less than B: {word}, ")
    assert ("could have seen is 0.25" in verdict.text(2)) == (word == "undecided")


def test_few_seeds_decide_nothing_and_the_median_stands_beside_the_mean() -> None:
    four = interval(np.array([1.0, 1.0, 1.0, 9.0]))
    assert (four.mean, four.median) == (3.0, 1.0)
    assert Verdict("A is more than B", "higher", four).word == "undecided"
    five = Verdict("A is more than B", "higher", interval(np.array([1.0, 1.0, 1.0, 9.0, 2.0])))
    assert five.word == "supported"
    assert ", median +1.00, over 5 seeds" in five.text(2)


def test_one_seed_decides_nothing() -> None:
    verdict = Verdict("A is less than B", "lower", paired({1: 0.0}, {1: 5.0}))
    assert verdict.word == "undecided"
    assert verdict.text(1).endswith(
        "over 1 seed, too few for a verdict; the smallest difference they could have seen is none"
    )


def test_a_row_shows_ours_beside_the_printed_number_and_two_differences() -> None:
    everything = [
        *records(Scheme(), [1.0, 2.0] * 3),
        *records(Scheme("matched", False, 0.6), [2.0, 3.0] * 3),
        *records(Scheme("chaotic", False, 0.6, 0.5), [0.5, 1.5] * 3),
    ]
    columns = Columns("error", "error", 1, lambda name: {"gd": "1.4 (0.7)"}.get(name, ""))
    table = scheme_table("errors", [Setting("here", everything, columns)], "lower")
    title, headings, (gd, gaussian, mpgd) = told(table)
    assert title == "errors"
    assert headings == ["scheme", "printed", "ours", "minus descent", "minus Gaussian"]
    assert gd == ["gd", "1.4 (0.7)", "1.5 (0.5)", "", ""]
    assert gaussian[3:] == ["+1.0 [+1.0, +1.0]", ""]
    assert mpgd[3:] == ["-0.5 [-0.5, -0.5]", "-1.5 [-1.5, -1.5]"]
    schemes = by_scheme(everything)
    ours = [schemes["mpgd plain 0.6 beta 0.5"]]
    assert claim("less", "lower", ours, [schemes["gd"]], "error").word == "supported"


def test_schemes_are_averaged_over_the_seeds_they_share() -> None:
    assert average([{1: 1.0, 2: 4.0}, {2: 6.0, 3: 0.0}]) == {2: 5.0}
