"""ChaoticNoise against exact laws, the map itself, and stored values.

Statistical checks: fixed seeds, LEVEL for each, and each has a twin that must fail. Several
comparisons inside one check share its level (Bonferroni, `worst`). Points compared
with a law come from different orbits, so they are independent.
"""

from __future__ import annotations

from functools import lru_cache

import mpmath as mp
import numpy as np
import pytest
import torch
from scipy.stats import binomtest, kstest, norm
from tests import reference
from tests.conftest import LEVEL
from tests.noise.p_values import Array, worst
from torch import Tensor

from mpgd import ChaoticNoise, NoiseState, StableLaw, ThalerMap


@lru_cache(maxsize=8)
def states(gamma: float, beta: float, signs: str, count: int, last: int) -> dict[int, NoiseState]:
    """Return the states of ``count`` orbits at steps 0, 1, 10, 100, 1000 up to ``last``."""
    noise = ChaoticNoise(gamma, beta, signs)
    state, kept = noise.init(count, seed=12), {}
    for k in range(last + 1):
        if k in (0, 1, 10, 100, 1000):
            kept[k] = state
        _, state = noise.step(state)
    return kept


@pytest.mark.parametrize(("gamma", "last"), [(0.6, 1000), (0.95, 100)])
def test_the_law_is_stationary(gamma: float, last: int) -> None:
    """Positions at steps 0, 1, 10, 100, 1000 against H, one from each orbit.

    Starts are clamped at 2^52, 14 % of them at gamma 0.95, so the law beyond 2^51 is one number,
    its mass; on this side H(y), given that it is on this side, is uniform.
    """
    T, twin, count = ThalerMap(gamma), ThalerMap(gamma - 0.03), 20_000

    def p_values(law: ThalerMap, s: Array) -> tuple[float, float]:
        beyond = float(law.cdf(T.abel_inverse(2.0**51)))
        u = law.cdf(T.abel_inverse(s[s < 2.0**51]))
        mass = binomtest(int((s >= 2.0**51).sum()), count, beyond).pvalue
        return mass, kstest((u - beyond) / (1 - beyond), "uniform").pvalue

    kept = [x.s.abs().numpy() for x in states(gamma, 0.0, "fresh", count, last).values()]
    assert worst([p_values(T, s) for s in kept]) > LEVEL
    assert np.min([p_values(twin, s) for s in kept]) < LEVEL


def test_the_fraction_in_Z_and_the_variance_are_the_invariant_laws() -> None:
    noise, T = ChaoticNoise(0.6), ThalerMap(0.6)
    kept = states(0.6, 0.0, "fresh", 20_000, 1000)
    visits = [int((state.s.abs() < 1).sum()) for state in kept.values()]
    p = T.burst_probability
    assert worst([binomtest(v, 20_000, p).pvalue for v in visits]) > LEVEL
    assert binomtest(visits[-1], 20_000, ThalerMap(0.56).burst_probability).pvalue < LEVEL
    assert noise.variance == pytest.approx(
        (1 - p) * noise.laminar_value**2 + p * noise.burst_value**2, rel=1e-15
    )  # with two values the fraction in Z is the variance
    v, _ = noise.step(kept[1000])
    assert set(v.abs().unique().tolist()) == {noise.laminar_value, -noise.burst_value}
    assert torch.equal(v.abs() == noise.laminar_value, kept[1000].s.abs() >= 1)


LOST = 1e9  # of a bound: the orbit is followed no longer


def follow(T: ThalerMap, s: Array, y: list[mp.mpf], noise: ChaoticNoise) -> tuple[Array, Array]:
    """Return the largest error over its bound, and how many steps were followed, per orbit.

    The bound grows as a perturbation does: unchanged in a laminar phase; at a visit to Z the error,
    the dither (2^-40 of 1 - s) and the table's rounding (1e-10) are multiplied by |B'(s)|.
    """
    state = noise.init(len(s), seed=0)
    state = NoiseState(torch.from_numpy(s), state.step, state.key)
    bound, ratio, steps = np.full(len(s), 1e-14), np.zeros(len(s)), np.zeros(len(s))
    for _ in range(60):
        position = state.s.abs().numpy()
        visiting, u = position < 1, 1 - np.minimum(position, 1 - 2.0**-53)
        near, far = u * (1 - 1e-6), u * (1 + 1e-6)
        slope = np.zeros(len(s))
        inside = far < 1
        image = T.abel_return(1 - near[inside]), T.abel_return(1 - far[inside])
        slope[inside] = (image[0] - image[1]) / (u[inside] * 2e-6)
        image = T.abel_return(1 - u)
        at_visit = 2 * slope * (bound + u * 2.0**-40) + 1e-10 * np.maximum(1, image)
        at_visit = np.where(bound < LOST, at_visit, LOST)
        bound = np.where(visiting, np.where(inside, at_visit, LOST), bound)
        y = [reference.thaler_exact(point, T.gamma) for point in y]
        _, state = noise.step(state)
        alive = bound < 1e-2  # once lost, always lost: the bound never falls
        exact = T.abel(np.array([float(point) for point in y]))
        found = state.s.abs().numpy()
        rounding = 1e-13 * np.maximum(1, exact)
        error = np.abs(found - exact) / (bound + rounding)
        # Next to Z's ends, s = 0 or 1, the exact orbit may be on the other side.
        ends = np.abs(found - np.round(found)) < bound
        alive &= ~((found < 1.5) & ends)
        bound[~alive] = LOST
        ratio = np.where(alive, np.maximum(ratio, error), ratio)
        steps += alive
    return ratio, steps


@pytest.mark.parametrize("gamma", [0.55, 0.6, 0.75])
def test_orbits_follow_the_map_as_long_as_precision_allows(gamma: float) -> None:
    """From equal starts, T in 70 digits and the driver, until the bound passes 1e-2."""
    T, noise = ThalerMap(gamma), ChaoticNoise(gamma)
    s = noise.init(40, seed=2).s.abs().clamp(max=1e3).numpy()
    y = [reference.abel(gamma).inverse(x) for x in s]
    ratio, steps = follow(T, s, y, noise)
    assert ratio.max() < 1
    assert np.median(steps) >= 20
    other = follow(T, s * (1 - 1e-9), y, noise)[0]
    assert np.median(other) > 1  # the check can fail


@pytest.mark.parametrize("beta", [-1.0, -0.5, 0.0, 0.5, 1.0])
def test_sums_tend_to_the_stable_law(beta: float) -> None:
    """KS below 0.03 at 20,000 steps: a distance fixed beforehand, not a p-value."""
    noise = ChaoticNoise(0.6, beta)
    sums = noise.birkhoff(20_000, 40_000, seed=0).numpy()
    assert kstest(sums, StableLaw(noise.alpha, beta).cdf).statistic < 0.03
    other = beta + 0.5 if beta <= 0 else beta - 0.5
    assert kstest(sums, StableLaw(noise.alpha, other).cdf).statistic > 0.03


def test_sums_of_product_signs_tend_to_the_symmetric_law() -> None:
    noise = ChaoticNoise(0.6, 0.5, "product")
    sums = noise.birkhoff(20_000, 40_000, seed=0).numpy()
    symmetric = kstest(sums, StableLaw(noise.alpha, 0.0).cdf).statistic
    skewed = kstest(sums, StableLaw(noise.alpha, 0.5).cdf).statistic
    assert symmetric < 0.04 < 0.07 < skewed


def correlation_p(pairs: list[tuple[Tensor, Tensor]]) -> float:
    """Return the p-value that all pairs of values of mean zero are uncorrelated."""
    z = [float((a * b).mean() / (a * b).std()) * len(a) ** 0.5 for a, b in pairs]
    return worst(2 * norm.sf(np.abs(z)))


def test_seeds_tensors_and_drivers_are_uncorrelated() -> None:
    """Neighbouring seeds, 0 and every 2^i, tensors, drivers; at step 0 and a few steps later."""
    noise, count = ChaoticNoise(0.6), 20_000

    def at(steps: int, **which: int) -> Tensor:
        state = noise.init(count, **which)
        for _ in range(steps):
            v, state = noise.step(state)
        return v

    pairs = []
    for steps in (1, 6):
        zero = at(steps, seed=0)
        pairs += [(zero, at(steps, seed=2**i)) for i in range(63)]
        pairs += [(at(steps, seed=k), at(steps, seed=k + 1)) for k in (1, 2, 1000, 2**62 - 1)]
        pairs += [(zero, at(steps, tensor_id=k)) for k in (1, 2, 2**16)]
        pairs += [(zero, at(steps, driver_id=k)) for k in (1, 2, 2**16)]
        pairs += [(at(steps, tensor_id=1), at(steps, driver_id=1))]
        pairs += [(zero[1:], zero[:-1]), (zero[2:], zero[:-2]), (zero[64:], zero[:-64])]
    assert correlation_p(pairs) > LEVEL
    shared = torch.where(torch.arange(count) % 10 == 0, zero, at(6, seed=1))
    assert correlation_p([(zero, shared), *pairs]) < LEVEL  # every tenth element in common shows


def test_a_new_sign_is_independent_of_the_phase_it_starts_and_of_its_neighbours() -> None:
    """Also where all elements stand on the same state and only the index tells them apart."""
    noise, count = ChaoticNoise(0.6), 1 << 18
    start = noise.init(count, seed=4)
    pairs = []
    for s in (start.s, torch.full_like(start.s, 0.3), torch.full_like(start.s, -0.5)):
        _, state = noise.step(NoiseState(s, start.step, start.key))
        new = state.s[s.abs() < 1]
        sign, size = torch.sign(new), new.abs()
        rank = size.argsort().argsort().double() / len(size) - 0.5
        pairs += [(sign, torch.ones_like(sign))]
        if s is start.s:  # else the dither, which shares bits with the sign, is all the rank has
            pairs += [(sign, rank), (sign, rank.abs() - 0.25)]
        pairs += [(sign[k:], sign[:-k]) for k in (1, 2, 3, 4, 8, 16, 64, 256, 1024)]
    assert correlation_p(pairs) > LEVEL
    assert correlation_p([(sign, rank + 0.05 * sign), *pairs]) < LEVEL


GOLDEN = {
    0.55: [
        "0x1.4666544682e96p+3",
        "0x1.933fa64930c4ap+2",
        "0x1.d3a7923512508p+2",
        "0x1.8b357ea992ee9p-2",
        "0x1.77f8e65633262p-1",
        "-0x1.6764d9977bd6ap+0",
        "-0x1.2081049cc3036p+7",
        "0x1.685014bfbc9bcp-2",
    ],
    0.6: [
        "-0x1.5d7142ec223dfp+3",
        "0x1.dba46ee241da2p+1",
        "-0x1.b64b030ff3560p-1",
        "0x1.5345b8332fa54p+3",
        "0x1.110df0fc14cebp-1",
        "0x1.f30cbda62add0p-2",
        "0x1.b9c74a0f88e46p-1",
        "0x1.16a93b64a325cp+2",
    ],
    0.75: [
        "0x1.9fe5a1faea788p+4",
        "-0x1.f292e011152d0p-1",
        "-0x1.fcd51926b2500p+0",
        "-0x1.2cefea7504170p+4",
        "0x1.454d6873fe97cp+2",
        "0x1.b5cdb9bf43860p+0",
        "-0x1.dcb0ab009b980p+3",
        "-0x1.104853c3693ecp+1",
    ],
    0.95: [
        "0x1.9252222d787d8p+5",
        "0x1.132db6f1fb39dp+38",
        "0x1.36d0474f80128p+0",
        "0x1.8b6a93155e168p+1",
        "0x1.25ea70e92433fp+14",
        "0x1.c7724179b4d14p+2",
        "0x1.2eaf577e44aabp+19",
        "-0x1.345b4a9743b61p+17",
    ],
}


@pytest.mark.parametrize("engine", ["torch", "numba"])
@pytest.mark.parametrize("gamma", [0.55, 0.6, 0.75, 0.95])
def test_golden_states(gamma: float, engine: str) -> None:
    """States of 8 elements after 1000 steps; they change only with a release that says so."""
    noise = ChaoticNoise(gamma, 0.3, engine=engine)
    state = noise.init(8, seed=0)
    for _ in range(1000):
        _, state = noise.step(state)
    assert [x.hex() for x in state.s.tolist()] == GOLDEN[gamma]
