"""`mpgd reproduce implicit` at small sizes: its verdicts, its file, and that it is not repeated."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mpgd_lab.runner import Context, reproduce
from mpgd_lab.studies.implicit import EXPERIMENT, training
from mpgd_lab.studies.implicit import runs as implicit
from mpgd_lab.studies.implicit.runs import PROBLEMS, Case, Counts, cases
from mpgd_lab.studies.implicit.section import deviation, verdict
from tests.mpgd_lab.recomputation import check_nothing_again

SMALL = Counts(small=4000, network=600, ratio=(5, 20, 80))


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    context = Context(tmp_path_factory.mktemp("out"))
    reproduce(EXPERIMENT, context, SMALL)
    return context


def test_the_figure_is_a_png(context: Context) -> None:
    assert (context.out / "implicit.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_every_case_is_in_the_store(context: Context) -> None:
    names = [record.run.scheme for record in context.store.records()]
    assert {name: names.count(name) for name in PROBLEMS} == {
        "quartic": 6,
        "pair": 10,
        "valley": 10,
        "network": 10,
    }


def test_the_completed_theorem_holds_and_the_printed_one_does_not(context: Context) -> None:
    """36 cases share their paths, so one draw decides all: 4 standard errors at this size."""
    records = [r for r in context.store.records() if r.run.scheme in PROBLEMS]
    assert all(abs(deviation(record, "completed")) < 4 for record in records)
    failing = [record for record in records if abs(deviation(record, "printed")) > 4]
    assert {record.run.scheme for record in failing} == set(PROBLEMS)
    assert all(record.run.hyperparameters["mu0"] for record in failing)


def test_without_multiplicative_noise_both_forms_are_one(context: Context) -> None:
    for record in context.store.records():
        if record.run.scheme in PROBLEMS and not record.run.hyperparameters["mu0"]:
            assert record.metrics["printed"] == record.metrics["completed"]


def test_the_ratio_falls_at_a_fixed_number_of_steps_only(context: Context) -> None:
    """The remark after Theorem 4.3; at k = 2 m the lambda term keeps its share."""
    share = {}
    for record in context.store.records():
        h, m = record.run.hyperparameters, record.metrics
        if record.run.scheme == implicit.RATIO:
            share[h["regime"], h["mu0"], h["m"]] = abs(m["third"] / m["trace"])
    for mu0 in (0.0, 1.0):
        assert share["fixed", mu0, 80] < 0.85 * share["fixed", mu0, 20]
        assert 0.9 < share["limit", mu0, 80] / share["limit", mu0, 20] < 1.1


def test_a_second_run_computes_nothing(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    check_nothing_again(
        monkeypatch,
        training,
        "work",
        lambda: reproduce(EXPERIMENT, context, SMALL),
        lambda: reproduce(EXPERIMENT, context, replace(SMALL, network=7)),
    )


def test_extrapolation_removes_two_orders() -> None:
    weights = torch.tensor(training.RICHARDSON, dtype=torch.float64)
    eps = torch.tensor(implicit.EPSILONS, dtype=torch.float64)
    assert float(weights @ (3 + 5 * eps**2 - 7 * eps**4)) == pytest.approx(3, abs=1e-12)
    assert float(weights @ eps**6) != pytest.approx(0, abs=1e-12)


def test_plain_descent_has_no_excess() -> None:
    """The odd orders and the base cancel exactly: without noise every D is zero."""
    D = training.measure(PROBLEMS["network"], Case(0.0, 0.0, 0.0, True), 5, seed=0)
    assert float(D.abs().max()) < 1e-12


def test_cases_are_told_apart_in_words(context: Context) -> None:
    words = [implicit.describe(case) for case in cases("pair")]
    assert len(set(words)) == len(words) == 10
    assert "mu0, per coord., beta 0.5" in words


def test_the_verdict_sees_a_wrong_prediction(context: Context) -> None:
    records = [r for r in context.store.records() if r.run.scheme == "pair"]
    wrong = [replace(r, metrics=dict(r.metrics) | {"completed": 9.0}) for r in records]
    assert "completed theorem: within 3 standard errors in 0 of 10" in verdict(wrong)[0]
