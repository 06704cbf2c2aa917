"""A longest phase that is set in mid-run cuts the phases that are longer, on every path alike."""

from __future__ import annotations

import pickle
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mpgd import MPGD, perturb
from mpgd.noise.word import FAR, MAGNITUDE, NEGATIVE, steps_to_go
from tests.optim.checkpoints import reloaded
from tests.optim.descents import LOUD, PATHS, core, parameters
from tests.optim.workers import run, same_bits

SHAPES: Any = [400, (), (2, 3), (0,)]
ORBITS = ("multiplicative", "additive", "multiplicative_twin", "additive_twin", "shared")


def made(wrapped: bool, **settings: Any) -> Any:
    given: dict[str, Any] = {**LOUD, "gamma": 0.8, **settings}
    if not wrapped:
        return MPGD(parameters(SHAPES), **given)
    given.pop("foreach", None)
    lr = given.pop("lr")
    return perturb(torch.optim.SGD(parameters(SHAPES), lr=lr), **given)


def words(optimizer: Any) -> list[Tensor]:
    """Return copies of all orbits."""
    states = optimizer.state_dict()["state"].values()
    plain = [{n.removeprefix("perturbation."): v for n, v in state.items()} for state in states]
    return [state[name].clone() for state in plain for name in ORBITS if name in state]


def lower(optimizer: Any, longest: int | None) -> None:
    prefix = "" if isinstance(optimizer, MPGD) else "perturbation."
    optimizer.param_groups[0][prefix + "longest"] = longest


@pytest.mark.parametrize("wrapped", [False, True], ids=["mpgd", "perturb"])
@pytest.mark.parametrize("longest", [5, FAR + 50])
def test_longer_phases_are_cut_and_no_others(wrapped: bool, longest: int) -> None:
    optimizer = made(wrapped, symmetric=True, engine="torch")
    run(optimizer, 3)
    with torch.no_grad():  # a phase beyond 4,096 steps too
        state = optimizer.state[optimizer.param_groups[0]["params"][0]]
        name = "additive" if not wrapped else "perturbation.additive"
        state[name][0] = -NEGATIVE | MAGNITUDE
        state[name][1] = MAGNITUDE
    before = words(optimizer)
    lower(optimizer, longest)
    for old, new in zip(before, words(optimizer), strict=True):
        kept = steps_to_go(old) < longest
        assert same_bits(new[kept], old[kept])
        cut = new[steps_to_go(old) > longest]
        assert bool((steps_to_go(cut) == longest).all())
        assert torch.equal(new < 0, old < 0)
    if longest < FAR:  # a fraction that is not known
        assert any(bool((new & MAGNITUDE == longest << 18).any()) for new in words(optimizer))


@pytest.mark.parametrize("wrapped", [False, True], ids=["mpgd", "perturb"])
@pytest.mark.parametrize(
    "variant", [{}, {"shared_multiplicative": True, "symmetric": True}], ids=str
)
def test_every_path_cuts_alike_and_resumes(
    wrapped: bool, variant: dict[str, Any], tmp_path: Path
) -> None:
    found = []
    for path in PATHS:
        optimizer = made(wrapped, **variant, **path)
        run(optimizer, 3)
        lower(optimizer, 5)
        run(optimizer, 1, first=3)
        assert max(int(steps_to_go(w).max()) for w in words(optimizer) if w.numel()) <= 5
        saved = reloaded(optimizer.state_dict(), tmp_path)
        again = made(wrapped, **variant, **path, longest=5)
        again.load_state_dict(deepcopy(saved))
        optimizer.load_state_dict(saved)
        with torch.no_grad():
            for p, q in zip(
                *(o.param_groups[0]["params"] for o in (again, optimizer)), strict=True
            ):
                p.copy_(q)
        for o in (optimizer, again):
            run(o, 6, first=4)
        assert same_bits(core(again), core(optimizer))
        found.append(core(optimizer))
    assert all(same_bits(other, found[0]) for other in found[1:])


def test_a_copy_with_another_longest_phase_is_cut_too() -> None:
    """What a step compares with does not come along in a pickle; the states do."""
    optimizer = made(False)
    again = pickle.loads(pickle.dumps(optimizer))
    for o in (optimizer, again):
        lower(o, 4)
        run(o, 2)
    assert same_bits(core(again), core(optimizer))
    assert max(int(steps_to_go(w).max()) for w in words(again) if w.numel()) <= 4


def test_orbits_that_wait_are_cut_too() -> None:
    """They are in the checkpoint, and sigma may be raised again."""
    optimizer = made(False, mu=0.0)
    optimizer.param_groups[0].update(sigma=0.0, longest=4)
    saved = deepcopy(optimizer.state_dict())
    optimizer.load_state_dict(saved)
    optimizer.param_groups[0]["sigma"] = 0.1
    run(optimizer, 1)
    assert max(int(steps_to_go(w).max()) for w in words(optimizer) if w.numel()) <= 4


def test_without_a_bound_again_phases_may_grow() -> None:
    optimizer = made(False, longest=2)
    run(optimizer, 2)
    before = words(optimizer)
    lower(optimizer, None)
    assert same_bits(words(optimizer), before)
    run(optimizer, 30)
    assert max(int(steps_to_go(w).max()) for w in words(optimizer) if w.numel()) > 2


@pytest.mark.filterwarnings("ignore")  # torch's, of its own graphs
def test_a_compiled_step_cuts_what_the_plain_one_does() -> None:
    torch._dynamo.reset()
    params = [nn.Parameter(torch.ones(60)) for _ in range(2)]
    plain, compiled = (MPGD([p], 0.05, sigma=0.1, gamma=0.8, engine="torch") for p in params)
    step = torch.compile(compiled.step, backend="eager")
    for k in range(5):
        if k == 2:
            for o in (plain, compiled):
                lower(o, 3)
        for p in params:
            p.grad = torch.ones(60)
        plain.step()
        step()
    assert same_bits(core(compiled), core(plain))
    assert int(steps_to_go(words(compiled)[0]).max()) <= 3
