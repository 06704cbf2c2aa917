"""Lyapunov exponents of maps for which they are known."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from mpgd.theory import lyapunov_exponent

GOLDEN = (3.0 + math.sqrt(5.0)) / 2.0  # the larger eigenvalue of Arnold's cat map


def logistic(x: Tensor) -> Tensor:
    return 4.0 * x * (1.0 - x)


def cat(x: Tensor) -> Tensor:
    return torch.stack([2.0 * x[:, 0] + x[:, 1], x[:, 0] + x[:, 1]], dim=1) % 1.0


def henon(x: Tensor) -> Tensor:
    return torch.stack([1.0 - 1.4 * x[:, 0] ** 2 + x[:, 1], 0.3 * x[:, 0]], dim=1)


@pytest.mark.parametrize(
    ("step", "exponent", "error"),
    [
        (logistic, math.log(2.0), 0.03),
        (cat, math.log(GOLDEN), 1e-6),
        (lambda x: henon(x), 0.4192, 0.03),
        (lambda x: 3.2 * x * (1.0 - x), 0.5 * math.log(0.16), 1e-6),  # a cycle of two: f'f' = 0.16
    ],
)
def test_exponents_that_are_known(
    step: Callable[[Tensor], Tensor], exponent: float, error: float
) -> None:
    start = torch.tensor([[0.3, 0.2], [0.11, 0.05]], dtype=torch.float64)
    found = lyapunov_exponent(step, start, 2000, skip=300)
    assert found.shape == (2,)
    assert torch.allclose(found, torch.tensor(exponent, dtype=torch.float64), atol=error)


@pytest.mark.parametrize(("eta", "exponent"), [(0.1, math.log(0.9)), (0.6, math.log(1.4))])
def test_descent_on_a_quadratic_has_the_exponent_of_its_worst_direction(
    eta: float, exponent: float
) -> None:
    h = torch.tensor([1.0, 4.0], dtype=torch.float64)
    start = torch.ones(1, 2, dtype=torch.float64)
    found = lyapunov_exponent(lambda x: x - eta * h * x, start, 200, skip=200)
    assert float(found) == pytest.approx(exponent, abs=1e-9)


def test_an_orbit_that_leaves_the_numbers_has_none_and_others_keep_theirs() -> None:
    start = torch.tensor([[0.3], [7.0]], dtype=torch.float64)
    found = lyapunov_exponent(logistic, start, 2000)
    assert torch.isnan(found).tolist() == [False, True]
    assert float(found[0]) == pytest.approx(math.log(2.0), abs=0.03)


def test_arguments() -> None:
    with pytest.raises(ValueError, match=r"start must be \(row, coordinate\), got shape \(3,\)"):
        lyapunov_exponent(logistic, torch.ones(3), 5)
    with pytest.raises(ValueError, match="steps must be"):
        lyapunov_exponent(logistic, torch.ones(1, 1), 0)


def test_a_tangent_vector_along_an_eigenvector_has_the_exponent_of_its_direction() -> None:
    h = torch.tensor([1.0, 4.0], dtype=torch.float64)
    start, along = torch.ones(2, 2, dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    found = lyapunov_exponent(lambda x: x - 0.6 * h * x, start, 50, tangents=3.0 * along)
    assert found.tolist() == pytest.approx([math.log(0.4), math.log(1.4)])
    with pytest.raises(ValueError, match=r"tangents must have the shape \(2, 2\), got \(2, 3\)"):
        lyapunov_exponent(lambda x: x, start, 5, tangents=torch.ones(2, 3))
