"""Noises as objects: keywords say the same, pairs may differ in kind, and one's own trains."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from mpgd import MPGD, ChaoticNoise, GaussianNoise, StableNoise, TelegraphNoise
from mpgd.limits import ExpandingNoise
from mpgd.noise import Noise, NoiseState, PhaseNoise
from tests.optim.descents import (
    KINDS,
    drivers,
    flat,
    made,
    orbits,
    parameters,
    resumed,
    set_keyword,
)
from tests.optim.workers import run, same_bits, snapshot


@dataclass(frozen=True)
class Alternating:
    """+1, -1, +1, ... for every element, begun by its index: the smallest noise with an orbit."""

    amplitude: float = 1.0
    exponent: float = 0.5

    @property
    def has_orbit(self) -> bool:
        """The sign turns."""
        return True

    def spread(self, twins: bool = False) -> float:
        """Return the size of a value."""
        return self.amplitude

    def init(
        self,
        shape: Any,
        seed: int = 0,
        device: Any = None,
        *,
        tensor_id: int = 0,
        driver_id: int = 0,
        index: Tensor | None = None,
    ) -> NoiseState:
        """Return signs by index."""
        i = torch.arange(torch.Size(shape).numel(), device=device).view(shape)
        s = 1.0 - 2.0 * ((i if index is None else index) % 2).double()
        return NoiseState(s, torch.tensor(0), torch.tensor(0))

    def step(self, state: NoiseState, *, index: Tensor | None = None) -> tuple[Tensor, NoiseState]:
        """Return the signs and turn them."""
        return self.amplitude * state.word, replace(state, word=-state.word, step=state.step + 1)


@pytest.mark.parametrize("engine", ["torch", "cpu"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_object_is_the_keywords_that_say_the_same(kind: str, engine: str) -> None:
    gammas, betas = (0.6, 0.7), (0.5, 0.0)
    pair = tuple(map(ChaoticNoise, gammas, betas))
    ends = []
    for given in ({"gamma": gammas, "beta": betas}, {"noise": pair}, {"noise": pair[0]}):
        optimizer = made(kind, parameters([40, (3, 5), ()]), **given, engine=engine)
        run(optimizer, 6)
        ends.append(snapshot(optimizer))
    assert same_bits(ends[0]["state"], ends[1]["state"])
    assert same_bits(ends[0]["parameters"], ends[1]["parameters"])
    assert not same_bits(ends[0]["parameters"], ends[2]["parameters"])


def test_fields_of_the_noise_reach_the_optimizer() -> None:
    def words(**fields: Any) -> Tensor:
        noise = ChaoticNoise(0.6, **fields)
        return orbits(MPGD(parameters([1000]), 0.1, sigma=0.1, noise=noise))["additive"]

    assert (words() < 0).any()
    assert not (words(first_sign="positive") < 0).any()
    shared = MPGD(parameters([5, 4]), 0.1, mu=0.1, noise=ChaoticNoise(0.6, shared=True))
    assert [sorted(drivers(shared, k)) for k in (0, 1)] == [
        ["ordinal", "shared", "step", "tables"],
        ["ordinal", "shared", "step", "tables"],
    ]


NOISES = [
    Alternating(0.5),
    ExpandingNoise(),
    StableNoise(1.5, 0.5),
    GaussianNoise(2.0, shared=True),
]


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_any_noise_of_the_protocol_trains_and_resumes(
    kind: str, noise: Noise, symmetric: bool
) -> None:
    assert isinstance(noise, Noise)
    one, other = resumed(
        lambda params: made(kind, params, noise=noise, symmetric=symmetric), parameters([40, ()])
    )
    assert same_bits(one, other)
    prefix = "" if kind == "mpgd" else "perturbation."
    assert one["param_groups"][0][prefix + "noise"] == [repr(noise)] * 2


def test_ones_own_noise_gives_the_update_it_says() -> None:
    optimizer = MPGD(parameters([4]), lr=0.25, sigma=1.0, noise=Alternating(0.5))
    (p,) = flat(optimizer)
    x = p.detach().clone()
    p.grad = torch.zeros_like(p)
    optimizer.step()
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0])
    torch.testing.assert_close(p.detach(), x + 0.25**0.5 * 0.5 * signs)
    optimizer.step()
    torch.testing.assert_close(p.detach(), x)


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_of_another_noise_is_refused(kind: str) -> None:
    saved = made(kind, parameters([3]), noise=Alternating(0.5)).state_dict()
    for other in (Alternating(0.25), None):
        optimizer = made(kind, parameters([3]), noise=other)
        before = snapshot(optimizer)
        with pytest.raises(ValueError, match=r"saved with noise=.*Alternating\(amplitude=0.5.*: b"):
            optimizer.load_state_dict(saved)
        assert same_bits(snapshot(optimizer), before)


@pytest.mark.parametrize("noise", [ChaoticNoise(0.7, 0.5), GaussianNoise(2.0)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_noise_set_in_mid_run_is_saved_and_resumes(noise: Noise, kind: str) -> None:
    optimizer = made(kind, parameters([5]), noise=None)
    run(optimizer, 2)
    set_keyword(optimizer, noise=noise)
    run(optimizer, 2, first=2)
    again = made(kind, copy.deepcopy(flat(optimizer)), noise=noise)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for each in (optimizer, again):
        run(each, 3, first=4)
    assert same_bits(snapshot(again), snapshot(optimizer))


PHASED = [
    TelegraphNoise(5),
    TelegraphNoise(20, longest=6, shared=True),
    PhaseNoise([1.0, 0.9, 0.5, 0.5, 0.1]),
    ChaoticNoise(0.6, burst=False),
]


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("noise", PHASED, ids=repr)
def test_noises_of_phases_have_the_same_bits_on_both_engines(noise: Any, symmetric: bool) -> None:
    ends = []
    for engine in ("torch", "cpu"):
        settings = {"noise": noise, "symmetric": symmetric, "engine": engine}
        optimizer = made("mpgd", parameters([40, (3, 5), ()]), **settings)
        run(optimizer, 30)
        ends.append(snapshot(optimizer))
    assert same_bits(ends[0]["state"], ends[1]["state"])
    assert same_bits(ends[0]["parameters"], ends[1]["parameters"])


@pytest.mark.parametrize("noise", PHASED, ids=repr)
def test_a_force_pushes_by_lr_times_force_in_every_step_of_a_phase(noise: Any) -> None:
    x = torch.zeros(500, dtype=torch.float64, requires_grad=True)
    optimizer = MPGD([x], lr=0.1, force=2.0, noise=replace(noise, shared=False))
    for _ in range(5):
        before = x.detach().clone()
        x.grad = torch.zeros_like(x)
        optimizer.step()
        assert (x.detach() - before).abs() == pytest.approx(0.2, rel=1e-12)


@pytest.mark.parametrize("noise", PHASED, ids=repr)
def test_a_checkpoint_of_phases_goes_on_bit_for_bit(noise: Any) -> None:
    ends = resumed(lambda p: made("mpgd", p, noise=noise), parameters([40, (3, 5)]))
    assert same_bits(*ends)


def test_a_checkpoint_of_other_phases_is_refused() -> None:
    optimizer = made("mpgd", parameters([4]), noise=TelegraphNoise(5))
    run(optimizer, 2)
    other = made("mpgd", parameters([4]), noise=TelegraphNoise(6))
    with pytest.raises(ValueError, match="TelegraphNoise"):
        other.load_state_dict(optimizer.state_dict())
