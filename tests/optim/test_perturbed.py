"""Classes of perturbed optimizers, and keywords that two parties have by the same name."""

from __future__ import annotations

import abc
import copy
import inspect
import pickle
import pkgutil
from functools import partial
from typing import Any

import pytest
import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import StepLR

import mpgd
from mpgd import perturb, perturbed
from mpgd.optim import Perturbed
from tests.optim.descents import KINDS, LOUD, drivers, flat, made, parameters, resumed
from tests.optim.workers import run, same_bits, snapshot

AdamW = torch.optim.AdamW


class WithBeta(torch.optim.SGD):
    """An optimizer with a keyword of the name of one of ours."""

    def __init__(self, params: Any, lr: float = 0.1, *, beta: float = 0.9) -> None:
        self.seen = beta
        super().__init__(params, lr)


class Inheriting(perturbed(torch.optim.SGD)):  # type: ignore[misc]
    """A class that inherits from a made one, with a step of its own."""

    count = 0

    def step(self, closure: Any = None) -> Any:
        """Count the steps."""
        self.count += 1
        return super().step(closure)


class Abstract(abc.ABC, Optimizer):
    """Inherits from ABC, as the optimizers of pytorch_optimizer."""

    def __init__(self, params: Any, lr: float = 0.1, **rest: Any) -> None:
        super().__init__(params, {"lr": lr, **rest})

    def step(self, closure: Any = None) -> None:
        """Do nothing."""


class Slotted(torch.optim.SGD):
    """Has slots."""

    __slots__ = ("extra",)


def test_it_is_perturb_of_the_inner_class() -> None:
    given: dict[str, Any] = {"sigma": 0.1, "gamma": 0.7, "seed": 3}
    one = perturb(AdamW(parameters([7]), lr=0.01, weight_decay=0.1), **given)
    other = perturbed(AdamW)(parameters([7]), lr=0.01, weight_decay=0.1, **given)
    for optimizer in (one, other):
        run(optimizer, 4)
    assert same_bits(snapshot(one), snapshot(other))
    assert type(one) is type(other)


@pytest.mark.parametrize("kind", [AdamW, WithBeta, Abstract, Slotted])
def test_the_class_of_an_object_is_changed_whatever_its_bases(kind: Any) -> None:
    optimizer = kind(parameters([3]), lr=0.1)
    assert perturb(optimizer, sigma=0.1) is optimizer
    assert isinstance(optimizer, kind)
    assert isinstance(optimizer, Perturbed)
    assert issubclass(type(optimizer), Perturbed)
    assert type(optimizer).__name__ == f"Perturbed{kind.__name__}"
    assert repr(optimizer).startswith(f"Perturbed{kind.__name__} (\nParameter Group 0\n")
    assert "\n    perturbation.sigma: 0.1\n" in repr(optimizer)
    run(optimizer, 1)


@pytest.mark.parametrize(
    "kind",
    [
        perturbed(AdamW),
        perturbed(torch.optim.Adafactor),
        perturbed(WithBeta),
        Inheriting,
        mpgd.MPGD,
    ],
)
def test_classes_and_their_objects_are_pickled_and_copied(kind: Any) -> None:
    assert pickle.loads(pickle.dumps(kind)) is kind
    assert pickle.loads(pickle.dumps(partial(kind, lr=0.1))).func is kind
    assert copy.deepcopy(kind) is kind
    optimizer = kind(parameters([3]), lr=0.1, sigma=0.1)
    run(optimizer, 2)
    for again in (pickle.loads(pickle.dumps(optimizer)), copy.deepcopy(optimizer)):
        assert type(again) is kind
        run(again, 2, first=2)
        twin = copy.deepcopy(optimizer)
        run(twin, 2, first=2)
        assert same_bits(snapshot(again), snapshot(twin))


def test_a_class_is_made_once_and_may_be_inherited_from() -> None:
    assert perturbed(AdamW) is perturbed(AdamW)
    assert perturbed(AdamW) is not perturbed(torch.optim.Adam)
    optimizer = Inheriting(parameters([3]), lr=0.1, sigma=0.1)
    run(optimizer, 3)
    assert optimizer.count == int(drivers(optimizer)["step"]) == 3


def test_a_text_can_name_the_class_of_a_torch_optimizer() -> None:
    assert pkgutil.resolve_name("mpgd.optim:PerturbedAdamW") is perturbed(AdamW)
    for name in ("PerturbedNothing", "PerturbedOptimizer", "AdamW", "Perturbedlr_scheduler"):
        with pytest.raises(AttributeError, match=f"'mpgd.optim' has no attribute '{name}'"):
            getattr(mpgd.optim, name)


def test_its_signature_says_all_keywords() -> None:
    names = list(inspect.signature(perturbed(AdamW)).parameters)
    assert names[:2] == ["params", "lr"]
    assert {"betas", "sigma", "gamma", "seed", "strength", "steps", "perturbation"} <= set(names)
    perturbed(AdamW)(parameters([2]), 0.1, force=0.1)  # lr by its place, as the inner class


def test_wrong_uses_are_named() -> None:
    with pytest.raises(TypeError, match="inner must be a class of torch optimizers, got 3"):
        perturbed(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="positional-only"):
        perturbed(inner=AdamW)  # type: ignore[call-arg]
    for kind in (perturbed(torch.optim.SGD), mpgd.MPGD):
        with pytest.raises(ValueError, match=f"inner is {kind.__name__}, which is perturbed alrea"):
            perturbed(kind)
    with pytest.raises(TypeError, match=r"\['sigma'\] are given twice"):
        perturbed(torch.optim.SGD)(parameters([2]), sigma=0.1, perturbation={"sigma": 1.0})


# --- a keyword of the perturbation and one of the inner optimizer never meet -------------------


def test_a_keyword_that_both_have_is_the_inner_ones() -> None:
    kind = perturbed(WithBeta)
    assert inspect.signature(kind).parameters["beta"].default == 0.9
    optimizer = kind(parameters([3]), beta=0.5, perturbation={"beta": 0.25, "sigma": 0.1})
    plain = kind(parameters([3]), sigma=0.1, perturbation={"beta": 0.25})
    assert (optimizer.seen, plain.seen) == (0.5, 0.9)
    assert optimizer.param_groups[0]["perturbation.beta"] == 0.25
    for each in (optimizer, plain):
        run(each, 3)
    assert same_bits(snapshot(optimizer)["parameters"], snapshot(plain)["parameters"])


NAMES: dict[str, Any] = {  # with values that a perturbation would refuse
    "mu": -3.0,
    "sigma": 1.0,
    "gamma": 0.025,
    "beta": 9.65,
    "noise": 7,
    "seed": "none",
    "start": -1,
    "symmetric": "no",
}


class Namesake(Optimizer):
    """Descent by settings that have the names of ours; ``beta`` is the weight of the last step."""

    def __init__(self, params: Any, lr: float = 0.05) -> None:
        super().__init__(params, {"lr": lr, **NAMES})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Take one step."""
        for group in self.param_groups:
            for p in group["params"]:
                last = self.state[p].setdefault("last", torch.zeros_like(p))
                last.mul_(group["beta"] / 10).add_(p.grad, alpha=group["sigma"])
                p.sub_(last, alpha=group["lr"])


def test_both_settings_of_one_name_are_used() -> None:
    """The first step is the inner one plus the noise that another optimizer gets."""
    given = {k: v for k, v in LOUD.items() if k != "lr"}
    optimizer = perturb(Namesake(parameters([50], torch.float64)), **given)
    plain, [start] = Namesake(parameters([50], torch.float64)), parameters([50], torch.float64)
    reference = perturb(torch.optim.SGD(parameters([50], torch.float64), lr=0.05), **given)
    for each in (optimizer, plain, reference):
        run(each, 1)
    shift = flat(reference)[0] - (start - 0.05 * flat(reference)[0].grad)
    torch.testing.assert_close(flat(optimizer)[0], flat(plain)[0] + shift)
    group = optimizer.param_groups[0]
    assert {name: group[name] for name in NAMES} == NAMES
    assert {name: group["perturbation." + name] for name in given} == given
    size = mpgd.perturbation_sizes(optimizer)[0].additive
    assert size == pytest.approx(0.2 * 0.05**0.6 * mpgd.ChaoticNoise(0.6).spread())


def test_namesakes_survive_schedules_and_checkpoints() -> None:
    optimizer = perturb(Namesake(parameters([9])), sigma=0.2)
    scheduler = StepLR(optimizer, 1, gamma=0.5)
    run(optimizer, 1)
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.025
    one, other = resumed(
        lambda params: perturb(Namesake(params), sigma=0.2, symmetric=True), parameters([9])
    )
    assert same_bits(one, other)
    plain = Namesake(parameters([9]))
    plain.load_state_dict(one)  # the inner class alone reads its own part
    assert plain.param_groups[0]["beta"] == NAMES["beta"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_that_came_past_add_param_group_is_perturbed_too(kind: str) -> None:
    optimizer = made(kind, parameters([3]))
    Optimizer.add_param_group(optimizer, {"params": parameters([3, 4])[1:]})
    run(optimizer, 2)
    assert optimizer.param_groups[1][optimizer._prefix + "sigma"] == LOUD["sigma"]
    assert int(drivers(optimizer, 1)["step"]) == 2
