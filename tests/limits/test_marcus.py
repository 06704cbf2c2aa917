"""The Marcus solver: closed forms, shared noise, huge jumps, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.linalg import expm
from scipy.stats import kstest
from torch import Tensor

from mpgd import StableLaw, StableNoise
from mpgd.limits import Diagonal, Field, Linear, MarcusSDE, coarsen
from mpgd.limits.noise_blocks import open_stream
from tests.conftest import LEVEL

J = [[0.0, -1.0], [1.0, 0.0]]
Drift = Callable[[Tensor], Tensor]


def double_well(x: Tensor) -> Tensor:
    return 2.0 * torch.tanh(2.0 * x) - x


def f64(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def jumps(*sizes: float) -> Tensor:
    """One path and one driver, an increment per step."""
    return f64(sizes).reshape(-1, 1, 1)


@pytest.mark.parametrize("alpha", [1.0, 1.2, 1.6, 2.0])
@pytest.mark.parametrize("b", [Diagonal(1.0), Linear([[1.0]])])
def test_a_linear_b_gives_x0_exp_L(alpha: float, b: Diagonal | Linear) -> None:
    sde = MarcusSDE(torch.zeros_like, [(b, StableLaw(alpha, 0.3))])
    (dL,) = sde.increments(0.7, 1.0, steps=200, paths=500, seed=1)
    x = sde.solve(0.7, 1.0, steps=200, paths=500, seed=1).final
    log = math.log(0.7) + dL.sum(dim=0)
    assert (log.abs() < 600.0).all()
    torch.testing.assert_close(x, log.exp(), rtol=1e-10, atol=0.0)


@pytest.mark.parametrize("alpha", [0.3, 0.6, 0.9])
def test_decay_by_a_subordinator(alpha: float) -> None:
    """Of x' = -x dL: x = exp(-L), and E exp(-L) = exp(-c^alpha / cos(pi alpha/2)) at beta = 1."""
    c, paths = 0.3, 20_000
    sde = MarcusSDE(torch.zeros_like, [(Diagonal(-1.0), StableLaw(alpha, 1.0, scale=c))])
    x = sde.solve(1.0, 1.0, steps=7, paths=paths, seed=3).final
    assert bool(((x >= 0.0) & (x <= 1.0)).all())
    expected = math.exp(-(c**alpha) / math.cos(math.pi * alpha / 2))
    off = float(x.mean()) - expected
    assert abs(off) < 4.0 * float(x.std()) / math.sqrt(paths)
    assert abs(off) < 0.1 * abs(math.exp(-((1.2 * c) ** alpha)) - expected)


@pytest.mark.parametrize(("alpha", "beta"), [(0.4, -0.5), (0.995, 0.6), (1.0, 0.8), (1.3, -1.0)])
def test_the_driver_has_its_law_at_time_1(alpha: float, beta: float) -> None:
    """Over any number of steps; at alpha = 1 the shift with log(c h) makes it so."""
    law = StableLaw(alpha, beta, scale=0.4)
    x = MarcusSDE(torch.zeros_like, [(1.0, law)]).solve(0.0, steps=9, paths=20_000, seed=4).final
    assert kstest(x[:, 0].numpy(), law.cdf).pvalue > LEVEL
    other = StableLaw(alpha, beta, scale=0.46)
    assert kstest(x[:, 0].numpy(), other.cdf).pvalue < LEVEL


def test_the_rotation_keeps_the_norm_for_jumps_up_to_a_thousand() -> None:
    sde = MarcusSDE(torch.zeros_like, [(Linear(J), StableLaw(1.5))])
    dL = torch.linspace(-1e3, 1e3, 200 * 50, dtype=torch.float64).reshape(50, 200, 1)
    x = sde.solve([1.0, 0.0], 1.0, steps=50, paths=200, increments=dL).final
    assert (x.norm(dim=1) - 1.0).abs().max() < 1e-10
    angle = dL.sum(dim=(0, 2))
    torch.testing.assert_close(x, torch.stack((angle.cos(), angle.sin()), 1), rtol=0, atol=1e-9)


def test_the_appendix_example_is_right_in_marcus_and_wrong_in_ito() -> None:
    theta = 2.5
    sde = MarcusSDE(torch.zeros_like, [(Linear(J), StableLaw(1.5))])
    marcus, ito = (
        sde.solve([1.0, 0.0], steps=3, increments=jumps(0.0, theta, 0.0), integral=i).final[0]
        for i in ("marcus", "ito")
    )
    torch.testing.assert_close(marcus, f64([math.cos(theta), math.sin(theta)]))
    torch.testing.assert_close(ito, f64([1.0, theta]))


@pytest.mark.parametrize(
    "M", [J, [[-1.0, -2.0], [2.0, -1.0]], [[1.0, 3.0], [0.0, 1.0]], [[2.0, 1.0], [1.0, -1.0]]]
)
def test_linear_flows_are_matrix_exponentials(M: list[list[float]]) -> None:
    """A rotation, a spiral, a Jordan block (not normal), a symmetric matrix."""
    x, t = f64([[0.3, -0.8]]), f64([[1.7]])
    expected = expm(1.7 * np.array(M)) @ x[0].numpy()
    np.testing.assert_allclose(Linear(M).flow(x, t)[0].numpy(), expected, rtol=1e-12)


def test_fields_follow_the_closed_flows() -> None:
    rng = np.random.default_rng(0)
    x, dL = torch.tensor(rng.normal(size=(50, 2))), torch.tensor(3.0 * rng.standard_t(2, (50, 2)))
    field = Field(lambda z: 0.5 * z).flow(x, dL)
    torch.testing.assert_close(field, Diagonal(0.5).flow(x, dL), rtol=1e-7, atol=1e-9)
    turn = Field(lambda z: torch.stack((-z[:, 1], z[:, 0]), 1)[:, :, None])
    torch.testing.assert_close(
        turn.flow(x, dL[:, :1]), Linear(J).flow(x, dL[:, :1]), rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("jump", [-1e6, -30.0, 1e-9, 5.0, 1e6])
def test_a_stiff_flow_over_a_huge_jump(jump: float) -> None:
    """dz/dr = sin(z) dL has tan(z/2) = tan(x/2) exp(dL); a large dL ends in the sink at pi."""
    x = f64([[0.5], [1.5]])
    z = Field(torch.sin).flow(x, f64([[jump], [jump]]))
    expected = 2.0 * torch.atan(torch.tan(x / 2) * math.exp(min(jump, 700.0)))
    torch.testing.assert_close(z, expected, rtol=1e-6, atol=1e-8)


def test_a_flow_that_takes_too_long_names_time_and_path() -> None:
    turn = Field(lambda z: torch.stack((-z[:, 1], z[:, 0]), 1)[:, :, None])
    sde = MarcusSDE(torch.zeros_like, [(turn, StableLaw(1.5))])
    dL = torch.zeros(4, 3, 1).double()
    dL[2, 1] = 1e9
    with pytest.raises(RuntimeError, match=r"at time 0\.75: the flow of path 1 is not finished"):
        sde.solve([1.0, 0.0], steps=4, paths=3, increments=dL)


ORDERS = {
    "additive": ([0.5], double_well, [0.3], 1.0),
    "multiplicative": ([Diagonal(-0.5)], double_well, [0.3], 1.0),
    "rotation": ([Linear(J)], lambda x: -torch.tanh(x) * torch.tensor([1.0, 2.0]), [1, 0.5], 1.0),
    "both": ([Diagonal(-0.5), 0.5], double_well, [0.3], 0.6),  # 1/alpha less the logarithm's
}


@pytest.mark.parametrize("case", ORDERS)
def test_strong_order_on_shared_noise(case: str) -> None:
    """The median error over 300 paths against steps 8 times as short as the shortest fitted."""
    couplings, drift, x0, expected = ORDERS[case]
    sde = MarcusSDE(drift, [(b, StableLaw(1.5)) for b in couplings])
    fine = sde.increments(x0, 1.0, steps=4096, paths=300, seed=1)
    best = sde.solve(x0, 1.0, 4096, 300, increments=fine).final
    h, error = [], []
    for factor in (8, 16, 32, 64, 128, 256):
        x = sde.solve(x0, 1.0, 4096 // factor, 300, increments=coarsen(fine, factor)).final
        h.append(factor / 4096)
        error.append(float((x - best).norm(dim=1).median()))
    assert np.polyfit(np.log(h), np.log(error), 1)[0] == pytest.approx(expected, abs=0.12)


@pytest.mark.parametrize(
    ("alpha", "beta", "theta"),
    [(0.7, -0.5, 1.0), (1.0, 0.0, 2.0), (1.4, 0.0, 1.0), (1.7, 0.8, 2.0)],
)
def test_the_stationary_scale_of_ornstein_uhlenbeck(
    alpha: float, beta: float, theta: float
) -> None:
    """The limit of the scale is sigma / (alpha theta)^(1/alpha)."""
    sigma = 0.5
    sde = MarcusSDE(lambda x: -theta * x, [(sigma, StableLaw(alpha, beta))])
    x = sde.solve(0.0, t1=8.0 / theta, steps=200, paths=20_000, seed=2).final[:, 0].numpy()
    scale = sigma / (alpha * theta) ** (1.0 / alpha)
    assert kstest(x, StableLaw(alpha, beta, scale=scale).cdf).pvalue > LEVEL
    assert kstest(x, StableLaw(alpha, beta, scale=1.3 * scale).cdf).pvalue < LEVEL


@pytest.mark.parametrize(
    "b", [0.5, torch.tensor([0.5, -2.0]), np.array([[1.0, 0.0, 2.0], [0.5, 1.0, -1.0]])]
)
def test_marcus_and_ito_agree_for_constant_b(b: float | Tensor | np.ndarray) -> None:
    sde = MarcusSDE(double_well, [(b, StableLaw(1.5, 0.5))])
    marcus, ito = (
        sde.solve([0.1, 0.2], 1.0, 50, 100, seed=3, integral=i).final for i in ("marcus", "ito")
    )
    torch.testing.assert_close(marcus, ito, rtol=1e-13, atol=1e-13)
    differ = MarcusSDE(double_well, [(Diagonal(1.0), StableLaw(1.5, 0.5))])
    marcus, ito = (
        differ.solve([0.1, 0.2], 1.0, 50, 100, seed=3, integral=i).final for i in ("marcus", "ito")
    )
    assert (marcus - ito).abs().median() > 1e-2


def test_the_drift_alone_is_second_order() -> None:
    def error(steps: int) -> float:
        x = MarcusSDE(lambda x: -(x**2), []).solve(1.0, 1.0, steps).final
        return abs(float(x) - 0.5)

    assert error(64) / error(128) == pytest.approx(4.0, rel=0.05)


def test_what_is_stored_does_not_change_the_path() -> None:
    sde = MarcusSDE(double_well, [(0.5, StableLaw(1.5)), (Diagonal(0.1), StableLaw(1.5))])
    end = sde.solve(0.1, 2.0, 40, 5)
    many = sde.solve(0.1, 2.0, 40, 5, times=[0.0, 0.5, 0.52, 2.0])
    assert end.x.shape == (2, 5, 1)
    assert end.times.tolist() == [0.0, 2.0]
    assert torch.equal(end.final, many.final)
    assert torch.equal(many.x[1], many.x[2])  # between two steps the earlier state holds
    assert torch.equal(many.x[0], f64([[0.1]] * 5))


def test_a_path_depends_on_the_seed_and_its_number_alone() -> None:
    sde = MarcusSDE(double_well, [(0.5, StableLaw(1.5))])
    few, many = sde.solve(0.1, 1.0, 20, 3, seed=5).final, sde.solve(0.1, 1.0, 20, 9, seed=5).final
    assert torch.equal(few, many[:3])
    assert not torch.equal(few, sde.solve(0.1, 1.0, 20, 3, seed=6).final)


@pytest.mark.parametrize(("alpha", "beta"), [(1.1, -1.0), (1.5, 0.5), (2.0, 0.0)])
def test_stable_streams_are_stable_noise(alpha: float, beta: float) -> None:
    noise = StableNoise(alpha, beta)
    out = torch.empty(5, 30, 2).double()
    fill = open_stream(noise, (30, 2), seed=4, driver_id=3)
    fill(out[:2])
    fill(out[2:])
    state = noise.init((30, 2), 4, driver_id=3)
    for row in out:
        value, state = noise.step(state)
        assert torch.equal(row, value)


SDE = MarcusSDE(lambda x: -x, [(0.5, StableLaw(1.5))])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: SDE.solve(0.0, t1=0.0), r"t1 must lie in \(0, inf\), got 0\.0"),
        (lambda: SDE.solve(0.0, steps=0), r"steps must be an integer >= 1, got 0"),
        (lambda: SDE.solve(0.0, paths=0), r"paths must be an integer >= 1, got 0"),
        (lambda: SDE.solve(0.0, integral="x"), r"integral must be one of 'marcus', 'ito', got 'x'"),
        (lambda: SDE.solve(math.nan), r"x0 must be finite"),
        (lambda: SDE.solve([[1.0]], paths=2), r"x0 has 1 rows but paths is 2"),
        (lambda: SDE.solve(np.zeros((1, 1, 1))), r"x0 must be .* got shape \(1, 1, 1\)"),
        (lambda: SDE.solve(0.0, times=[2.0]), r"times must lie in \[0, t1\] = \[0, 1\], got 2\.0"),
        (lambda: SDE.solve(0.0, times=[]), r"times must be a list of numbers, got shape \(0,\)"),
        (
            lambda: SDE.solve(0.0, steps=2, increments=jumps(1.0)),
            r"increments\[0\] must have shape .* = \(2, 1, 1\), got \(1, 1, 1\)",
        ),
        (lambda: SDE.solve(0.0, increments=[]), r"one tensor for each of 1 couplings, got 0"),
        (
            lambda: MarcusSDE(lambda x: x[:, 0], []).solve([0.0, 0.0]),
            r"drift\(x\) must be a tensor of x's shape \(1, 2\), got shape \(1,\)",
        ),
        (lambda: MarcusSDE(lambda x: 0.0, []).solve(0.0), r"drift\(x\) must be .* got 'float'"),
        (
            lambda: MarcusSDE(lambda x: x, [(Linear(J), StableLaw(1.5))]).solve(0.0),
            r"couplings\[0\]: Linear has a matrix \(2, 2\), but d = 1",
        ),
        (
            lambda: MarcusSDE(lambda x: x, [(Diagonal([1.0, 2.0]), StableLaw(1.5))]).solve(0.0),
            r"couplings\[0\]: Diagonal has 2 scales, but d = 1",
        ),
        (lambda: Linear([[1.0, 2.0]]), r"Linear needs a square matrix, got shape \(1, 2\)"),
        (lambda: Diagonal(math.inf), r"Diagonal scale must be finite, got inf"),
        (lambda: coarsen([jumps(1.0, 2.0, 3.0)], 2), r"must divide the number of steps 3, got 2"),
    ],
)
def test_refuses(call: Callable[[], object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


def test_refuses_wrong_types() -> None:
    with pytest.raises(TypeError, match=r"couplings must be a list of pairs \(b, law\), got"):
        MarcusSDE(torch.neg, (1.0, StableLaw(1.5)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"couplings\[0\] needs a StableLaw, got 1\.5"):
        MarcusSDE(lambda x: x, [(0.5, 1.5)])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"a coupling must be numbers or a function, got 'b'"):
        MarcusSDE(lambda x: x, [("b", StableLaw(1.5))])
    for alpha in (0.2, [0.8, 1.2]):
        with pytest.raises(ValueError, match=r"one law with alpha in \[0\.25, 2\].* got alpha="):
            MarcusSDE(torch.neg, [(1.0, StableLaw(alpha))])
    for law in (StableLaw(1.5, loc=1.0), StableLaw(0.5, 0.5, parametrization="S0")):
        with pytest.raises(ValueError, match="needs a law of location 0 in S1"):
            MarcusSDE(torch.neg, [(1.0, law)])


def test_a_state_that_is_not_finite_names_time_and_path() -> None:
    sde = MarcusSDE(torch.zeros_like, [(Diagonal(1.0), StableLaw(1.5))])
    dL = torch.zeros(4, 3, 1).double()
    dL[1, 2] = 800.0
    with pytest.raises(FloatingPointError, match=r"not finite at time 0\.5: path 2 is \[inf\]"):
        sde.solve(1.0, steps=4, paths=3, increments=dL)
    with pytest.raises(FloatingPointError, match=r"at time 0\.125: path 0 is \[nan\]"):
        MarcusSDE(lambda x: x * math.nan, []).solve(1.0, steps=4)
