"""What is announced before a training, and options that nobody heeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpgd_lab.catalogue import load
from mpgd_lab.runner import Context
from mpgd_lab.runner.plan import check_options, plan_study, runs_by_key, runs_of
from tests.mpgd_lab.recording_reporter import RecordingReporter


def test_only_runs_that_the_store_lacks_are_announced(tmp_path: Path) -> None:
    context, study = Context(tmp_path, seeds=2), load("digits")
    runs = runs_of(study, context)
    context.store.save(runs[0], {"test_accuracy": 1.0}, {}, seconds=1.0)
    due = plan_study(study, runs, context)
    assert (due.name, due.runs) == ("digits", len(runs) - 1)
    assert due.seconds == pytest.approx(due.runs * study.seconds)
    assert due.seconds > 0


def test_a_run_that_two_lines_share_is_announced_once(tmp_path: Path) -> None:
    context, study = Context(tmp_path, seeds=1), load("digits")
    runs = runs_of(study, context)
    due = plan_study(study, 2 * runs, context)
    assert due.runs == len(runs) > 0


def test_a_study_whose_data_is_not_found_says_so_when_it_runs_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MPGD_DATA", raising=False)
    monkeypatch.setattr("mpgd_lab.experiment.is_available", lambda source, data: False)
    context = Context(tmp_path, heard := RecordingReporter())
    runs_by_key(load("audit"), context)
    assert heard.lines == []


def test_an_option_is_refused_where_nobody_heeds_it_and_told_where_some_do(tmp_path: Path) -> None:
    heard = RecordingReporter()
    context = Context(tmp_path, heard, seeds=7)
    check_options([load("digits"), load("limit")], context)
    assert heard.lines == ["--seeds has no effect on: limit"]
    with pytest.raises(ValueError, match="--seeds has no effect on limit; leave it out"):
        check_options([load("limit")], context)
    check_options([load("limit")], Context(tmp_path))  # nothing was asked for
