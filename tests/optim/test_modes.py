"""An optimizer's state does not depend on the mode that torch was in when it was made."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from mpgd import MPGD, ChaoticNoise, GaussianNoise, full_batch
from mpgd.noise.driver import make_driver
from tests.noise.test_modes import MODES
from tests.optim.descents import KINDS, PATHS, SHARED, core, flat, made, parameters
from tests.optim.workers import run, same_bits

SETTINGS: list[dict[str, Any]] = [
    {"noise": SHARED, "symmetric": True},
    {"noise": GaussianNoise()},
    {"noise": ChaoticNoise(0.6, longest=6), "rounding": "stochastic"},
]
SHAPES: Any = [7, (), (0,), (2, 3)]


@pytest.mark.parametrize("mode", ["meta", "inference"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_state_made_in_a_mode_is_the_plain_one(
    mode: str, settings: dict[str, Any], kind: str
) -> None:
    plain, params = made(kind, parameters(SHAPES), **settings), parameters(SHAPES)
    with MODES[mode]():
        optimizer = made(kind, params, **settings)
    for state in optimizer._orbits.values():
        assert all(x.device.type == "cpu" and not x.is_inference() for x in state.values())
    for each in (plain, optimizer):
        run(each, 4)
    assert same_bits(core(optimizer), core(plain))


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_a_default_device_changes_no_step(path: dict[str, Any]) -> None:
    plain, optimizer = (made("mpgd", parameters(SHAPES), noise=SHARED, **path) for _ in range(2))
    for each in (plain, optimizer):
        run(each, 1)  # leaves gradients
    plain.step()
    with torch.device("meta"):
        optimizer.step()
    assert same_bits(core(optimizer), core(plain))


@pytest.mark.parametrize("mode", ["meta", "inference"])
def test_a_state_loaded_in_a_mode_is_the_plain_one(mode: str) -> None:
    plain, optimizer = (made("mpgd", parameters(SHAPES)) for _ in range(2))
    run(plain, 3)
    saved = deepcopy(plain.state_dict())
    for values in saved["state"].values():
        values["step"] = 3  # some clients write a count as a number
    with MODES[mode]():
        optimizer.load_state_dict(saved)
    with torch.no_grad():
        for p, q in zip(flat(optimizer), flat(plain), strict=True):
            p.copy_(q)
    for each in (plain, optimizer):
        run(each, 3, first=3)
    assert same_bits(core(optimizer), core(plain))


def test_an_optimizer_among_fake_tensors_leaves_the_next_one_alone() -> None:
    make_driver.cache_clear()
    with FakeTensorMode():
        MPGD(nn.Linear(3, 2).parameters(), lr=0.1, sigma=0.01, gamma=0.61)
    ends = []
    for _ in range(2):
        optimizer = MPGD(parameters([5]), lr=0.1, sigma=0.01, gamma=0.61, engine="torch")
        run(optimizer, 3)
        ends.append(core(optimizer))
        make_driver.cache_clear()
    assert same_bits(*ends)


def test_a_full_batch_does_not_follow_the_default_device() -> None:
    model, data = nn.Linear(2, 1), [(torch.ones(3, 2), torch.ones(3, 1))]
    closure = full_batch(model, nn.functional.mse_loss, data)
    expected = closure()
    with torch.device("meta"):
        assert torch.equal(closure(), expected)
