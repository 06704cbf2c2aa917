"""What the comparison concludes: corrected p-values, helps and harms, ranges of levels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpgd_lab.content.blocks import Plate
from mpgd_lab.content.style import figure_of
from mpgd_lab.content.tables import IncompleteError
from mpgd_lab.store import Record, Run, Store
from mpgd_lab.studies.compare.comparison_verdicts import lines, ranges, sign_flips, succeeds
from mpgd_lab.studies.compare.figure import mark
from mpgd_lab.studies.compare.methods import BY_NAME
from mpgd_lab.studies.compare.pairs import TELEGRAPH, pair_tables, pairs, wells_plate, white_pairs
from mpgd_lab.studies.compare.section import blocks, task_table
from mpgd_lab.studies.compare.tasks import BY_NAME as TASKS
from mpgd_lab.verdicts import holm

SEEDS = range(101, 121)


def made(store: Store, task: str, method: str, score: float, spread: float = 0.1) -> list[Record]:
    """Return made-up records of the report, whose errors alternate from seed to seed."""
    own, found = BY_NAME[method], []
    h: dict[str, Any] = {"data": task, "part": "report", "study": own.rule, "lr": 0.1, "steps": 9}
    for seed in SEEDS:
        value = score + spread * (-1) ** (seed + len(method))
        metrics = {"score": value, "diverged": 0}
        found.append(store.save(Run("compare", "own", method, h, seed), metrics, {}, 0.0))
    return found


def test_holm_multiplies_by_what_is_left_and_never_falls() -> None:
    assert holm([0.01, 0.02, 0.03, 0.5]) == pytest.approx([0.04, 0.06, 0.06, 0.5])
    assert holm([0.5, 0.01, 0.02, 0.03]) == pytest.approx([0.5, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_sign_flips_refuse_what_is_no_number() -> None:
    with pytest.raises(ValueError, match="differences must be finite, got nan"):
        sign_flips(np.array([0.1, np.nan]))


def test_sign_flips_agree_with_all_signs() -> None:
    """Of 2^10 signs of ten equal differences, two give as much; of 0 and 1 half of all do."""
    assert sign_flips(np.ones(10)) == pytest.approx(2 / 1024, abs=0.001)
    assert sign_flips(np.array([0.0, 0.0, 0.0])) == 1.0


def test_helps_and_harms_follow_the_direction_of_the_score(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for task, good, bad in (("digits", 82.0, 78.0), ("airfoil", 0.5, 0.7)):
        middle, spread = (80.0, 0.5) if task == "digits" else (0.6, 0.01)
        records = made(store, task, "descent", middle, spread)
        records += made(store, task, "sam", good, spread) + made(store, task, "mpgd", bad, spread)
        records += made(store, task, "stable", middle, spread)
        words = {line.method.name: line.word for line in lines(records, TASKS[task])}
        assert words == {"descent": "", "sam": "helps", "mpgd": "harms", "stable": ""}
        assert succeeds(lines(records, TASKS[task]), "chaotic") == []


@pytest.mark.parametrize(("rival", "expected"), [(81.0, ["MPGD, additive"]), (84.0, [])])
def test_success_wants_no_better_method_without_chaos(
    tmp_path: Path, rival: float, expected: list[str]
) -> None:
    store = Store(tmp_path)
    records = made(store, "digits", "descent", 80.0) + made(store, "digits", "mpgd", 82.0)
    records += made(store, "digits", "sam", rival)
    assert succeeds(lines(records, TASKS["digits"]), "chaotic") == expected


def test_a_method_is_compared_with_its_base(tmp_path: Path) -> None:
    store = Store(tmp_path)
    levels = {"descent": 80.0, "adamw": 90.0, "mpgd adamw": 85.0}
    records = [r for name, score in levels.items() for r in made(store, "digits", name, score)]
    line = lines(records, TASKS["digits"])[-1]
    assert line.word == "harms"
    assert line.to_descent.mean == pytest.approx(5.0, abs=0.2)
    assert line.to_base.mean == pytest.approx(-5.0, abs=0.2)


def test_levels_work_from_ten_points_above_descent(tmp_path: Path) -> None:
    store, records = Store(tmp_path), []
    scores = {1.0: 5.0, 2.0: 16.0, 3.0: 40.0, 4.0: 14.0}
    for level, score in scores.items():
        h = {"data": "xor", "part": "tune", "lr": 0.1, "level": level, "noise": "chaotic"}
        records.append(store.save(Run("compare", "own", "mpgd", h, 1), {"score": score}, {}, 0.0))
    h = {"data": "xor", "part": "tune", "lr": 0.1}
    records.append(store.save(Run("compare", "own", "descent", h, 1), {"score": 5.0}, {}, 0.0))
    found = ranges(records, TASKS["xor"])["mpgd"]
    assert (found.width, found.lowest, found.best, found.success) == (0.5, 2.0, 3.0, 40.0)


def test_of_equal_levels_the_lowest_is_best_whatever_the_order(tmp_path: Path) -> None:
    store, records = Store(tmp_path), []
    for name, level in (("mpgd", 3.0), ("mpgd", 1.0), ("gaussian", 2.0), ("descent", None)):
        given = {} if level is None else {"level": level, "noise": BY_NAME[name].noise}
        h = {"data": "xor", "part": "tune", "lr": 0.1, **given}
        records.append(store.save(Run("compare", "own", name, h, 1), {"score": 40.0}, {}, 0.0))
    for own in (records, records[::-1]):
        best = [(name, one.best) for name, one in ranges(own, TASKS["xor"]).items()]
        assert best == [("gaussian", 2.0), ("mpgd", 1.0)]


def test_nothing_is_concluded_without_descent(tmp_path: Path) -> None:
    records = made(Store(tmp_path), "digits", "mpgd", 80.0)
    with pytest.raises(IncompleteError, match="no fresh seed of descent on digits, 200 rows"):
        lines(records, TASKS["digits"])
    with pytest.raises(IncompleteError, match="no task has fresh seeds of descent"):
        blocks(records)


def test_the_picture_has_the_numbers_of_the_tables(tmp_path: Path) -> None:
    """A cell for each method but descent, with the change of its row and its verdict."""
    store = Store(tmp_path)
    levels = {"descent": 80.0, "adamw": 90.0, "mpgd adamw": 85.0, "sam": 80.0}
    records = [r for name, score in levels.items() for r in made(store, "digits", name, score)]
    own = lines(records, TASKS["digits"])
    (picture,) = (block for block in blocks(records) if isinstance(block, Plate))
    figure = figure_of(picture, columns=1)
    shown = [text.get_text() for text in figure.axes[0].texts]
    changes = [row[4].text for row in task_table(own).rows[1:]]
    pairs = [change.split(" ", 1) for change in changes]  # the number, and its interval
    assert shown == [part for pair in pairs for part in pair]
    assert [mark(line).word for line in own[1:]] == ["", "helps", "harms"]
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert rows == ["SAM", "AdamW", "MPGD with AdamW"]


def test_noises_are_compared_in_pairs(tmp_path: Path) -> None:
    """On data with the Gaussian that moves as far, p-values corrected over the pairs of a table."""
    store = Store(tmp_path)
    for task, good, bad in (("digits", 82.0, 78.0), ("airfoil", 0.5, 0.7)):
        middle, spread = (80.0, 0.5) if task == "digits" else (0.6, 0.01)
        scores = {"descent": middle, "matched": middle, "gaussian": bad, "telegraph": good}
        scores |= {"mpgd": bad, "coloured": middle}
        records = [r for name, x in scores.items() for r in made(store, task, name, x, spread)]
        own = lines(records, TASKS[task])
        found = pairs(own, white_pairs(TASKS[task]))
        words = {pair.names: pair.word for pair in found}
        rival = "matched"
        assert words == {
            ("telegraph", rival): "better",
            ("coloured", rival): "",
            ("mpgd", rival): "worse",
        }
        first = pairs(own, [("telegraph", rival)])[0]
        assert found[0].p == pytest.approx(3 * first.p, rel=0.5)
        assert found[0].change.mean == pytest.approx(good - middle, abs=2 * spread)
        assert [(pair.names, pair.word) for pair in pairs(own, TELEGRAPH)] == [
            (("telegraph", "mpgd"), "better")
        ]
        shown = [row[3].text for one in pair_tables({task: own}) for row in one.rows]
        assert shown[0] == found[0].change.text(TASKS[task].digits)
    assert ("telegraph", "annealed") in white_pairs(TASKS["ackley"])
    assert list(pair_tables({"digits": own[:1]})) == []


def test_the_figure_of_wells_has_the_means_of_the_records(tmp_path: Path) -> None:
    store, by_task = Store(tmp_path), {}
    scores = {"sharp well": {"telegraph": 99.0, "gaussian": 30.0}}
    scores["wide well"] = {"telegraph": 60.0, "gaussian": 78.0}
    for task, methods in scores.items():
        methods |= {"descent": 0.0, "mpgd": 70.0}
        records = [r for name, x in methods.items() for r in made(store, task, name, x)]
        by_task[task] = lines(records, TASKS[task])
    (picture,) = wells_plate(by_task)
    (axes,) = figure_of(picture, columns=1).axes
    drawn = {one.get_label(): one.lines[0].get_ydata() for one in axes.containers}
    assert list(drawn) == ["telegraph", "MPGD, additive", "Gaussian, additive"]
    means = [[99.0, 60.0], [70.0, 70.0], [30.0, 78.0]]
    np.testing.assert_allclose(np.array([*drawn.values()], dtype=float), means)
    assert wells_plate({"sharp well": by_task["sharp well"]}) == []
