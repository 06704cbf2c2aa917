from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mpgd_lab.batched_training import Problem, train
from mpgd_lab.data.sources import ecg5000
from mpgd_lab.nets.layout import Layout, cross_entropy
from mpgd_lab.runner import Context, reproduce
from mpgd_lab.store import Run
from mpgd_lab.studies.ecg import EXPERIMENT, training
from mpgd_lab.studies.ecg import runs as ecg

MOVED = "mpgd plain 0.6 beta 0"
SHORT = {"eta": 0.05, "steps": 12, "stop": 6}


@pytest.mark.parametrize(
    ("scheme", "printed"), [("gd", (58.38, 0.0)), ("gaussian", (65.68, 16.34))]
)
def test_the_printed_baselines_come_out_to_the_digit(
    data_folder: Path, scheme: str, printed: tuple[float, float]
) -> None:
    tasks = [t for t in ecg.tasks("released", range(1, 6)) if t.scheme == scheme]
    found = [metrics["test_accuracy"] for _, metrics, _ in training.train(tasks, data_folder)]
    assert (round(np.mean(found), 2), round(np.std(found, ddof=1), 2)) == printed


def test_every_printed_row_is_run() -> None:
    released = {task.scheme for task in ecg.tasks("released", [1])}
    assert released == set(ecg.PRINTED)
    paper = ecg.tasks("corrected", range(5))
    assert len(paper) == 2 * 5 * (1 + 1 + 6 + 12 + 1)
    assert set(ecg.PRINTED) - {"gaussian"} <= {task.scheme for task in paper}
    assert {tuple(task.hyperparameters["widths"]) for task in paper} == {
        (140, 32, 1),
        (140, 32, 32, 1),
    }


def test_the_script_and_the_batch_agree(data_folder: Path) -> None:
    """The authors' Gaussian, one net by autograd or among others: the same net in float64."""
    split = ecg5000(data_folder)
    h = SHORT | {"widths": [140, 32, 32, 1], "noise": "released_gaussian", **ecg.LEVEL}
    runs = [Run("ecg", "released", "gaussian", h, seed) for seed in (1, 2)]
    layout = Layout((140, 32, 32, 1), torch.sigmoid, torch.sigmoid)
    trained = train(Problem(layout, split, cross_entropy), runs)
    outputs = layout.forward(trained.after, split.x_test)
    for row, run in enumerate(runs):
        assert torch.allclose(outputs[row], training.script(split, run)[1], rtol=1e-9)


def test_a_member_has_the_metrics_it_has_alone(data_folder: Path) -> None:
    tasks = [
        t
        for t in ecg.tasks("corrected", [1, 2], SHORT)
        if t.scheme in ("gd", "mpgd plain 0.6 beta 0.5", "mpgd symmetric 0.6 beta 0.5")
        and len(t.hyperparameters["widths"]) == 3
    ]
    found = {run.key: metrics for run, metrics, _ in training.train(tasks, data_folder)}
    for task in tasks[2:5]:
        ((_, alone, _),) = training.train([task], data_folder)
        assert found[task.key] == {k: pytest.approx(v, rel=1e-5) for k, v in alone.items()}


def test_accuracy_is_in_per_cent(data_folder: Path) -> None:
    split = ecg5000(data_folder)
    outputs = [torch.full((count,), 0.4, dtype=torch.float64) for count in (500, 4500)]
    always = training.metrics(outputs[0], outputs[1], split)
    assert always["test_accuracy"] == pytest.approx(
        100 * float((split.y_test == 0).double().mean())
    )


def test_a_run_prints_a_table_for_each_depth(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ecg, "GAMMAS", (0.55,))
    context = Context(tmp_path, seeds=1, data=data_folder, protocols=("corrected",))
    reproduce(EXPERIMENT, context, SHORT)
    printout = EXPERIMENT.printout(
        [context.store.load(run) for run in ecg.tasks("corrected", [1], SHORT)]
    )
    titles = [item[0].partition(": ")[0] for item in printout if isinstance(item, tuple)]
    assert titles == ["ecg, corrected, two hidden layers", "ecg, corrected, one hidden layer"]


@pytest.mark.parametrize("protocol", ["corrected", "released"])
def test_a_curve_passes_through_the_accuracy_of_a_shorter_run(
    data_folder: Path, protocol: str
) -> None:
    def trained(steps: int) -> list[Any]:
        fixed = {"eta": 0.05, "steps": steps, "stop": 500}
        tasks = [t for t in ecg.tasks(protocol, [1], fixed) if t.scheme in ("gd", MOVED)]
        return list(training.train(tasks[:2], data_folder))

    for (_, metrics, _), (_, _, curves) in zip(trained(40), trained(50), strict=True):
        assert curves["accuracy_step"] == [0, 40, 50]
        assert curves["test_accuracy"][1] == metrics["test_accuracy"]
