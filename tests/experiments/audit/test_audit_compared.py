"""The audit's lines beside their base and their rivals, on made-up records with known effects."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from mpgd.experiments.audit.compared import BASE, DESCENT, GAUSSIAN, Compared, compared
from mpgd.experiments.audit.runs import tasks
from mpgd.experiments.audit.section import blocks
from mpgd.experiments.content.blocks import Text
from mpgd.experiments.schemes import Scheme
from mpgd.experiments.store import Record, Run

SEEDS = range(1, 21)
PLAIN = "mpgd plain 0.6 beta 0.5"


def error(run: Run, effects: Mapping[str, float]) -> float:
    """Return 0.4 and some noise, changed by the run's kind and its deviation."""
    rng = np.random.default_rng(int(run.key[:8], 16))
    h, kind = run.hyperparameters, Scheme.of(run).kind
    (deviation,) = h.get("deviations", [kind])
    return float(0.4 + 0.001 * rng.standard_normal() + effects.get(f"{kind} {deviation}", 0.0))


def made(effects: Mapping[str, float]) -> list[Record]:
    runs = {run.key: run for run in tasks("airfoil", SEEDS)}.values()
    return [
        Record(
            run,
            dict.fromkeys(("test_rmse", "gap", "released_gap"), error(run, effects)),
            {},
            1.0,
            {},
            None,
        )
        for run in runs
    ]


def case(records: list[Record], scheme: str = PLAIN) -> Compared:
    return next(one for one in compared(records) if str(one.case.scheme) == scheme)


@pytest.mark.parametrize(
    ("effects", "words", "gain"),
    [
        ({}, ("undecided",) * 3, False),
        ({"mpgd reshaped": -0.1}, ("supported",) * 3, True),
        # better than its base only: descent and the Gaussian are as good
        (
            {"mpgd reshaped": -0.1, "gd gd": -0.1, "gaussian gaussian": -0.1},
            ("supported", "undecided", "undecided"),
            False,
        ),
        # the same number, but its base is as good: not made by this deviation
        (
            {"mpgd reshaped": -0.1, "mpgd control": -0.1},
            ("undecided", "supported", "supported"),
            False,
        ),
        ({"mpgd reshaped": 0.1}, ("contradicted",) * 3, False),
    ],
)
def test_a_deviation_makes_a_gain_only_against_base_descent_and_gaussian(
    effects: dict[str, float], words: tuple[str, ...], gain: bool
) -> None:
    line = case(made(effects)).lines["reshaped"][0]
    assert tuple(line.verdicts[rival].word for rival in (BASE, DESCENT, GAUSSIAN)) == words
    assert line.is_gain is gain


def test_rivals_are_under_the_same_deviation_where_it_concerns_them() -> None:
    effects = {"gaussian one_driver": -0.2, "gaussian lower_sigma": -0.3, "gd early_metrics": -0.4}
    lines = case(made(effects)).lines
    found = {
        (label, rival): round(lines[label][0].verdicts[rival].difference.mean, 1)
        for label in ("one_driver", "lower_sigma", "early_metrics", "reshaped")
        for rival in (DESCENT, GAUSSIAN)
    }
    assert {pair: x for pair, x in found.items() if x} == {
        ("one_driver", GAUSSIAN): 0.2,
        ("lower_sigma", GAUSSIAN): 0.3,
        ("early_metrics", DESCENT): 0.4,
    }


def test_noise_is_compared_with_the_control_and_the_rest_with_the_corrected_run() -> None:
    lines = case(made({"mpgd control": 0.2})).lines
    assert lines["early_sign"][0].verdicts[BASE].difference.mean == pytest.approx(-0.2, abs=0.01)
    assert lines["lower_sigma"][0].verdicts[BASE].difference.mean == pytest.approx(0, abs=0.01)
    assert lines["control"][0].verdicts[BASE].difference.mean == pytest.approx(0.2, abs=0.01)
    assert BASE not in lines["corrected"][0].verdicts


def test_the_section_says_which_deviations_alone_make_a_gain() -> None:
    def said(effects: dict[str, float]) -> list[str]:
        return [block.text for block in blocks(made(effects)) if isinstance(block, Text)]

    begin = f"Airfoil, {PLAIN}. Deviations that make a gain alone: in test RMSE "
    assert f"{begin}reshaped; in RMSE gap reshaped." in said({"mpgd reshaped": -0.1})
    assert any(text.startswith(f"{begin}none of ") for text in said({}))
