"""Noises as objects: the words say the same, pairs may differ in kind, and one's own trains."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from mpgd import MPGD, ChaoticNoise, GaussianNoise, NoiseState, StableNoise, perturb
from mpgd.limits import ExpandingNoise
from mpgd.noise import Noise
from tests.optim.descents import LOUD, parameters
from tests.optim.workers import run, same_bits, snapshot

SIZES = {"lr": 0.1, "mu": 0.1, "sigma": 0.2}


@dataclass(frozen=True)
class Alternating:
    """+1, -1, +1, ... for every element, begun by its index: the smallest noise with an orbit."""

    amplitude: float = 1.0

    @property
    def exponent(self) -> float:
        """The power of eta."""
        return 0.5

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


def ends(steps: int = 6, **settings: Any) -> dict[str, Any]:
    optimizer = MPGD(parameters([40, (3, 5), ()]), **settings)
    run(optimizer, steps)
    return snapshot(optimizer)


@pytest.mark.parametrize("engine", ["torch", "cpu"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_an_object_is_the_words_that_say_the_same(engine: str, symmetric: bool) -> None:
    rest = {**SIZES, "symmetric": symmetric, "engine": engine}
    words = ends(gamma=(0.6, 0.7), beta=(0.5, 0.0), signs="product", first_sign="positive", **rest)
    pair = [
        ChaoticNoise(g, b, signs="product", first_sign="positive")
        for g, b in ((0.6, 0.5), (0.7, 0))
    ]
    assert same_bits(ends(noise=tuple(pair), **rest), words)
    assert words["param_groups"][0]["noise"] == "chaotic"
    assert not same_bits(ends(noise=pair[0], **rest), words)


def test_the_first_sign_reaches_the_optimizer() -> None:
    optimizer = MPGD(parameters([1000]), lr=0.1, sigma=0.1, first_sign="positive")
    (state,) = optimizer.state.values()
    assert not (state["additive"] < 0).any()
    (drawn,) = MPGD(parameters([1000]), lr=0.1, sigma=0.1).state.values()
    assert (drawn["additive"] < 0).any()


@pytest.mark.parametrize("engine", ["torch", "cpu"])
def test_a_negative_sigma_turns_the_additive_noise_round(engine: str) -> None:
    """From 0 and without gradients the two walks are mirror images, in bits."""
    walks = []
    for sigma in (0.2, -0.2):
        (p,) = params = parameters([200])
        with torch.no_grad():
            p.zero_()
        optimizer = MPGD(params, lr=0.1, sigma=sigma, engine=engine)
        for _ in range(20):
            p.grad = torch.zeros_like(p)
            optimizer.step()
        walks.append(p.detach())
    assert torch.equal(walks[0], -walks[1])
    assert walks[0].abs().max() > 0


@pytest.mark.parametrize("foreach", [False, True])
def test_the_two_noises_may_be_of_different_kinds(foreach: bool) -> None:
    """Each term is what the noise gives alone."""
    mixed = (GaussianNoise(0.5), ChaoticNoise(0.7, 0.3))
    optimizer = MPGD(parameters([30]), **SIZES, noise=mixed, seed=4, foreach=foreach)
    (p,) = optimizer.param_groups[0]["params"]
    x = p.detach().double()
    states = [noise.init(30, 4, driver_id=which) for which, noise in enumerate(mixed)]
    for _ in range(5):
        p.grad = torch.zeros_like(p)
        optimizer.step()
        v = []
        for which, noise in enumerate(mixed):
            value, states[which] = noise.step(states[which])
            v.append(value)
        x = x - 0.1 * 0.1**0.5 * v[0] * x + 0.2 * 0.1**0.7 * v[1]
    torch.testing.assert_close(p.detach().double(), x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("noise", [Alternating(0.5), ExpandingNoise(), StableNoise(1.5, 0.5)])
@pytest.mark.parametrize("symmetric", [False, True])
def test_any_noise_of_the_protocol_trains_and_resumes(noise: Noise, symmetric: bool) -> None:
    assert isinstance(noise, Noise)
    settings = {**SIZES, "noise": noise, "symmetric": symmetric}
    whole = MPGD(parameters([40, ()]), **settings)
    run(whole, 9)
    half = MPGD(parameters([40, ()]), **settings)
    run(half, 5)
    saved = half.state_dict()
    assert saved["param_groups"][0]["noise"] == [repr(noise)] * 2
    again = MPGD(copy.deepcopy(half.param_groups[0]["params"]), **settings)
    again.load_state_dict(saved)
    run(again, 4, first=5)
    assert same_bits(snapshot(again), snapshot(whole))


def test_ones_own_noise_gives_the_update_it_says() -> None:
    optimizer = MPGD(parameters([4]), lr=0.25, sigma=1.0, noise=Alternating(0.5))
    (p,) = optimizer.param_groups[0]["params"]
    x = p.detach().clone()
    p.grad = torch.zeros_like(p)
    optimizer.step()
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0])
    torch.testing.assert_close(p.detach(), x + 0.25**0.5 * 0.5 * signs)
    optimizer.step()
    torch.testing.assert_close(p.detach(), x)


def test_around_another_optimizer_it_trains_and_resumes_too() -> None:
    def make(params: Any) -> Any:
        return perturb(torch.optim.AdamW(params, lr=0.1), sigma=0.1, noise=Alternating())

    whole, half = make(parameters([5])), make(parameters([5]))
    run(whole, 6)
    run(half, 3)
    again = make(copy.deepcopy(half.param_groups[0]["params"]))
    again.load_state_dict(half.state_dict())
    run(again, 3, first=3)
    assert same_bits(snapshot(again), snapshot(whole))


def test_a_state_of_another_noise_is_refused() -> None:
    saved = MPGD(parameters([3]), **SIZES, noise=Alternating(0.5)).state_dict()
    for other in (Alternating(0.25), "chaotic"):
        optimizer = MPGD(parameters([3]), **SIZES, noise=other)
        before = snapshot(optimizer)
        with pytest.raises(ValueError, match=r"saved with the noises .*Alternating\(amplitude=0.5"):
            optimizer.load_state_dict(saved)
        assert same_bits(snapshot(optimizer), before)


def test_words_and_objects_of_one_kind_do_not_quarrel_about_the_engine() -> None:
    optimizer = MPGD(parameters([3]), **LOUD, noise=ChaoticNoise(LOUD["gamma"], LOUD["beta"]))
    assert optimizer.param_groups[0]["engine"] is None
    with pytest.raises(ValueError, match="noise says engine='torch', but engine='numba' was given"):
        MPGD(parameters([3]), lr=0.1, noise=ChaoticNoise(0.6, engine="torch"), engine="cpu")


@pytest.mark.parametrize("noise", [ChaoticNoise(0.7, 0.5), GaussianNoise(2.0)])
@pytest.mark.parametrize("wraps", [False, True])
def test_a_noise_set_in_mid_run_is_saved_and_resumes(noise: Noise, wraps: bool) -> None:
    def make(params: Any, **keywords: Any) -> Any:
        if not wraps:
            return MPGD(params, lr=0.1, sigma=0.1, **keywords)
        return perturb(torch.optim.SGD(params, lr=0.1), sigma=0.1, **keywords)

    optimizer = make(parameters([5]))
    run(optimizer, 2)
    optimizer.param_groups[0]["perturbation.noise" if wraps else "noise"] = noise
    run(optimizer, 3, first=2)
    again = make(copy.deepcopy(optimizer.param_groups[0]["params"]), noise=noise)
    again.load_state_dict(optimizer.state_dict())
    optimizer.load_state_dict(again.state_dict())
    for each in (optimizer, again):
        run(each, 3, first=5)
    assert same_bits(snapshot(again), snapshot(optimizer))
