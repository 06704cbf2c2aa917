"""`mpgd reproduce steps` at small sizes: its runs, its verdicts, what is said and drawn."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from mpgd_lab.catalogue import PROTOCOLS
from mpgd_lab.content.blocks import Missing, Plate, Table
from mpgd_lab.content.tables import IncompleteError
from mpgd_lab.report.svg import svg_file
from mpgd_lab.runner import Context, reproduce, split
from mpgd_lab.store import Record, Run
from mpgd_lab.studies.steps import EXPERIMENT
from mpgd_lab.studies.steps.runs import (
    ETAS,
    LOWER,
    SHARED,
    STEPS,
    STUDIES,
    TIME,
    label,
    needs,
    sizes,
    tasks,
)
from mpgd_lab.studies.steps.section import LARGE, SMALL, STILL, WORSE, Rows, blocks, findings
from mpgd_lab.studies.steps.training import train
from tests.mpgd_lab.recording_reporter import RecordingReporter

SHORTER = 500


@cache
def every_run(seeds: int) -> list[Run]:
    """Return the runs of all protocols, each once."""
    runs = [run for p in PROTOCOLS for run in tasks(p, range(1, seeds + 1))]
    return list({run.key: run for run in runs}.values())


def made(effect: dict[str, float], seeds: int = 12, paper: float = 0.0) -> list[Record]:
    """Return records in which MPGD differs from descent by ``effect`` at small and large steps."""
    found, rng = [], np.random.default_rng(0)
    for run in every_run(seeds):
        h = run.hyperparameters
        own, shift = STUDIES[h["data"]].fixed["eta"], 0.0
        if run.scheme.startswith("mpgd"):
            shift = effect.get("small" if h["eta"] < own else "large", 0.0)
            shift = paper * h["sigma"] if h["eta"] == own else shift
        metrics = {STUDIES[h["data"]].metric: 10.0 + shift + 0.3 * rng.normal(), "diverged": 0}
        found.append(Record(run, metrics, {}, 1.0, {}, None))
    return found


def words(records: list[Record], headline: str, setting: str = "as the text says") -> set[str]:
    return {
        one.word
        for one in findings(Rows(records))
        if one.headline == headline and one.setting == setting
    }


def test_equal_time_and_equal_steps_are_what_they_say() -> None:
    for name, study in STUDIES.items():
        eta, steps = study.fixed["eta"], study.fixed["steps"]
        for (kind, each), count in sizes(name).items():
            if kind == STEPS:
                assert count == steps
            else:
                assert count * each == pytest.approx(eta * steps, rel=0.005)
    assert sizes("airfoil")[TIME, 0.003] == 100_000
    assert sizes("airfoil")[TIME, 0.1] == sizes("airfoil")[STEPS, 0.1] == 3000


def test_protocols_differ_in_their_noise_and_share_descent() -> None:
    by = {p: tasks(p, [1]) for p in PROTOCOLS}
    keys = [{run.key for run in runs if run.scheme == "gd"} for runs in by.values()]
    assert keys[0] == keys[1] == keys[2]
    noisy = {p: [r for r in runs if r.scheme.startswith("mpgd")] for p, runs in by.items()}
    assert {(r.hyperparameters["signs"], r.hyperparameters["first_sign"]) for r in noisy["text"]}
    assert all(r.hyperparameters["signs"] == "product" for r in noisy["text"])
    assert all("signs" not in r.hyperparameters for r in noisy["corrected"])
    assert all(len(r.hyperparameters["switches"]) > 5 for r in noisy["released"])
    levels = {r.hyperparameters["sigma"] for r in noisy["corrected"]}
    assert levels == {0.02, *LOWER}


def test_ecg_is_perturbed_in_its_first_half() -> None:
    for run in tasks("corrected", [1]):
        h = run.hyperparameters
        assert h.get("stop") == (h["steps"] // 2 if h["data"] == "ecg" else None)


def test_a_batch_shares_what_it_must() -> None:
    runs = [run for p in PROTOCOLS for run in tasks(p, range(1, 4), SHORTER)]
    for batch in split(runs, EXPERIMENT.max_batch):
        assert len({(r.hyperparameters["eta"], r.hyperparameters["steps"]) for r in batch}) == 1
    assert label(runs[0]).startswith("airfoil, corrected, gd, eta 0.003, ")


def test_small_steps_are_judged_as_the_paper_claims_them() -> None:
    """Lower is better on airfoil, higher on ECG5000: one sign cannot suit both."""
    better = made({"small": -2.0})
    by_study = {
        one.claim.split(",")[0]: one.word for one in findings(Rows(better)) if one.headline == SMALL
    }
    assert by_study == {"airfoil": "supported", "ECG5000": "contradicted"}
    assert words(made({}), SMALL) == {"undecided"}


def test_large_steps_are_never_found_alike() -> None:
    assert words(made({}), LARGE) == {"undecided"}
    assert words(made({"large": 2.0}), LARGE) == {"contradicted"}
    assert words(made({"large": -2.0}), LARGE) == {"contradicted"}


def test_lower_levels_are_judged_against_descent_and_the_papers_level() -> None:
    rising = made({}, paper=40.0)
    assert words(rising, WORSE) == {"supported"}
    assert words(rising, STILL) == {"supported"}
    assert words(made({}, paper=-40.0), WORSE) == {"contradicted"}
    kinds = [row.kind for row in Rows(rising).levels["text"]]
    assert kinds.count("descent") == kinds.count("the Gaussian") == len(LOWER)


def test_a_run_that_diverged_is_the_worst() -> None:
    records = [
        replace(r, metrics=r.metrics | {"test_rmse": float("nan")})
        if r.run.scheme.startswith("mpgd") and r.run.hyperparameters["eta"] == 0.5
        else r
        for r in made({})
    ]
    rows = Rows(records).sweeps["airfoil", "text", TIME]
    last = rows[-1].verdict.difference
    assert (rows[-1].at, last.diverged) == (0.5, 12)
    assert last.mean > 0


def test_a_page_draws_the_figure() -> None:
    (plate,) = [block for block in blocks(made({})) if isinstance(block, Plate)]
    assert len(plate.panels) == 5
    assert svg_file(plate).startswith("<?xml")


def test_what_is_not_there_is_left_out_or_said() -> None:
    records = made({})
    text_only = [r for r in records if r.run.protocol in ("text", SHARED)]
    kept = [r for r in text_only if r.run.protocol == "text" or "mpgd" not in r.run.scheme]
    assert {protocol for _, protocol, _ in Rows(kept).sweeps} == {"text"}
    with pytest.raises(IncompleteError, match="no sweep of step sizes and none of levels is whole"):
        Rows(records[:3])
    with pytest.raises(IncompleteError, match="no sweep"):
        Rows([])


def test_a_page_of_levels_alone_says_what_is_missing() -> None:
    records = made({}, seeds=10)
    h = tasks("text", [1])[-1].hyperparameters
    own = [r for r in records if r.run.hyperparameters["data"] == "ecg"]
    levels = [r for r in own if r.run.hyperparameters["eta"] == h["eta"]]
    (missing, *_, table) = blocks(levels)
    assert isinstance(missing, Missing)
    assert "airfoil at equal time, airfoil at equal steps, ECG5000 at equal time" in missing.text
    assert "levels" not in missing.text
    assert missing.command.endswith("--protocol text,corrected,released --seeds 10 --data DIR")
    assert isinstance(table, Table)
    assert table.caption == "ECG5000: test accuracy against the level"
    assert not any(isinstance(block, Missing) for block in blocks(records))


def test_a_record_must_name_its_study() -> None:
    run = tasks("text", [1])[0]
    assert needs(run).metrics == ("test_rmse", "diverged")
    odd = Run("steps", "text", "gd", {"data": "moon"}, 1)
    assert needs(odd).metrics == ()
    assert set(needs(odd).choices["data"]) == set(STUDIES)


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory, data_folder: Path) -> Context:
    out = tmp_path_factory.mktemp("out")
    context = Context(out, RecordingReporter(), PROTOCOLS, seeds=2, data=data_folder)
    reproduce(EXPERIMENT, context, SHORTER)
    return context


def test_the_whole_study_runs_and_draws(context: Context) -> None:
    assert isinstance(context.reporter, RecordingReporter)
    assert (context.out / "steps.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    tables = context.reporter.tables
    assert len(tables["airfoil, equal time: test rmse"]) == len(PROTOCOLS) * len(ETAS)
    assert len(tables["ECG5000: test accuracy against the level"]) == 3 * (3 * len(LOWER) - 1)
    said = "\n".join(context.reporter.lines)
    assert f"{SMALL}; as the text says, airfoil, equal time: step size 0.003: undecided" in said


def test_a_run_trains_the_same_alone(context: Context, data_folder: Path) -> None:
    """One noisy run of each study, beside others in the store and alone here."""
    for name, metric in (("airfoil", "test_rmse"), ("ecg", "train_loss")):
        run = next(
            r
            for r in tasks("text", [2], SHORTER)
            if r.hyperparameters["data"] == name and r.scheme.startswith("mpgd")
        )
        ((_, alone, _),) = train([run], data_folder)
        together = context.store.load(run)
        assert together is not None
        assert together.metrics[metric] == pytest.approx(alone[metric], rel=1e-9)
