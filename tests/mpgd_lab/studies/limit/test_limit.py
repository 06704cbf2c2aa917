"""The convergence experiment at small sizes: its numbers, its figures, and its store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from mpgd.limits import FastSlow, coupled_paths
from mpgd_lab.runner import Context, reproduce
from mpgd_lab.store import Record
from mpgd_lab.studies.limit import EXPERIMENT, training
from mpgd_lab.studies.limit import runs as limit
from mpgd_lab.studies.limit.alpha_paths import along_phases
from mpgd_lab.studies.limit.extensions_section import rate
from mpgd_lab.studies.limit.runs import GAMMA, LOSSES, SIZES, Further, Sizes
from tests.mpgd_lab.recomputation import check_nothing_again

FEW = Further(
    m=(30, 1000),
    gammas=(0.6, 0.8),
    gammas_m=(30,),
    points=(10, 1000),
    paths=1500,
    reference=2000,
    coupled_m=(50, 300),
    coupled=12,
    read=100,
    sample=10,
    sample_read=20,
    alpha_m=(50, 1000),
    alpha_paths=8,
)
SMALL = Sizes((10, 300), 1500, 2000, steps=25, resamples=5, joint=100, further=FEW)


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    context = Context(tmp_path_factory.mktemp("out"))
    reproduce(EXPERIMENT, context, SMALL)
    return context


@pytest.fixture(scope="module")
def records(context: Context) -> list[Record]:
    return list(context.store.records())


def pick(records: list[Record], part: str, **wanted: object) -> list[Record]:
    """The records of a part with these hyperparameters, by m."""
    mine = [r for r in records if r.run.hyperparameters["part"] == part]
    signs = wanted.pop("signs", None)
    mine = [r for r in mine if signs in (None, r.run.scheme)]
    for name, value in wanted.items():
        mine = [r for r in mine if r.run.hyperparameters[name] == value]
    return sorted(mine, key=lambda r: r.run.hyperparameters.get("m", 0))


def test_there_is_a_figure_per_case(context: Context) -> None:
    names = {f"limit-{loss.replace(' ', '-')}-{kind}.png" for loss in LOSSES for kind in SIZES}
    figures = {path.name: path for path in context.out.glob("*.png")}
    assert set(figures) == names | {"limit-rotation.png", "limit-paths.png"}
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in figures.values())


def test_every_run_is_in_the_store(records: list[Record]) -> None:
    counts = {part: len(pick(records, part)) for part in ("driver", "law", "jump", "rotation")}
    assert counts == {"driver": 8, "law": 48, "jump": 1, "rotation": 2}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", SIZES)
def test_every_distance_falls_as_m_grows(records: list[Record], loss: str, kind: str) -> None:
    for beta, signs in limit.SERIES:
        mine = pick(records, "law", loss=loss, kind=kind, beta=beta, signs=signs)
        assert mine[0].metrics["ks"] > mine[1].metrics["ks"]
        for value, low, high, noise in mine[0].curves["ks"] + mine[1].curves["energy"]:
            assert 0.0 <= low <= value <= high
            assert noise > 0.0


def test_product_signs_tend_to_the_symmetric_equation(records: list[Record]) -> None:
    for loss in LOSSES:
        far = pick(records, "law", loss=loss, kind="additive", beta=0.5, signs="product")[-1]
        assert far.metrics["ks"] < far.metrics["claimed_ks"]
    fresh = pick(records, "law", loss="quadratic", kind="additive", beta=0.5, signs="fresh")
    assert "claimed_ks" not in fresh[-1].metrics


def test_two_drivers_with_different_alphas_tend_to_their_equation(records: list[Record]) -> None:
    few, many = pick(records, "two drivers")
    assert many.metrics["ks"] < 0.6 * few.metrics["ks"]


def test_other_gammas_are_as_near_as_their_driver(records: list[Record]) -> None:
    for record in pick(records, "gamma"):
        assert record.metrics["ks"] < record.metrics["driver"] + 1.5 * record.metrics["noise"]
    slow, slower = (pick(records, "gamma", gamma=g, symmetric=False)[0] for g in (0.6, 0.8))
    assert slower.metrics["driver"] > 2.0 * slow.metrics["driver"]


def test_the_risk_of_many_points_is_near_the_population_s(records: list[Record]) -> None:
    """M = n: the drifts come near in C^gamma, and the laws follow."""
    few, many = pick(records, "points")
    assert many.metrics["holder"] < 0.5 * few.metrics["holder"]
    assert many.metrics["ks"] < 0.6 * few.metrics["ks"]


def test_paths_come_near_in_sm1_and_not_in_j1(records: list[Record]) -> None:
    for loss in LOSSES:
        few, many = pick(records, "paths", loss=loss)
        assert np.median(many.curves["sm1"]) < 0.9 * np.median(few.curves["sm1"])
        for record in (few, many):
            pairs = zip(record.curves["sm1"], record.curves["j1"], strict=True)
            assert all(near <= far + 0.02 for near, far in pairs)
        assert many.metrics["squares"] < few.metrics["squares"]
    fall, low, high = rate(pick(records, "paths", loss="quadratic"), "sm1")
    assert low <= fall <= high
    assert fall < 0.0


def test_one_jump_ends_where_marcus_says(records: list[Record]) -> None:
    (jump,) = pick(records, "jump")
    theta = jump.run.hyperparameters["theta"]
    np.testing.assert_allclose(jump.curves["marcus"], [np.cos(theta), np.sin(theta)], atol=1e-12)
    np.testing.assert_allclose(jump.curves["ito"], [1.0, theta])
    gap = np.array(jump.curves["gap"])
    np.testing.assert_allclose(gap[-3:-1] / gap[-2:], 2.0, rtol=0.02)  # falls like 1/n
    assert gap[0] == pytest.approx(np.hypot(1 - np.cos(theta), theta - np.sin(theta)))


def test_chaotic_rotation_tends_to_marcus_and_not_to_ito(records: list[Record]) -> None:
    few, many = pick(records, "rotation")
    assert many.metrics["marcus"] < few.metrics["marcus"]
    assert many.metrics["marcus"] < many.metrics["ito"] / 2
    np.testing.assert_allclose(many.curves["marcus_radius"], 1.0, atol=1e-10)


def test_the_valleys_gradient_is_that_of_the_squashed_loss() -> None:
    x = torch.randn(20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 4
    x.requires_grad_()
    loss = (3 * torch.tanh(x / 3)).prod(dim=1).square().sum() / 2
    (expected,) = torch.autograd.grad(loss, x)
    torch.testing.assert_close(limit.valley_gradient(x.detach()), expected)


def test_a_second_run_computes_nothing(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    quick = replace(EXPERIMENT, figures=None)
    check_nothing_again(
        monkeypatch,
        training,
        "work",
        lambda: reproduce(quick, context, SMALL),
        lambda: reproduce(quick, Context(tmp_path), SMALL),
    )


@pytest.mark.parametrize("kind", SIZES)
def test_paths_come_near_in_the_theorem_s_own_topology(records: list[Record], kind: str) -> None:
    for p in FEW.alpha_p:
        few, many = pick(records, "alpha", kind=kind, p=p)
        pairs = zip(few.curves["low"], few.curves["high"], strict=True)
        assert all(0.0 < low <= high for low, high in pairs)
        assert "low" not in many.curves  # too long
        if p > 2.0:  # near alpha it falls too slowly to be seen in few paths
            assert many.metrics["high"] < few.metrics["high"]


def test_the_phases_time_change_leaves_only_the_visits_to_z() -> None:
    """Of the driver itself nothing is left but them: each is one m^-gamma, the rest is equal."""
    system = FastSlow.mpgd(torch.zeros_like, sigma=1.0, beta=0.5)
    m, p = 2000, 3.0
    both = coupled_paths(system, 0.0, m, paths=4, seed=3)
    noise = system.couplings[0][1]
    for path in range(4):
        steps = np.diff(both.drivers[0][:, path, 0].numpy())
        visits = np.sum(np.abs(steps) * m**GAMMA > noise.laminar_value * 1.5)
        phases = np.diff(np.flatnonzero(np.diff(both.jumps[0][:, path, 0].numpy())), prepend=-1)
        left = 2.0 * (visits + 1) ** (1 / p) * abs(noise.burst_value) * m**-GAMMA
        bound = along_phases(both, system.couplings_at(m)[0], path, p)
        assert phases.max() / m <= bound + 1e-12
        assert bound <= max(phases.max() / m, left)
