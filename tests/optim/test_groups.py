"""Groups with settings of their own, groups for the usual wishes, and the recipe."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from mpgd import MPGD, ChaoticNoise, GaussianNoise, param_groups, perturb, perturbation_sizes
from mpgd.optim.settings import PREFIX
from tests.optim.descents import (
    KINDS,
    LOUD,
    SHARED,
    drivers,
    flat,
    made,
    orbits,
    parameters,
)
from tests.optim.workers import run, same_bits, snapshot


def net() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3), nn.Linear(3, 1)
    )


def names(group: dict[str, Any]) -> list[str]:
    return [name for name, _ in group["params"]]


def named(kind: str, keywords: dict[str, Any]) -> dict[str, Any]:
    """Return keywords as a group of this kind of optimizer has them."""
    prefix = "" if kind == "mpgd" else PREFIX
    return {k if k == "lr" else prefix + k: v for k, v in keywords.items()}


# --- settings of groups ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_group_has_its_own_settings(kind: str) -> None:
    """Each group moves as it would alone, given the ordinals of its parameters."""
    own: list[dict[str, Any]] = [
        {"mu": 0.1, "sigma": 0.0, "gamma": 0.55},
        {"mu": 0.0, "sigma": 0.3, "beta": -1.0, "start": 2},
        {"mu": 0.0, "sigma": 0.0},
        {"gamma": (0.6, 0.8), "beta": (0.0, 1.0), "stop": 3, "symmetric": True, "lr": 0.2},
        {"noise": GaussianNoise(), "beta": 0.0, "seed": 9, "engine": "torch"},
    ]

    def make(settings: list[dict[str, Any]]) -> Any:
        pairs = zip(parameters([20] * 5), settings, strict=True)
        return made(kind, [{"params": [p], **named(kind, each)} for p, each in pairs])

    optimizer = make(own)
    run(optimizer, 6)
    for number in range(5):
        quiet = {"mu": 0.0, "sigma": 0.0}
        alone = make([each if n == number else quiet for n, each in enumerate(own)])
        run(alone, 6)
        one, other = flat(optimizer)[number], flat(alone)[number]
        assert same_bits(one.detach(), other.detach())
        assert same_bits(optimizer._orbits.get(one, {}), alone._orbits.get(other, {}))
    assert flat(optimizer)[2] not in optimizer._orbits


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_added_later_is_that_of_the_constructor_and_leaves_the_others_alone(
    kind: str,
) -> None:
    whole = made(kind, [{"params": [p]} for p in parameters([400, 300])])
    optimizer = made(kind, parameters([400]))
    optimizer.add_param_group({"params": parameters([400, 300])[1:]})
    for each in (whole, optimizer):
        run(each, 3)
    assert same_bits(snapshot(optimizer), snapshot(whole))
    words = orbits(optimizer)
    optimizer.add_param_group({"params": parameters([5]), **named(kind, {"sigma": 0.9})})
    assert same_bits(orbits(optimizer), words)
    assert optimizer.param_groups[2][optimizer._prefix + "sigma"] == 0.9
    assert optimizer.param_groups[2][optimizer._prefix + "mu"] == LOUD["mu"]
    assert optimizer.param_groups[2]["lr"] == LOUD["lr"]
    assert int(drivers(optimizer, 2)["step"]) == 0
    assert [int(drivers(optimizer, k)["ordinal"]) for k in range(3)] == [0, 1, 2]
    before = snapshot(optimizer)
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        optimizer.add_param_group({"params": flat(optimizer)[:1]})
    assert same_bits(snapshot(optimizer), before)


def ratios(optimizer: Any, params: list[nn.Parameter], steps: int) -> list[list[float]]:
    """Return by what each step multiplies each parameter, a scalar."""
    found = []
    for _ in range(steps):
        before = [p.item() for p in params]
        for p in params:
            p.grad = torch.zeros_like(p)
        optimizer.step()
        found.append([p.item() / x for p, x in zip(params, before, strict=True)])
    return found


def drop_the_first(optimizer: Any) -> None:
    optimizer.param_groups[0]["params"].pop(0)


def insert_another(optimizer: Any) -> None:
    optimizer.param_groups[0]["params"].insert(0, parameters([3])[0])
    optimizer.step()
    optimizer.param_groups[0]["params"].pop(0)


def lead_again(optimizer: Any) -> None:
    first = optimizer.param_groups[0]["params"].pop(0)
    run(optimizer, 2)
    optimizer.param_groups[0]["params"].insert(0, first)


def rest(optimizer: Any) -> None:
    optimizer.param_groups[0]["lr"] = 0.0
    run(optimizer, 30)
    optimizer.param_groups[0]["lr"] = LOUD["lr"]


def rest_together(optimizer: Any) -> None:
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    run(optimizer, 2)
    for group in optimizer.param_groups:
        group["lr"] = LOUD["lr"]


def pop_and_add(optimizer: Any) -> None:
    group = optimizer.param_groups.pop(0)
    run(optimizer, 3)
    optimizer.add_param_group(group)


def pop_and_append(optimizer: Any) -> None:
    group = optimizer.param_groups.pop(0)
    run(optimizer, 3)
    optimizer.param_groups.append(group)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(
    "event",
    [drop_the_first, insert_another, lead_again, rest, rest_together, pop_and_add, pop_and_append],
)
def test_a_shared_value_depends_on_the_steps_of_a_parameter_alone(
    event: Any, symmetric: bool
) -> None:
    def make(params: list[nn.Parameter]) -> Any:
        groups = [{"params": params[:2]}, {"params": params[2:]}]
        return made("mpgd", groups, noise=SHARED, sigma=0.0, symmetric=symmetric)

    params = [nn.Parameter(torch.ones((), dtype=torch.float64)) for _ in range(4)]
    rows = ratios(make(params), params, 100)
    assert all(row == pytest.approx([row[0]] * 4) for row in rows)
    expected = [row[0] for row in rows]
    params = [nn.Parameter(torch.ones((), dtype=torch.float64)) for _ in range(4)]
    optimizer = make(params)
    ratios(optimizer, params, 20)
    event(optimizer)
    present = [p for p in params if any(p is own for own in flat(optimizer))]
    first = [int(optimizer._orbits[p]["step"]) for p in present]
    found = ratios(optimizer, present, 40)
    for k, step in enumerate(first):
        assert [row[k] for row in found] == pytest.approx(expected[step : step + 40])


def test_groups_with_another_seed_or_noise_have_another_shared_driver() -> None:
    params = [nn.Parameter(torch.ones((), dtype=torch.float64)) for _ in range(3)]
    groups: list[dict[str, Any]] = [{"params": [p]} for p in params]
    groups[1]["seed"] = 5
    groups[2]["noise"] = ChaoticNoise(0.7, shared=True)
    optimizer = made("mpgd", groups, noise=SHARED, sigma=0.0)
    alone = [
        made("mpgd", [{**group, "params": parameters([2])}], noise=SHARED, sigma=0.0)
        for group in groups
    ]
    words = [int(drivers(optimizer, k)["shared"]) for k in range(3)]
    assert words == [int(drivers(each, 0)["shared"]) for each in alone]
    assert len(set(words)) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_says_force_where_the_default_says_sigma_and_the_other_way_round(kind: str) -> None:
    groups = [{"params": [p]} for p in parameters([3, 3, 3])]
    groups[1] |= named(kind, {"force": 0.4})
    groups[2] |= named(kind, {"decay": 0.3})
    optimizer = made(kind, groups)
    sizes = [[s.mu > 0, *s.exponents] for s in optimizer._ready()]
    assert sizes == [[True, 0.6, 0.6], [True, 0.6, 1.0], [True, 1.0, 0.6]]
    other = made(kind, [groups[0] | named(kind, {"sigma": 0.1})], sigma=0.0, force=0.4)
    assert other.param_groups[0][other._prefix + "force"] is None


# --- groups for the usual wishes ---------------------------------------------------------------


def test_choices_by_name_and_by_function() -> None:
    model = net()
    everything = [name for name, _ in model.named_parameters()]
    [group] = param_groups(model, mu=0.1, sigma=0.2, momentum=0.9, lr=0.5)
    assert names(group) == everything
    assert (group["mu"], group["sigma"], group["momentum"]) == (0.1, 0.2, 0.9)
    inside, outside = param_groups(model, perturb="first", sigma=0.2)
    assert names(inside) == ["0.weight", "0.bias"]
    assert names(inside) + names(outside) == everything
    inside, outside = param_groups(model, perturb="matrices", sigma=0.2)
    assert names(inside) == ["0.weight", "3.weight", "4.weight"]
    assert names(outside) == ["0.bias", "1.weight", "1.bias", "3.bias", "4.bias"]
    inside, outside = param_groups(model, lambda name, p: name.startswith("4"), mu=0.3)
    assert names(inside) == ["4.weight", "4.bias"]
    nested = nn.ModuleDict({"body": nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), "head": net()})
    inside, _ = param_groups(nested, perturb="first", mu=0.1)
    assert names(inside) == ["body.1.weight", "body.1.bias"]


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_rest_is_plain_even_where_the_defaults_perturb(wrapped: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
    groups = param_groups(model, perturb="first", wrapped=wrapped, gamma=0.7, mu=0.5)
    given: dict[str, Any] = {"sigma": 0.2}
    optimizer = (
        perturb(torch.optim.AdamW(groups, lr=0.1), **given)
        if wrapped
        else MPGD(groups, lr=0.1, **given)
    )
    assert [g[optimizer._prefix + "gamma"] for g in optimizer.param_groups] == [0.7, 0.6]
    assert [s.additive > 0 for s in perturbation_sizes(optimizer)] == [True, False]
    assert len(optimizer._orbits) == 2
    run(optimizer, 1)


def test_the_recipe_is_no_keyword_of_a_group() -> None:
    group = {"params": parameters([3]), "strength": 0.2}
    with pytest.raises(TypeError, match=r"no keyword 'strength'; it is an argument"):
        MPGD([group], lr=0.1, sigma=0.1)


def test_choices_that_make_no_sense_are_refused() -> None:
    model = nn.Linear(2, 1)
    with pytest.raises(ValueError, match=r"perturb chose none of \['weight', 'bias'\]"):
        param_groups(model, perturb=lambda name, p: False, mu=0.1)
    with pytest.raises(ValueError, match="'all', 'first', 'matrices', got 'last'"):
        param_groups(model, perturb="last", mu=0.1)
    with pytest.raises(ValueError, match=r"perturb chose none of \[\]"):
        param_groups(nn.ReLU(), perturb="first", mu=0.1)


# --- the recipe: strength and steps ------------------------------------------------------------

RECIPES: list[dict[str, Any]] = [
    {},
    {"gamma": 0.75, "symmetric": True},
    {"noise": ChaoticNoise(0.7, longest=20)},
    {"start": 100},
    {"stop": 300},
]


@pytest.mark.parametrize("given", RECIPES, ids=str)
@pytest.mark.parametrize("lr", [0.5, 1e-3])
@pytest.mark.parametrize("wraps", [False, True], ids=["mpgd", "perturb"])
def test_the_strength_is_the_relative_push(wraps: bool, lr: float, given: dict[str, Any]) -> None:
    """Of every group, whatever its weights, the step size, the noise and the window are."""
    groups = [{"params": parameters([50])}, {"params": [nn.Parameter(torch.full((9,), 1e-3))]}]
    recipe: dict[str, Any] = {"strength": 0.2, "steps": 1000, **given}
    optimizer = (
        perturb(torch.optim.AdamW(groups, lr=lr), **recipe) if wraps else MPGD(groups, lr, **recipe)
    )
    for size in perturbation_sizes(optimizer, steps=1000):
        assert size.relative == pytest.approx(0.2, rel=1e-12)
    for group in optimizer.param_groups:
        assert group[optimizer._prefix + "stop"] == given.get("stop", 750)
        assert group[optimizer._prefix + "force"] > 0


def test_the_recipe_leaves_groups_with_a_size_of_their_own_alone() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
    groups = param_groups(model, "first", force=0.01)
    groups.append({"params": [("late", *parameters([5]))]})
    optimizer = MPGD(groups, 0.1, strength=0.3, steps=100)
    assert [g["force"] for g in optimizer.param_groups[:2]] == [0.01, None]
    sizes = perturbation_sizes(optimizer, steps=100)
    assert sizes[1].additive == 0.0
    assert sizes[2].relative == pytest.approx(0.3)


def test_recipes_that_make_no_sense_are_refused() -> None:
    def make(**given: Any) -> Any:
        return MPGD(parameters([3]), **{"lr": 0.1, **given})

    with pytest.raises(ValueError, match="strength and steps are given together, got strength=0"):
        make(strength=0.2)
    with pytest.raises(ValueError, match=r"given together, got .*steps=100"):
        make(steps=100)
    for name in ("sigma", "mu", "force", "decay"):
        with pytest.raises(ValueError, match=f"strength sets the force, got {name}=0.1 too"):
            make(strength=0.2, steps=100, **{name: 0.1})
    with pytest.raises(ValueError, match=r"strength needs a noise with phases.*got noise=Gauss"):
        make(strength=0.2, steps=100, noise=GaussianNoise())
    with pytest.raises(ValueError, match=r"strength must lie in \[0, inf\), got -1"):
        make(strength=-1.0, steps=100)
    with pytest.raises(ValueError, match="steps must be an integer >= 1, got 0"):
        make(strength=0.2, steps=0)
    with pytest.raises(ValueError, match=r"strength compares .* at this lr, got lr=0.0 .* force"):
        make(strength=0.2, steps=100, lr=0.0)
    zeros = [nn.Parameter(torch.zeros(3))]
    with pytest.raises(ValueError, match=r"weights of root mean square 0: give force"):
        MPGD(zeros, 0.1, strength=0.2, steps=100)
    inner = torch.optim.AdamW(parameters([3]))
    before = snapshot(inner)
    with pytest.raises(ValueError, match="given together"):
        perturb(inner, strength=0.2)
    assert same_bits(snapshot(inner), before)
    assert type(inner) is torch.optim.AdamW
