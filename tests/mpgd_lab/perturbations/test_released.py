"""The authors' baselines come out as printed, and each deviation of their noise does one thing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from mpgd import ThalerMap
from mpgd.noise.driver import values
from mpgd_lab.data.sources import Split, ecg5000
from mpgd_lab.perturbations.released import SWITCHES, SwitchedNoise, released_gaussian

SHAPES = [(4, 3), (4,)]


@pytest.fixture
def double_precision() -> Iterator[None]:
    """Make float64 the default for one test: the scripts initialise in it."""
    with torch.random.fork_rng():
        torch.set_default_dtype(torch.float64)
        yield
        torch.set_default_dtype(torch.float32)


def ecg_accuracy(split: Split, seed: int, level: float) -> float:
    """Train as the script does: float64, full batch, 1000 steps, the first 500 perturbed."""
    torch.manual_seed(seed)
    sizes = [(140, 32), (32, 32), (32, 1)]
    net = nn.Sequential(*(m for size in sizes for m in (nn.Linear(*size), nn.Sigmoid())))
    params, eta = list(net.parameters()), 0.05
    shapes = [tuple(p.shape) for p in params]
    for step in range(1000):
        loss = nn.functional.binary_cross_entropy(net(split.x_train)[:, 0], split.y_train)
        gradient = torch.autograd.grad(loss, params)
        with torch.no_grad():
            if level and step < 500:
                m, n = (
                    part.split([p.numel() for p in params])
                    for part in released_gaussian(shapes, torch.float64)
                )
                noise = [
                    level * (b + a * p.reshape(-1)) for a, b, p in zip(m, n, params, strict=True)
                ]
                gradient = [g + v.view_as(g) for g, v in zip(gradient, noise, strict=True)]
            for p, g in zip(params, gradient, strict=True):
                p -= eta * g
    right = (net(split.x_test)[:, 0] > 0.5).double() == split.y_test
    return 100 * float(right.double().mean())


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize(("level", "mean", "std"), [(0.0, 58.38, 0.0), (0.2, 65.68, 16.34)])
def test_the_printed_ecg_baselines_come_out_to_the_digit(
    data_folder: Path, level: float, mean: float, std: float
) -> None:
    split = ecg5000(data_folder)
    accuracy = np.array([ecg_accuracy(split, seed, level) for seed in range(1, 6)])
    assert round(accuracy.mean(), 2) == mean
    assert round(accuracy.std(ddof=1), 2) == std


@pytest.mark.parametrize("switch", ["", *SWITCHES])
def test_values_are_those_of_the_observable(switch: str) -> None:
    noise = SwitchedNoise(0.6, 0.5, switches=frozenset([switch] if switch else []))
    c0, c1 = values(0.6)
    for table in noise.tables(1, SHAPES, 40):
        assert table.shape == (40, 16)
        assert set(table.abs().unique().tolist()) == {c0, -c1}


def test_without_switches_the_noise_is_that_of_the_text() -> None:
    table, other = SwitchedNoise(0.6, 0.5).tables(1, [(3000,)], 60)
    p = ThalerMap(0.6).burst_probability
    in_Z = table.abs() > values(0.6)[0]
    assert abs(float(in_Z.double().mean()) - p) < 0.01
    assert abs(float(table.mean())) < 0.02
    assert abs(float((table * other).mean())) < 0.02


def test_each_switch_does_what_it_says() -> None:
    def tables(*switches: str, symmetric: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        return SwitchedNoise(0.6, 0.5, symmetric, frozenset(switches)).tables(1, SHAPES, 50)

    plain = tables()
    assert torch.equal(tables("minus_sigma")[1], -plain[1])
    assert torch.equal(*tables("one_driver"))
    shared = tables("same_seeds", "constant_sign")[0]
    assert torch.equal(shared[:, :4], shared[:, 12:])  # the bias repeats the matrix's first orbits
    matrix = plain[0][:, :12]
    assert torch.equal(tables("reshaped")[0][:, :12], matrix.T.reshape(50, 12))
    never_flips = (tables("constant_sign")[0] * (plain[0].abs() == values(0.6)[0])).sign()
    kinds = {(-1.0 in column, 1.0 in column) for column in never_flips.T.tolist()}
    assert (False, True) in kinds  # some coordinates keep +1 for ever
    assert not torch.equal(tables("early_sign")[0], plain[0])
    assert not torch.equal(
        tables("constant_sign", "same_delta", symmetric=True)[0],
        tables("constant_sign", symmetric=True)[0],
    )


def test_unknown_switches_are_refused() -> None:
    with pytest.raises(ValueError, match=r"switches must be among .* got \['typo'\]"):
        SwitchedNoise(0.6, 0.5, switches=frozenset(["typo"]))
