"""`mpgd reproduce compare` at small sizes: its methods, its stages, its store and what it says."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from mpgd import MPGD, ChaoticNoise, TelegraphNoise, perturb
from mpgd.noise import ColouredNoise
from mpgd_lab.nets.layout import Layout
from mpgd_lab.runner import Context, reproduce
from mpgd_lab.store import Run
from mpgd_lab.studies.compare import EXPERIMENT, runs, training
from mpgd_lab.studies.compare import data_tasks as data
from mpgd_lab.studies.compare.data_tasks import sample
from mpgd_lab.studies.compare.methods import BY_NAME, METHODS, configurations, methods_of
from mpgd_lab.studies.compare.noise_terms import Noises
from mpgd_lab.studies.compare.objectives import FunctionObjective, make_objective, neurons
from mpgd_lab.studies.compare.runs import Size, choose, stage
from mpgd_lab.studies.compare.tasks import BY_NAME as TASKS_BY_NAME
from mpgd_lab.studies.compare.tasks import TASKS, Task
from tests.mpgd_lab.recomputation import check_nothing_again
from tests.mpgd_lab.recording_reporter import RecordingReporter

SIZE = Size(
    ("wide well", "xor", "pruning"), seeds=3, tuning=1, configurations=2, steps=4, walkers=3
)
NOISE: dict[str, Any] = {"gamma": 0.6, "beta": 0.0, "per": "weight", "level": 0.05}


def a_run(task: str, method: str, seed: int = 7, part: str = "tune", **given: Any) -> Run:
    h = {"data": task, "part": part, "study": BY_NAME[method].rule, "steps": 40, **given}
    return Run("compare", "own", method, h, seed)


def noisy(task: str, method: str, seed: int = 7, **given: Any) -> Run:
    own = BY_NAME[method]
    capped = {"longest": own.longest} if own.longest else {}
    h = {**NOISE, "noise": own.noise, "place": own.place, "per": own.per, **capped}
    return a_run(task, method, seed, **{"lr": 0.1, **h, **given})


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_all_methods_have_the_same_budget(task: Task) -> None:
    """Equally many configurations, all different, and as many example gradients at a step size."""
    for method in methods_of(task):
        found = configurations(task, method, {"lr": 0.1, "steps": task.steps})
        assert len(found) == task.configurations
        assert len({repr(one) for one in found}) == task.configurations
        if method.name == "sgd":
            gradients = {one["steps"] * one["batch"] for one in found}
            assert gradients == {task.steps * task.examples}


def net_of(task: Task, seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    inner, hidden, outer = task.widths
    layers = [nn.Linear(inner, hidden, dtype=torch.float64)]
    layers.append(nn.Linear(hidden, outer, dtype=torch.float64))
    return nn.Sequential(layers[0], nn.ReLU(), layers[1])


def sharpened(net: nn.Module, rho: float, backward: Callable[[], None]) -> None:
    """Put the gradient of SAM where the gradient is."""
    own = list(net.parameters())
    steps = [p.grad.clone() for p in own if p.grad is not None]
    norm = torch.stack([g.square().sum() for g in steps]).sum().sqrt()
    for sign in (1.0, -1.0):
        with torch.no_grad():
            for p, g in zip(own, steps, strict=True):
                p.add_(sign * rho * g / norm)
        if sign > 0:
            backward()


@pytest.mark.parametrize(
    "method", ["mpgd", "mpgd multiplicative", "mpgd capped", "mpgd adamw", "sam", "weight decay"]
)
def test_a_run_is_what_the_optimizers_do(method: str, data_folder: Path) -> None:
    """A net in a batch, and a torch net stepped by torch's optimizers and ours."""
    lr, own = 0.05, BY_NAME[method]
    given = {"sam": {"rho": 0.1}, "weight decay": {"weight_decay": 0.3}}.get(method, {})
    # without decay, which an optimizer lets act on the perturbed weights, the study on the old ones
    given |= {"weight_decay": 0.0} if own.rule == "adam" else {}
    run = (noisy if own.noise != "none" else a_run)("airfoil", method, lr=lr, **given)
    plain = a_run("airfoil", method, seed=3, lr=lr, **given)
    batch = [plain, run]
    found = training.descend(make_objective(batch, data_folder), batch)[1]
    net = net_of(TASKS_BY_NAME["airfoil"], 7)
    level = NOISE["level"] / (ChaoticNoise(0.6).laminar_value * lr**-0.4)
    noise: dict[str, Any] = {"noise": ChaoticNoise(0.6, longest=own.longest), "seed": 7, "stop": 30}
    noise |= {"mu" if own.place == "multiplicative" else "sigma": level}
    optimizer: Any = torch.optim.SGD(
        net.parameters(), lr, weight_decay=given.get("weight_decay", 0)
    )
    if own.rule == "adam":
        optimizer = perturb(torch.optim.AdamW(net.parameters(), lr, weight_decay=0.0), **noise)
    elif own.kind == "chaotic":
        optimizer = MPGD(net.parameters(), lr, **noise)
    held = sample(TASKS_BY_NAME["airfoil"], [7], "tune", data_folder)

    def backward() -> None:
        net.zero_grad()
        mse_loss(net(held.x[0])[:, 0], held.y[0]).backward()

    for _ in range(40):
        backward()
        if method == "sam":
            sharpened(net, 0.1, backward)
        optimizer.step()
    expected = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("method", "noise"),
    [
        ("telegraph", TelegraphNoise(20)),
        ("coloured", ColouredNoise(20)),
        ("mpgd smooth", ChaoticNoise(0.6, burst=False)),
    ],
)
def test_lasting_noises_push_by_the_force_times_their_values(method: str, noise: Any) -> None:
    given = configurations(TASKS_BY_NAME["wide well"], BY_NAME[method], {"lr": 0.1, "steps": 40})
    run = a_run("wide well", method, walkers=3, **given[4])
    place = make_objective([run])
    noises, state = Noises([run], place, place.start), noise.init(3, 7, driver_id=1)
    c0 = getattr(noise, "laminar_value", 1.0)
    for _ in range(30):
        _, n = noises.next()
        v, state = noise.step(state)
        assert n is not None
        assert torch.allclose(n[0], 0.1 * given[4]["level"] / c0 * v, rtol=1e-13, atol=0)


def test_annealed_noise_falls_to_zero_and_matched_noise_moves_as_far_as_chaos() -> None:
    plain, annealed, matched = (noisy("wide well", m) for m in ("gaussian", "annealed", "matched"))
    terms = []
    for run in (plain, annealed, matched):
        place = make_objective([run])
        noises = Noises([run], place, place.start)
        terms.append(torch.stack([noises.next()[1][0].clone() for _ in range(30)]))  # type: ignore[index]
    shares = (terms[1] / terms[0]).mean(1)
    assert torch.allclose(shares, torch.arange(30, 0, -1, dtype=torch.float64) / 30)
    chaos = ChaoticNoise(0.6)
    ratio = chaos.displacement(30) / math.sqrt(30 * chaos.variance)
    assert torch.allclose(terms[2], ratio * terms[0])


def test_anti_correlated_noise_adds_up_to_a_difference() -> None:
    """What n was added is the last normal vector minus the first, whatever lies between."""
    run = noisy("wide well", "anti", walkers=3)
    place = make_objective([run])
    noises = Noises([run], place, place.start)
    total = torch.zeros_like(place.start)
    for _ in range(50):
        _, n = noises.next()
        assert n is not None
        total = total + n
    (own,) = noises.parts
    first = Noises([run], place, place.start).parts[0].last
    assert own.last is not None
    assert first is not None
    assert torch.allclose(total, (own.last - first) * own.level, atol=1e-12)


def test_all_weights_of_a_neuron_are_pushed_alike() -> None:
    runs_ = [noisy("pruning", "mpgd neuron"), noisy("pruning", "mpgd")]
    place = make_objective(runs_)
    _, n = Noises(runs_, place, place.start).next()
    assert n is not None
    owner = neurons(Layout(TASKS_BY_NAME["pruning"].widths, torch.relu))
    for neuron in (0, 5, 127):
        assert len(n[0, owner == neuron].unique()) == 1
        assert len(n[1, owner == neuron].unique()) > 1
    assert (n[0, owner < 0] == 0.0).all()


def test_the_test_rows_are_not_loaded_before_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path | None) -> tuple[Tensor, Tensor]:
        raise AssertionError("test rows")

    monkeypatch.setitem(data.TESTS, "digits", refuse)
    task = TASKS_BY_NAME["digits"]
    held = sample(task, [1, 2], "tune")
    assert held.x.shape == (2, 200, 64)
    assert held.x_scored.shape == (2, 300, 64)
    with pytest.raises(AssertionError, match="test rows"):
        sample(task, [1], "report")


def test_every_seed_draws_its_rows_and_a_share_of_labels_is_replaced() -> None:
    noisy_task = TASKS_BY_NAME["digits"]
    held, clean = (
        sample(task, [1, 2], "report") for task in (noisy_task, replace(noisy_task, flipped=0.0))
    )
    assert not torch.equal(held.x[0], held.x[1])
    assert torch.equal(held.x, clean.x)
    changed = (held.y != clean.y).double().mean()
    assert 0.1 < changed < 0.26  # 0.2 are drawn anew, a tenth of which stay


def test_a_run_does_not_depend_on_those_beside_it() -> None:
    one, other = (noisy("frequency", name, walkers=4) for name in ("mpgd", "stable"))
    together = training.descend(make_objective([one, other]), [one, other])
    alone = training.descend(make_objective([other]), [other])
    assert torch.allclose(together[1], alone[0], rtol=1e-12)
    assert not torch.allclose(together[0], together[1])


def test_what_diverges_has_the_worst_score() -> None:
    runs_ = [a_run("pruning", "descent", lr=lr) for lr in (0.1, 1e9)]
    (_, fine, _), (_, lost, curves) = training.train(runs_)
    assert (fine["diverged"], lost["diverged"]) == (0, 1)
    assert lost["score"] == 10.0 < fine["score"]
    assert curves["accuracy"].tolist() == [10.0] * 6


def test_the_best_on_validation_is_chosen(tmp_path: Path) -> None:
    """Of RMSE the lowest, of accuracy the highest mean over the tuning seeds."""
    store = Context(tmp_path).store
    records = []
    for task, wanted in (("airfoil", 0.2), ("digits", 0.1)):
        for lr, scores in {0.1: (2.0, 4.0), 0.2: (1.0, 4.5)}.items():
            for seed, score in enumerate(scores):
                run = a_run(task, "descent", seed, lr=lr)
                records.append(store.save(run, {"score": score}, {}, 0.0))
        assert choose(records)[task, "descent"]["lr"] == wanted


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    context = Context(tmp_path_factory.mktemp("out"), RecordingReporter())
    reproduce(EXPERIMENT, context, SIZE)
    return context


def test_the_small_study_has_tables_a_figure_and_a_verdict(context: Context) -> None:
    assert isinstance(context.reporter, RecordingReporter)
    titles = "\n".join(context.reporter.tables)
    for name in SIZE.tasks:
        assert f"{TASKS_BY_NAME[name].title}: " in titles
    assert "Levels that work on the functions" in titles
    assert "Pruning: accuracy" in titles
    (answer,) = [line for line in context.reporter.lines if line.startswith("Where a noise helps")]
    assert "Telegraph or coloured noise: " in answer
    assert (context.out / "compare.png").read_bytes()[:4] == b"\x89PNG"


def test_the_report_has_fresh_seeds_of_every_method(context: Context) -> None:
    held = [r.run for r in context.store.records() if r.run.hyperparameters["part"] == "report"]
    for name in SIZE.tasks:
        own = [run for run in held if run.hyperparameters["data"] == name]
        expected = {method.name for method in methods_of(TASKS_BY_NAME[name])}
        assert {run.scheme for run in own} == expected
        assert {run.seed for run in own} == {101, 102, 103}
    assert {method.name for method in METHODS} == {run.scheme for run in held}


def test_a_second_run_trains_nothing(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    check_nothing_again(
        monkeypatch,
        training,
        "descend",
        lambda: reproduce(EXPERIMENT, context, SIZE),
        lambda: reproduce(EXPERIMENT, context, replace(SIZE, seeds=4)),
    )


def test_a_worker_can_be_sent_the_training() -> None:
    train = pickle.loads(pickle.dumps(partial(EXPERIMENT.train, data=None)))
    run = stage(Size(("wide well",), steps=3, walkers=2), {}, first=True)[0]
    ((same, metrics, _),) = train([run])
    assert same == run
    assert metrics["score"] == 0.0


def test_on_functions_noise_has_the_step_size_of_the_task() -> None:
    found = stage(Size(("wide well",)), {("wide well", "descent"): {"lr": 9.0}}, first=False)
    steps = {run.scheme: run.hyperparameters["lr"] for run in found}
    assert steps["mpgd"] == TASKS_BY_NAME["wide well"].lr
    assert steps["mpgd adamw"] == 0.03
    place = make_objective(found[:1])
    assert isinstance(place, FunctionObjective)
    assert runs.configuration(found[0])["steps"] == 2000
