"""Schemes, deviations, and a whole table from tiny runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mpgd.maps import ThalerMap
from mpgd.noise import ChaoticNoise, GaussianNoise
from mpgd.noise.driver import values
from mpgd.optim.settings import make_settings
from mpgd_lab import cli
from mpgd_lab.catalogue import find, load
from mpgd_lab.perturbations.released import SWITCHES, iterate
from mpgd_lab.report.page import build
from mpgd_lab.report.store_contents import sort
from mpgd_lab.runner import Context
from mpgd_lab.store import Record, Run
from mpgd_lab.studies.cifar10 import one_step as cifar10_step
from mpgd_lab.studies.cifar10 import reproduction
from mpgd_lab.studies.cifar10 import runs as cifar10
from mpgd_lab.studies.cifar10.perturbation import (
    ScriptNoise,
    make_noise,
    make_optimizer,
    make_perturbation,
)
from mpgd_lab.studies.cifar10.process_group import Processes
from mpgd_lab.studies.cifar10.resnet import ResNet18
from mpgd_lab.studies.cifar10.runs import DEVIATIONS, FULL, tasks
from mpgd_lab.studies.cifar10.runs import TINY as SMOKE
from mpgd_lab.studies.cifar10.training import (
    FullBatch,
    load_images,
    make_model,
    make_stepper,
    train,
)
from tests.mpgd_lab.recording_reporter import RecordingReporter

TINY = SMOKE | {"study": "tiny", "width": 2, "train": 40, "test": 50, "block": 16, "steps": 4}
ON_CPU = TINY | {"device": "cpu"}


def task(
    name: str, protocol: str = "corrected", deviations: Sequence[str] = (), **other: Any
) -> Run:
    """Return the run of a scheme with seed 3."""
    runs = tasks(protocol, [3], ON_CPU | other, deviations)
    return next(run for run in runs if run.scheme == name)


def after_a_step(run: Run, data: Path) -> ResNet18:
    model = make_model(run)
    training, _ = load_images(run.hyperparameters, data)
    make_stepper(run, model, training, Processes()).step(0)
    return model


def same(one: ResNet18, other: ResNet18) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


# --- what is run -------------------------------------------------------------------------------


def test_every_printed_row_is_run_and_further_baselines() -> None:
    paper, released = (
        {run.scheme for run in tasks(protocol, [1], FULL | {"device": "cuda"})}
        for protocol in ("corrected", "released")
    )
    mpgd = {name for name in cifar10.PRINTED if name.startswith("mpgd")}
    assert len(mpgd) == 8
    assert released == mpgd | {"gd", "gd same steps", "gaussian"}
    assert mpgd | {"gd", "langevin", "sgd"} < paper
    assert sum(name.startswith("gaussian") for name in paper) == 8


def test_the_text_perturbs_with_the_printed_signs() -> None:
    groups = {
        protocol: make_optimizer(make_model(run), run.hyperparameters, 3).param_groups[0]
        for protocol in ("text", "corrected")
        for run in [task("mpgd plain 0.6 beta 0.5", protocol)]
    }
    noises = {name: make_settings(group).noises[1] for name, group in groups.items()}
    signs = {name: (noise.signs, noise.first_sign) for name, noise in noises.items()}
    assert signs == {"text": ("product", "positive"), "corrected": ("fresh", "drawn")}


def test_the_full_recipe_is_the_papers() -> None:
    run = next(
        run
        for run in tasks("corrected", [1], FULL | {"device": "cuda"})
        if "plain 0.6" in run.scheme
    )
    h = run.hyperparameters
    assert (h["width"], h["train"], h["test"], h["block"]) == (64, 50_000, 10_000, 128)
    assert (h["eta"], h["steps"], h["mu"], h["sigma"]) == (0.1, 1000, 0.03, 0.01)
    steps = {r.scheme: r.hyperparameters["steps"] for r in tasks("released", [1], FULL)}
    assert steps["gd"] == 3000
    assert {steps[name] for name in steps if name != "gd"} == {1000}
    sgd = next(r for r in tasks("corrected", [1], FULL) if r.scheme == "sgd")
    assert sgd.hyperparameters["steps"] == 300


def test_it_runs_only_when_named() -> None:
    assert "`mpgd reproduce cifar10` runs it" in str(load("cifar10").reason_to_skip())
    assert find(["cifar10"]) == ["cifar10"]


def test_an_unknown_deviation_is_refused() -> None:
    with pytest.raises(ValueError, match=r"deviations must be among .* got \['typo'\]"):
        tasks("corrected", [1], ON_CPU, ["typo"])


# --- each deviation alone ----------------------------------------------------------------------


def test_without_a_deviation_only_the_stem_is_perturbed(data_folder: Path) -> None:
    plain = after_a_step(task("gd"), data_folder)
    for name in ("mpgd plain 0.6 beta 0.5", "gaussian symmetric 0.6", "langevin"):
        moved = after_a_step(task(name), data_folder)
        pairs = zip(plain.named_parameters(), moved.parameters(), strict=True)
        assert [name for (name, a), b in pairs if not torch.equal(a, b)] == ["stem.weight"]


def test_norm_too_perturbs_the_first_norm_as_well(data_folder: Path) -> None:
    plain = after_a_step(task("gd"), data_folder)
    moved = after_a_step(task("mpgd plain 0.6 beta 0.5", deviations=["norm_too"]), data_folder)
    pairs = zip(plain.named_parameters(), moved.parameters(), strict=True)
    changed = [name for (name, a), b in pairs if not torch.equal(a, b)]
    assert changed == ["stem.weight", "norm.weight"]


def test_inert_multiplicative_is_mu_zero(data_folder: Path) -> None:
    run = task("mpgd plain 0.6 beta 0.5")
    inert = task("mpgd plain 0.6 beta 0.5", deviations=["inert_multiplicative"])
    none = Run("cifar10", "corrected", run.scheme, {**run.hyperparameters, "mu": 0.0}, run.seed)
    one, two, three = (after_a_step(each, data_folder) for each in (run, inert, none))
    assert same(two, three)
    assert not same(one, two)


def test_dropped_images_are_those_after_the_last_whole_block(data_folder: Path) -> None:
    found = [
        after_a_step(run, data_folder)
        for run in (task("gd", deviations=["dropped_images"]), task("gd", train=32), task("gd"))
    ]
    assert same(found[0], found[1])
    assert not same(found[0], found[2])


def test_fading_weights_count_early_blocks_less(data_folder: Path) -> None:
    training, _ = load_images(ON_CPU, data_folder)
    for deviations, weights in (([], [1, 1, 1]), (["fading_weights"], [4 / 9, 2 / 3, 1])):
        run = task("gd", deviations=deviations)
        stepper = make_stepper(run, make_model(run), training, Processes())
        assert isinstance(stepper, FullBatch)
        assert stepper.blocks.weights == pytest.approx(weights)


def test_no_zero_init_starts_all_norms_at_one() -> None:
    assert not make_model(task("gd")).stages[0].branch[-1].weight.any()
    model = make_model(task("gd", deviations=["no_zero_init"]))
    assert bool((model.stages[0].branch[-1].weight == 1).all())


def test_each_gap_is_measured_and_the_protocol_chooses(data_folder: Path) -> None:
    clean, curves = train(task("gd"), data_folder)
    augmented, _ = train(task("gd", deviations=["augmented_gap"]), data_folder)
    assert clean["accuracy_gap"] == clean["recalibrated_gap"]
    assert clean["recalibrated_gap"] != clean["clean_gap"]
    assert augmented["accuracy_gap"] == augmented["augmented_gap"] == clean["augmented_gap"]
    assert clean["augmented_gap"] == curves["train_accuracy"][-1] - curves["val_accuracy"][-1]
    assert clean["clean_gap"] == clean["train_accuracy"] - clean["val_accuracy"]
    part = "recalibrated_train_accuracy", "recalibrated_val_accuracy"
    assert clean["recalibrated_gap"] == clean[part[0]] - clean[part[1]]
    assert curves["step"] == [1, 2, 3, 4]


# --- the authors' noise ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mpgd plain 0.6 beta 0.5", "mpgd symmetric 0.7 beta 0.5"])
@pytest.mark.parametrize("inert", [True, False])
def test_a_released_step_is_its_formula(name: str, inert: bool) -> None:
    """X' = x - eta g - eta^gamma (sigma v + mu v x), the sign of sigma being the authors'."""
    deviations = ["norm_too", *(["inert_multiplicative"] if inert else [])]
    run = task(name, "released", deviations)
    h, model = run.hyperparameters, make_model(run)
    noise = ScriptNoise(h["gamma"], 0.5, h["symmetric"], frozenset(SWITCHES))
    parts = [model.stem.weight, model.norm.weight]
    for k in (0, 2):
        before = [p.detach().double().clone() for p in parts]
        for p in model.parameters():
            p.grad = torch.ones_like(p)
        perturb = make_perturbation(model, h, run.seed)
        assert perturb is not None
        perturb(k)
        make_optimizer(model, h, run.seed).step()
        v = noise.tables(3, [tuple(p.shape) for p in parts], 4)[0][k]
        for p, x, each in zip(parts, before, v.split([p.numel() for p in parts]), strict=True):
            each = each.view_as(x)
            term = 0.01 * each + (0.0 if inert else 0.03) * each * x
            expected = x - 0.1 - 0.1 ** h["gamma"] * term
            torch.testing.assert_close(p.detach().double(), expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(model.head.bias.grad, torch.ones(10))  # type: ignore[arg-type]


def test_the_released_gaussian_has_no_prefactor() -> None:
    run = task("gaussian", "released", ["norm_too"], width=32)
    model = make_model(run)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    perturb = make_perturbation(model, run.hyperparameters, run.seed)
    assert perturb is not None
    perturb(0)
    moved = 0.1 * model.stem.weight.grad  # type: ignore[operator]
    assert float(moved.std()) == pytest.approx(0.01, rel=0.1)
    assert model.norm.weight.grad.abs().min() > 0  # type: ignore[union-attr]


@pytest.mark.parametrize("symmetric", [False, True])
def test_orbits_have_the_seeds_of_the_cifar_script(symmetric: bool) -> None:
    """Element i of run s starts from seed 2 s + i, its twin from 123456 + s + i."""
    noise = ScriptNoise(0.6, 1.0, symmetric, frozenset(SWITCHES) - {"reshaped"})
    found = noise.tables(seed=5, shapes=[(3,), (2,)], steps=6)[0]

    def orbit(seed: int) -> list[float]:
        y = iterate(np.array([np.random.RandomState(seed).uniform()]), 0.6, 10_000)
        path = []
        for _ in range(6):
            path.append(values(0.6)[int(y[0] > ThalerMap(0.6).y_star)])  # beta = 1: no flips
            y = iterate(y, 0.6, 1)
        return path

    for column, i in enumerate([0, 1, 2, 0, 1]):
        expected = np.array(orbit(10 + i)) - (np.array(orbit(123_461 + i)) if symmetric else 0.0)
        assert np.allclose(found[:, column].numpy(), expected)


# --- the whole table ---------------------------------------------------------------------------


def test_a_tiny_study_gives_tables_verdicts_and_no_leftovers(
    tmp_path: Path, data_folder: Path
) -> None:
    heard = RecordingReporter()
    context = Context(tmp_path, heard, seeds=1, data=data_folder)
    reproduction.run(context, TINY | {"steps": 2})
    assert "tiny study on cpu" in heard.lines[0]
    for protocol, count in (("corrected", 19), ("released", 11)):
        for title in ("validation accuracy, %", "accuracy gap, %"):
            rows = heard.tables[f"cifar10 (tiny), {protocol}: {title}"]
            assert len(rows) == count
            assert rows[0][0] == "gd"
            assert rows[0][1].startswith("73.10" if "val" in title else "8.99")
    assert sum("MPGD" in line for line in heard.lines) == 8 + 12
    assert "1 seed, too few for a verdict" in heard.lines[-1]
    records = list(context.store.records())
    assert len(records) == 30
    assert {record.run.hyperparameters["study"] for record in records} == {"tiny"}
    assert not list((tmp_path / "checkpoints").glob("*"))


@pytest.mark.parametrize(("size", "rows"), [("tiny", 5 * 30), ("reduced", 5 * 14)])
def test_the_size_chooses_the_study_and_is_said(
    size: str, rows: int, tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: list[Any] = []
    heard = RecordingReporter()
    kept = lambda context, runs, *rest: wanted.extend(runs) or []  # noqa: E731
    monkeypatch.setattr(reproduction, "complete", kept)
    protocols = ("corrected",) if size == "reduced" else ("corrected", "released")
    reproduction.run(Context(tmp_path, heard, protocols, data=data_folder, size=size))
    assert all(run.hyperparameters["study"] == size for run in wanted)
    assert len(wanted) == rows
    assert f"{size} study" in heard.lines[0]
    assert ("smoke test" in heard.lines[0]) == (size == "tiny")


def reduced_records(seeds: int, effect: float) -> list[Record]:
    """Return records of the reduced study in which MPGD is better by ``effect``."""
    rng, records = np.random.default_rng(0), []
    for run in tasks("corrected", range(1, seeds + 1), cifar10.REDUCED | {"device": "cpu"}):
        shift = effect * run.scheme.startswith("mpgd")
        gap, other = 20.0 - shift + rng.normal(), 30.0 + 99.0 * shift + rng.normal()
        metrics = {"val_accuracy": 33.0 + shift + rng.normal(), "accuracy_gap": gap}
        metrics |= {"augmented_gap": other, "training_seconds": 1.0, "cpu_seconds": 1.0}
        curves = {"step": [1, 600], "val_accuracy": [10.0, 30.0]}
        records.append(Record(run, metrics, curves, 1.0, {}, None))
    return records


def answer_of(records: Sequence[Record]) -> tuple[str, str]:
    """Return the headline of a page of these records, and the texts of the section."""
    page = build(sort(records, [load("cifar10")]), "", [load("cifar10")])
    texts = [getattr(b, "text", getattr(b, "caption", "")) for b in page.sections[1].blocks]
    return page.answer, "\n".join(texts)


def test_the_reduced_study_is_judged_with_ten_seeds_and_counted_for_itself() -> None:
    """31 of its 32 comparisons are printed in favour of MPGD; the displaced row has no verdict."""
    answer, texts = answer_of(reduced_records(10, 9.0))
    assert answer.startswith("Yes: on a reduced CIFAR-10 with corrected signs, of 31 comparisons")
    assert "31 hold" in answer
    assert "training mode" in texts
    answer, _ = answer_of(reduced_records(10, -9.0))
    assert "none hold in these runs (31 contradicted)" in answer
    answer, texts = answer_of(reduced_records(9, 9.0))
    assert "no claim that MPGD is better has been tested" in answer
    assert "No verdicts yet: the rule asks for 10 seeds of every row" in texts
    one_row_less = [
        r for r in reduced_records(10, 9.0) if not (r.run.seed == 10 and r.run.scheme == "gd")
    ]
    assert "the row with the fewest has 9" in answer_of(one_row_less)[1]


def test_the_displaced_gaussian_moves_as_far_as_mpgd() -> None:
    run = next(
        run
        for run in tasks("corrected", [1], cifar10.REDUCED | {"device": "cpu"})
        if "matched_over" in run.hyperparameters
    )
    assert run.scheme == "gaussian plain 0.6 beta 0.5 over 600 steps"
    noise = make_noise(run.hyperparameters)
    chaotic = ChaoticNoise(0.6, 0.5)
    assert noise.displacement(600) == pytest.approx(chaotic.displacement(600), rel=1e-12)
    assert noise.displacement(600) > 3 * GaussianNoise.matched(chaotic).displacement(600)


@pytest.mark.parametrize(("size", "seconds"), [("tiny", 6.0), ("reduced", 102.0), ("full", 1.85e6)])
def test_the_estimate_follows_the_size(size: str, seconds: float) -> None:
    runs = tasks("corrected", [1], cifar10.SIZES[size] | {"device": "cpu"})
    own = [run for run in runs if run.hyperparameters["noise"] != "mini-batches"]
    assert load("cifar10").total_seconds(own) == pytest.approx(seconds * len(own))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["reproduce", "cifar10", "--device", "cuda", "--out", str(tmp_path)]
    assert cli.main(arguments) == cli.FAILED
    assert "torch finds no GPU; --size reduced runs on a CPU" in capsys.readouterr().err


def test_one_step_of_the_full_recipe_is_timed(
    tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = cifar10_step.STEP
    assert real == FULL | {"study": "one step", "steps": 1, "moments": 1}
    monkeypatch.setattr(cifar10_step, "STEP", real | {"width": 2, "train": 200, "test": 50})
    context = Context(tmp_path, heard := RecordingReporter(), data=data_folder)
    for _ in range(2):  # the second time it is in the store
        cifar10_step.run(context)
    (record,) = context.store.records()
    assert record.metrics["cpu_seconds"] > 0
    assert heard.lines[0] == heard.lines[-1]
    assert "mpgd plain 0.6 beta 0.5, 200 images" in heard.lines[0]


def test_a_run_that_diverges_has_no_accuracy(data_folder: Path) -> None:
    """Nor does it go on: statistics leave it out and count it."""
    metrics, curves = train(task("gd", eta=1e30), data_folder)
    assert np.isnan(metrics["val_accuracy"])
    assert metrics["training_seconds"] > 0
    assert len(curves.get("step", [])) < 4


def test_a_long_run_says_how_far_it_is(tmp_path: Path, data_folder: Path) -> None:
    lines: list[str] = []
    train(task("gd"), data_folder, tmp_path, every=0.0, say=lines.append)
    assert len(lines) == 4
    assert "gd, seed 3: step 3 of 4, 0 minutes left" in lines[2]


def test_all_deviations_are_described_and_stored() -> None:
    runs = tasks("released", [1], ON_CPU)
    assert all(run.hyperparameters["deviations"] == list(DEVIATIONS) for run in runs)
    assert json.loads(runs[0].canonical)["hyperparameters"]["device"] == "cpu"
