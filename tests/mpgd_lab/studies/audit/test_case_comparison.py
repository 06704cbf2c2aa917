"""The audit's lines beside their base and their rivals, on made-up records with known effects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from mpgd_lab.content.blocks import Table, Text
from mpgd_lab.content.style import BLUE
from mpgd_lab.schemes import Scheme
from mpgd_lab.store import Record, Run
from mpgd_lab.studies.audit.case_comparison import (
    BASE,
    DESCENT,
    GAUSSIAN,
    CaseComparison,
    compare_cases,
)
from mpgd_lab.studies.audit.figure import CAPTION, draw_changes
from mpgd_lab.studies.audit.runs import tasks
from mpgd_lab.studies.audit.section import blocks
from mpgd_lab.verdicts import Difference, Measure

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


def case(records: list[Record], scheme: str = PLAIN) -> CaseComparison:
    return next(one for one in compare_cases(records) if str(one.case.scheme) == scheme)


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


def is_scripts(run: Run) -> bool:
    """Return whether a run has all deviations together; some of one alone have that protocol."""
    return run.protocol == "released" and run.experiment != "audit"


def scripts_better() -> list[Record]:
    """Return records in which MPGD is better as the scripts ran, and by no deviation alone."""
    return [
        replace(one, metrics={name: x - 0.1 for name, x in one.metrics.items()})
        if is_scripts(one.run) and Scheme.of(one.run).kind == "mpgd"
        else one
        for one in made({})
    ]


def test_the_section_says_which_deviations_alone_make_a_gain() -> None:
    def answers(records: list[Record]) -> list[str]:
        return [one.text for one in blocks(records) if isinstance(one, Text) and one.answer]

    three = "better than all three: itself without it, descent and Gaussian noise"
    (none,) = answers(made({}))
    assert none == (
        f"In these runs no single deviation was seen to make MPGD {three}, on any of the 2 lines "
        "of MPGD; all together did not."
    )
    (some,) = answers(made({"mpgd reshaped": -0.1}))
    found = "reshaped on Airfoil plain (test RMSE), reshaped on Airfoil plain (RMSE gap), "
    assert some.startswith(f"In these runs deviations that alone made MPGD {three}: {found}")
    assert some.count("reshaped on Airfoil ") == 4  # both variants, both metrics
    (together,) = answers(scripts_better())
    assert "; all together did on Airfoil plain (test RMSE), " in together


def test_the_section_has_a_row_for_each_line_and_metric() -> None:
    def rows(records: list[Record]) -> list[list[str]]:
        found = [one for one in blocks(records) if isinstance(one, Table)]
        (gains,) = [one for one in found if one.caption == "Which deviations make a gain"]
        return [[cell.text for cell in row] for row in gains.rows]

    first, second, *others = rows(made({"mpgd reshaped": -0.1}))
    assert first == [f"Airfoil, {PLAIN}", "test RMSE", "10", "reshaped", "no"]
    assert second[1:] == ["RMSE gap", "10", "reshaped", "no"]
    assert [row[0] for row in others] == ["Airfoil, mpgd symmetric 0.6 beta 0.5"] * 2
    assert [row[3:] for row in rows(scripts_better())] == [["none", "yes"]] * 4
    shortened = [one for one in made({}) if not is_scripts(one.run)]
    assert rows(shortened)[0][3:] == ["none", ""]


def test_a_change_is_filled_where_its_interval_leaves_out_zero() -> None:
    ax = Figure().subplots()
    ends = {"seen": (0.5, 1.5), "unseen": (-0.5, 1.5)}
    changes = {name: Difference(1.0, low, high, 0.1, 20) for name, (low, high) in ends.items()}
    draw_changes(ax, changes, "", Measure("accuracy", "accuracy", 1, better="higher"))
    points = [one.lines[0] for one in ax.containers]
    assert [point.get_markerfacecolor() for point in points] == [BLUE, "white"]
    assert ax.get_xlabel() == "change of accuracy (better →)"
    assert "filled" in CAPTION
