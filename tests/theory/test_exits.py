"""Exit rates: the kernel from phase to phase, one phase, and the limit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from benchmarks.exits import Walkers, restarted, stationary

from mpgd import ChaoticNoise, GaussianNoise, TelegraphNoise, exit_rate
from mpgd.noise import PhaseNoise
from mpgd.theory.phases.exits import ExitRate
from mpgd.theory.phases.laminar import constants, phase_tail
from mpgd.theory.phases.phase_kernel import Kernel, Recursion, chain
from mpgd_lab.studies.escape.walkers import count_exits


def line(x: np.ndarray) -> np.ndarray:
    return x


def rate(**change: Any) -> ExitRate:
    given: dict[str, Any] = {"lr": 0.02, "sigma": 0.3, "gamma": 0.7} | change
    well = given.pop("well", (-1.0, 1.0))
    return exit_rate(given.pop("gradient", line), well, **given)


# --- one phase and the limit -------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.6, 0.7])
@pytest.mark.parametrize("beta", [0.0, 0.6])
@pytest.mark.parametrize("well", [(-1.0, 1.0), (-0.6, 1.4)])
def test_one_phase_reaches_the_levy_rate(gamma: float, beta: float, well: Any) -> None:
    found = rate(gamma=gamma, beta=beta, well=well, lr=1e-6, start=0.0)
    assert found.per_time == pytest.approx(found.levy, rel=0.05)
    coarse = rate(gamma=gamma, beta=beta, well=well, lr=1e-3, start=0.0)
    assert coarse.per_time < 0.9 * coarse.levy  # and not before


@pytest.mark.parametrize("gamma", [0.55, 0.6, 0.7])
def test_the_constant_of_the_limit_has_two_forms(gamma: float) -> None:
    alpha, c = 1.0 / gamma, constants(gamma)
    K = float(phase_tail(1e9, gamma)) * 1e9**alpha
    C = (1.0 - alpha) / (math.gamma(2.0 - alpha) * math.cos(math.pi * alpha / 2.0))
    assert K * c.burst_probability * c.laminar_value**alpha == pytest.approx(C, rel=1e-4)
    found = rate(gamma=gamma, sigma=0.5, start=0.0)
    assert found.levy == pytest.approx(0.5**alpha * C, rel=1e-9)


def test_one_phase_is_the_chance_to_last_until_the_wall() -> None:
    found = rate(gamma=0.6, lr=0.01, beta=0.5, start=0.2)
    c = constants(0.6)
    right = 0.75 * phase_tail(crossing(0.2, 1.0, found.force), 0.6)
    left = 0.25 * phase_tail(crossing(-0.2, 1.0, found.force), 0.6)  # mirrored
    assert found.per_step == pytest.approx(c.burst_probability * float(right + left))
    assert found.per_time == found.per_step / 0.01


def crossing(x: float, wall: float, force: float) -> int:
    """Walk the tilted quadratic well."""
    n = 0
    while x <= wall:
        x, n = x - 0.01 * (x - force), n + 1
    return n


def test_product_signs_are_symmetric_unless_they_never_change() -> None:
    even, one = (
        rate(start=0.0, beta=0.8, signs="product"),
        rate(start=0.0, beta=1.0, signs="product"),
    )
    assert even.per_step == rate(start=0.0).per_step
    assert one == rate(start=0.0, beta=1.0)


def test_the_threshold_is_that_of_the_easier_wall_that_phases_push_to() -> None:
    def slope(x: np.ndarray) -> np.ndarray:
        return np.where(x > 0.0, 3.0 * x, x)

    assert rate(gradient=slope, start=0.0).threshold == pytest.approx(1.0)
    assert rate(gradient=slope, start=0.0, beta=1.0).threshold == pytest.approx(3.0)
    assert rate(gradient=slope, start=0.0, beta=-1.0).threshold == pytest.approx(1.0)


def test_a_cap_takes_long_phases_away() -> None:
    n = crossing(0.0, 1.0, rate(gamma=0.6, lr=0.01, start=0.0).force)
    assert rate(gamma=0.6, lr=0.01, start=0.0, longest=n - 1).per_step == 0.0
    assert rate(gamma=0.6, lr=0.01, start=0.0, longest=n).per_step > 0.0
    assert rate(start=0.0, longest=n).levy == 0.0


# --- from phase to phase -----------------------------------------------------------------------


def recursion(**change: Any) -> Recursion:
    given: dict[str, Any] = {"lr": 0.02, "sigma": 0.3, "gamma": 0.6, "longest": None} | change
    lr, gamma, longest = given["lr"], given["gamma"], given["longest"]
    kick = given["sigma"] * lr**gamma
    return Recursion(line, lr, kick, gamma, longest, constants(gamma, longest))


@pytest.mark.parametrize("longest", [None, 50])
@pytest.mark.parametrize("sigma", [0.3, 1.0])
def test_a_cycle_ends_somewhere(sigma: float, longest: int | None) -> None:
    kernel = Kernel(recursion(sigma=sigma, longest=longest), np.linspace(-1, 1, 201), 1.0, inside)
    np.testing.assert_allclose(kernel.matrix.sum(axis=1) + kernel.killed, 1.0, atol=1e-12)
    assert (kernel.matrix >= 0).all()
    whole = 1.0 / kernel.recursion.values.burst_probability
    assert (kernel.steps <= whole + 1e-9).all()
    assert (kernel.killed > 0).any()
    np.testing.assert_allclose(kernel.counted, kernel.steps)


def inside(x: np.ndarray) -> np.ndarray:
    return np.ones(x.shape, dtype=bool)


def test_without_walls_a_cycle_has_the_steps_of_kac() -> None:
    kernel = Kernel(recursion(), np.linspace(-3, 3, 101), -1.0, lambda x: x > 0)
    middle = slice(30, 70)
    assert (kernel.killed[middle] == 0).all()
    np.testing.assert_allclose(kernel.steps[middle], 1.0 / constants(0.6).burst_probability)
    assert (kernel.counted < kernel.steps + 1e-12).all()


def test_a_row_is_what_walking_each_phase_gives() -> None:
    """The marks, summed by parts, against every length for itself."""
    r, grid = recursion(longest=400), np.linspace(-2, 2, 81)
    kernel = Kernel(r, grid, 1.0, inside)
    tail = r.tail(np.arange(402))
    x, mean = np.array([grid[30]]), 0.0
    for n in range(401):
        after = r.moved(x, r.values.burst_value)[0]
        mean += (tail[n] - tail[n + 1]) * after
        x = r.moved(x, r.values.laminar_value)
    assert kernel.matrix[30] @ grid == pytest.approx(mean, abs=2e-5)


@pytest.mark.parametrize(("lr", "gamma"), [(0.02, 0.7), (0.005, 0.7)])
def test_the_rate_is_within_fifteen_percent_of_walkers(lr: float, gamma: float) -> None:
    """Theory takes phases as independent, so the tolerance is the theory's, not sampling's."""
    h = {"eta": lr, "sigma": 0.3, "gamma": gamma, "walkers": 1000, "exits": 2000, "time": 1e4}
    count = count_exits(ChaoticNoise(gamma), line, lambda x: np.abs(x[:, 0]) > 1, 0.0, h, seed=2)
    measured = count.exits / (count.clock * lr)
    assert rate(lr=lr, gamma=gamma).per_time == pytest.approx(measured, rel=0.15)
    one = rate(lr=lr, gamma=gamma, start=0.0).per_time
    assert one != pytest.approx(measured, rel=0.15)  # bursts and places carried over count


def test_below_the_slope_by_three_bursts_nothing_leaves() -> None:
    found = rate(gamma=0.6, lr=0.05)
    burst = -0.3 * 0.05**0.6 * constants(0.6).burst_value
    assert found.force < 1.0 - 3.0 * burst
    assert found.per_time < 1e-6 * found.levy
    assert rate(sigma=0.0).per_step == 0.0


def test_product_signs_at_beta_zero_are_fresh_ones() -> None:
    fresh, product = rate(), rate(signs="product")
    assert product.per_step == pytest.approx(fresh.per_step, rel=1e-6)
    assert rate(signs="product", beta=1.0).per_step == pytest.approx(rate(beta=1.0).per_step)


def test_the_quasi_stationary_law_is_left_as_it_is() -> None:
    found = chain(recursion(sigma=0.5), np.linspace(-1, 1, 201), 0.3, "fresh")
    law = found.quasi_stationary()
    after = law @ found.matrix
    np.testing.assert_allclose(after / after.sum(), law, atol=1e-10)
    assert law @ found.killed == pytest.approx(1.0 - after.sum(), abs=1e-10)


# --- other noises, and the clock ---------------------------------------------------------------


def telegraph(**change: Any) -> ExitRate:
    given: dict[str, Any] = {"lr": 0.02, "force": 1.2, "noise": TelegraphNoise(20)} | change
    return exit_rate(line, (-1.0, 1.0), **given)


def test_one_run_of_a_telegraph_has_a_closed_form() -> None:
    x, n = 0.0, 0
    while x <= 1.0:
        x, n = x - 0.02 * (x - 1.2), n + 1
    expected = (1 - 1 / 40) ** (n - 1) / 40
    assert telegraph(start=0.0).per_step == pytest.approx(expected, rel=1e-12)
    assert telegraph(force=0.99).per_step < 1e-12
    assert telegraph().levy == 0.0


def test_noises_that_are_the_same_have_the_same_rate() -> None:
    """A telegraph is a noise of geometric phases, and gamma is chaotic noise."""
    same = PhaseNoise(0.95 ** np.arange(700))
    assert telegraph().per_step == pytest.approx(telegraph(noise=same).per_step, rel=1e-9)
    chaos = exit_rate(line, (-1.0, 1.0), lr=0.02, sigma=0.3, noise=ChaoticNoise(0.7))
    assert chaos == rate()
    by_force = exit_rate(line, (-1.0, 1.0), lr=0.02, force=chaos.force, noise=ChaoticNoise(0.7))
    assert by_force.per_step == pytest.approx(chaos.per_step, rel=1e-9)


@pytest.mark.parametrize(
    ("noise", "force"), [(TelegraphNoise(10), 1.15), (ChaoticNoise(0.7, burst=False), 1.3)]
)
def test_rates_of_smooth_noises_are_those_of_walkers(noise: Any, force: float) -> None:
    """5,000 exits, 25 a walker: 1.4 % of sampling; telegraph phases are independent exactly."""
    theory = exit_rate(line, (-1.0, 1.0), lr=0.02, force=force, noise=noise)
    walkers = Walkers(noise, line, 0.02, 0.02 * force / noise.laminar_value)
    measured, _ = restarted(walkers, 200)
    assert theory.per_step == pytest.approx(measured, rel=0.06)
    assert 1.2 * theory.per_step != pytest.approx(measured, rel=0.06)


def test_from_a_stationary_driver_long_phases_leave_more_often() -> None:
    noise, steps = ChaoticNoise(0.7), 10_000
    both = {"lr": 0.005, "sigma": 0.3, "gamma": 0.7}
    theory = exit_rate(line, (-1.0, 1.0), **both, clock="stationary", steps=steps)
    measured, _ = stationary(Walkers(noise, line, 0.005, 0.3 * 0.005**0.7), 8000, steps)
    assert theory.per_step == pytest.approx(measured, rel=0.06)
    assert rate(lr=0.005).per_step < 0.94 * theory.per_step


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"noise": GaussianNoise()}, TypeError, "noise must have phases, as TelegraphNoise"),
        ({"noise": None}, TypeError, "needs a noise or the gamma of chaotic noise"),
        ({"gamma": 0.6}, ValueError, "says gamma, beta, longest and signs itself"),
        ({"sigma": 0.3}, TypeError, "needs sigma or force, got sigma=0.3 and force=1.2"),
        ({"clock": "wall"}, ValueError, "clock must be one of 'restart', 'stationary'"),
        ({"clock": "stationary"}, TypeError, "steps must be an integer >= 1, got None"),
    ],
)
def test_bad_noises_and_clocks(change: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        telegraph(**change)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"well": (1.0, -1.0)}, "well must be a left and a right wall, in this order, got"),
        ({"well": (-1.0, 0.0, 1.0)}, "well must be a left and a right wall, in this order, got"),
        ({"well": None}, "well must be a left and a right wall, in this order, got None"),
        ({"start": 1.0}, r"start must lie inside the well \(-1.0, 1.0\), got 1.0"),
        ({"well": (0.5, 1.0)}, r"gradient must have a minimum inside the well \(0.5, 1\)"),
        ({"sigma": -0.1}, r"sigma must lie in \[0, inf\), got -0.1"),
        ({"signs": "old"}, "signs must be one of 'fresh', 'product', got 'old'"),
        ({"longest": 0}, r"longest must be an integer in \[1, \d+\], got 0"),
        ({"lr": 0.0}, r"lr must lie in \(0, inf\), got 0.0"),
    ],
)
def test_bad_arguments(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        rate(**change)
