"""A laminar phase of MPGD is plain descent on a tilted, bent loss; force, decay, longest phases."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mpgd import MPGD, ChaoticNoise, perturb, perturbation_sizes
from mpgd.noise.word import FAR, LONG, MAGNITUDE, NEGATIVE, ONE, steps_to_go
from mpgd.theory import decay_of, force_of
from tests.optim.descents import KINDS, PATHS, core, drivers, made, parameters, set_keyword
from tests.optim.workers import ORBITS, run, same_bits, snapshot

ETA, MU, SIGMA, GAMMAS = 0.02, 0.05, 0.3, (0.65, 0.6)
F = force_of(lr=ETA, sigma=SIGMA, gamma=GAMMAS[1])
M = decay_of(lr=ETA, mu=MU, gamma=GAMMAS[0])
SIZED, FORCED = {"mu": MU, "sigma": SIGMA}, {"force": F, "decay": M}
STEPS = 1000
SIGNS = list(product((1.0, -1.0), repeat=2))  # chi' of the multiplicative driver, chi of the other
START = [0.3, -0.2, 0.5, 1.1]


def loss(x: Tensor) -> Tensor:
    """Wells of a cosine in a bowl."""
    return (0.5 * x**2 + 0.4 * torch.cos(3.0 * x)).sum()


def in_a_phase(steps: int, given: dict[str, Any], words: int) -> Tensor:
    """Return x after steps of MPGD whose orbits have ``words`` as magnitude, with all signs."""
    x = nn.Parameter(torch.tensor(START, dtype=torch.float64))
    optimizer = MPGD([x], ETA, gamma=GAMMAS, **given)
    for name, signs in zip(("multiplicative", "additive"), zip(*SIGNS, strict=True), strict=True):
        bits = [words if chi > 0 else words - 2**31 for chi in signs]
        drivers(optimizer)[name].copy_(torch.tensor(bits, dtype=torch.int32))
    for _ in range(steps):
        optimizer.zero_grad()
        loss(x).backward()
        optimizer.step()
    return x.detach()


def tilted_and_bent(steps: int) -> Tensor:
    """Return x after steps of plain descent on R - chi F x + chi' (M/2) x^2."""
    bend, tilt = (torch.tensor(chi, dtype=torch.float64) for chi in zip(*SIGNS, strict=True))
    x = torch.tensor(START, dtype=torch.float64, requires_grad=True)
    descent = torch.optim.SGD([x], ETA)
    for _ in range(steps):
        descent.zero_grad()
        (loss(x) - (tilt * F * x).sum() + (bend * M / 2 * x**2).sum()).backward()
        descent.step()
    return x.detach()


@pytest.mark.parametrize(
    ("given", "words", "steps"),
    [
        ({**SIZED, "engine": "torch"}, LONG + 5000, 200),  # torch's own operations take long
        (SIZED, LONG + 5000, STEPS),
        (FORCED, (STEPS + 1) * ONE + 77, STEPS),
    ],
    ids=str,
)
def test_a_phase_is_descent_on_another_loss(given: dict[str, Any], words: int, steps: int) -> None:
    """A long phase, which keeps no fraction, and one that ends just after the last step."""
    end, expected = in_a_phase(steps, given, words), tilted_and_bent(steps)
    torch.testing.assert_close(end, expected, rtol=1e-12, atol=1e-12)
    plain = torch.tensor(START, dtype=torch.float64)
    assert (end - plain).abs().min() > 0.05  # it went somewhere


def test_the_visit_that_ends_a_phase_ends_the_equality() -> None:
    """The check can fail: one burst among the steps."""
    end = in_a_phase(STEPS, SIZED, (STEPS - 1) * ONE + 77)
    assert (end - tilted_and_bent(STEPS)).abs().min() > 1e-3


# --- force and decay ---------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [False, True])
def test_a_schedule_leaves_force_and_decay_as_they_are(wrap: bool) -> None:
    """The push of a laminar step divided by lr; with sigma it would grow as lr falls."""
    for given, changes in ((FORCED, False), (SIZED, True)):
        p = nn.Parameter(torch.ones(5, dtype=torch.float64))
        optimizer = perturb(torch.optim.SGD([p], ETA), **given) if wrap else MPGD([p], ETA, **given)
        pushes = []
        for lr in (ETA, ETA / 10, ETA / 100):
            optimizer.param_groups[0]["lr"] = lr
            [size] = perturbation_sizes(optimizer)
            pushes.append((size.force, size.decay))
        assert (pushes[-1][0] > 2 * pushes[0][0]) == changes
        assert changes or pushes == [pytest.approx((F, M), rel=1e-12)] * 3


def test_a_step_pushes_by_force_times_lr_and_symmetric_noise_by_up_to_twice() -> None:
    noise = ChaoticNoise(0.6, longest=4)
    for symmetric, most in ((False, 1.0), (True, 2.0)):
        p = nn.Parameter(torch.zeros(4000, dtype=torch.float64))
        optimizer = MPGD([p], 0.1, force=-F, symmetric=symmetric, noise=noise)
        p.grad = torch.zeros_like(p)
        optimizer.step()
        laminar = (p.detach().abs() / (0.1 * F) - most).abs() < 1e-9
        bursts = (p.detach().abs() / (0.1 * F) + noise.burst_value / noise.laminar_value).abs()
        assert laminar.sum() > 300
        assert symmetric or bool((laminar | (bursts < 1e-9)).all())


# --- a longest phase ---------------------------------------------------------------------------

SHAPES: Any = [400, (), (2, 3), (0,)]


def words(optimizer: Any) -> list[Tensor]:
    """Return copies of all orbits."""
    states = optimizer._orbits.values()
    return [x.clone() for s in states for n, x in s.items() if n in (*ORBITS, "shared")]


def longest_of(optimizer: Any) -> int:
    return max(int(steps_to_go(w).max()) for w in words(optimizer) if w.numel())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("longest", [5, FAR + 50])
def test_a_bound_set_in_mid_run_is_that_of_later_phases(kind: str, longest: int) -> None:
    optimizer = made(kind, parameters(SHAPES), symmetric=True, noise=ChaoticNoise(0.8))
    run(optimizer, 3)
    drivers(optimizer)["additive"][:2] = torch.tensor([-NEGATIVE | MAGNITUDE, MAGNITUDE])
    before = words(optimizer)
    set_keyword(optimizer, noise=ChaoticNoise(0.8, longest=longest))
    run(optimizer, 1, first=3)
    for old, new in zip(before, words(optimizer), strict=True):
        goes_on = steps_to_go(old) > 0
        assert torch.equal(steps_to_go(new[goes_on]), steps_to_go(old[goes_on]) - 1)
        assert bool((steps_to_go(new[~goes_on]) <= longest).all())


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_all_engines_cut_alike(kind: str, shared: bool) -> None:
    """From the start, or from the step on at which a run, or a copy of it, is given the bound."""
    free, cut = (ChaoticNoise(0.8, longest=n, shared=shared) for n in (None, 3))
    ends: list[list[Any]] = [[], []]
    for path in PATHS:
        for found, first in zip(ends, (cut, free), strict=True):
            optimizer = made(kind, parameters(SHAPES), noise=first, **path)
            run(optimizer, 2)
            set_keyword(optimizer, noise=cut)
            run(optimizer, 20, first=2)
            assert (longest_of(optimizer) == 3) == (first is cut)
            found.append(core(optimizer))
    assert all(same_bits(end, found[0]) for found in ends for end in found)
    assert not same_bits(ends[0][0], ends[1][0])


@pytest.mark.parametrize("longest", [None, 7])
def test_a_state_with_another_bound_is_refused(longest: int | None) -> None:
    saved, other = (
        MPGD(parameters([3]), 0.1, sigma=0.1, noise=ChaoticNoise(0.6, longest=n))
        for n in (6, longest)
    )
    before = snapshot(other)
    with pytest.raises(ValueError, match=r"saved with noise=.*longest=6.*: build it with the same"):
        other.load_state_dict(saved.state_dict())
    assert same_bits(snapshot(other), before)
