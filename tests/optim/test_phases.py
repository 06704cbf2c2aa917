"""A laminar phase of MPGD is plain descent on a tilted, bent loss, shown by the optimizer."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mpgd import MPGD
from mpgd.noise.word import LONG, ONE
from mpgd.theory import decay_of, force_of
from tests.optim.descents import PATHS

ETA, MU, SIGMA, GAMMAS = 0.02, 0.05, 0.3, (0.65, 0.6)
STEPS = 1000
SIGNS = list(product((1.0, -1.0), repeat=2))  # chi' of the multiplicative driver, chi of the other
START = [0.3, -0.2, 0.5, 1.1]


def loss(x: Tensor) -> Tensor:
    """Wells of a cosine in a bowl."""
    return (0.5 * x**2 + 0.4 * torch.cos(3.0 * x)).sum()


def in_a_phase(steps: int, path: dict[str, Any], words: int) -> Tensor:
    """Return x after steps of MPGD whose orbits have ``words`` as magnitude, with all signs."""
    x = nn.Parameter(torch.tensor(START, dtype=torch.float64))
    optimizer = MPGD([x], ETA, mu=MU, sigma=SIGMA, gamma=GAMMAS, **path)
    for name, signs in zip(("multiplicative", "additive"), zip(*SIGNS, strict=True), strict=True):
        bits = [words if chi > 0 else words - 2**31 for chi in signs]
        optimizer.state[x][name].copy_(torch.tensor(bits, dtype=torch.int32))
    for _ in range(steps):
        optimizer.zero_grad()
        loss(x).backward()
        optimizer.step()
    return x.detach()


def tilted_and_bent(steps: int) -> Tensor:
    """Return x after steps of plain descent on R - chi F x + chi' (M/2) x^2."""
    bend, tilt = (torch.tensor(chi, dtype=torch.float64) for chi in zip(*SIGNS, strict=True))
    F = force_of(lr=ETA, sigma=SIGMA, gamma=GAMMAS[1])
    M = decay_of(lr=ETA, mu=MU, gamma=GAMMAS[0])
    x = torch.tensor(START, dtype=torch.float64, requires_grad=True)
    descent = torch.optim.SGD([x], ETA)
    for _ in range(steps):
        descent.zero_grad()
        (loss(x) - (tilt * F * x).sum() + (bend * M / 2 * x**2).sum()).backward()
        descent.step()
    return x.detach()


@pytest.mark.parametrize(
    ("path", "words", "steps"),
    [
        (PATHS[0], LONG + 5000, 200),  # torch's own operations take long
        ({}, LONG + 5000, STEPS),
        ({}, (STEPS + 1) * ONE + 77, STEPS),
    ],
)
def test_a_phase_is_descent_on_another_loss(path: dict[str, Any], words: int, steps: int) -> None:
    """A long phase, which keeps no fraction, and one that ends just after the last step."""
    found, expected = in_a_phase(steps, path, words), tilted_and_bent(steps)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    plain = torch.tensor(START, dtype=torch.float64)
    assert (found - plain).abs().min() > 0.05  # it went somewhere


def test_the_visit_that_ends_a_phase_ends_the_equality() -> None:
    """The check can fail: one burst among the steps."""
    found, expected = in_a_phase(STEPS, {}, (STEPS - 1) * ONE + 77), tilted_and_bent(STEPS)
    assert (found - expected).abs().min() > 1e-3
