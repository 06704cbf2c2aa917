"""Tied and overlapping parameters have defined bits; what must not overlap is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mpgd import MPGD, perturb
from tests.optim.descents import LOUD
from tests.optim.workers import bits, set_gradients

SIZE = 70_000  # large enough for several threads


def tied(base: Tensor) -> list[nn.Parameter]:
    return [nn.Parameter(base), nn.Parameter(base.detach())]


def shifted(base: Tensor) -> list[nn.Parameter]:
    return [nn.Parameter(base[:-7]), nn.Parameter(base[7:]), nn.Parameter(torch.ones(3))]


def made(kind: str, params: list[nn.Parameter], **settings: Any) -> torch.optim.Optimizer:
    given = {**LOUD, **settings}
    if kind == "mpgd":
        return MPGD(params, **given)
    lr, _ = given.pop("lr"), given.pop("foreach", None)
    return perturb(torch.optim.SGD(params, lr=lr, foreach=False), **given)


@pytest.mark.parametrize("cut", [tied, shifted])
@pytest.mark.parametrize("kind", ["mpgd", "sgd"])
def test_all_engines_do_overlapping_parameters_one_after_the_other(kind: str, cut: Any) -> None:
    threads = torch.get_num_threads()
    found = []
    try:
        torch.set_num_threads(2)
        for settings in ({"engine": "torch"}, {"engine": "numba"}, {"foreach": True}):
            base = torch.linspace(-1, 1, SIZE)
            params = cut(base)
            optimizer = made(kind, params, **settings)
            for k in range(3):
                set_gradients(params, k)
                optimizer.step()
            found.append(bits(base))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(found[0], each) for each in found[1:])


def test_an_overlap_that_comes_later_is_seen() -> None:
    """The addresses are looked at again when one of them changes."""
    found = []
    for engine in ("torch", "numba"):
        base = torch.linspace(-1, 1, SIZE)
        params = [nn.Parameter(base), nn.Parameter(base.clone())]
        optimizer = MPGD(params, **LOUD, engine=engine)
        for k in range(3):
            set_gradients(params, k)
            optimizer.step()
            params[1].data = base
        found.append(bits(base))
    assert torch.equal(*found)


@pytest.mark.parametrize("engine", ["torch", "numba"])
def test_a_gradient_in_a_part_of_its_parameter_is_refused(engine: str) -> None:
    base = torch.linspace(-1, 1, 50)
    p = nn.Parameter(base[:40])
    optimizer = MPGD([p], **LOUD, engine=engine)
    p.grad = base[10:]
    before = bits(base)
    with pytest.raises(RuntimeError, match=r"gradient .* shape \(40,\) must not lie in a part"):
        optimizer.step()
    assert torch.equal(bits(base), before)
    p.grad = p.detach()  # the whole of it is allowed, as in SGD
    optimizer.step()


@pytest.mark.parametrize("name", ["additive", "multiplicative"])
@pytest.mark.parametrize("engine", ["torch", "numba"])
def test_a_perturbed_optimizer_looks_at_its_own_state_first(engine: str, name: str) -> None:
    """An orbit whose memory was freed, or is another: nothing is changed, not by AdamW either."""
    params = [nn.Parameter(torch.ones(600)), nn.Parameter(torch.ones(3))]
    optimizer = perturb(torch.optim.AdamW(params), sigma=0.1, mu=0.1, engine=engine)
    set_gradients(params, 0)
    word = optimizer._orbits[params[1]][name]
    for wrong, text in (
        (word.double(), "must be a tensor of that shape, int32 .* got torch.float64"),
        (word[:2], r"must be a tensor of that shape, int32 .* got torch.int32 of \(2,\)"),
        (word, "has no memory any more"),
    ):
        optimizer.state[params[1]]["perturbation." + name] = wrong
        if wrong is word:
            word.untyped_storage().resize_(0)
        with pytest.raises(RuntimeError, match=text):
            optimizer.step()
        assert all(bool((p == 1).all()) for p in params)
        assert not optimizer.inner.state


@pytest.mark.parametrize("kind", ["mpgd", "sgd"])
@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("noise", "chaotik", "noise must be one of .* got 'chaotik'"),
        ("start", 1.5, "start must be an integer >= 0, got 1.5"),
        ("symmetric", "x", "symmetric must be True or False, got 'x'"),
        ("stream", -1, "stream must be an integer .* got -1"),
    ],
)
def test_a_setting_that_was_changed_is_checked_at_the_next_step(
    kind: str, name: str, value: Any, text: str
) -> None:
    params = [nn.Parameter(torch.ones(3))]
    optimizer = made(kind, params, engine="torch")
    set_gradients(params, 0)
    optimizer.param_groups[0][name if kind == "mpgd" else "perturbation." + name] = value
    with pytest.raises((TypeError, ValueError), match=text):
        optimizer.step()
    assert bool((params[0] == 1).all())


@pytest.mark.parametrize("name", ["maximize", "foreach", "fused"])
def test_torchs_own_settings_are_checked_too(name: str) -> None:
    params = [nn.Parameter(torch.ones(3))]
    optimizer = MPGD(params, **LOUD, engine="torch")
    set_gradients(params, 0)
    optimizer.param_groups[0][name] = "x"
    with pytest.raises(TypeError, match=f"{name} must be True or False, got 'x'"):
        optimizer.step()
