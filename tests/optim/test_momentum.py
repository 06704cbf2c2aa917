"""Weight decay and momentum: SGD's direction, and no noise in the buffer."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import CyclicLR, OneCycleLR

from mpgd import MPGD
from tests.optim.descents import LOUD, PATHS, core, ends, parameters, resumed
from tests.optim.workers import run, same_bits, set_gradients, snapshot

DIRECTIONS: list[dict[str, Any]] = [
    {"weight_decay": 0.1},
    {"momentum": 0.9},
    {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    {"momentum": 0.8, "dampening": 0.3, "maximize": True},
]
SHAPES = [7, 1025, (4, 5), (), (0,)]


@pytest.mark.parametrize("how", DIRECTIONS, ids=str)
@pytest.mark.parametrize("foreach", [None, False, True])
def test_without_noise_it_is_sgd_in_every_bit(how: dict[str, Any], foreach: bool | None) -> None:
    given = {"lr": 0.05, "foreach": foreach, **how}
    one, other = MPGD(parameters(SHAPES), **given), torch.optim.SGD(parameters(SHAPES), **given)
    for optimizer in (one, other):
        run(optimizer, 5)
    assert same_bits(snapshot(one)["parameters"], snapshot(other)["parameters"])
    assert same_bits(snapshot(one)["state"], snapshot(other)["state"])  # momentum_buffer too


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("how", [*DIRECTIONS, {**DIRECTIONS[2], "start": 2, "stop": 4}], ids=str)
def test_all_paths_have_the_same_bits(how: dict[str, Any], dtype: torch.dtype) -> None:
    expected = ends(SHAPES, {**how, **PATHS[0]}, 5, dtype=dtype)
    for path in PATHS[1:]:
        assert same_bits(ends(SHAPES, {**how, **path}, 5, dtype=dtype), expected)


@pytest.mark.parametrize("how", DIRECTIONS, ids=str)
def test_noise_is_added_to_sgds_step_from_the_old_parameters(how: dict[str, Any]) -> None:
    """X' = x - eta d - m x + n, and the buffer is what SGD's would be at the same parameters."""
    [x], [y], [z] = (parameters([50], torch.float64) for _ in range(3))
    plain = {"lr": 0.05, **how}
    one, noise, sgd = MPGD([x], **LOUD, **how), MPGD([y], **LOUD), torch.optim.SGD([z], **plain)
    for k in range(4):
        set_gradients([x], k)
        old = x.detach().clone()
        y.data.copy_(x.data)
        z.data.copy_(x.data)
        y.grad, z.grad = torch.zeros_like(y), x.grad.clone()
        for optimizer in (one, noise, sgd):
            optimizer.step()
        torch.testing.assert_close(x, z + (y - old), rtol=1e-13, atol=1e-14)
        if how.get("momentum"):
            buffers = (each.state[p]["momentum_buffer"] for each, p in ((one, x), (sgd, z)))
            torch.testing.assert_close(*buffers, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_it_resumes_bit_for_bit(path: dict[str, Any], dtype: torch.dtype) -> None:
    given = {**LOUD, **DIRECTIONS[2], **path}
    assert same_bits(*resumed(SHAPES, dtype, given))


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_at_a_learning_rate_of_zero_only_the_buffer_changes(path: dict[str, Any]) -> None:
    optimizer = MPGD(parameters([9]), **{**LOUD, **path, "lr": 0.0}, momentum=0.9)
    before = snapshot(optimizer)
    run(optimizer, 2)
    after = snapshot(optimizer)
    buffer = after["state"][0].pop("momentum_buffer")
    assert float(buffer.abs().sum()) > 0
    del before["param_groups"], after["param_groups"]
    assert same_bits(before, after)


@pytest.mark.parametrize(
    "make",
    [lambda o: OneCycleLR(o, max_lr=0.1, total_steps=10), lambda o: CyclicLR(o, 0.01, 0.1)],
    ids=["OneCycleLR", "CyclicLR"],
)
@pytest.mark.parametrize("how", [{}, {"momentum": 0.9}], ids=str)
def test_schedulers_that_cycle_the_momentum_take_it(make: Any, how: dict[str, Any]) -> None:
    optimizer = MPGD(parameters([9]), **LOUD, **how)
    scheduler, seen = make(optimizer), set()
    for k in range(5):
        run(optimizer, 1, first=k)
        scheduler.step()
        seen.add(optimizer.param_groups[0]["momentum"])
    assert len(seen) == 5


def test_a_step_may_be_a_plain_integer_in_a_state() -> None:
    one, other = (MPGD(parameters([9]), **LOUD, shared_multiplicative=True) for _ in range(2))
    run(one, 3)
    saved = deepcopy(one.state_dict())
    for name in ("step", "shared_step"):
        saved["state"][0][name] = int(saved["state"][0][name])
    other.load_state_dict(saved)
    assert same_bits(snapshot(other)["state"], snapshot(one)["state"])


BAD: list[tuple[dict[str, Any], str]] = [
    ({"momentum": -0.1}, "momentum must lie in"),
    ({"weight_decay": float("nan")}, "weight_decay must lie in"),
    ({"dampening": float("inf")}, "dampening must lie in"),
    ({"nesterov": True}, r"nesterov needs a momentum above 0 and no dampening, got momentum=0.0"),
    ({"capturable": True}, r"capturable must be False: .* repeat the noise of one step"),
    ({"differentiable": True}, r"differentiable must be False: .* mpgd.optim.update.descended"),
]


@pytest.mark.parametrize(("keywords", "text"), BAD, ids=str)
def test_wrong_keywords_are_named(keywords: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        MPGD(parameters([2]), **LOUD, **keywords)


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
def test_the_compiled_step_has_the_same_bits() -> None:
    optimizer, eager = (MPGD(parameters([9, 5]), **LOUD, **DIRECTIONS[2]) for _ in range(2))
    step = torch.compile(optimizer.step, backend="aot_eager", fullgraph=True)
    for k in range(3):
        set_gradients(optimizer.param_groups[0]["params"], k)
        step()
    run(eager, 3)
    assert same_bits(core(optimizer), core(eager))
