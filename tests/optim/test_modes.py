"""An optimizer's state does not depend on the mode that torch was in when it was made."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from mpgd import MPGD, full_batch, perturb
from mpgd.noise.driver import make_driver
from tests.noise.test_modes import MODES
from tests.optim.descents import LOUD, PATHS, core, parameters
from tests.optim.workers import run, same_bits

SETTINGS: list[dict[str, Any]] = [
    {},
    {"symmetric": True, "shared_multiplicative": True},
    {"noise": "gaussian"},
    {"longest": 6, "rounding": "stochastic"},
]
SHAPES: Any = [7, (), (0,), (2, 3)]


def made(wrapped: bool, settings: dict[str, Any], params: list[nn.Parameter]) -> Any:
    given = {**LOUD, **settings}
    lr = given.pop("lr")
    if not wrapped:
        return MPGD(params, lr=lr, **given)
    given.pop("foreach", None)
    return perturb(torch.optim.SGD(params, lr=lr), **given)


@pytest.mark.parametrize("mode", ["meta", "inference"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("wrapped", [False, True], ids=["mpgd", "perturb"])
def test_a_state_made_in_a_mode_is_the_plain_one(
    mode: str, settings: dict[str, Any], wrapped: bool
) -> None:
    plain = made(wrapped, settings, parameters(SHAPES))
    params = parameters(SHAPES)
    with MODES[mode]():
        optimizer = made(wrapped, settings, params)
    for p in params:
        for value in optimizer.state[p].values():
            assert value.device.type == "cpu"
            assert not value.is_inference()
    run(plain, 4)
    run(optimizer, 4)
    assert same_bits(core(optimizer), core(plain))


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_a_default_device_changes_no_step(path: dict[str, Any]) -> None:
    plain, optimizer = (
        made(False, {**path, "shared_multiplicative": True}, parameters(SHAPES)) for _ in range(2)
    )
    for o in (plain, optimizer):
        run(o, 1)  # leaves gradients
    plain.step()
    with torch.device("meta"):
        optimizer.step()
    assert same_bits(core(optimizer), core(plain))


@pytest.mark.parametrize("mode", ["meta", "inference"])
def test_a_state_loaded_in_a_mode_is_the_plain_one(mode: str) -> None:
    plain, optimizer = (made(False, {}, parameters(SHAPES)) for _ in range(2))
    run(plain, 3)
    saved = deepcopy(plain.state_dict())
    for values in saved["state"].values():
        values["step"] = 3  # some clients write a count as a number
    with MODES[mode]():
        optimizer.load_state_dict(saved)
    with torch.no_grad():
        for p, q in zip(
            optimizer.param_groups[0]["params"], plain.param_groups[0]["params"], strict=True
        ):
            p.copy_(q)
    for o in (plain, optimizer):
        run(o, 3, first=3)
    assert same_bits(core(optimizer), core(plain))


def test_an_optimizer_among_fake_tensors_leaves_the_next_one_alone() -> None:
    make_driver.cache_clear()
    with FakeTensorMode():
        MPGD(nn.Linear(3, 2).parameters(), lr=0.1, sigma=0.01, gamma=0.61)
    first = MPGD(parameters([5]), lr=0.1, sigma=0.01, gamma=0.61, engine="torch")
    make_driver.cache_clear()
    second = MPGD(parameters([5]), lr=0.1, sigma=0.01, gamma=0.61, engine="torch")
    run(first, 3)
    run(second, 3)
    assert same_bits(core(first), core(second))


def test_a_full_batch_does_not_follow_the_default_device() -> None:
    model, data = nn.Linear(2, 1), [(torch.ones(3, 2), torch.ones(3, 1))]
    closure = full_batch(model, nn.functional.mse_loss, data)
    expected = closure()
    with torch.device("meta"):
        assert torch.equal(closure(), expected)
