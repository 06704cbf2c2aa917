"""Inner optimizers with states of any form: they train, save, load and go on bit for bit."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

from mpgd import perturb
from tests.optim.descents import drivers, flat, made, parameters
from tests.optim.strangers import STATES, Around, Modes, Sharpness, Tuned
from tests.optim.workers import run, same_bits

NOISE: dict[str, Any] = {"mu": 0.3, "sigma": 0.2, "seed": 4}


def adamw(params: Any) -> Optimizer:
    return made("adamw", params)


MAKE: dict[str, Any] = {
    **{
        f"perturbed {name}": lambda params, make=make: perturb(make(params), **NOISE)
        for name, make in STATES.items()
    },
    "sharpness": lambda params: Sharpness(params, adamw),
    "around": lambda params: Around(adamw(params)),
    "tuned": lambda params: Tuned(adamw(params)),
}


@pytest.mark.parametrize("name", list(MAKE))
def test_it_goes_on_from_a_file_in_bits(name: str, tmp_path: Path) -> None:
    """Perturbed optimizers, and optimizers around a perturbed one; from the file, and from that."""
    make = MAKE[name]
    optimizer = make(parameters([(6, 4), 5]))
    run(optimizer, 4)
    content = [p.detach() for p in flat(optimizer)], optimizer.state_dict()
    torch.save(content, tmp_path / "saved.pt")
    run(optimizer, 4, first=4)
    values, state = torch.load(tmp_path / "saved.pt", weights_only=True)
    again = make([nn.Parameter(x) for x in values])
    again.load_state_dict(state)
    run(again, 4, first=4)
    assert same_bits(flat(again), flat(optimizer))
    third = make([nn.Parameter(p.detach().clone()) for p in flat(optimizer)])
    third.load_state_dict(copy.deepcopy(again.state_dict()))
    for each in (third, again):
        run(each, 1, first=8)
    assert same_bits(flat(third), flat(again))


def test_the_state_is_empty_until_the_inner_one_is_there() -> None:
    """Many optimizers ask ``len(state) == 0``; then the same tensors appear under the prefix."""
    optimizer = made("adamw", parameters([5, 3]))
    p = flat(optimizer)[0]
    assert not optimizer.state
    assert len(optimizer.state_dict()["state"]) == 2
    run(optimizer, 2)
    assert float(optimizer.state[p]["step"]) == int(optimizer.state[p]["perturbation.step"]) == 2
    words = optimizer.state[p]["perturbation.additive"]
    assert words.data_ptr() == drivers(optimizer)["additive"].data_ptr()
    optimizer.state.clear()  # the noise goes on, the inner optimizer starts anew
    run(optimizer, 1, first=2)
    assert float(optimizer.state[p]["step"]) == 1
    assert int(drivers(optimizer)["step"]) == 3


def test_drivers_that_others_write_into_the_state_are_taken_over() -> None:
    """As ZeRO does when it loads."""
    one, other = (made("adamw", parameters([5, 3])) for _ in range(2))
    run(one, 3)
    with torch.no_grad():
        for p, q in zip(flat(one), flat(other), strict=True):
            q.copy_(p)
            other.state[q] = copy.deepcopy(dict(one.state[p]))
    for each in (one, other):
        run(each, 3, first=3)
    assert same_bits(flat(one), flat(other))
    assert same_bits(drivers(one), drivers(other))


def test_attributes_and_modes_are_the_inner_class() -> None:
    """As `schedulefree` has modes of training and evaluation."""
    optimizer = perturb(Modes(parameters([3]), lr=0.05, momentum=0.9), **NOISE)
    optimizer.eval()
    assert optimizer.mode == "eval"
    assert copy.deepcopy(optimizer).mode in ("eval", "train")  # torch copies no attributes
    optimizer.train()
    assert optimizer.mode == "train"
    assert not hasattr(perturb(torch.optim.SGD(parameters([3])), **NOISE), "train")


def test_a_parameter_that_was_replaced_keeps_its_noise_and_state() -> None:
    """As accelerate does under FSDP2: other tensors at the same places in the groups."""
    optimizer, twin = (made("adamw", parameters([5, 3])) for _ in range(2))
    for each in (optimizer, twin):
        run(each, 2)
    old = flat(optimizer)[0]
    optimizer.param_groups[0]["params"][0] = nn.Parameter(old.detach().clone())
    for each in (optimizer, twin):
        run(each, 2, first=2)
    assert old not in optimizer.state
    assert same_bits(flat(optimizer), flat(twin))
    assert same_bits(optimizer.state_dict()["state"], twin.state_dict()["state"])
