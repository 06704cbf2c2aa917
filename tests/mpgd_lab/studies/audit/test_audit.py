"""Each deviation is a switch that does one thing, and all of them make protocol ``released``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import sqrt
from pathlib import Path

import pytest
import torch

from mpgd import ChaoticNoise
from mpgd_lab.batched_training import Problem, train
from mpgd_lab.data.sources import Split
from mpgd_lab.data.sources import airfoil as load_airfoil
from mpgd_lab.nets.layout import Layout, mean_square
from mpgd_lab.perturbations import released
from mpgd_lab.perturbations.batched import levels, perturbations
from mpgd_lab.perturbations.released import SWITCHES
from mpgd_lab.runner import Context, reproduce
from mpgd_lab.store import Run
from mpgd_lab.studies.airfoil import runs as airfoil
from mpgd_lab.studies.airfoil import training as airfoil_training
from mpgd_lab.studies.audit import EXPERIMENT
from mpgd_lab.studies.audit import runs as audit
from mpgd_lab.studies.audit.case_comparison import printout
from mpgd_lab.studies.audit.deviations import DEVIATIONS, deviate
from mpgd_lab.studies.audit.runs import CORRECTED, STUDIES, TOGETHER
from mpgd_lab.studies.ecg import runs as ecg
from mpgd_lab.studies.ecg import training as ecg_training
from mpgd_lab.studies.valley import runs as valley
from mpgd_lab.studies.valley import switches as valley_switches
from mpgd_lab.studies.valley import training as valley_training
from tests.mpgd_lab.recording_reporter import RecordingReporter

STEPS = 8
PLAIN, SYMMETRIC = "mpgd plain 0.6 beta 0.5", "mpgd symmetric 0.6 beta 0.5"
ECG_STEPS = ecg.FIXED | {"steps": STEPS, "stop": STEPS // 2}


def pick(tasks: Iterable[Run], scheme: str) -> Run:
    """Return the first run of a scheme; of ECG5000's two depths the primary one comes first."""
    return next(task for task in tasks if task.scheme == scheme)


def test_every_deviation_is_tried_and_named() -> None:
    tried = {name for study in STUDIES.values() for case in study.cases for name in case.alone}
    assert tried == set(DEVIATIONS)
    assert set(SWITCHES) <= tried


@pytest.mark.parametrize("scheme", [PLAIN, SYMMETRIC])
def test_all_switches_together_are_the_released_run(scheme: str) -> None:
    paper, script = (pick(airfoil.tasks(p, [3]), scheme) for p in ("corrected", "released"))
    assert deviate(paper, [*SWITCHES, "lower_sigma", "early_metrics"]) == script
    assert deviate(paper, [*SWITCHES[1:], "lower_sigma", "early_metrics"]) != script
    paper, script = (pick(ecg.tasks(p, [3]), scheme) for p in ("corrected", "released"))
    assert deviate(paper, SWITCHES).hyperparameters == script.hyperparameters


def test_the_gaussians_deviations_make_the_released_gaussian(data_folder: Path) -> None:
    """ECG5000 is float64 in both; airfoil's script is float32, and so must the batch be here."""
    task = pick(ecg.tasks("corrected", [2], ECG_STEPS), "gaussian plain 0.6")
    together = deviate(task, ["bare_gaussian", "shared_rows"])
    scripted = pick(ecg.tasks("released", [2], ECG_STEPS), "gaussian")
    (_, ours, _), (_, theirs, _) = (
        next(ecg_training.train([each], data_folder)) for each in (together, scripted)
    )
    assert ours == {name: pytest.approx(x, rel=1e-9) for name, x in theirs.items()}

    task = pick(airfoil.tasks("corrected", [2], STEPS), "gaussian plain 0.6")
    together = deviate(task, ["bare_gaussian", "shared_rows"])
    whole = load_airfoil(data_folder)
    parts = (whole.x_train, whole.y_train, whole.x_test, whole.y_test)
    split, layout = Split(*(part.float() for part in parts)), Layout((5, 16, 1), torch.relu)
    trained = train(Problem(layout, split, mean_square, torch.float32), [together])
    _, outputs = airfoil_training.script(
        whole, 2, STEPS, together.hyperparameters["mu"], together.hyperparameters["sigma"]
    )
    assert torch.allclose(layout.forward(trained.before, split.x_test)[0], outputs, atol=1e-5)


@pytest.mark.parametrize("scheme", ["gaussian plain 0.6", "gaussian symmetric 0.6"])
def test_a_gaussian_deviation_changes_one_thing(scheme: str) -> None:
    task = pick(airfoil.tasks("corrected", [1]), scheme)
    h, matched = task.hyperparameters, levels(task)
    twice = 2.0 if h["symmetric"] else 1.0
    assert matched[1] == pytest.approx(
        h["sigma"] * 0.1**0.6 * sqrt(twice * ChaoticNoise(0.6).variance)
    )
    bare = deviate(task, ["bare_gaussian"])
    assert levels(bare) == pytest.approx((h["mu"] * 0.1, h["sigma"] * 0.1))
    assert bare.hyperparameters["noise"] == "matched"
    rows = deviate(task, ["shared_rows"])
    assert levels(rows) == pytest.approx(matched)
    assert rows.hyperparameters["noise"] == "released_gaussian"


def test_two_switches_mean_something_for_a_gaussian(data_folder: Path) -> None:
    """With same_seeds element i of run s is s + i: tensors and neighbouring runs share draws."""
    seeds, shapes = (3, 4), [(2, 3), (2,)]
    base = [pick(airfoil.tasks("corrected", [seed]), "gaussian plain 0.6") for seed in seeds]
    drawn = {}
    for on in ((), ("one_driver",), ("same_seeds",)):
        (source,) = perturbations([deviate(t, on) for t in base], shapes, torch.float64)
        drawn[on] = source.next()
    for m, n in drawn.values():
        assert m.shape == n.shape == (2, 8)
    same = {on: torch.allclose(2.0 * m, n) for on, (m, n) in drawn.items()}  # sigma is 2 mu
    assert same == {(): False, ("one_driver",): True, ("same_seeds",): False}
    m, _ = drawn["same_seeds",]
    assert torch.equal(m[:, :2], m[:, 6:])
    assert torch.equal(m[0, 1:6], m[1, :5])
    m, _ = drawn["one_driver",]
    assert not torch.equal(m[:, :2], m[:, 6:])


def switched(protocol: str, scheme: str, *deviations: str, steps: int = 300) -> list[Run]:
    tasks = [task for task in valley.tasks(protocol, [1, 2], steps) if task.scheme == scheme]
    return [
        replace(task, hyperparameters={**task.hyperparameters, "deviations": deviations})
        for task in tasks
    ]


@pytest.mark.parametrize("scheme", ["gd", "gaussian plain 0.7", "mpgd plain 0.7 beta 0.5"])
def test_the_valley_without_deviations_is_the_papers(scheme: str) -> None:
    runs = switched("corrected", scheme)
    expected = [metrics["trace"] for _, metrics, _ in valley_training.train(runs)]
    found = [metrics["trace"] for _, metrics, _ in valley_switches.train(runs)]
    assert found == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("scheme", ["gaussian", "mpgd plain 0.7 beta 0.5"])
@pytest.mark.parametrize("missing", [None, "u_first", "noise_times_u", "one_multiplier"])
def test_all_switches_of_the_valley_move_as_the_script_does(
    scheme: str, missing: str | None
) -> None:
    """Given the script's noise; v's own multiplicative driver is there for the twin to differ."""
    on = [name for name in valley_switches.MOTION if name != missing]
    (run, _) = switched("released", scheme, *on, steps=2000)
    on_u, on_v, multiplicative = torch.tensor(
        valley_training._released_noise(run), dtype=torch.float64
    )
    mu, sigma = valley_training._released_levels(run.hyperparameters)
    noise = zip(
        mu * torch.stack([multiplicative, multiplicative.flip(0)], 1)[:, None],
        sigma * torch.stack([on_u, on_v], 1)[:, None],
        strict=True,
    )
    u, v = valley_switches.moved(valley_switches.SCALAR_START[None], [run], noise)[0]
    *_, end = valley_training.released_path(run)
    assert ((float(u), float(v)) == pytest.approx(end, rel=1e-9)) is (missing is None)


def test_the_valleys_noise_follows_its_switches() -> None:
    def drawn(scheme: str, *deviations: str) -> tuple[torch.Tensor, torch.Tensor]:
        m, n = zip(
            *valley_switches.noise(switched("corrected", scheme, *deviations), 10), strict=True
        )
        return torch.stack(m), torch.stack(n)

    m, n = drawn("gaussian plain 0.7")
    scale = 0.01**0.7 * sqrt(ChaoticNoise(0.7).variance)
    bare_m, bare_n = drawn("gaussian plain 0.7", "bare_gaussian")
    assert torch.allclose(bare_m, m / scale)
    assert torch.allclose(bare_n, n / scale)
    mean_m, mean_n = drawn("gaussian plain 0.7", "gaussian_means")
    assert torch.allclose(mean_m - m, torch.full_like(m, 0.02 * scale))
    assert torch.allclose(mean_n - n, torch.tensor([10.0] * 10 + [1.0]).double() * 0.05 * scale)
    chaotic = "mpgd plain 0.7 beta 0.5"
    (engine, _), (control, _), (early, _) = (
        drawn(chaotic, *switch) for switch in ([], ["control"], ["early_sign"])
    )
    assert not torch.equal(engine.abs(), control.abs())
    assert not torch.equal(control, early)
    assert torch.equal(control.abs(), early.abs())


def test_a_short_audit_prints_what_the_store_tells_again(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(released, "ITERATES", 20)
    listener = RecordingReporter()
    context = Context(tmp_path, listener, seeds=2, data=data_folder)
    reproduce(EXPERIMENT, context, STEPS)
    records = list(context.store.records())
    assert printout(records) == listener.every
    assert len(listener.every) == sum(len(study.cases) for study in STUDIES.values())
    for name, study in STUDIES.items():
        for case in study.cases:
            rows = listener.tables[f"audit, {name}, {case.scheme}"]
            assert [row[0] for row in rows] == [CORRECTED, *case.alone, TOGETHER]
            assert rows[0][2] == ""
    (_, headings, rows) = next(t for t in listener.every if t[0] == f"audit, airfoil, {PLAIN}")
    gap = {row[0]: row[headings.index("RMSE gap")] for row in rows}
    assert gap["mse_gap"] != gap["corrected"]
    assert headings[1:5] == ["test RMSE", "minus base", "minus descent", "minus Gaussian"]

    before = {path: path.stat().st_mtime_ns for path in context.store.folder.iterdir()}
    gone = next(r for r in records if r.run.experiment == "audit")
    context.store.path(gone.run).unlink()
    reproduce(EXPERIMENT, context, STEPS)
    after = {path: path.stat().st_mtime_ns for path in context.store.folder.iterdir()}
    assert {path for path in before if before[path] != after[path]} == {
        context.store.path(gone.run)
    }


def test_the_runs_of_the_experiments_themselves_are_not_run_twice() -> None:
    """The first and the last line, and what is only measured otherwise, belong to their tables."""
    for name, module in (("airfoil", airfoil), ("ecg", ecg), ("valley", valley)):
        known = {task.key for p in ("corrected", "released") for task in module.tasks(p, [1])}
        for case in STUDIES[name].cases:
            for label, (task,) in audit.lines(name, case, [1]).items():
                own = label in (CORRECTED, TOGETHER, "mse_gap", "one_layer", "float32")
                assert (task.key in known) is own
                assert (task.experiment == "audit") is not own


def test_a_study_without_data_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MPGD_DATA", raising=False)
    monkeypatch.setenv("MPGD_CACHE", str(tmp_path / "cache"))
    listener = RecordingReporter()
    reproduce(EXPERIMENT, Context(tmp_path, listener, seeds=1), STEPS)
    assert {title.split(", ")[1] for title, _, _ in listener.every} == {"valley"}
    said = "\n".join(listener.lines)
    assert "audit: airfoil is left out: no airfoil_self_noise.dat in" in said
    assert "audit: ecg is left out: no ECG5000_TRAIN.txt and ECG5000_TEST.txt in" in said
