"""Classes of perturbed optimizers for clients that build by class."""

from __future__ import annotations

import copy
import inspect
import pickle
import pkgutil
from functools import partial
from typing import Any

import pytest
import torch

import mpgd.optim
from mpgd import perturb, perturbed
from mpgd.optim import Perturbed
from tests.optim.descents import parameters
from tests.optim.workers import run, same_bits, snapshot


class WithBeta(torch.optim.SGD):
    """An optimizer with a keyword of the name of one of ours."""

    def __init__(self, params: Any, lr: float = 0.1, *, beta: float = 0.9) -> None:
        self.seen = beta
        super().__init__(params, lr)


def test_it_is_perturb_of_the_inner_class() -> None:
    inner = torch.optim.AdamW(parameters([7]), lr=0.01, weight_decay=0.1)
    one = perturb(inner, sigma=0.1, gamma=0.7, seed=3)
    other = perturbed(torch.optim.AdamW)(
        parameters([7]), lr=0.01, weight_decay=0.1, sigma=0.1, gamma=0.7, seed=3
    )
    for optimizer in (one, other):
        run(optimizer, 4)
    assert same_bits(snapshot(one), snapshot(other))
    assert isinstance(other, Perturbed)
    assert type(other).__name__ == "PerturbedAdamW"


def test_the_class_is_made_once_and_its_objects_are_copied_and_pickled() -> None:
    made = perturbed(torch.optim.AdamW)
    assert made is perturbed(torch.optim.AdamW)
    assert made is not perturbed(torch.optim.Adam)
    optimizer = partial(made, lr=0.01, mu=0.1)(parameters([7]))
    run(optimizer, 2)
    for again in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert type(again) is made
        run(again, 2, first=2)
        twin = copy.deepcopy(optimizer)
        run(twin, 2, first=2)
        assert same_bits(snapshot(again), snapshot(twin))


class Inheriting(perturbed(torch.optim.SGD)):  # type: ignore[misc]
    """A class that inherits from a made one."""


@pytest.mark.parametrize("made", [perturbed(torch.optim.AdamW), perturbed(WithBeta), Inheriting])
def test_the_class_is_pickled_and_copied(made: type) -> None:
    assert pickle.loads(pickle.dumps(made)) is made
    assert copy.deepcopy(made) is made
    optimizer = made(parameters([3]), lr=0.1, sigma=0.1)
    assert type(pickle.loads(pickle.dumps(optimizer))) is made
    assert type(copy.deepcopy(optimizer)) is made


def test_a_text_can_name_the_class_of_a_torch_optimizer() -> None:
    assert pkgutil.resolve_name("mpgd.optim:PerturbedAdamW") is perturbed(torch.optim.AdamW)
    for name in ("PerturbedNothing", "PerturbedOptimizer", "AdamW", "Perturbedlr_scheduler"):
        with pytest.raises(AttributeError, match=f"'mpgd.optim' has no attribute '{name}'"):
            getattr(mpgd.optim, name)


def test_its_signature_says_all_keywords() -> None:
    names = list(inspect.signature(perturbed(torch.optim.AdamW)).parameters)
    assert names[:2] == ["params", "lr"]
    assert {"betas", "weight_decay", "sigma", "gamma", "seed", "perturbation"} <= set(names)
    perturbed(torch.optim.AdamW)(parameters([2]), 0.1)  # lr by its place, as the inner class


def test_a_name_that_both_have_is_the_inner_ones() -> None:
    made = perturbed(WithBeta)
    assert "beta" in inspect.signature(made).parameters
    optimizer = made(parameters([3]), beta=0.5, perturbation={"beta": 0.25, "sigma": 0.1})
    assert optimizer.inner.seen == 0.5
    plain = made(parameters([3]), sigma=0.1, perturbation={"beta": 0.25})
    assert plain.inner.seen == 0.9
    for each in (optimizer, plain):
        run(each, 3)
    assert same_bits(snapshot(optimizer)["parameters"], snapshot(plain)["parameters"])


def test_wrong_uses_are_named() -> None:
    with pytest.raises(TypeError, match="inner must be a class of torch optimizers, got 3"):
        perturbed(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="inner is PerturbedSGD, which is perturbed already"):
        perturbed(perturbed(torch.optim.SGD))
    with pytest.raises(TypeError, match=r"perturbation takes mu, sigma, .*, got \['sigmas'\]"):
        perturbed(torch.optim.SGD)(parameters([2]), lr=0.1, perturbation={"sigmas": 1.0})
    with pytest.raises(TypeError, match=r"\['sigma'\] are given twice, as keywords and in pert"):
        perturbed(torch.optim.SGD)(parameters([2]), sigma=0.1, perturbation={"sigma": 1.0})
