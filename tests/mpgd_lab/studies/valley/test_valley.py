from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.autograd.functional import hessian, jacobian

from mpgd_lab.runner import Context, reproduce
from mpgd_lab.store import Run
from mpgd_lab.studies.valley import EXPERIMENT, training
from mpgd_lab.studies.valley import runs as valley


def loss(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x[-1] ** 2 * x[:-1].square().sum()


def test_gradient_and_trace_are_those_of_the_loss() -> None:
    x = torch.randn(4, 11, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    trace, gradient = training.gradient(x)
    for k in range(4):
        assert torch.allclose(gradient[k], jacobian(loss, x[k]))
        assert torch.allclose(trace[k], hessian(loss, x[k]).trace())


def released(name: str, steps: int = 8000, seed: int = 1) -> Run:
    tasks = valley.tasks("released", [seed], steps)
    return next(task for task in tasks if task.scheme == name)


def test_the_authors_path_comes_out() -> None:
    """Their path at gamma 0.7: 105 after 2000 steps, 150 after 5000, 44 at the end.

    It follows the last bit of the C library's power; where that differs, so does the path.
    """
    moments, descent = training.script(released("gd"))
    assert descent == [pytest.approx(298.6, abs=0.01)] * len(moments)
    name = "mpgd plain 0.7 beta 0.5"
    found = [training.script(released(name, steps))[1][-1] for steps in (2000, 5000, 8000)]
    assert found == [pytest.approx(x, abs=0.6) for x in (105, 150, 44)]


def test_the_released_gaussian_settles_near_what_was_measured() -> None:
    """196 was measured for one path; paths differ by about 20."""
    finals = [training.script(released("gaussian", seed=s))[1][-1] for s in range(1, 21)]
    assert sum(finals) / 20 == pytest.approx(200, abs=20)


def test_descent_stays_where_it_starts_and_every_scheme_is_there(tmp_path: Path) -> None:
    context = Context(tmp_path, seeds=2)
    reproduce(EXPERIMENT, context, 30, 30)
    records = [r for r in context.store.records() if "part" not in r.run.hyperparameters]
    found = {(r.run.protocol, r.run.scheme, r.run.seed): r for r in records}
    assert len(found) == 2 * (8 + 5)
    start = training.trace(training.start([1]))
    descent = found["corrected", "gd", 1]
    assert descent.metrics["trace"] == pytest.approx(float(start))
    assert descent.curves["trace"][0] == pytest.approx(float(start))
    moved = found["corrected", "mpgd plain 0.7 beta 0.5", 1]
    assert moved.metrics["trace"] != pytest.approx(float(start), rel=1e-4)


@pytest.mark.parametrize("protocol", ["corrected", "released"])
def test_paths_through_the_landscape_end_where_the_runs_end(protocol: str) -> None:
    tasks = [
        replace(task, hyperparameters={**task.hyperparameters, "part": "landscape"})
        for task in valley.tasks(protocol, [1], 40)
    ]
    paths = {task.scheme: curves for task, _, curves in training.follow(tasks)}
    d = training.DIMENSION if protocol == "corrected" else 1
    for task, metrics, _ in training.train(valley.tasks(protocol, [1], 40)):
        u, v = (paths[task.scheme][name] for name in ("u", "v"))
        assert len(u) == len(v) == 1 + 40 // training.THINNED
        assert u[-1] ** 2 + d * v[-1] ** 2 == pytest.approx(metrics["trace"])
