"""The study of exits at small sizes: walkers, predictions, wells and what is said of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpgd import ChaoticNoise
from mpgd.theory import force_of
from mpgd_lab.content.blocks import Findings, Plate
from mpgd_lab.content.style import figure_of, styled
from mpgd_lab.content.tables import IncompleteError
from mpgd_lab.schema import problem
from mpgd_lab.store import Record, Run
from mpgd_lab.studies.escape import EXPERIMENT, predictions
from mpgd_lab.studies.escape.runs import FORCES, Sizes, label, needs, step_size, tasks
from mpgd_lab.studies.escape.section import blocks, printout
from mpgd_lab.studies.escape.training import work
from mpgd_lab.studies.escape.walkers import Count, count_exits, make_noise, time_right, values
from mpgd_lab.studies.escape.well_shapes import SIDES, WELLS, rotation, two_slopes, two_wells
from tests import fake_results

TINY = Sizes(
    exits=40, fewer=20, walkers=60, time=10.0, patience=10.0, shared=20, horizon=10.0, rows=3
)


def pick(**wanted: Any) -> Run:
    """The first small run with these hyperparameters."""
    runs = tasks("paper", (1,), TINY)
    return next(r for r in runs if all(r.hyperparameters.get(k) == v for k, v in wanted.items()))


# --- wells -------------------------------------------------------------------------------------


def test_slopes_are_those_of_the_losses() -> None:
    x = np.linspace(-1.3, 3.3, 2000)
    h = 1e-6
    numeric = (two_wells(x + h) - two_wells(x - h)) / (2 * h)
    np.testing.assert_allclose(two_slopes(x), numeric, atol=2e-5)
    cosine = WELLS["cosine"]
    losses = [(1 - np.cos(np.pi * (x + side * h))) / 2 for side in (-1, 1)]
    np.testing.assert_allclose(cosine.slope(x), (losses[1] - losses[0]) / (2 * h), atol=1e-8)
    for well in WELLS.values():
        inside = np.linspace(*well.walls, 999)
        assert np.abs(well.slope(inside)).max() == pytest.approx(well.steepest, rel=1e-3)


def test_the_two_wells_have_equal_heights_and_the_slopes_of_their_widths() -> None:
    assert two_wells(np.array([-0.5, 0.0, 1.5])).tolist() == [0.0, 1.0, 0.0]
    inside = np.linspace(-0.5, 1.5, 4001)
    slopes = np.abs(two_slopes(inside))
    assert slopes[inside < 0].max() == pytest.approx(np.pi, rel=1e-5)
    assert slopes[inside > 0].max() == pytest.approx(np.pi / 3, rel=1e-5)
    assert two_slopes(np.array([-1.5, 2.5])).tolist() == [-24.0, 6.0]


@pytest.mark.parametrize(("d", "kind"), [(2, "aligned"), (2, "rotated"), (10, "rotated")])
def test_rotations_are_orthogonal(d: int, kind: str) -> None:
    Q = rotation(d, kind)
    np.testing.assert_allclose(Q @ Q.T, np.eye(d), atol=1e-12)
    assert (np.abs(Q).max() < 0.95) == (kind == "rotated")


# --- walkers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mpgd", "gaussian", "stable"])
def test_values_go_on_and_have_the_variance(kind: str) -> None:
    noise = make_noise(kind, 0.6, 0.0)
    stream = values(noise, (500, 2), seed=1)
    first, second = next(stream).copy(), next(stream).copy()
    assert first.shape == (64, 500, 2)
    assert (first != second).any()
    if kind == "mpgd":
        path = ChaoticNoise(0.6).path(128, (500, 2), seed=1).numpy()
        np.testing.assert_array_equal(np.concatenate([first, second]), path)
    if kind == "gaussian":
        assert np.var(first) == pytest.approx(ChaoticNoise(0.6).variance, rel=0.03)


def test_the_clock_stands_still_until_a_visit() -> None:
    """Nothing leaves, so the clock counts all steps after each walker's first visit."""
    h = {"eta": 1 / 64, "sigma": 0.0, "gamma": 0.6, "walkers": 300, "exits": 9, "time": 1.0}
    count = count_exits(ChaoticNoise(0.6), lambda x: x, nobody, 0.0, h, seed=4)
    v = ChaoticNoise(0.6).path(64, (300, 1), seed=4).numpy()[:, :, 0]
    visits = np.abs(v) != ChaoticNoise(0.6).laminar_value
    waited = np.where(visits.any(axis=0), visits.argmax(axis=0) + 1, 64)
    assert (count.exits, count.clock) == (0, 300 * 64 - waited.sum())
    gaussian = count_exits(make_noise("gaussian", 0.6, 0.0), lambda x: x, nobody, 0.0, h, seed=4)
    assert gaussian.clock == 300 * 64


def nobody(x: np.ndarray) -> np.ndarray:
    return np.zeros(len(x), dtype=bool)


def test_a_walker_that_left_is_put_back_and_waits() -> None:
    """Everybody leaves at the first step of the clock: then a visit is an exit, one step later."""
    h = {"eta": 1 / 64, "sigma": 1.0, "gamma": 0.6, "walkers": 50, "exits": 10**9, "time": 20.0}
    count = count_exits(ChaoticNoise(0.6), lambda x: x, lambda x: x[:, 0] != 0, 0.0, h, seed=4)
    assert count.clock == count.exits > 1000


@pytest.mark.parametrize(
    ("n", "low", "high"), [(0, 0.0, 3.69), (10, 4.80, 18.39), (400, 361.8, 441.2)]
)
def test_the_interval_is_that_of_a_poisson_count(n: int, low: float, high: float) -> None:
    assert Count(n, 1).interval == pytest.approx((low, high), rel=2e-2, abs=1e-9)


def test_walkers_that_no_force_moves_stay_where_they_start() -> None:
    h = {"eta": 0.01, "sigma": 0.0, "gamma": 0.6, "time": 2.0}
    starts = np.array([-0.5, 1.5, -0.5, 1.5])
    assert time_right(make_noise("gaussian", 0.6, 0.0), two_slopes, starts, h, 1).tolist() == [
        0,
        1,
        0,
        1,
    ]
    chaotic = time_right(ChaoticNoise(0.6), two_slopes, np.repeat(starts, 50), h, 1)
    assert set(chaotic[np.isfinite(chaotic)]) == {0.0, 1.0}


# --- predictions -------------------------------------------------------------------------------


@pytest.mark.parametrize("T", [0.05, 0.1])
def test_the_diffusion_has_kramers_rates(T: float) -> None:
    quadratic = 2 * np.exp(-0.5 / T) / np.sqrt(2 * np.pi * T)
    assert predictions.diffusion_rate(WELLS["quadratic"], T) == pytest.approx(quadratic, rel=6 * T)
    cosine = 2 * (np.pi**2 / 2) / np.pi * np.exp(-1.0 / T)  # to the top, through two sides
    assert predictions.diffusion_rate(WELLS["cosine"], T) == pytest.approx(cosine, rel=6 * T)


def test_sums_of_laws_are_doubled_rightly() -> None:
    matrix = np.array([[0.9, 0.1], [0.3, 0.7]])
    start, law, total = np.array([1.0, 0.0]), np.array([1.0, 0.0]), np.zeros(2)
    for _ in range(256):
        total, law = total + law, law @ matrix
    np.testing.assert_allclose(predictions.first_cycles(matrix, start, 256), total)


def test_time_in_the_wide_well_falls_between_the_slopes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions, "POINTS", 241)
    h = {"kind": "mpgd", "eta": step_size(1.7), "sigma": 0.6, "gamma": 0.6, "time": 300.0}
    found = predictions.shares(h)
    assert found["force"] == pytest.approx(1.7)
    assert found["long_run"] < 0.02
    assert found["theory"] == pytest.approx(0.11, abs=0.02)  # measured: 0.10 to 0.11
    assert found["levy"] == pytest.approx(3 ** (1 / 0.6) / (1 + 3 ** (1 / 0.6)))


def test_a_rotated_box_is_pushed_along_the_coordinates() -> None:
    h = {"gamma": 0.6, "sigma": 0.3, "eta": 0.002, "dimension": 2}
    aligned, rotated = (
        predictions.rotated_rate(h | {"rotation": kind}) for kind in ("aligned", "rotated")
    )
    weaker = predictions.rotated_rate(h | {"rotation": "aligned", "sigma": 0.3 / np.sqrt(2)})
    assert rotated == pytest.approx(weaker)
    assert rotated < aligned
    assert predictions.rotated_rate(h | {"rotation": "rotated", "eta": 0.02}) == 0.0


# --- the study ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wanted",
    [
        {"part": "rate", "gamma": 0.7, "eta": 0.02},
        {"part": "rate", "longest": 200},
        {"part": "rate", "kind": "stable"},
        {"part": "share", "kind": "gaussian"},
        {"part": "dimension", "dimension": 10, "rotation": "rotated"},
        {"part": "map"},
    ],
)
def test_a_run_gives_what_its_record_needs(wanted: dict[str, Any]) -> None:
    run = pick(**wanted)
    metrics, curves = work(run)
    held = {k: np.asarray(v).tolist() for k, v in curves.items()}
    record = Record(run, metrics, held, 1.0, {}, None)
    assert problem(record, needs(run)) is None
    if wanted["part"] in ("rate", "dimension"):
        assert metrics["low"] <= metrics["rate"] <= metrics["high"]
        assert metrics["exits"] >= TINY.fewer or metrics["clock"] > 0


def test_forces_are_on_both_sides_of_both_slopes() -> None:
    runs = [r.hyperparameters for r in tasks("paper", (1,)) if r.hyperparameters["part"] == "share"]
    forces = sorted({round(force_of(lr=h["eta"], sigma=h["sigma"], gamma=0.6), 3) for h in runs})
    assert forces == list(FORCES)
    assert forces[0] > np.pi / 3
    assert sum(f > np.pi for f in forces) == 3
    beyond = two_slopes(np.array(SIDES))
    assert (np.abs(beyond) > 1.5 * max(forces)).all()


@pytest.fixture(scope="module")
def records() -> list[Record]:
    made = fake_results.invented("escape")
    return [Record(run, *found, 1.0, {}, None) for run, *found in made]


def test_the_section_has_its_figures_tables_and_verdicts(records: list[Record]) -> None:
    found = blocks(records)
    plates = [block for block in found if isinstance(block, Plate)]
    assert [plate.name for plate in plates] == ["phases", "two-wells", "escape"]
    with styled():
        for plate in plates:
            assert len(figure_of(plate, 4).axes) >= len(plate.panels)
    (verdicts,) = (block for block in found if isinstance(block, Findings))
    assert {item.word for item in verdicts.items} == {"contradicted"}  # the shares are 0.4
    assert len(verdicts.items) == len(FORCES)


def test_what_is_told_names_every_run(records: list[Record]) -> None:
    tables = [item for item in printout(records) if not isinstance(item, str)]
    counts = {title.split(",")[0].split(":")[0]: len(rows) for title, _, rows in tables}
    assert counts["Quadratic well |x| < 1"] == 10
    assert counts["Two wells"] == 14
    assert counts["Boxes in two and ten dimensions with a driver for each coordinate"] == 12
    assert all(len(row) == len(columns) for _, columns, rows in tables for row in rows)


def test_half_a_study_is_no_section(records: list[Record]) -> None:
    half = [r for r in records if r.run.hyperparameters["part"] != "share"]
    with pytest.raises(IncompleteError, match="no share"):
        blocks(half)


def test_labels_and_request() -> None:
    assert label(pick(part="rate", longest=200)) == (
        "rate, mpgd, quadratic, gamma 0.6, sigma 0.3, eta 0.005, longest 200"
    )
    assert EXPERIMENT.on_request
    assert "mpgd reproduce escape" in str(EXPERIMENT.reason_to_skip())
