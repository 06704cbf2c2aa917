"""What is announced before a training, and options that nobody heeds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mpgd.noise.engines import has_numba
from mpgd_lab.catalogue import load
from mpgd_lab.plan import check_options, must_compile, plan_studies, runs_of
from mpgd_lab.runner import Context
from tests.mpgd_lab.recording_reporter import RecordingReporter


def test_only_runs_that_the_store_lacks_are_announced(tmp_path: Path) -> None:
    context, study = Context(tmp_path, seeds=2), load("digits")
    runs = runs_of(study, context)
    context.store.save(runs[0], {"test_accuracy": 1.0}, {}, seconds=1.0)
    (due,) = plan_studies([study], context)
    assert (due.name, due.runs) == ("digits", len(runs) - 1)
    assert due.seconds == pytest.approx(due.runs * study.seconds)
    assert due.seconds > 0


def test_a_run_that_two_lines_share_is_announced_once(tmp_path: Path) -> None:
    context, study = Context(tmp_path, seeds=1), load("digits")
    runs = runs_of(study, context)
    (due,) = plan_studies([replace(study, select_runs=lambda context: 2 * runs)], context)
    assert due.runs == len(runs) > 0


def test_a_study_whose_data_is_not_found_says_so_when_it_runs_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MPGD_DATA", raising=False)
    monkeypatch.setattr("mpgd_lab.experiment.is_available", lambda source, data: False)
    context = Context(tmp_path, heard := RecordingReporter())
    plan_studies([load("audit")], context)
    assert heard.lines == []


def test_an_option_is_refused_where_nobody_heeds_it_and_told_where_some_do(tmp_path: Path) -> None:
    heard = RecordingReporter()
    context = Context(tmp_path, heard, seeds=7)
    check_options([load("digits"), load("limit")], context)
    assert heard.lines == ["--seeds has no effect on: limit"]
    with pytest.raises(ValueError, match="--seeds has no effect on limit; leave it out"):
        check_options([load("limit")], context)
    check_options([load("limit")], Context(tmp_path))  # nothing was asked for


@pytest.mark.skipif(not has_numba(), reason="needs numba")
def test_a_first_compilation_is_foreseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mpgd.noise.engines import fused

    class Fresh:
        def __init__(self, folder: Path) -> None:
            self.stats = type("stats", (), {"cache_path": str(folder)})
            self.__qualname__ = "advance_0123"

    for name in ("advance_values", "advance_copy", "advance_sums", "advance_tensors"):
        monkeypatch.setattr(fused, name, Fresh(tmp_path))
    assert must_compile()
    (tmp_path / "fused.advance_0123-214.py311.nbi").touch()
    assert not must_compile()
