"""States of many parameters are made together, each once, with the bits of one at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from mpgd import MPGD, ChaoticNoise
from mpgd.noise.engines import tensor
from mpgd.optim import creation, many
from mpgd.optim.settings import Settings
from mpgd.optim.shards import note_offset
from tests.optim.descents import LOUD, core, parameters
from tests.optim.workers import run, same_bits

SHAPES: Any = [3, (), (0,), (2, 5), 1, (4, 0), (), 700]
VARIANTS: list[dict[str, Any]] = [
    {},
    {"symmetric": True, "gamma": (0.55, 0.7)},
    {"longest": 5, "seed": 2**40 + 1},
    {"longest": 5000, "first_sign": "positive"},
]


@pytest.mark.parametrize("size", [1 << 18, 10], ids=["together", "in parts"])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_orbits_that_start_together_are_those_of_init(
    variant: dict[str, Any], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creation, "PART", size)
    params = [*parameters(SHAPES), nn.Parameter(torch.ones(6, dtype=torch.complex64))]
    note_offset(params[3], 1000)
    optimizer = MPGD(params, **{**LOUD, **variant})
    settings: Settings = optimizer._current.of(0, optimizer.param_groups[0])
    for ordinal, p in enumerate(params):
        shape = (*p.shape, 2) if p.is_complex() else tuple(p.shape)
        index = torch.arange(p.numel()) + 1000 if ordinal == 3 else None
        for name, which, number in settings.orbits:
            noise = settings.noises[which]
            assert isinstance(noise, ChaoticNoise)
            ids = {"tensor_id": ordinal, "driver_id": number}
            alone = noise.init(shape, settings.seed, "cpu", index=index, **ids).word
            word = optimizer.state[p][name]
            assert same_bits(word, alone)
            assert word.untyped_storage().nbytes() == word.nbytes  # of its own, fit to be saved
        assert list(optimizer.state[p])[:2] == ["step", "key"]


def test_orbits_of_many_parameters_start_in_a_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    start = tensor.start
    monkeypatch.setattr(
        tensor, "start", lambda *given: (calls.append(given[1].numel()), start(*given))[1]
    )
    MPGD(parameters([3] * 200), **LOUD)
    assert calls == [1200]


def test_a_state_is_looked_at_once_for_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one look for every group that is added, construction would be quadratic."""
    looks: list[object] = []
    note = creation._note_tables
    monkeypatch.setattr(
        creation, "_note_tables", lambda *given: (looks.append(given[0]), note(*given))[1]
    )
    groups = [{"params": [p], "sigma": 0.1 * k} for k, p in enumerate(parameters([3] * 30))]
    optimizer = MPGD(groups, **LOUD)
    assert len(looks) == 30
    kept = [state["tables"] for state in optimizer.state.values()]
    optimizer.add_param_group({"params": parameters([5])})
    now = [state["tables"] for state in optimizer.state.values()]
    assert all(one is other for one, other in zip(kept, now, strict=False))
    assert len(now) == 31


def test_the_keys_of_many_parameters_are_mixed_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    mix = many.step_key_tensor
    monkeypatch.setattr(
        many, "step_key_tensor", lambda *given: (calls.append(given[0].numel()), mix(*given))[1]
    )
    shapes = [*SHAPES, *[3] * 100]
    given = {**LOUD, "engine": "torch", "symmetric": True, "start": 1}
    optimizer, plain = (
        MPGD(parameters(shapes), **given, foreach=foreach) for foreach in (True, False)
    )
    run(optimizer, 3)
    assert calls == [len(shapes)] * 8  # four drivers, two perturbed steps
    run(plain, 3)
    assert same_bits(core(optimizer), core(plain))
