"""Rows at equal displacement: how far they move, how they are trained, what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from mpgd.noise import ChaoticNoise
from mpgd_lab.content.blocks import Findings, Missing, Table, Text
from mpgd_lab.content.tables import IncompleteError
from mpgd_lab.perturbations.batched import levels
from mpgd_lab.schemes import Scheme
from mpgd_lab.store import Record, Run
from mpgd_lab.studies.digits import runs as digits
from mpgd_lab.studies.digits import training as digits_training
from mpgd_lab.studies.displacement import runs as displacement
from mpgd_lab.studies.displacement.runs import NETWORKS, PARTS, RATIOS, computed_ratio, tasks
from mpgd_lab.studies.displacement.section import AT_GAUSSIAN, AT_MPGD, blocks
from mpgd_lab.studies.displacement.training import train
from mpgd_lab.studies.generalization.runs import tasks as network_tasks


def moved(run: Run, steps: int) -> float:
    """Return how far the additive noise of a run moves a parameter, the root mean square."""
    h = run.hyperparameters
    if h["noise"] == "matched":
        return levels(run)[1] * steps**0.5
    twins = 2.0 if h["symmetric"] else 1.0
    return levels(run)[1] * ChaoticNoise(h["gamma"], h["beta"]).displacement(steps) * twins**0.5


@pytest.mark.parametrize("name", PARTS)
def test_both_rows_move_as_far_as_their_rival(name: str) -> None:
    part = PARTS[name]
    own = [run for run in tasks("corrected", [1]) if run.hyperparameters["data"] == name]
    assert len(own) == 2 * 2 * len(part.gammas)
    for run in own:
        scheme = Scheme.of(run)
        mu, sigma = part.levels[scheme.variant or ""]
        level = {"mu": mu, "sigma": sigma}
        rival = Scheme("chaotic", scheme.symmetric, scheme.gamma, scheme.beta, **level)
        if scheme.kind == "mpgd":
            rival = Scheme("matched", scheme.symmetric, scheme.gamma, **level)
        other = replace(run, hyperparameters={**part.fixed, **rival.hyperparameters})
        assert moved(run, part.steps) == pytest.approx(moved(other, part.steps), rel=1e-5)
        assert levels(run)[1] != pytest.approx(levels(other)[1], rel=0.2)


@pytest.mark.parametrize(("beta", "steps"), RATIOS)
def test_tabulated_ratios_are_those_of_the_autocovariance(beta: float, steps: int) -> None:
    for gamma, value in RATIOS[beta, steps].items():
        assert value == pytest.approx(computed_ratio(gamma, beta, steps), rel=1e-9)


def test_no_ratio_of_the_study_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(displacement, "computed_ratio", None)
    assert len(tasks("corrected", [1])) == 60


def test_a_run_is_trained_as_its_study_trains() -> None:
    runs = [run for run in digits.tasks("corrected", [3], 20) if "plain 0.6" in run.scheme]
    here = [replace(r, hyperparameters={**r.hyperparameters, "data": "digits"}) for r in runs]
    for (_, ours, _), (_, theirs, _) in zip(train(here), digits_training.train(runs), strict=True):
        assert theirs == {key: pytest.approx(ours[key], rel=1e-12) for key in theirs}


def made(effect: float) -> list[Record]:
    """Return records of digits and of the networks there in which MPGD as far differs so."""
    rng, records = np.random.default_rng(0), []
    own = [run for run in tasks("corrected", range(1, 21)) if "digits" in str(run.hyperparameters)]
    for run in [*own, *digits.tasks("corrected", range(1, 21)), *network_tasks("paper", ())]:
        shift = effect if run.experiment == "displacement" and "mpgd" in run.scheme else 0.0
        metrics = {one.metric: 5.0 + shift + 0.1 * rng.normal() for one in digits.MEASURES}
        names = ("worst_gap", "late_gap", "hessian_trace")
        curves = {name: list(5.0 + shift + 0.1 * rng.normal(size=20)) for name in names}
        records.append(Record(run, metrics, curves, 1.0, {}, None))
    return records


def words(records: Sequence[Record], setting: str, noun: str) -> set[str]:
    (found,) = (block for block in blocks(records) if isinstance(block, Findings))
    return {one.word for one in found.items if one.setting == setting and noun in one.claim}


@pytest.mark.parametrize(("effect", "word"), [(-1.0, "supported"), (1.0, "contradicted")])
def test_a_difference_is_judged_where_it_is(effect: float, word: str) -> None:
    records = made(effect)
    assert words(records, AT_GAUSSIAN, "lower gap") == {word}
    assert words(records, AT_GAUSSIAN, "accuracy") == {"supported", "contradicted"} - {word}
    assert words(records, AT_MPGD, "gap") == {"undecided"}  # of published MPGD, which is alike
    assert words(records, "networks on digits", "smaller gap than the Gaussian") == {word}
    assert words(records, "networks on digits", "smaller alpha") == {"undecided"}


def test_nothing_of_it_is_counted_and_its_tables_have_every_row() -> None:
    shown = blocks(made(0.0))
    (found,) = (block for block in shown if isinstance(block, Findings))
    assert {one.basis for one in found.items} == {"elsewhere"}
    tables = [block for block in shown if isinstance(block, Table)]
    assert [len(one.rows) for one in tables] == [8, 8, 8, 4]
    assert "20 seeds" in tables[0].caption


def test_without_the_studies_own_rows_it_is_incomplete() -> None:
    own = [record for record in made(0.0) if record.run.experiment == "displacement"]
    with pytest.raises(IncompleteError, match="both displacements"):
        blocks(own)


def test_networks_on_both_data_sets_have_a_run_for_every_gamma() -> None:
    runs = [run for run in tasks("corrected", ()) if run.hyperparameters["data"] in NETWORKS]
    assert len(runs) == 16
    assert all(run.seed == 0 and run.hyperparameters["seeds"] == 20 for run in runs)


def test_the_answer_counts_where_mpgd_is_better_and_worse() -> None:
    answer = next(one.text for one in blocks(made(-1.0)) if isinstance(one, Text) and one.answer)
    # A level that is lower is better of loss and gap, and worse of accuracy.
    assert "At the Gaussian's displacement MPGD is significantly better and worse" in answer
    assert "in: Digits 16 and 8 of 24 comparisons." in answer
    assert "in: Digits 0 and 0 of 24 comparisons." in answer  # at MPGD's, where they are alike
    assert "2 of 3 comparisons of gaps and traces are significant" in answer


def test_fewer_seeds_of_the_gaussian_as_far_are_said() -> None:
    assert not any(isinstance(one, Missing) for one in blocks(made(0.0)))
    shown = blocks([r for r in made(0.0) if r.run.seed <= 12 or "over" not in r.run.scheme])
    (missing,) = (one for one in shown if isinstance(one, Missing))
    assert missing.begun
    assert "the Gaussian as far: Digits 12 of 20." in missing.text
    assert missing.command == "mpgd reproduce displacement --seeds 20 --data DIR"
    first = next(one for one in shown if isinstance(one, Table))
    assert first.caption.endswith("20 seeds, of the Gaussian as far 12")
