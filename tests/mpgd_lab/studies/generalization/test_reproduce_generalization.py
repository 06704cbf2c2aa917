"""`mpgd reproduce generalization` at small sizes: training, verdicts, its file, the store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from mpgd import ChaoticNoise, GaussianNoise
from mpgd.curvature import hessian_trace
from mpgd_lab.content.blocks import Table
from mpgd_lab.runner import Context, reproduce
from mpgd_lab.studies.generalization import EXPERIMENT, runs, training
from mpgd_lab.studies.generalization.gap_verdicts import fitted_change, verdict_blocks
from mpgd_lab.studies.generalization.runs import GAMMAS, SCHEMES, Size, Training
from mpgd_lab.studies.generalization.section import COLUMNS, blocks
from mpgd_lab.studies.generalization.trajectories import (
    Data,
    descend,
    hessian_traces,
    initial,
    losses_of,
)
from tests.mpgd_lab.recomputation import check_nothing_again
from tests.mpgd_lab.recording_reporter import RecordingReporter

SMALL = Training(eta=0.5, strength=0.002, steps=1040, hidden=3, every=20, coordinates=5, probes=2)
SIZE = Size({"digits": SMALL}, 3)


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    context = Context(tmp_path_factory.mktemp("out"), RecordingReporter())
    reproduce(EXPERIMENT, context, SIZE)
    return context


def data(classes: int = 3, seeds: int = 2) -> Data:
    g = torch.Generator().manual_seed(0)
    x = [torch.randn(seeds, 4, n, generator=g) for n in (20, 10)]
    y = [torch.randint(classes, (seeds, n), generator=g) for n in (20, 10)]
    y = y if classes > 1 else [t.float() + 0.5 for t in y]
    return Data("made up", x[0], y[0], x[1], y[1])


def test_the_figure_is_a_png(context: Context) -> None:
    assert (context.out / "generalization.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_every_scheme_is_in_the_store_with_equal_variance(context: Context) -> None:
    records = {record.run.scheme: record for record in context.store.records()}
    assert set(records) == set(SCHEMES)
    for gamma in GAMMAS:
        h = records[f"mpgd {gamma:g}"].run.hyperparameters
        variance = h["sigma"] ** 2 * h["eta"] ** (2 * gamma) * ChaoticNoise(gamma).variance
        assert variance == pytest.approx(SMALL.strength**2)
    assert "tail_index" not in records["descent"].curves
    assert len(records["gaussian"].curves["worst_gap"]) == 3


def test_the_verdicts_are_said(context: Context) -> None:
    assert isinstance(context.reporter, RecordingReporter)
    text = "\n".join(context.reporter.lines)
    assert "digits: smaller alpha, smaller gap: " in text
    assert "digits: MPGD lowers the Hessian, against Gaussian noise: " in text


def test_no_table_is_too_wide_for_a_page(context: Context) -> None:
    """Losses and trajectories have a table each; every measure is in one of them."""
    found = [one for one in blocks(list(context.store.records())) if isinstance(one, Table)]
    assert [one.caption.split(":")[0] for one in found] == [
        "digits, losses",
        "digits, trajectories",
    ]
    assert all(len(one.columns) <= 8 for one in found)
    assert {column.title for one in found for column in one.columns} == {*COLUMNS}
    assert all(len(row) == len(one.columns) for one in found for row in one.rows)


def test_a_second_run_trains_nothing(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    check_nothing_again(
        monkeypatch,
        training,
        "descend",
        lambda: reproduce(EXPERIMENT, context, SIZE),
        lambda: reproduce(EXPERIMENT, context, Size({"digits": SMALL}, 2)),
    )


def test_airfoil_is_left_out_in_words_where_it_is_not(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "is_available", lambda source, folder: False)
    spoken = RecordingReporter()
    again = Context(context.out, spoken)
    reproduce(EXPERIMENT, again, Size({"digits": SMALL, "airfoil": SMALL}, 3))
    assert any("airfoil is left out: set MPGD_DATA" in line for line in spoken.lines)


def test_airfoil_has_one_split_for_all_seeds(context: Context, data_folder: Path) -> None:
    found = training.load_data("airfoil", 2, 0, data_folder)
    assert found.x_train.shape == (2, 5, 1202)
    assert found.outputs == 1
    assert torch.equal(found.x_test[0], found.x_test[1])


def test_digits_are_split_anew_for_every_seed(context: Context) -> None:
    found = training.load_data("digits", 2, 0)
    assert found.x_train.shape == (2, 64, 256)
    assert found.outputs == 10
    assert found.y_test.shape == (2, 1797 - 256)
    assert not torch.equal(found.y_train[0], found.y_train[1])


@pytest.mark.parametrize("classes", [1, 3])
def test_losses_and_traces_are_those_of_a_torch_model(classes: int) -> None:
    sample = data(classes)
    x = initial(sample, 3, seed=0).expand(2, -1, -1).clone()
    x[1] *= 1.5
    losses = losses_of(x, sample.x_train, sample.y_train, sample.outputs)
    traces = hessian_traces(x, sample, probes=4000, seed=0)
    for scheme in range(2):
        for seed in range(2):
            model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, classes))
            nn.utils.vector_to_parameters(x[scheme, seed].float(), model.parameters())
            inputs, y = sample.x_train[seed].T, sample.y_train[seed]
            loss_fn = nn.CrossEntropyLoss() if classes > 1 else nn.MSELoss()
            y = y if classes > 1 else y[:, None]
            expected = float(loss_fn(model(inputs), y).detach())
            assert float(losses[scheme, seed]) == pytest.approx(expected, rel=1e-5)
            exact = hessian_trace(model, loss_fn, (inputs, y), exact=True).value
            assert traces[scheme, seed] == pytest.approx(exact, rel=0.1)


def test_a_scheme_trains_the_same_beside_others() -> None:
    how = Training(0.1, 0.01, steps=30, hidden=3, every=10, points=5, coordinates=4, probes=2)
    noises = [None, GaussianNoise(1.0), ChaoticNoise(0.7)]
    together, alone = descend(data(), noises, how, 0), descend(data(), noises[2:], how, 0)
    np.testing.assert_allclose(together.test[2], alone.test[0], rtol=1e-4)
    assert together.points.shape == (3, 2, 5, 4)
    assert together.train.shape == (3, 2, 4)
    assert not np.allclose(together.test[0], together.test[2], rtol=1e-4)


def test_a_step_has_the_variance_asked_for() -> None:
    """From zero parameters with a flat loss, the first step is the additive noise alone."""
    flat = data()
    flat = Data("flat", flat.x_train * 0, flat.y_train, flat.x_test * 0, flat.y_test)
    how = Training(1e-12, 0.3, steps=1, hidden=400, every=1, points=1, coordinates=3600, probes=1)
    noises = [None, GaussianNoise(1.0), ChaoticNoise(0.6)]
    trained = descend(flat, noises, how, 0)
    moved = trained.points[:, :, 0] - trained.points[:1, :, 0]
    spread = (moved**2).mean(axis=(1, 2)) / (1 + (trained.points[0, :, 0] ** 2).mean())
    assert spread[1:] == pytest.approx([0.09, 0.09], rel=0.1)


def test_the_fitted_change_is_that_of_a_line() -> None:
    alpha = 1 / np.array(GAMMAS)
    gaps = np.stack([2 * alpha, 1 - 3 * alpha], axis=1)
    span = alpha.min() - alpha.max()
    np.testing.assert_allclose(fitted_change(gaps), [2 * span, -3 * span])


def test_the_claims(context: Context) -> None:
    records = {record.run.scheme: record for record in context.store.records()}
    found = verdict_blocks({scheme: records[scheme] for scheme in SCHEMES})
    assert {verdict.family_size for verdict in found} == {4}  # they are judged together
    assert all(d.low <= d.mean <= d.high for d in (each.difference for each in found))
