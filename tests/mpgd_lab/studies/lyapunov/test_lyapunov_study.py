"""Lyapunov exponents of descent: where they are known, and what is said of them."""

from __future__ import annotations

from dataclasses import replace
from math import log, nan

import numpy as np
import pytest

from mpgd_lab.content.blocks import Findings, Text
from mpgd_lab.store import Record
from mpgd_lab.studies.lyapunov.runs import ETAS, tasks
from mpgd_lab.studies.lyapunov.section import blocks, judged
from mpgd_lab.studies.lyapunov.training import train


def test_descent_that_settles_in_the_valley_has_no_positive_exponent() -> None:
    """All of v = 0 are minima, so that the largest exponent is 0: along u nothing moves."""
    (run,) = (r for r in tasks("own", [1]) if r.hyperparameters["eta"] == 0.003)
    ((_, metrics, _),) = train([run])
    assert -1e-3 < metrics["exponent"] <= 1e-12


def test_where_nothing_is_stable_the_exponent_is_that_of_v() -> None:
    """From v near 0 a few steps leave u alone: v grows by 1 - eta |u|^2 a step."""
    (run,) = (r for r in tasks("own", [1]) if r.hyperparameters["eta"] == 0.05)
    h = {**run.hyperparameters, "eta": 1.0, "height": 1e-200, "steps": 40}
    ((_, metrics, _),) = train([replace(run, hyperparameters=h)])
    from mpgd_lab.studies.valley.training import start

    u = start([1])[0, :-1]
    assert metrics["exponent"] == pytest.approx(log(abs(1.0 - float(u @ u))), rel=1e-6)


def test_an_exponent_does_not_depend_on_the_runs_beside_it() -> None:
    every = [r for r in tasks("own", range(1, 5)) if r.hyperparameters["eta"] == 0.003]
    runs = [replace(r, hyperparameters={**r.hyperparameters, "steps": 40}) for r in every]
    together = [metrics["exponent"] for _, metrics, _ in train(runs)]
    assert len({*together}) == len(together) == 4
    for run, exponent in zip(runs, together, strict=True):
        ((_, alone, _),) = train([run])
        assert alone["exponent"] == pytest.approx(exponent, rel=1e-9)


def made(level: float) -> list[Record]:
    rng = np.random.default_rng(0)
    return [
        Record(run, {"exponent": level + 0.01 * rng.normal()}, {}, 1.0, {}, None)
        for run in tasks("own", range(1, 11))
    ]


@pytest.mark.parametrize(("level", "word"), [(0.1, "supported"), (-0.1, "contradicted")])
def test_the_sign_of_the_exponent_decides(level: float, word: str) -> None:
    (found,) = (block for block in blocks(made(level)) if isinstance(block, Findings))
    assert {one.word for one in found.items} == {word}
    assert len(found.items) == sum(map(len, ETAS.values()))
    assert {one.basis for one in found.items} == {"elsewhere"}


def test_orbits_that_left_the_numbers_are_not_judged() -> None:
    records = [replace(one, metrics={"exponent": nan}) for one in made(0.1)]
    few = [*records[:-10], *made(0.1)[-4:]]
    from mpgd_lab.studies.lyapunov.section import exponents

    assert {one.word for one in judged(exponents(few)).values()} == {"undecided"}


def test_exponents_that_are_zero_to_rounding_are_undecided() -> None:
    records = [replace(one, metrics={"exponent": 1e-12}) for one in made(0.1)]
    (found,) = (block for block in blocks(records) if isinstance(block, Findings))
    assert {one.word for one in found.items} == {"undecided"}


def test_the_answer_names_the_steps_at_which_neighbours_part() -> None:
    records = [r for r in made(-0.1) if r.run.hyperparameters["eta"] != 0.5]
    records += [r for r in made(0.1) if r.run.hyperparameters["eta"] == 0.5]
    (answer,) = (one.text for one in blocks(records) if isinstance(one, Text) and one.answer)
    assert answer.startswith("Valley: the exponent is significantly above 0 at no step size, of ")
    assert "Airfoil: the exponent is significantly above 0 at step size 0.5, of 0.03," in answer
