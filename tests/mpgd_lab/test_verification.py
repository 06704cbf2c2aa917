"""Published runs trained again: agreement, disagreement by name, and what depends on rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mpgd.maps import ThalerMap
from mpgd_lab import cli, report, verification
from mpgd_lab.archive import pack
from mpgd_lab.catalogue import load
from mpgd_lab.perturbations.released import iterate, stationary
from mpgd_lab.runner import Context
from mpgd_lab.store import Record
from mpgd_lab.verification import (
    check_folder,
    published_records,
    sample,
    train_again,
    trainable,
)

DIGITS = load("digits")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with three published runs of digits, trained again."""
    folder = tmp_path_factory.mktemp("trained")
    train_again(DIGITS, Context(folder), sample(published_records()["digits"], 3))
    return folder


@pytest.fixture
def publish(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Return what publishes other records for the length of a test."""

    def replace_published(records: Sequence[Record]) -> None:
        pack(records, tmp_path / "records.xz")
        for module in (verification, report):
            monkeypatch.setattr(module, "PUBLISHED", tmp_path / "records.xz")
        forget()

    def forget() -> None:
        verification.published_records.cache_clear()
        verification._published_by_key.cache_clear()

    yield replace_published
    monkeypatch.undo()
    forget()


def tampered(factor: float) -> tuple[Record, list[Record]]:
    """Return the first record of the sample, changed by hand, and all records with it."""
    records = list(published_records()["digits"])
    first = sample(records)[0]
    (changed,) = [
        replace(one, metrics={**one.metrics, "test_loss": factor * one.metrics["test_loss"]})
        for one in records
        if one.run == first
    ]
    return changed, [changed if one.run == first else one for one in records]


def test_runs_trained_here_agree_with_the_published_ones(trained: Path) -> None:
    check = check_folder(trained, DIGITS)
    assert (check.runs, check.agreeing, check.disagreements) == (3, 3, ())
    assert check.counts == "checked here: 3 of 3 runs agree (of others: not run)"


def test_a_published_record_changed_by_hand_is_reported_by_name(
    trained: Path, publish: Callable[..., None]
) -> None:
    changed, records = tampered(1 + 1e-4)
    publish(records)
    train_again(DIGITS, Context(trained), [changed.run])  # once more from changed parameters
    check = check_folder(trained, DIGITS)
    (text,) = check.disagreements
    assert text.startswith(f"digits, corrected, {changed.run.scheme}, seed {changed.run.seed}: ")
    assert "test_loss published" in text
    assert text in check.sentence
    assert check.counts.startswith("checked here: 2 of 3 runs agree")


def test_a_change_below_the_tolerance_is_rounding(
    trained: Path, publish: Callable[..., None]
) -> None:
    publish(tampered(1 + 1e-9)[1])
    assert check_folder(trained, DIGITS).disagreements == ()


def test_a_run_that_depends_on_rounding_is_no_disagreement(trained: Path) -> None:
    own = [one for one in Context(trained).store.records() if one.run.experiment == "digits"]
    off = [replace(one, metrics={**one.metrics, "test_loss": 9.0}) for one in own[:1]]
    moved = [replace(one, metrics={**one.metrics, "test_loss": 8.0}) for one in own[:1]]
    assert len(verification.check_records(DIGITS, off, moved).sensitive) == 1
    assert len(verification.check_records(DIGITS, off, off).disagreements) == 1
    # trained again it agrees with the published run: the record here is damaged
    assert len(verification.check_records(DIGITS, off, own).disagreements) == 1


@pytest.mark.parametrize("value", ["abc", "1.5", [1.0, 2.0], {}, 10**400])
def test_a_metric_that_is_no_number_is_a_disagreement(trained: Path, value: object) -> None:
    own = [one for one in Context(trained).store.records() if one.run.experiment == "digits"]
    off = [replace(one, metrics={**one.metrics, "test_loss": value}) for one in own[:1]]
    (text,) = verification.check_records(DIGITS, off, own).disagreements
    assert text.startswith("digits, ")


def test_rounding_explains_no_more_than_a_nudge_shows(
    trained: Path, publish: Callable[..., None]
) -> None:
    """A changed record of a run that depends on rounding is a disagreement all the same."""
    changed, records = tampered(1.001)
    (own,) = [one for one in Context(trained).store.records() if one.run == changed.run]
    loss = own.metrics["test_loss"]
    nudged = replace(own, metrics={**own.metrics, "test_loss": (1 + 5e-5) * loss})
    publish(records)
    assert len(verification.check_records(DIGITS, [own], [nudged]).sensitive) == 1
    publish(tampered(1.01)[1])
    assert len(verification.check_records(DIGITS, [own], [nudged]).disagreements) == 1


def test_without_data_a_study_is_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "is_available", lambda source, data: False)
    airfoil, audit = load("airfoil"), load("audit")
    assert check_folder(tmp_path, airfoil).counts == "not checked here: data not found"
    runs = sample(published_records()["audit"])
    studies = {run.hyperparameters["study"] for run in trainable(audit, runs, None)}
    assert studies == {"valley"}


def test_the_answer_is_the_last_line_and_the_first_of_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], publish: Callable[..., None]
) -> None:
    every = published_records()
    publish([*every["valley"], *every["digits"]])
    options = ["--workers", "1", "--verbose", "--out", str(tmp_path)]
    assert cli.main(["reproduce", "valley", *options]) == cli.OK
    lines = capsys.readouterr().out.splitlines()
    assert "valley, text: final trace of the Hessian" in lines  # the published table
    assert any("checked here: 24 of 24 runs agree" in line for line in lines)
    page = (tmp_path / "report.html").read_text()
    heading = page[page.index("<h1>") + 4 : page.index("</h1>")].replace("&#39;", "'")
    assert heading == lines[-1]
    assert "Checked here: 24 of 24 runs agree, within 1e-06." in page
    assert page.count("Not checked here: not run.") == 1  # digits


@pytest.mark.parametrize("gamma", [0.55, 0.7])
def test_textbook_orbits_have_the_c_librarys_bits(gamma: float) -> None:
    """A loop of Python's own floats gives every bit, whatever vector code numpy has."""
    e, u = 1 - gamma, np.random.default_rng(0).random(50)
    y, expected = iterate(u, gamma, 40), []
    for number in u.tolist():
        for _ in range(40):
            number = math.pow(math.pow(number, e) + math.pow(1 + number, e) - 1, 1 / e)
            number = number - 1 if number > 1 else number
        expected.append(number)
    assert y.tolist() == expected


def test_stationary_starts_follow_the_law() -> None:
    u = np.random.default_rng(1).random(200)
    np.testing.assert_allclose(stationary(u, 0.6), ThalerMap(0.6).quantile(u), rtol=1e-14)
