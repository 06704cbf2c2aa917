"""Wrong keywords are refused with their name, the rule and the value, and nothing is changed."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import mpgd
from mpgd import MPGD, ChaoticNoise, GaussianNoise, StableNoise, perturb, perturbed
from mpgd.optim.settings import KEYWORDS, PREFIX, SGD_KEYWORDS
from tests.optim.descents import KINDS, flat, loud, made, parameters, set_keyword
from tests.optim.workers import run, same_bits, snapshot

NAN, INF = float("nan"), float("inf")
ONE = r"noise must be an object, such as TelegraphNoise\(20\), .* got "
BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"mu": -1.0}, ValueError, r"mu must lie in \[0, inf\), got -1.0"),
    ({"sigma": NAN}, ValueError, "sigma must lie .* got nan"),
    ({"sigma": True}, TypeError, "sigma must be a number .* got True"),
    ({"gamma": (0.6, 1.5)}, ValueError, r"gamma must lie in \(0.5, 0.99\], got 1.5"),
    ({"gamma": (0.6, 0.7, 0.8)}, ValueError, r"gamma must be one value or a pair .* got \(0.6,"),
    ({"beta": 1.5}, ValueError, r"beta must lie in \[-1, 1\], got 1.5"),
    ({"seed": -1}, ValueError, r"seed must be an integer in \[0, .* got -1"),
    ({"seed": (0, 1, 2)}, ValueError, r"seed must be a number or a pair .* got \(0, 1, 2\)"),
    ({"seed": (0, None)}, ValueError, r"must be a number or a pair .* got \(0, None\)"),
    ({"engine": "jax"}, ValueError, "engine must be one of 'torch', .*, got 'jax'"),
    ({"noise": "gaussian"}, TypeError, ONE + "'gaussian'"),
    ({"noise": (ChaoticNoise(0.6),)}, ValueError, "noise must be one value or a pair"),
    (
        {"noise": ChaoticNoise(0.6), "gamma": 0.7},
        ValueError,
        r"noise=ChaoticNoise\(.* says gamma itself, got gamma=0.7 too; leave it out",
    ),
    ({"start": -1}, ValueError, "start must be an integer >= 0, got -1"),
    ({"start": 5, "stop": 4}, ValueError, r"stop must not come before start, which is 5, got 4"),
    ({"symmetric": 1}, TypeError, "symmetric must be True or False, got 1"),
    ({"rounding": "up"}, ValueError, "rounding must be one of 'nearest', 'stochastic', got 'up'"),
    (
        {"force": 0.5, "sigma": 0.1},
        ValueError,
        "force is given instead of sigma, got force=0.5 and sigma=0.1; leave one of them out",
    ),
    (
        {"decay": 0.5, "mu": 0.1},
        ValueError,
        "decay is given instead of mu, got decay=0.5 and mu=0.1; leave one of them out",
    ),
    ({"force": INF, "sigma": 0.0}, ValueError, r"force must lie in \(-inf, inf\), got inf"),
    (
        {"force": 0.5, "sigma": 0.0, "noise": StableNoise(1.5)},
        ValueError,
        r"force is the push of a laminar phase, which StableNoise\(.*\) has not.* give sigma",
    ),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("change", "error", "text"), BAD, ids=[str(b[0]) for b in BAD])
def test_bad_keywords_are_refused(
    change: dict[str, Any], error: type[Exception], text: str, kind: str
) -> None:
    """At construction, in a group, in a group added later, and in mid-run before anything moves."""
    given = {**(loud(noise=GaussianNoise()) if "noise" in change else loud())}
    own = {("" if kind == "mpgd" else PREFIX) + name: value for name, value in change.items()}
    with pytest.raises(error, match=text):
        made(kind, parameters([3]), **{**given, **change})
    with pytest.raises(error, match=text):
        made(kind, [{"params": parameters([3]), **own}], **given)
    optimizer = made(kind, parameters([3]), **given)
    run(optimizer, 1)
    before = snapshot(optimizer)
    with pytest.raises(error, match=text):
        optimizer.add_param_group({"params": parameters([2]), **own})
    assert same_bits(snapshot(optimizer), before)
    optimizer.param_groups[0].update(own)
    with pytest.raises(error, match=text):
        optimizer.step()
    assert same_bits([p.detach() for p in flat(optimizer)], before["parameters"])


LR: list[tuple[Any, type[Exception], str]] = [
    (-0.1, ValueError, r"lr must lie in \[0, inf\), got -0.1"),
    (NAN, ValueError, r"lr must lie in \[0, inf\), got nan"),
    (torch.ones(2), ValueError, r"lr must have one element, got a tensor of shape \(2,\)"),
    ("fast", TypeError, "lr must be a number .* got 'fast'"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("lr", "error", "text"), LR, ids=[str(b[0]) for b in LR])
def test_a_bad_lr_is_refused(lr: Any, error: type[Exception], text: str, kind: str) -> None:
    with pytest.raises(error, match=text):
        made(kind, [{"params": parameters([3]), "lr": lr}])
    optimizer = made(kind, parameters([3]))
    run(optimizer, 1)
    before = snapshot(optimizer)
    optimizer.param_groups[0]["lr"] = lr
    with pytest.raises(error, match=text):
        optimizer.step()
    assert same_bits([p.detach() for p in flat(optimizer)], before["parameters"])
    optimizer.param_groups[0]["lr"] = before["param_groups"][0]["lr"]
    assert same_bits(snapshot(optimizer), before)


def test_a_group_without_lr_cannot_be_perturbed() -> None:
    class WithoutRate(torch.optim.SGD):
        def __init__(self, params: Any) -> None:
            super().__init__(params)
            del self.param_groups[0]["lr"]

    optimizer = WithoutRate(parameters([3]))
    with pytest.raises(ValueError, match="every group needs an 'lr' to scale the perturbation"):
        perturb(optimizer, sigma=0.1)
    assert type(optimizer) is WithoutRate


@pytest.mark.parametrize("flag", ["capturable", "differentiable"])
def test_steps_that_cannot_be_repeated_or_differentiated_are_refused(flag: str) -> None:
    optimizer = torch.optim.AdamW(parameters([3]), **{flag: True})
    before = snapshot(optimizer)
    with pytest.raises(ValueError, match=f"{flag} must be False in a perturbed optimizer: a step"):
        perturb(optimizer, sigma=0.1)
    assert type(optimizer) is torch.optim.AdamW
    assert same_bits(snapshot(optimizer), before)


MISSPELT: dict[str, Any] = {
    "MPGD": lambda **given: MPGD(parameters([2]), **given),
    "PerturbedAdamW": lambda **given: perturbed(torch.optim.AdamW)(parameters([2]), **given),
    "the perturbation": lambda **given: perturb(torch.optim.AdamW(parameters([2])), **given),
}


@pytest.mark.parametrize("what", list(MISSPELT))
def test_a_misspelt_keyword_is_answered_with_the_nearest(what: str) -> None:
    for wrong, right in (("sigm", "sigma"), ("strengthh", "strength"), ("see", "seed")):
        with pytest.raises(
            TypeError, match=rf"{what} has no keyword '{wrong}'; did you mean '{right}'"
        ):
            MISSPELT[what](**{wrong: 0.1})
    with pytest.raises(TypeError, match=f"{what} has no keyword 'zzz'; it has .*sigma, "):
        MISSPELT[what](zzz=0.1)
    for of_noise in ("signs", "longest"):
        text = rf"'{of_noise}'; it belongs to the noise, noise=ChaoticNoise\(0.6, {of_noise}="
        with pytest.raises(TypeError, match=text):
            MISSPELT[what](**{of_noise: 5})


def test_misspelt_names_elsewhere_are_answered_too() -> None:
    text = (
        r"the perturbation has no keyword 'perturbation.sgima'; did you mean 'perturbation.sigma'"
    )
    group = {"params": parameters([2]), "perturbation.sgima": 0.1}
    with pytest.raises(TypeError, match=text):
        perturb(torch.optim.SGD([group], lr=0.05), sigma=0.2)
    with pytest.raises(TypeError, match=text):
        made("adamw", parameters([3])).add_param_group(group)
    with pytest.raises(TypeError, match="has no keyword 'sigmaa'; did you mean 'sigma'"):
        mpgd.param_groups(nn.Linear(2, 1), sigmaa=0.1)
    with pytest.raises(TypeError, match="has no keyword 'sigmaa'; did you mean 'sigma'"):
        perturbed(torch.optim.SGD)(parameters([2]), perturbation={"sigmaa": 0.1})


def test_the_keywords_of_mpgd_are_all_known() -> None:
    """A keyword that is added to the signature alone would be misspelt."""
    names = set(inspect.signature(MPGD).parameters) - {"params", "unknown"}
    assert names == {"lr", *KEYWORDS, *SGD_KEYWORDS}


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_that_is_changed_in_place_is_seen(kind: str) -> None:
    optimizer = made(kind, parameters([5]))
    betas = [0.5, 0.0]
    set_keyword(optimizer, beta=betas)
    run(optimizer, 1)
    betas[1] = 7.0
    with pytest.raises(ValueError, match=r"beta must lie in \[-1, 1\], got 7.0"):
        optimizer.step()


def test_a_keyword_that_was_taken_out_of_a_group_comes_back() -> None:
    optimizer, twin = (made("adamw", parameters([5])) for _ in range(2))
    del optimizer.param_groups[0]["perturbation.sigma"]
    for each in (optimizer, twin):
        run(each, 2)
    assert same_bits(snapshot(optimizer), snapshot(twin))


def test_numbers_of_numpy_are_kept_as_plain_ones() -> None:
    given = {"sigma": np.float64(0.1), "gamma": np.float32(0.75), "seed": np.int64(3)}
    optimizer = MPGD(parameters([3]), lr=0.1, momentum=np.float64(0.9), **given)
    run(optimizer, 1)
    [group] = optimizer.state_dict()["param_groups"]
    assert [type(group[name]) for name in (*given, "momentum")] == [float, float, int, float]


def test_what_is_no_plain_optimizer_is_not_perturbed() -> None:
    with pytest.raises(TypeError, match="optimizer must be a torch optimizer, got list"):
        perturb([], sigma=0.1)  # type: ignore[arg-type]
    for optimizer in (made(kind, parameters([3])) for kind in KINDS):
        with pytest.raises(ValueError, match="rounded already: change the settings in its group"):
            perturb(optimizer, sigma=0.1)
    replaced = torch.optim.SGD(parameters([3]))
    replaced.step = lambda closure=None: None  # type: ignore[method-assign]
    with pytest.raises(ValueError, match=r"optimizer.step was replaced in this object: perturb it"):
        perturb(replaced, sigma=0.1)
    assert type(replaced) is torch.optim.SGD


def test_no_noise_at_all_is_said_once(recwarn: pytest.WarningsRecorder) -> None:
    text = "no parameter is perturbed: give strength and steps, or force=0 if that is meant"
    silent: list[Any] = [
        lambda: MPGD(parameters([3]), lr=0.1),
        lambda: perturb(torch.optim.AdamW(parameters([3]))),
        lambda: perturbed(torch.optim.AdamW)(parameters([3])),
        lambda: MPGD([{"params": parameters([3]), "mu": 0.0}, {"params": parameters([2])}], lr=0.1),
    ]
    for make in silent:
        with pytest.warns(UserWarning, match=text) as seen:
            run(make(), 2)
        assert [warning.filename for warning in seen] == [__file__]
    meant: list[Any] = [
        lambda: MPGD(parameters([3]), lr=0.1, force=0.0),
        lambda: MPGD(parameters([3]), lr=0.1, strength=0.0, steps=10),
        lambda: perturb(torch.optim.AdamW(parameters([3])), rounding="stochastic"),
        lambda: MPGD([{"params": parameters([3]), "mu": 0.1}, {"params": parameters([2])}], lr=0.1),
    ]
    for make in meant:
        make()
    assert not [w for w in recwarn if "no parameter is perturbed" in str(w.message)]
