"""Drivers of many parameters start together, with the bits of one at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from mpgd import MPGD, ChaoticNoise
from mpgd.optim import state
from mpgd.sharding import note_offset
from tests.optim.checkpoints import KINDS
from tests.optim.descents import parameters
from tests.optim.workers import make_optimizer, run, same_bits, snapshot

SHAPES: Any = [3, (), (0,), (2, 5), 1, (4, 0), (), 700]
VARIANTS: list[dict[str, Any]] = [
    {"gamma": (0.55, 0.7), "symmetric": True},
    {"noise": ChaoticNoise(0.6, longest=5), "seed": 2**40 + 1},
    {"noise": (ChaoticNoise(0.6), ChaoticNoise(0.7, longest=5000, first_sign="positive"))},
]


@pytest.mark.parametrize("size", [1 << 18, 10], ids=["together", "in parts"])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_orbits_that_start_together_are_those_of_init(
    variant: dict[str, Any], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "PART", size)
    params = [*parameters(SHAPES), nn.Parameter(torch.ones(6, dtype=torch.complex64))]
    note_offset(params[3], 1000)
    optimizer: Any = MPGD(params, lr=0.1, mu=0.3, sigma=0.2, **variant)
    settings = optimizer._cache.of(0, optimizer.param_groups[0])
    for ordinal, p in enumerate(params):
        shape = (*p.shape, 2) if p.is_complex() else tuple(p.shape)
        index = torch.arange(p.numel()) + 1000 if ordinal == 3 else None
        for name, which, number in settings.orbits:
            noise = settings.noises[which]
            ids = {"tensor_id": ordinal, "driver_id": number}
            alone = noise.init(shape, settings.seed, "cpu", index=index, **ids).word
            word = optimizer._orbits[p][name]
            assert same_bits(word, alone), (ordinal, name)
            assert word.untyped_storage().nbytes() == word.nbytes  # of its own, fit to be saved


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_that_is_added_is_as_one_given_at_the_start(kind: str) -> None:
    """The orbits of the others are left alone; what is refused leaves nothing behind."""
    ps, qs = parameters([3, 4, 5]), parameters([3, 4, 5])
    whole = make_optimizer(kind, [{"params": ps[:2]}, {"params": ps[2:]}])
    added = make_optimizer(kind, qs[:2])
    wrong = {("" if kind == "mpgd" else "perturbation.") + "sigma": float("nan")}
    with pytest.raises(ValueError, match=r"sigma must lie in .* got nan"):
        added.add_param_group({"params": qs[2:], **wrong})
    added.add_param_group({"params": qs[2:]})
    run(whole, 3)
    run(added, 3)
    assert same_bits(snapshot(whole), snapshot(added))


def test_an_optimizer_without_noise_holds_no_drivers_until_it_has_some() -> None:
    optimizer: Any = MPGD(parameters([3, 4]), lr=0.1)
    run(optimizer, 2)
    assert not optimizer._orbits
    assert not optimizer.state_dict()["state"]
    optimizer.param_groups[0]["sigma"] = 0.1
    run(optimizer, 1)
    assert [int(values["step"]) for values in optimizer._orbits.values()] == [1, 1]
