"""Inner optimizers with states of any form: they train, save, load and go on bit for bit."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from mpgd import perturb
from tests.optim.strangers import STATES, Around, Modes, Sharpness, Tuned
from tests.optim.workers import run, same_bits
from tests.optim.wrapped import LOUD, flat, vectors


def adamw(params: Any) -> Optimizer:
    return perturb(torch.optim.AdamW(params, lr=0.05), **LOUD)


OUTSIDE: dict[str, Any] = {
    "sharpness": lambda params: Sharpness(params, adamw),
    "around": lambda params: Around(adamw(params)),
    "tuned": lambda params: Tuned(adamw(params)),
}


def goes_on(make: Any, folder: Path) -> None:
    """Train, save, go on; the same again from the file gives the same bits, and noise."""
    optimizer = make(vectors(dtype=torch.float32))
    run(optimizer, 4)
    content = [p.detach() for p in flat(optimizer)], optimizer.state_dict()
    torch.save(content, folder / "saved.pt")
    run(optimizer, 4, first=4)
    values, state = torch.load(folder / "saved.pt", weights_only=True)
    again = make([torch.nn.Parameter(x) for x in values])
    again.load_state_dict(state)
    run(again, 4, first=4)
    assert same_bits(flat(again), flat(optimizer))
    run(again, 1, first=8)  # and a second time, from what it holds now
    third = make([torch.nn.Parameter(p.detach().clone()) for p in flat(optimizer)])
    third.load_state_dict(optimizer.state_dict())
    run(third, 1, first=8)
    assert same_bits(flat(third), flat(again))


@pytest.mark.parametrize("name", list(STATES))
def test_any_inner_state_goes_on(name: str, tmp_path: Path) -> None:
    goes_on(lambda params: perturb(STATES[name](params), **LOUD), tmp_path)


@pytest.mark.parametrize("name", list(OUTSIDE))
def test_a_wrapper_around_a_perturbed_optimizer_goes_on(name: str, tmp_path: Path) -> None:
    goes_on(OUTSIDE[name], tmp_path)


def test_the_state_is_live_and_can_be_written_to() -> None:
    optimizer = perturb(torch.optim.AdamW(vectors(2), lr=0.05), **LOUD)
    p, q = flat(optimizer)
    assert not optimizer.state  # the inner optimizer has none yet
    seen = optimizer.state[p]
    run(optimizer, 2)
    assert float(seen["step"]) == int(seen["perturbation.step"]) == 2
    seen["mark"], seen["perturbation.step"] = 5, torch.tensor(7)
    assert optimizer.inner.state[p]["mark"] == 5
    assert int(optimizer.state_dict()["state"][0]["perturbation.step"]) == 7
    assert seen.pop("mark") == 5
    assert "mark" not in optimizer.inner.state[p]
    assert set(optimizer.state) == {p, q}
    assert len(optimizer.state) == 2
    assert "exp_avg" in repr(optimizer.state)
    del optimizer.state[q]
    assert q not in optimizer.state
    run(optimizer, 1, first=2)  # made anew from (seed, ordinal)
    assert int(optimizer.state[q]["perturbation.step"]) == 1
    with pytest.raises(KeyError):
        optimizer.state["nobody"]["x"]


def test_a_state_that_is_assigned_is_taken_over() -> None:
    one, other = (perturb(torch.optim.AdamW(vectors(2), lr=0.05), **LOUD) for _ in range(2))
    run(one, 3)
    with torch.no_grad():
        for p, q in zip(flat(one), flat(other), strict=True):
            q.copy_(p)
    pairs = zip(flat(one), flat(other), strict=True)
    other.state = {q: copy.deepcopy(dict(one.state[p])) for p, q in pairs}
    other.param_groups = [{**one.param_groups[0], "params": flat(other)}]
    run(one, 3, first=3)
    run(other, 3, first=3)
    assert same_bits(flat(one), flat(other))
    other.state = other.state
    run(one, 1, first=6)
    run(other, 1, first=6)
    assert same_bits(flat(one), flat(other))


def test_unknown_attributes_reach_the_inner_optimizer() -> None:
    optimizer = perturb(Modes(vectors(1), lr=0.05), **LOUD)
    optimizer.eval()
    assert (optimizer.mode, optimizer.inner.mode) == ("eval", "eval")  # type: ignore[attr-defined]
    optimizer.train()
    assert optimizer.mode == "train"
    plain = perturb(torch.optim.SGD(vectors(1), lr=0.05), **LOUD)
    assert not hasattr(plain, "train")
    with pytest.raises(AttributeError, match="has no attribute '_secret'"):
        _ = plain._secret
    fused = perturb(torch.optim.AdamW(vectors(1), fused=True), **LOUD)
    assert not getattr(fused, "_step_supports_amp_scaling", False)  # GradScaler must do the work


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_optimizers_of_their_own(copied: Any) -> None:
    optimizer = perturb(Modes(vectors(1), lr=0.05, momentum=0.9), **LOUD, stream="a")
    run(optimizer, 2)
    again = copied(optimizer)
    assert isinstance(again, Optimizer)
    assert repr(again) == repr(optimizer)
    run(optimizer, 2, first=2)
    run(again, 2, first=2)
    assert same_bits(flat(optimizer), flat(again))
    again.eval()


def test_hooks_of_all_optimizers_fire_once() -> None:
    optimizer, seen = perturb(torch.optim.AdamW(vectors(1)), **LOUD), []
    handles = [
        register_optimizer_step_pre_hook(lambda which, *_: seen.append(which)),
        register_optimizer_step_post_hook(lambda which, *_: seen.append(which)),
        optimizer.inner.register_step_pre_hook(lambda *_: seen.append("inner")),
    ]
    try:
        run(optimizer, 1)
        optimizer.load_state_dict(optimizer.state_dict())  # its trial steps are nobody's
    finally:
        for handle in handles:
            handle.remove()
    assert seen == [optimizer, "inner", optimizer]
