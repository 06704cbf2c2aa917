"""What tables and curves of schemes show of made-up records."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from mpgd_lab.content.curves import Middle, against_gamma
from mpgd_lab.content.tables import Setting, scheme_table
from mpgd_lab.schemes import Scheme
from mpgd_lab.store import Record, Run
from mpgd_lab.verdicts import Measure

GD, MPGD = Scheme(), Scheme("chaotic", False, 0.6, 0.5)


def record(scheme: Scheme, seed: int, value: float) -> Record:
    run = Run("x", "paper", str(scheme), scheme.hyperparameters, seed)
    return Record(run, {"error": value}, {}, 1.0, {}, None)


@pytest.mark.parametrize(("middle", "most"), [("median", 1.1), ("mean", 90.0)])
def test_one_wild_run_does_not_move_a_median(middle: Middle, most: float) -> None:
    records = [record(MPGD, seed, 1.0) for seed in range(9)]
    records += [record(MPGD, 9, 900.9), record(GD, 1, 1.0)]
    records += [record(MPGD, 10, float("nan"))]  # it diverged
    ax = Figure().add_subplot()
    measure = Measure("error", "error", 2, lambda name: "")
    against_gamma(ax, records, measure, 0.5, "", middle)
    (line,) = [line for line in ax.get_lines() if line.get_marker() == "o"]
    assert line.get_ydata() == pytest.approx(1.0 if middle == "median" else 90.99)
    assert (ax.get_ylim()[1] < most) == (middle == "median")


@pytest.mark.parametrize(
    ("shift", "word"), [(-0.5, "supported"), (0.5, "contradicted"), (0.0, "undecided")]
)
def test_a_row_s_verdict_is_the_sign_of_its_difference(shift: float, word: str) -> None:
    wiggle = [0.1, -0.1, 0.05, -0.05, 0.02, -0.02, 0.01, -0.01]
    records = [record(GD, seed, 1.0) for seed in range(8)]
    records += [record(MPGD, seed, 1.0 + shift + wiggle[seed]) for seed in range(8)]
    measure = Measure("error", "error", 2, lambda name: "")
    found = scheme_table("", [Setting("here", records, measure)], "lower")
    descent, ours = found.rows
    assert [cell.word for cell in ours] == [None, None, word, None]
    assert ours[2].order == pytest.approx(shift)
    assert {cell.word for cell in descent} == {None}
