"""An experiment in one file outside the package: trained, printed, shown on the page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mpgd_lab import cli, report
from mpgd_lab.catalogue import load_file
from mpgd_lab.runner import Context, reproduce

STUDY = """
from mpgd_lab.content.tables import Comparison
from mpgd_lab.content.blocks import Text
from mpgd_lab.content.findings import verdict_blocks
from mpgd_lab.content.tables import Setting, scheme_table
from mpgd_lab.experiment import Experiment, SectionSpec
from mpgd_lab.schema import Needs
from mpgd_lab.schemes import Scheme, runs_of
from mpgd_lab.verdicts import Measure
from mpgd_lab.batched_training import descend

import torch

END = Measure("distance", "distance to the minimum", 3, noun="distance")


def schemes(protocol):
    level = {"gamma": 0.7, "mu": 0.0, "sigma": 0.2}
    return [Scheme(), Scheme("matched", False, **level),
            Scheme("chaotic", False, beta=0.5, **level)]


def runs(protocol, seeds, steps=50):
    return runs_of("bowl", "paper", schemes(protocol), seeds, {"eta": 0.1, "steps": steps})


def train(runs, data=None):
    start = torch.ones(len(runs), 3, dtype=torch.float64)
    x = descend(start, runs, [(3,)], lambda x: (x.norm(dim=1), x)).after
    for run, distance in zip(runs, x.norm(dim=1).tolist()):
        yield run, {"distance": distance}, {}


COMPARISON = Comparison(lambda records: {"bowl": records}, schemes, lambda protocol: (END,), 3)


def blocks(records):
    headlines = {"distance": "Bowl: MPGD ends nearer to the minimum"}
    table = scheme_table("Distances", [Setting("bowl", records, END)], "lower")
    verdicts = verdict_blocks({"bowl": records}, headlines, COMPARISON)
    return [Text("Descent into a bowl."), *verdicts, table]


EXPERIMENT = Experiment(
    name="bowl", title="Descent into a bowl", runs=runs, train=train, printout=COMPARISON.printout,
    needs=lambda run: Needs(("distance",)), section=SectionSpec("A bowl of our own", blocks),
)
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "bowl", raising=False)
    path = tmp_path / "bowl.py"
    path.write_text(STUDY)
    return path


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_file_is_reproduced_and_its_section_is_on_the_page(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], workers: str
) -> None:
    out = tmp_path / "out"
    arguments = ["--out", str(out), "--seeds", "8", "--workers", workers]
    assert cli.main(["reproduce", str(file), "--verbose", *arguments]) == cli.OK
    shown = capsys.readouterr().out
    assert "trained: Descent into a bowl" in shown
    assert "bowl: distance to the minimum" in shown
    assert "mpgd plain 0.7 beta 0.5" in shown
    assert (
        "bowl: MPGD (plain), mean over gamma 0.7 and beta 0.5, has a lower distance than" in shown
    )
    assert "bowl, distance to the minimum, 2 comparisons row by row: " in shown
    page = (out / "report.html").read_text()
    assert "A bowl of our own" in page
    assert "Bowl: MPGD ends nearer to the minimum" in page

    (out / "report.html").unlink()
    assert cli.main(["report", str(out)]) == cli.OK
    assert "A bowl of our own" not in (out / "report.html").read_text()
    assert cli.main(["report", str(out), "--study", str(file)]) == cli.OK
    assert "A bowl of our own" in (out / "report.html").read_text()


def test_the_same_from_python_and_a_second_time_nothing_is_trained(
    file: Path, tmp_path: Path
) -> None:
    study, context = load_file(file), Context(tmp_path / "out", seeds=2)
    reproduce(study, context, 10)
    before = {path: path.stat().st_mtime_ns for path in context.store.folder.iterdir()}
    assert len(before) == 6
    reproduce(study, context, 10)
    assert before == {path: path.stat().st_mtime_ns for path in context.store.folder.iterdir()}
    written = report.write(context.out, tmp_path / "own.html", [study])
    assert "bowl" not in written.missing


def test_a_record_without_its_metric_costs_only_itself(file: Path, tmp_path: Path) -> None:
    study, context = load_file(file), Context(tmp_path / "out", seeds=2)
    reproduce(study, context, 10)
    spoiled = study.runs("paper", [1], 10)[0]
    context.store.save(spoiled, {"else": 1.0}, {}, seconds=1.0)
    written = report.write(context.out, tmp_path / "own.html", [study])
    assert written.unusable == (context.store.path(spoiled).name,)
    assert "distance missing in its metrics" in written.file.read_text()
    assert "bowl" not in written.missing


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("empty.py", "", "empty.py must define EXPERIMENT"),
        ("number.py", "EXPERIMENT = 3", "Experiment, got 3"),
        (
            "leaves.py",
            "raise SystemExit('bye')",
            "leaves.py must not end the program, got SystemExit",
        ),
        ("other.py", STUDY, "its experiment must be named 'other', got 'bowl'"),
        ("json.py", STUDY, "json.py has the name of another module"),
        ("torn.py", "x = (", "torn.py, line 1: "),
        ("gone.py", None, "an experiment's file must exist"),
    ],
)
def test_a_file_that_holds_no_experiment_is_a_users_mistake(
    name: str,
    text: str | None,
    match: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    if text is not None:
        (tmp_path / name).write_text(text)
    assert cli.main(["reproduce", str(tmp_path / name)]) == cli.USAGE
    assert match in capsys.readouterr().err
