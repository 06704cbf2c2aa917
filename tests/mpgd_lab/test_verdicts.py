from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
from benchmarks.verdicts import LAWS, false_verdicts

from mpgd_lab.content.findings import finding
from mpgd_lab.schemes import Scheme, runs_of
from mpgd_lab.store import Record
from mpgd_lab.verdicts import (
    Difference,
    Direction,
    Verdict,
    holm,
    holm_corrected,
    interval,
    judge_claim,
    paired_difference,
)


def found(mean: float, rank: float, p_mean: float, p_rank: float, count: int = 9) -> Difference:
    return Difference(mean, mean - 1, mean + 1, 0.25, count, 0, mean, p_mean, p_rank, rank)


@pytest.mark.parametrize(
    ("difference", "direction", "word"),
    [
        (found(-1, -9, 0.01, 0.01), "lower", "supported"),
        (found(-1, -9, 0.01, 0.01), "higher", "contradicted"),
        (found(1, 9, 0.01, 0.01), "lower", "contradicted"),
        (found(1, 9, 0.01, 0.01), "higher", "supported"),
        (found(1, 9, 0.06, 0.01), "higher", "mixed"),
        (found(1, 9, 0.01, 0.06), "higher", "mixed"),
        (found(1, -9, 0.01, 0.01), "higher", "mixed"),
        (found(1, 9, 0.06, 0.06), "higher", "undecided"),
        (found(1, 9, 0.0, 0.0, count=4), "higher", "undecided"),
        (Difference(0.0, -inf, inf, inf, 1), "lower", "undecided"),
    ],
)
def test_the_rule(difference: Difference, direction: Direction, word: str) -> None:
    verdict = Verdict("A is not B", direction, difference)
    assert verdict.word == word
    assert verdict.text(2).startswith(f"A is not B: {word}, ")
    seen = word == "undecided" and difference.count > 4
    assert ("could have seen is 0.25" in verdict.text(2)) == seen


def test_a_page_shows_no_verdict_of_few_seeds() -> None:
    few = Verdict("", "lower", found(-1, -9, 0.01, 0.01, count=7))
    assert (few.word, few.label) == ("supported", "provisionally supported")
    assert finding("", few, "as the text says", 2).word == "provisionally supported"
    many = Verdict("", "lower", found(-1, -9, 0.01, 0.01, count=8))
    assert (many.label, finding("", many, "", 2).word) == ("supported", "supported")
    assert Verdict("", "lower", found(-1, -9, 0.1, 0.1, count=7)).label == "undecided"


def test_an_outlier_alone_does_not_decide() -> None:
    d = np.array([-0.1, 0.1, -0.2, 0.2, -0.1, 0.1, 0.3, -0.3, 90.0])
    assert Verdict("", "higher", interval(d)).word == "undecided"
    many_small_and_one_large = np.append(np.full(19, -0.1), 90.0)
    assert Verdict("", "lower", interval(many_small_and_one_large)).word == "mixed"


@pytest.mark.parametrize(("count", "said"), [(4, "too few"), (7, "provisional"), (8, "p ")])
def test_few_seeds_decide_nothing_and_below_eight_a_verdict_is_provisional(
    count: int, said: str
) -> None:
    d = 1.0 + 0.01 * np.arange(count)
    verdict = Verdict("", "higher", interval(d))
    assert said in verdict.text(2)
    assert verdict.is_provisional == (count < 8)
    assert (verdict.word == "undecided") == (count < 5)


def test_p_values_are_corrected_by_holm_for_each_test() -> None:
    assert holm([]) == []
    assert holm([0.04, 0.01, 0.02, 0.9]) == pytest.approx([0.08, 0.04, 0.06, 0.9])
    alone = Verdict("", "higher", found(1, 9, 0.02, 0.01))
    four = holm_corrected([alone] * 2 + [Verdict("", "higher", found(1, 9, 0.5, 0.5))] * 2)
    assert alone.word == "supported"
    assert [one.word for one in four] == ["mixed", "mixed", "undecided", "undecided"]
    assert four[0].p == pytest.approx((0.08, 0.04))
    assert "corrected for 4 claims" in four[0].text(1)


def test_one_seed_decides_nothing() -> None:
    verdict = Verdict("A is less than B", "lower", paired_difference({1: 0.0}, {1: 5.0}))
    assert verdict.word == "undecided"
    assert verdict.text(1).endswith("1 seed, too few for a verdict")


def test_a_claim_counts_a_diverged_run_as_the_worst() -> None:
    def records(scheme: Scheme, values: list[float]) -> list[Record]:
        runs = runs_of("test", "paper", [scheme], range(1, len(values) + 1), {})
        return [Record(r, {"e": x}, {}, 0.0, {}, None) for r, x in zip(runs, values, strict=True)]

    ours = [records(Scheme("chaotic", False, 0.6, 0.5), [1.0, nan, 2.0])]
    verdict = judge_claim("less", "lower", ours, [records(Scheme(), [1.0, 1.0, 5.0])], "e")
    assert (verdict.difference.count, verdict.difference.diverged) == (3, 1)
    assert verdict.difference.mean == pytest.approx((0.0 + 4.0 - 3.0) / 3)


@pytest.mark.parametrize("law", ["t, 3 degrees", "3 % diverged"])
def test_tables_without_an_effect_hardly_ever_have_a_verdict(law: str) -> None:
    """60 tables: with 5 % false ones, more than 12 have a chance below 1e-5."""
    assert false_verdicts(LAWS[law], seeds=20, tables=60)[0] <= 0.2
