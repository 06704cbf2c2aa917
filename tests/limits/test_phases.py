import numpy as np
import pytest
import torch

from mpgd import ChaoticNoise, GaussianNoise
from mpgd.limits import Diagonal, FastSlow, coupled_paths, p_variation, skorokhod_distance


def test_both_paths_use_the_same_orbit() -> None:
    system = FastSlow.mpgd(lambda x: x, 0.2, 0.5, (0.6, 0.7), 0.5)
    both = coupled_paths(system, [1.0, -1.0], m=60, paths=3, seed=4)
    assert torch.equal(both.x[-1], system.simulate([1.0, -1.0], m=60, paths=3, seed=4).final)
    for moved, jumped in zip(both.drivers, both.jumps, strict=True):
        torch.testing.assert_close(moved[-1], jumped[-1])  # phases add up to the whole
        steps = jumped.diff(dim=0)
        assert 0.0 < float((steps != 0.0).double().mean()) < 0.6
    c0, c1 = system.couplings[0][1].laminar_value, system.couplings[0][1].burst_value
    sizes = both.drivers[0].diff(dim=0).abs().unique() * 60**0.6
    np.testing.assert_allclose(sizes.numpy()[[0, -1]], [c0, -c1], rtol=1e-9)


def test_without_drift_a_multiplicative_jump_is_an_exponential() -> None:
    system = FastSlow(torch.zeros_like, [(Diagonal(-0.3), ChaoticNoise(0.6))])
    both = coupled_paths(system, 2.0, m=50, paths=4)
    expected = 2.0 * torch.exp(-0.3 * both.jumps[0])
    torch.testing.assert_close(both.y, expected)


def test_sm1_falls_with_m_and_j1_does_not() -> None:
    system = FastSlow.mpgd(lambda x: x, sigma=0.5)
    sm1, j1 = [], []
    for m in (100, 1600):
        both = coupled_paths(system, 1.0, m, paths=24, seed=1)
        x, y = both.x[..., 0].numpy().T, both.y[..., 0].numpy().T
        sm1.append(
            np.median(
                [skorokhod_distance(a, b, "SM1", band=m // 3) for a, b in zip(x, y, strict=True)]
            )
        )
        j1.append(
            np.median(
                [skorokhod_distance(a, b, "J1", band=m // 3) for a, b in zip(x, y, strict=True)]
            )
        )
    assert sm1[1] < 0.6 * sm1[0]
    assert j1[1] > 0.75 * j1[0]


def test_j1_is_at_least_half_of_what_a_jump_exceeds_the_steps() -> None:
    """Where y jumps, x moves by one step: |jump| <= 2 J1 + step. Jumps stay, steps fall."""
    system = FastSlow.mpgd(lambda x: x, sigma=0.5)
    least = []
    for m in (100, 1600):
        both = coupled_paths(system, 1.0, m, paths=24, seed=1)
        x, y = both.x[..., 0].numpy().T, both.y[..., 0].numpy().T
        floor = 0.5 * (np.abs(np.diff(y)).max(axis=1) - np.abs(np.diff(x)).max(axis=1))
        j1 = [skorokhod_distance(a, b, "J1", band=m // 3) for a, b in zip(x, y, strict=True)]
        assert (np.array(j1) > floor - 1e-12).all()
        least.append(np.median(floor))
    assert least[1] > least[0] > 0.0  # so the distance cannot vanish


def test_the_p_variation_of_drivers_is_tight_and_their_jumps_vanish() -> None:
    """Theorem C.1's last hypothesis: |W_m|_p stays for p > alpha, and sum |dW|^2 vanishes."""
    system = FastSlow.mpgd(lambda x: x, sigma=1.0)
    sizes, squares, rough = [], [], []
    for m in (100, 1000, 10_000):
        W = coupled_paths(system, 0.0, m, paths=40, seed=2).drivers[0][..., 0].numpy().T
        sizes.append(np.quantile([p_variation(path, 1.9) for path in W], 0.9))
        rough.append(np.median([p_variation(path, 1.2) for path in W]))
        squares.append(np.median((np.diff(W, axis=1) ** 2).sum(axis=1)))
    assert max(sizes) < 1.6 * min(sizes)
    assert rough[2] > 1.5 * rough[0]  # for p < alpha it does grow
    np.testing.assert_allclose(np.array(squares[:2]) / squares[1:], 10**0.2, rtol=0.15)


def test_other_drivers_are_refused() -> None:
    with pytest.raises(TypeError, match=r"couplings\[0\] needs a ChaoticNoise, whose phases are"):
        coupled_paths(FastSlow(torch.neg, [(1.0, GaussianNoise())]), 0.0, 10)
