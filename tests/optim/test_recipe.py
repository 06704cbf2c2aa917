"""The recipe where people use it: behind a warm-up, on nets with norm layers, after a load."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, OneCycleLR

from mpgd import TelegraphNoise, perturb, perturbation_sizes, stochastic_rounding

STEPS = 100
RECIPE: dict[str, Any] = {"strength": 0.2, "steps": STEPS}


def make_optimizer() -> AdamW:
    torch.manual_seed(0)
    return AdamW(nn.Linear(8, 4).parameters(), lr=1e-2)


@pytest.mark.parametrize(
    "schedule",
    [
        lambda optimizer: LinearLR(optimizer, 1e-2, total_iters=10),
        lambda optimizer: LinearLR(optimizer, 1e-6, total_iters=10),
        lambda optimizer: OneCycleLR(optimizer, 1e-2, total_steps=STEPS),
        lambda optimizer: CosineAnnealingLR(optimizer, STEPS),
    ],
)
def test_the_recipe_is_the_same_before_and_after_a_scheduler(
    schedule: Callable[[Any], Any],
) -> None:
    before, after = make_optimizer(), make_optimizer()
    expected = perturb(before, **RECIPE).param_groups[0]["perturbation.force"]
    schedule(after)
    found = perturb(after, **RECIPE).param_groups[0]["perturbation.force"]
    assert found == pytest.approx(expected)


def test_norm_layers_and_biases_do_not_set_the_unit_of_the_recipe() -> None:
    torch.manual_seed(0)
    linear = nn.Linear(64, 32)
    net = nn.Sequential(linear, nn.LayerNorm(32))
    optimizer = perturb(torch.optim.SGD(net.parameters(), lr=0.1), **RECIPE)
    alone = perturb(torch.optim.SGD([linear.weight], lr=0.1), **RECIPE, seed=1)
    force = optimizer.param_groups[0]["perturbation.force"]
    assert force == pytest.approx(alone.param_groups[0]["perturbation.force"])
    assert perturbation_sizes(optimizer, steps=STEPS)[0].relative == pytest.approx(0.2)


def test_a_group_of_biases_has_the_matrices_of_all_groups_as_its_unit() -> None:
    """Biases may be zeros; they are then pushed as far as the rest."""
    linear = nn.Linear(64, 32)
    nn.init.zeros_(linear.bias)
    groups = [{"params": [linear.weight]}, {"params": [linear.bias]}]
    optimizer = perturb(torch.optim.SGD(groups, lr=0.1), **RECIPE)
    first, second = (group["perturbation.force"] for group in optimizer.param_groups)
    assert first == second > 0
    assert [s.relative for s in perturbation_sizes(optimizer, STEPS)] == pytest.approx([0.2, 0.2])


def test_a_start_behind_the_recipes_stop_is_refused() -> None:
    with pytest.raises(ValueError, match="start must lie before stop, here 75, got start=80"):
        perturb(make_optimizer(), **RECIPE, start=80)


def test_vectors_alone_are_their_own_unit() -> None:
    norm = nn.LayerNorm(8)
    optimizer = perturb(torch.optim.SGD([norm.weight], lr=0.1), **RECIPE)
    assert perturbation_sizes(optimizer, steps=STEPS)[0].relative == pytest.approx(0.2)


def test_a_rounding_without_half_parameters_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"no parameter is bfloat16 or float16.*model\.bfloat16"):
        stochastic_rounding(make_optimizer(), state_dtype=torch.bfloat16)


def test_an_optimizer_that_loaded_a_perturbed_checkpoint_is_refused() -> None:
    saved = perturb(make_optimizer(), **RECIPE)
    for p in saved.param_groups[0]["params"]:
        p.grad = torch.ones_like(p)
    saved.step()
    file = io.BytesIO()
    torch.save(saved.state_dict(), file)
    file.seek(0)
    plain = make_optimizer()
    plain.load_state_dict(torch.load(file, weights_only=True))
    with pytest.raises(
        ValueError, match=r"loaded a checkpoint of a perturbed one: perturb it first"
    ):
        perturb(plain, **RECIPE)


@pytest.mark.parametrize(
    ("noise", "text"),
    [
        ("telegraph", r"noise must be an object, such as TelegraphNoise\(20\), .* got 'telegraph'"),
        (TelegraphNoise, r"noise must be an object, such as TelegraphNoise\(20\), .* got <class"),
    ],
)
def test_a_name_or_a_class_is_no_noise(noise: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        perturb(make_optimizer(), **RECIPE, noise=noise)


def test_rounding_comes_after_the_perturbation() -> None:
    half = nn.Linear(8, 4, dtype=torch.bfloat16)
    rounded = stochastic_rounding(AdamW(half.parameters(), lr=1e-2))
    with pytest.raises(ValueError, match=r"perturb first, then stochastic_rounding"):
        perturb(rounded, **RECIPE)
