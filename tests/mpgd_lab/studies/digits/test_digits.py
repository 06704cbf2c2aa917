from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from mpgd import MPGD
from mpgd_lab.data.sources import digits as load_split
from mpgd_lab.nets.layout import class_entropy, slope
from mpgd_lab.runner import Context, reproduce
from mpgd_lab.store import Record, Run
from mpgd_lab.studies.digits import EXPERIMENT, training
from mpgd_lab.studies.digits import runs as digits


@pytest.mark.parametrize("own", [False, True])
def test_the_loss_and_its_slope_are_torchs(own: bool) -> None:
    outputs = torch.randn(3, 20, 10, dtype=torch.float64, generator=torch.manual_seed(0))
    targets = torch.randint(10, (3, 20) if own else (20,))
    leaf = outputs.clone().requires_grad_()
    expected = torch.stack(
        [cross_entropy(leaf[k], targets[k] if own else targets) for k in range(3)]
    )
    assert torch.allclose(class_entropy(outputs, targets), expected)
    (gradient,) = torch.autograd.grad(expected.sum(), leaf)
    assert torch.allclose(slope(class_entropy)(outputs, targets), gradient, atol=1e-15)


def pick(scheme: str, steps: int) -> Run:
    return next(task for task in digits.tasks("corrected", [7], steps) if task.scheme == scheme)


@pytest.mark.parametrize("name", ["mpgd plain 0.6 beta 0.5", "mpgd symmetric 0.65 beta 0.5"])
def test_a_run_is_what_the_optimizer_does(name: str) -> None:
    """The net in the batch, and a torch net stepped by `MPGD` with the same seed."""
    task, split = pick(name, 20), load_split()
    found = {run.scheme: metrics for run, metrics, _ in training.train([pick("gd", 20), task])}
    h = task.hyperparameters
    with torch.random.fork_rng():
        torch.manual_seed(task.seed)
        layers = [
            torch.nn.Linear(64, 16, dtype=torch.float64),
            torch.nn.Linear(16, 10, dtype=torch.float64),
        ]
    net = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1])
    settings = {key: h[key] for key in ("mu", "sigma", "gamma", "beta", "symmetric")}
    optimizer = MPGD(net.parameters(), lr=h["eta"], seed=task.seed, **settings)
    for _ in range(h["steps"]):
        optimizer.zero_grad()
        cross_entropy(net(split.x_train), split.y_train).backward()
        optimizer.step()
    with torch.no_grad():
        expected = training.metrics(net(split.x_train), net(split.x_test), split)
    assert found[name] == {key: pytest.approx(x, rel=1e-9) for key, x in expected.items()}
    assert found["gd"] != found[name]


def test_metrics_are_per_cent_and_gaps_are_positive_for_overfitting() -> None:
    split = load_split()
    right, flat = (torch.nn.functional.one_hot(split.y_train) * 9.0, torch.zeros(1497, 10))
    found = training.metrics(right.double(), flat.double(), split)
    assert found["train_accuracy"] == 100.0
    assert found["test_accuracy"] == pytest.approx(100 * float((split.y_test == 0).double().mean()))
    assert found["gap"] == pytest.approx(found["test_loss"] - found["train_loss"])
    assert found["test_loss"] == pytest.approx(2.302585, rel=1e-6)
    assert found["accuracy_gap"] > 80


def test_descent_learns() -> None:
    ((_, found, curves),) = training.train([pick("gd", 300)])
    assert found["test_accuracy"] > 85
    assert curves["train_loss"][0] > 2
    assert found["train_loss"] < 0.5


def test_a_short_run_has_every_scheme_in_each_table_and_its_verdicts(tmp_path: Path) -> None:
    context = Context(tmp_path, seeds=2)
    reproduce(EXPERIMENT, context, 3)
    records: list[Record] = sorted(context.store.records(), key=lambda record: record.run.seed)
    assert len(records) == 2 * (1 + 1 + 8 + 8 + 1)
    printout = list(digits.COMPARISON.printout(records))
    tables = [item for item in printout if isinstance(item, tuple)]
    assert [title for title, _, _ in tables] == [
        "digits: test accuracy, %",
        "digits: test loss",
        "digits: gap: test loss - train loss",
    ]
    for _, headings, rows in tables:
        assert {len(row) for row in rows} == {len(headings)}
        assert {row[0] for row in rows} == {record.run.scheme for record in records}
        mpgd = [row for row in rows if row[0].startswith("mpgd")]
        assert len(mpgd) == 8
        assert all(row[-1] for row in mpgd)  # each has its Gaussian
    assert len(printout) - len(tables) == 3 + 2 * 3 * 2
