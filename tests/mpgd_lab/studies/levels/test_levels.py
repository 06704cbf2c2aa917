"""`mpgd reproduce levels` at small sizes: units, predictions, the recipe and its check."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from mpgd import ChaoticNoise
from mpgd.theory.phases.laminar import decay_of, force_of
from mpgd_lab.content.tables import IncompleteError
from mpgd_lab.nets.layout import Layout
from mpgd_lab.runner import Context, reproduce
from mpgd_lab.store import Record, Run, Store
from mpgd_lab.studies.levels import EXPERIMENT, runs, training
from mpgd_lab.studies.levels.effects import distance, effects, over_nets
from mpgd_lab.studies.levels.runs import CANDIDATES, NETS, RECIPE, STUDIES, Size, tasks, weight
from mpgd_lab.studies.levels.section import settings_table, verdict
from tests.mpgd_lab.recording_reporter import RecordingReporter

SIZE = Size(seeds=2, fresh=2, paths=2, steps=6)


def test_runs_have_the_force_and_decay_they_name() -> None:
    noisy = [run.hyperparameters for run in tasks("own", ()) if run.scheme != "descent"]
    assert len(noisy) > 1000
    for h in noisy:
        found = [
            force_of(lr=h["eta"], sigma=h["sigma"], gamma=h["gamma"]),
            decay_of(lr=h["eta"], mu=h["mu"], gamma=h["gamma"]),
        ]
        assert found == pytest.approx([h["force"], h["decay"]])


def test_the_papers_settings_in_our_units() -> None:
    """At gamma 0.6, as computed by hand."""
    rows = {(row[0].text, row[1].text): row for row in settings_table().rows}
    for name, F, M in (
        ("airfoil, plain", 0.029, 0.015),
        ("ECG5000", 0.385, 0.385),
        ("valley", 0.183, 0.073),
    ):
        row = rows[name, "0.6"]
        assert (float(row[5].text), float(row[6].text)) == pytest.approx((F, M), abs=0.0006)


def test_a_recipes_pushes_add_up_to_its_share_of_the_weights() -> None:
    push, stretch = 0.3, 0.1
    h = runs.recipe("digits", 1, (push, stretch), Size()).hyperparameters
    accumulated = h["eta"] ** 0.6 * 750**0.6
    assert h["stop"] == 750
    assert h["sigma"] * accumulated == pytest.approx(push * weight((64, 16, 10)))
    assert h["mu"] * accumulated == pytest.approx(stretch)


def test_the_rms_weight_is_that_of_an_initialised_net() -> None:
    widths = (140, 32, 32, 1)
    x = Layout(widths, torch.relu).initial(range(20), torch.float64)
    assert weight(widths) == pytest.approx(float(x.square().mean().sqrt()), rel=0.02)


def test_growth_is_the_product_of_a_weights_own_factors() -> None:
    run = runs.perturbed("digits", "decay", 0.0, 0.5, 3, Size(steps=40))
    noise, h = ChaoticNoise(0.6, 0.0), run.hyperparameters
    state = noise.init((5,), 3, tensor_id=0, driver_id=0)
    factor = torch.ones(5, dtype=torch.float64)
    for _ in range(40):
        v, state = noise.step(state)
        factor = factor * (1 - h["mu"] * h["eta"] ** 0.6 * v)
    found = training.growth([run], [(5,)])
    assert float(found[0]) == pytest.approx(float(factor.abs().max()))


def test_the_curvature_of_a_bowl_is_its_largest() -> None:
    curvatures = torch.tensor([1.0, 7.0, 3.0], dtype=torch.float64)
    x = torch.ones(2, 3, dtype=torch.float64)
    found = training.curvature(x, lambda x: (x.sum(1), x * curvatures))
    assert found.tolist() == pytest.approx([7.0, 7.0], rel=1e-4)


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory, data_folder: Path) -> Context:
    context = Context(tmp_path_factory.mktemp("out"), RecordingReporter(), data=data_folder)
    reproduce(EXPERIMENT, context, SIZE)
    return context


def test_the_small_study_says_what_was_foreseen_and_whether_the_recipe_holds(
    context: Context,
) -> None:
    assert isinstance(context.reporter, RecordingReporter)
    found = context.reporter.tables
    names = ("The paper's settings", "The paper's levels", "ECG5000, one", "airfoil", "Valley")
    for name in (*names, "Candidates", "The recipe on fresh seeds"):
        assert [title for title in found if title.startswith(name)], name
    (checked,) = (rows for title, rows in found.items() if title.startswith("The recipe on"))
    assert [row[0] for row in checked] == [STUDIES[name].title for name in NETS]
    assert any(line.startswith("The recipe ") for line in context.reporter.lines)
    assert (context.out / "levels.png").read_bytes()[:4] == b"\x89PNG"


def test_the_valleys_descent_stays_and_its_prediction_is_the_start(context: Context) -> None:
    own = [r for r in context.store.records() if r.run.hyperparameters["data"] == "valley"]
    for record in own:
        if record.run.scheme == "descent":
            assert record.metrics["trace"] == record.metrics["free"]
    assert {record.run.seed for record in own} == {1, 2}


def test_the_check_has_seeds_of_its_own(context: Context) -> None:
    records = list(context.store.records())
    name = f"push {RECIPE[0]:g} stretch {RECIPE[1]:g}"
    assert RECIPE in CANDIDATES
    early, fresh = (
        {r.run.seed for e in over_nets(records, name, f) for r in e.records} for f in (False, True)
    )
    assert (early, fresh) == ({1, 2}, {101, 102})


def made(store: Store, scheme: str, shift: float, score: float) -> list[Record]:
    """Return made-up records of all nets: weights moved by ``shift``, scores by ``score``."""
    found = []
    for name in NETS:
        for seed in range(101, 121):
            rng = np.random.default_rng(seed)
            base, weights = rng.normal(80.0, 1.0), rng.standard_normal(50)
            worse = -score if STUDIES[name].better == "lower" else score
            metrics = {STUDIES[name].metric: base + worse, "growth": 1.0, "diverged": 0}
            run = Run("levels", "own", scheme, {"data": name, "force": 0.1, "decay": 0.1}, seed)
            found.append(store.save(run, metrics, {"weights": weights + shift}, 0.0))
    return found


@pytest.mark.parametrize(
    ("shift", "score", "said"),
    [
        (0.2, 0.01, "The recipe holds"),
        (0.2, -0.5, "The recipe fails on airfoil, ECG5000"),
        (0.05, 0.01, "The recipe fails on airfoil, ECG5000"),
    ],
)
def test_a_recipe_must_move_weights_and_do_no_harm(
    tmp_path: Path, shift: float, score: float, said: str
) -> None:
    store, scheme = Store(tmp_path), f"push {RECIPE[0]:g} stretch {RECIPE[1]:g}"
    records = made(store, "descent", 0.0, 0.0) + made(store, scheme, shift, score)
    assert verdict(records).startswith(said)
    plain = [r for r in records if r.run.scheme == "descent"]
    assert distance(plain, plain) == 0.0
    assert effects(records, "digits", fresh=True)[scheme].displacement == pytest.approx(
        shift, rel=0.1
    )


def test_an_unfinished_check_says_so(tmp_path: Path) -> None:
    records = made(Store(tmp_path), "descent", 0.0, 0.0)
    with pytest.raises(IncompleteError, match="the recipe was not run on all nets"):
        verdict(records)
