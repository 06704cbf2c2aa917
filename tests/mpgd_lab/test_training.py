"""Runs trained together are what each is alone, and what the optimizer makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mpgd import MPGD, ChaoticNoise, GaussianNoise
from mpgd.noise import engines
from mpgd_lab import batched_training as training
from mpgd_lab.batched_training import Problem, minibatches, train
from mpgd_lab.data.sources import Split
from mpgd_lab.nets.layout import Layout, mean_square
from mpgd_lab.perturbations.batched import perturbations
from mpgd_lab.perturbations.released import SWITCHES, SwitchedNoise
from mpgd_lab.schemes import PRINTED_SIGNS
from mpgd_lab.store import Run

LAYOUT = Layout((5, 6, 1), torch.tanh)
FIXED: dict[str, Any] = {"eta": 0.1, "steps": 60, "stop": 40, "mu": 0.1, "sigma": 0.05}
SOME = ["same_seeds", "constant_sign", "one_driver"]
SCHEMES: dict[str, dict[str, Any]] = {
    "gd": {"noise": "none"},
    "plain": {"noise": "chaotic", "gamma": 0.6, "beta": 0.5, "symmetric": False},
    "symmetric": {"noise": "chaotic", "gamma": 0.6, "beta": 0.5, "symmetric": True},
    "other": {"noise": "chaotic", "gamma": 0.7, "beta": 0.0, "symmetric": False},
    "printed signs": {
        "noise": "chaotic",
        "gamma": 0.6,
        "beta": 0.5,
        "symmetric": True,
        **PRINTED_SIGNS,
    },
    "matched": {"noise": "matched", "gamma": 0.6, "symmetric": True},
    "matched, one driver": {
        "noise": "matched",
        "gamma": 0.6,
        "symmetric": False,
        "switches": ["one_driver"],
    },
    "matched, same seeds": {
        "noise": "matched",
        "gamma": 0.6,
        "symmetric": False,
        "switches": ["same_seeds"],
    },
    "langevin": {"noise": "langevin"},
    "released gaussian": {"noise": "released_gaussian"},
    "all switches": {
        "noise": "switched",
        "gamma": 0.6,
        "beta": 0.5,
        "symmetric": True,
        "switches": list(SWITCHES),
    },
    "some switches": {
        "noise": "switched",
        "gamma": 0.6,
        "beta": 0.5,
        "symmetric": False,
        "switches": SOME,
    },
    "one switch": {
        "noise": "switched",
        "gamma": 0.6,
        "beta": 0.5,
        "symmetric": False,
        "switches": ["early_sign"],
    },
}


def runs(seeds: tuple[int, ...] = (1, 2, 7), **more: Any) -> list[Run]:
    return [
        Run("test", "paper", name, FIXED | h | more, seed)
        for seed in seeds
        for name, h in SCHEMES.items()
    ]


@pytest.fixture(scope="module")
def problem() -> Problem:
    rng = np.random.default_rng(0)
    parts = [torch.from_numpy(rng.normal(size=s)) for s in ((40, 5), (40,), (9, 5), (9,))]
    return Problem(LAYOUT, Split(*parts), lambda p, y: (p - y).square().mean(-1))


@pytest.fixture(scope="module")
def together(problem: Problem) -> dict[str, Tensor]:
    trained = train(problem, runs())
    return {run.key: x for run, x in zip(runs(), trained.after, strict=True)}


@pytest.mark.parametrize("name", SCHEMES)
def test_a_member_equals_the_run_alone(
    name: str, problem: Problem, together: dict[str, Tensor]
) -> None:
    run = next(run for run in runs() if run.scheme == name and run.seed == 2)
    alone = train(problem, [run]).after[0]
    assert torch.allclose(together[run.key], alone, rtol=1e-5, atol=1e-12)
    if name != "gd":  # the check can fail
        plain = next(r for r in runs() if r.scheme == "gd" and r.seed == 2)
        assert not torch.allclose(together[plain.key], alone, rtol=1e-3)


@pytest.mark.parametrize("name", [name for name in SCHEMES if name != "gd"])
def test_the_noise_of_a_member_is_that_of_the_run_alone_in_bits(name: str) -> None:
    everyone = runs()
    place = next(k for k, run in enumerate(everyone) if run.scheme == name and run.seed == 7)
    sources = perturbations(everyone, LAYOUT.shapes, torch.float64, LAYOUT)
    whole = next(s for s in sources if place in s.rows.tolist())
    (alone,) = perturbations([everyone[place]], LAYOUT.shapes, torch.float64, LAYOUT)
    row = whole.rows.tolist().index(place)
    for _ in range(40):
        for one, many in zip(alone.next(), whole.next(), strict=True):
            assert torch.equal(one[0], many[row])


@pytest.mark.parametrize(
    "name", ["gd", "plain", "symmetric", "printed signs", "matched", "langevin"]
)
def test_a_member_is_what_the_optimizer_makes(
    name: str, problem: Problem, together: dict[str, Tensor]
) -> None:
    run = next(run for run in runs() if run.scheme == name and run.seed == 2)
    with torch.random.fork_rng():
        torch.manual_seed(2)
        layers = [nn.Linear(5, 6, dtype=torch.float64), nn.Linear(6, 1, dtype=torch.float64)]
    net, h = nn.Sequential(layers[0], nn.Tanh(), layers[1]), run.hyperparameters
    gamma, symmetric = h.get("gamma", 0.6), h.get("symmetric", False)
    rules = {rule: h[rule] for rule in PRINTED_SIGNS if rule in h}
    noise: Any = ChaoticNoise(gamma, h.get("beta", 0.0), **rules)
    if name == "matched":
        noise, symmetric = GaussianNoise.matched(noise, symmetric=symmetric), False
    elif name == "langevin":
        noise = GaussianNoise()
    optimizer = MPGD(
        net.parameters(),
        0.1,
        mu=0.1 * (name != "gd"),
        sigma=0.05 * (name != "gd"),
        stop=40,
        symmetric=symmetric,
        noise=noise,
        seed=2,
    )
    for _ in range(60):
        optimizer.zero_grad()
        loss = (net(problem.split.x_train)[:, 0] - problem.split.y_train).square().mean()
        loss.backward()
        optimizer.step()
    flat = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
    assert torch.allclose(together[run.key], flat, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("switches", [SWITCHES, SOME, ["reshaped", *SOME]])
@pytest.mark.parametrize("symmetric", [False, True])
def test_orbits_shared_between_runs_are_each_runs_own(switches: list[str], symmetric: bool) -> None:
    """With the same seeds for all, one table serves every run; it is the run's table in bits."""
    h = FIXED | {"noise": "switched", "gamma": 0.6, "beta": 0.5, "symmetric": symmetric}
    h |= {"switches": list(switches), "mu": 1.0, "sigma": 1.0, "eta": 1.0}
    everyone = [Run("test", "released", "mpgd", h, seed) for seed in (3, 1, 4)]
    (source,) = perturbations(everyone, LAYOUT.shapes, torch.float64)
    noise = SwitchedNoise(0.6, 0.5, symmetric, frozenset(switches))
    tables = [noise.tables(seed, LAYOUT.shapes, 40) for seed in (3, 1, 4)]
    for k in range(40):
        for value, place in zip(source.next(), (0, 1), strict=True):
            assert torch.equal(value, torch.stack([table[place][k] for table in tables]))


def test_what_was_before_the_last_step_is_one_step_less(problem: Problem) -> None:
    trained = train(problem, runs((1,)))
    shorter = train(problem, runs((1,), steps=59))
    assert torch.equal(trained.before, shorter.after)
    assert trained.moments[-1] == 59
    assert trained.curve.shape == (len(trained.moments), len(SCHEMES))


def test_mini_batches_go_through_the_data_and_are_each_runs_own(problem: Problem) -> None:
    batches = minibatches(1, count=10, size=3)
    first = torch.cat([next(batches) for _ in range(3)])
    assert len(set(first.tolist())) == 9
    h = {"eta": 0.1, "steps": 30, "noise": "none", "batch": 8}
    everyone = [Run("test", "paper", "sgd", h, seed) for seed in (1, 2)]
    both, alone = train(problem, everyone), train(problem, everyone[1:])
    assert torch.allclose(both.after[1], alone.after[0], rtol=1e-9)
    assert not torch.equal(both.after[0], both.after[1])


def test_mistakes_are_named(problem: Problem) -> None:
    one, other = runs((1,))[0], runs((1,), eta=0.2)[0]
    with pytest.raises(ValueError, match="runs trained together must share eta"):
        train(problem, [one, other])
    with pytest.raises(ValueError, match=r"noise must be one of 'none', .* got 'typo'"):
        train(problem, runs((1,), noise="typo"))
    gaussian = runs((1,), noise="released_gaussian")
    with pytest.raises(ValueError, match="got no layout"):
        perturbations(gaussian, LAYOUT.shapes, torch.float64)


def test_training_without_kernels_is_the_same(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nets are those of `shallow`, which without kernels are trained by tensor operations."""
    h = FIXED | SCHEMES["symmetric"]
    everyone = [
        Run("test", "paper", name, FIXED | SCHEMES[name], seed)
        for name in ("gd", "plain", "symmetric", "matched")
        for seed in (1, 2)
    ]
    layout = Layout((5, 6, 1), torch.relu)
    own = Problem(layout, problem.split, mean_square)
    compiled = train(own, everyone)
    run = Run("test", "paper", "mpgd", h, 1)
    (fast,) = perturbations([run], layout.shapes, torch.float64)
    values = [fast.next() for _ in range(40)]
    monkeypatch.setattr(engines, "has_cpu", lambda: False)
    monkeypatch.setattr(training, "is_available", lambda: False)
    (plain,) = perturbations([run], layout.shapes, torch.float64)
    for pair in values:
        assert all(map(torch.equal, pair, plain.next()))
    by_tensors = train(own, everyone)
    assert torch.allclose(compiled.after, by_tensors.after, rtol=1e-9, atol=1e-13)
    assert not torch.equal(compiled.after, by_tensors.after)  # it was another computation
