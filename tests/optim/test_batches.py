"""What an optimizer keeps from step to step never outlives a change: a new copy keeps nothing."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch

from tests.optim.checkpoints import KINDS, prefix_of
from tests.optim.descents import flat, parameters
from tests.optim.workers import make_optimizer, run, same_bits, set_gradients, snapshot


def replace_data(optimizer: Any) -> None:
    for p in flat(optimizer):
        p.data = p.data.clone()


def transpose(optimizer: Any) -> None:
    flat(optimizer)[0].data = flat(optimizer)[0].data.t()


def swap_parameters(optimizer: Any) -> None:
    optimizer.param_groups[0]["params"].reverse()


def write_count(optimizer: Any) -> None:
    """In place, as `state` shows it."""
    for name, value in optimizer.state[flat(optimizer)[0]].items():
        if name.endswith("perturbation.step") or (optimizer._prefix == "" and name == "step"):
            value.fill_(7)


def write_state(optimizer: Any) -> None:
    """As ZeRO does when it loads."""
    p = flat(optimizer)[0]
    written = deepcopy(dict(optimizer.state[p]))
    written[optimizer._prefix + "additive"].fill_(3)
    optimizer.state[p] = written


def load(optimizer: Any) -> None:
    saved = deepcopy(optimizer.state_dict())
    saved["state"][0][optimizer._prefix + "step"].fill_(11)
    optimizer.load_state_dict(saved)


def change(name: str, value: Any) -> Any:
    return lambda optimizer: optimizer.param_groups[0].update({optimizer._prefix + name: value})


CHANGES: dict[str, Any] = {
    "data": replace_data,
    "strides": transpose,
    "order": swap_parameters,
    "count": write_count,
    "state": write_state,
    "load": load,
    "seed": change("seed", 5),
    "sigma": change("sigma", 0.7),
    "symmetric": change("symmetric", True),
    "stop": change("stop", 1),
}


@pytest.mark.parametrize("name", list(CHANGES))
@pytest.mark.parametrize("kind", KINDS)
def test_a_change_between_two_steps_is_followed(kind: str, name: str) -> None:
    optimizer = make_optimizer(kind, parameters([(4, 4), 7]))
    run(optimizer, 2)
    CHANGES[name](optimizer)
    twin = deepcopy(optimizer)
    for _ in range(2):
        for each in (optimizer, twin):
            set_gradients(flat(each), 2)
            each.step()
        assert same_bits(snapshot(optimizer), snapshot(twin))


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_inside_a_closure_is_followed(kind: str) -> None:
    """The old memory is kept, to see that nothing is written there."""
    optimizer = make_optimizer(kind, parameters([(4, 4), 7]))
    run(optimizer, 2)
    twin, old = deepcopy(optimizer), [p.data for p in flat(optimizer)]
    before = deepcopy(old)
    set_gradients(flat(twin), 2)
    twin.step()

    def closure() -> torch.Tensor:
        replace_data(optimizer)
        set_gradients(flat(optimizer), 2)
        return torch.zeros(())

    optimizer.step(closure)
    assert same_bits(old, before)
    assert same_bits(snapshot(optimizer), snapshot(twin))


def test_the_parts_of_a_count_are_seen() -> None:
    """Twin: the change of a count does change the step."""
    one, other = (make_optimizer("mpgd", parameters([24]), stop=5) for _ in range(2))
    for each in (one, other):
        run(each, 2)
    write_count(other)
    assert int(other.state[flat(other)[0]][prefix_of("mpgd") + "step"]) == 7
    for each in (one, other):
        run(each, 1, first=2)
    assert not same_bits(flat(one), flat(other))
