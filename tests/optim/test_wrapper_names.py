"""A setting of the perturbation and one of the inner optimizer with its name never meet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import StepLR

import mpgd
from mpgd import perturb
from tests.optim.checkpoints import reloaded
from tests.optim.descents import parameters
from tests.optim.strangers import NAMES, Namesake
from tests.optim.workers import run, same_bits, snapshot
from tests.optim.wrapped import LOUD, flat, vectors

DATA = Path(__file__).parents[1] / "data" / "checkpoints"
ALLOWED = {"beta": 0.965, "sigma": 1.0}  # Tiger's and FriendlySAM's, which a perturbation takes too
OURS = {**LOUD, "symmetric": True, "stream": "names"}


@pytest.mark.parametrize("names", [NAMES, ALLOWED], ids=["refused", "allowed"])
def test_both_settings_of_one_name_are_used(names: dict[str, Any]) -> None:
    """The step is the inner one alone plus the perturbation that another inner optimizer gets."""
    ours = {**LOUD, "symmetric": True}
    inner, others = (Namesake(vectors(1), names=names) for _ in range(2))
    optimizer = perturb(inner, **ours)
    reference = perturb(torch.optim.SGD(vectors(1), lr=0.05), **ours)
    start = vectors(1)[0].detach()
    run(optimizer, 1)
    run(others, 1)
    run(reference, 1)
    shift = flat(reference)[0].detach() - (start - 0.05 * flat(reference)[0].grad)
    torch.testing.assert_close(flat(optimizer)[0].detach(), flat(others)[0].detach() + shift)
    group = optimizer.param_groups[0]
    for name, value in names.items():
        assert group[name] == value
        assert group["perturbation." + name] == ours.get(name, getattr(mpgd_defaults(), name))


def mpgd_defaults() -> Any:
    return mpgd.optim.settings.DEFAULTS


def test_an_inner_setting_is_not_the_size_of_the_noise() -> None:
    optimizer = perturb(Namesake(vectors(1)), mu=0.0)
    assert mpgd.perturbation_sizes(optimizer)[0].additive == 0.0
    assert not [key for key in optimizer.state if key in flat(optimizer)]
    optimizer.param_groups[0]["perturbation.sigma"] = 0.1
    size = mpgd.perturbation_sizes(optimizer)[0].additive
    assert size == pytest.approx(0.1 * 0.05**0.6 * mpgd.ChaoticNoise(0.6).spread())
    run(optimizer, 1)
    assert optimizer.param_groups[0]["sigma"] == 1.0


def test_a_scheduler_sees_the_inner_lr() -> None:
    optimizer = perturb(Namesake(vectors(1)), **OURS)
    scheduler = StepLR(optimizer, 1, gamma=0.5)
    run(optimizer, 1)
    scheduler.step()
    assert optimizer.inner.param_groups[0]["lr"] == 0.025


def test_a_run_with_namesakes_resumes(tmp_path: Path) -> None:
    optimizer, again = (perturb(Namesake(vectors()), **OURS) for _ in range(2))
    run(optimizer, 4)
    with torch.no_grad():
        for p, q in zip(flat(again), flat(optimizer), strict=True):
            p.copy_(q)
    saved = reloaded(optimizer.state_dict(), tmp_path)
    again.load_state_dict(saved)
    plain = Namesake(vectors())
    plain.load_state_dict(saved)  # the inner optimizer alone reads its own part of the groups
    assert plain.param_groups[0]["beta"] == NAMES["beta"]
    run(optimizer, 4, first=4)
    run(again, 4, first=4)
    assert same_bits(snapshot(again), snapshot(optimizer))


def test_a_setting_without_its_prefix_is_warned_of() -> None:
    inner = torch.optim.SGD([{"params": vectors(), "sigma": 0.0}], lr=0.05)
    with pytest.warns(UserWarning, match="group 0 has 'sigma', .* would be 'perturbation.sigma'"):
        optimizer = perturb(inner, sigma=0.2)
    assert optimizer.param_groups[0]["perturbation.sigma"] == 0.2


def test_a_group_added_later_is_warned_of_like_one_of_the_constructor() -> None:
    optimizer = perturb(torch.optim.SGD(vectors(1), lr=0.05), sigma=0.2)
    text = "group 1 has 'sigma', .* would be 'perturbation.sigma'"
    with pytest.warns(UserWarning, match=text) as seen:
        optimizer.add_param_group({"params": vectors(2)[1:], "sigma": 3.0})
    assert [warning.filename for warning in seen] == [__file__]
    assert optimizer.param_groups[1]["perturbation.sigma"] == 0.2
    optimizer.add_param_group({"params": vectors(3)[2:], "perturbation.sigma": 3.0})
    assert optimizer.param_groups[2]["perturbation.sigma"] == 3.0


@pytest.mark.parametrize(
    ("name", "hint"),
    [("sgima", r"; did you mean 'perturbation.sigma'\?"), ("zzz", "; it has perturbation.mu, ")],
)
def test_a_name_under_the_prefix_must_be_known(name: str, hint: str) -> None:
    group = {"perturbation." + name: 0.1}
    text = f"has no setting 'perturbation.{name}'{hint}"
    inner = torch.optim.SGD([{"params": vectors(1), **group}], lr=0.05)
    with pytest.raises(ValueError, match=text):
        perturb(inner, sigma=0.2)
    optimizer = perturb(torch.optim.SGD(vectors(1), lr=0.05), sigma=0.2)
    with pytest.raises(ValueError, match=text):
        optimizer.add_param_group({"params": vectors(2)[1:], **group})
    assert len(optimizer.param_groups) == 1


def test_a_group_that_the_inner_optimizer_was_given_is_perturbed_too() -> None:
    optimizer = perturb(torch.optim.SGD(vectors(1), lr=0.05), sigma=0.2)
    optimizer.inner.add_param_group({"params": vectors(2)[1:]})
    run(optimizer, 2)
    assert optimizer.param_groups[1]["perturbation.sigma"] == 0.2
    assert len(optimizer.state_dict()["state"]) == 2


def own(params: list[Any]) -> torch.optim.Optimizer:
    return mpgd.MPGD([{"params": params[:2]}, {"params": params[2:]}], lr=1.0, sigma=0.1)


def wrapped(params: list[Any]) -> torch.optim.Optimizer:
    groups = [{"params": params[:2]}, {"params": params[2:]}]
    return perturb(torch.optim.AdamW(groups, lr=1.0), sigma=0.9)


@pytest.mark.parametrize(
    ("name", "make"), [("mpgd-32-bit-driver.pt", own), ("adamw-32-bit-driver.pt", wrapped)]
)
def test_checkpoints_from_before_the_prefix_go_on(name: str, make: Any) -> None:
    """Written by the version that had all settings side by side, with its six next steps."""
    saved = torch.load(DATA / name, weights_only=True)
    optimizer = make([torch.nn.Parameter(x) for x in saved["parameters"]])
    optimizer.load_state_dict(saved["optimizer"])
    run(optimizer, 6, first=4)
    for a, b in zip(flat(optimizer), saved["later"]["parameters"], strict=True):
        torch.testing.assert_close(a.detach(), b, rtol=1e-6, atol=1e-7)
    for number, values in saved["later"]["state"].items():
        found = optimizer.state_dict()["state"][number]
        assert values.keys() == found.keys()
        for key, value in values.items():
            if not value.is_floating_point():
                assert same_bits(value, found[key])
    group = optimizer.param_groups[0]
    if make is wrapped:
        assert (group["perturbation.sigma"], group["perturbation.gamma"]) == (0.3, 0.8)
        assert "sigma" not in group


class Scaled(torch.optim.SGD):
    """Has a private setting, which its step reads and torch saves."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, lr=lr)
        for settings in (self.defaults, *self.param_groups):
            settings["_scale"] = 2.0


def test_a_private_setting_that_is_saved_is_missed() -> None:
    one, other = (perturb(Scaled(parameters([4])), sigma=0.1, engine="torch") for _ in range(2))
    saved = one.state_dict()
    other.load_state_dict(saved)
    del saved["param_groups"][0]["_scale"]
    with pytest.raises(ValueError, match=r"lacks \['_scale'\]"):
        other.load_state_dict(saved)
    assert other.param_groups[0]["_scale"] == 2.0


def test_settings_that_an_earlier_perturb_left_are_said() -> None:
    """As when a cell of a notebook that wraps an optimizer is run again."""
    inner = torch.optim.SGD(parameters([4]), lr=0.1)
    perturb(inner, sigma=0.001, noise=mpgd.ChaoticNoise(0.7))
    perturb(inner, sigma=0.001, noise=mpgd.ChaoticNoise(0.7))  # the same: nothing to say
    with pytest.warns(UserWarning, match=r"'perturbation.sigma' of 0.001 .* sigma=0.002 does not"):
        again = perturb(inner, sigma=0.002)
    assert again.param_groups[0]["perturbation.sigma"] == 0.001
