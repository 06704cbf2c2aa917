import numpy as np
import pytest
import torch

from mpgd import ChaoticNoise, StableLaw
from mpgd.limits import (
    Constant,
    FastSlow,
    Field,
    Linear,
    MarcusSDE,
    forward_path,
    marcus_path,
    p_variation,
)

ROTATION = Linear([[0.0, -1.0], [1.0, 0.0]])


def test_the_rotation_of_the_appendix() -> None:
    """Appendix B.3: one jump; the forward sum leaves the circle, the Marcus flow does not."""
    theta = 2.5
    np.testing.assert_allclose(forward_path(ROTATION, [0.0, theta], [1.0, 0.0])[-1], [1.0, theta])
    turned = marcus_path(ROTATION, [0.0, theta], [1.0, 0.0])[-1]
    np.testing.assert_allclose(turned, [np.cos(theta), np.sin(theta)], atol=1e-12)


def test_both_are_the_solver_s_integrals() -> None:
    sde = MarcusSDE(torch.zeros_like, [(ROTATION, StableLaw(1.5))])
    dW = torch.as_tensor(np.random.default_rng(0).normal(size=(30, 1, 1)))
    W = np.concatenate([[0.0], dW.flatten().cumsum(0).numpy()])
    for integral, path in (("marcus", marcus_path), ("ito", forward_path)):
        solved = sde.solve([1.0, 0.0], steps=30, increments=dW, integral=integral).final[0]
        np.testing.assert_allclose(path(ROTATION, W, [1.0, 0.0])[-1], solved, rtol=1e-12)


def test_a_recursion_is_a_forward_equation() -> None:
    """Remark B.2: dX = a(X) dV + b(X) dW with V = [mt]/m, in one coupling of two drivers."""
    m, noise = 50, ChaoticNoise(0.6, beta=0.5)
    system = FastSlow(lambda x: -torch.sin(x), [(Field(torch.cos), noise)])
    times = np.arange(m + 1) / m
    x = system.simulate(0.7, m, 1.0, 1, seed=3, times=times).x[:, 0, 0].numpy()
    state, sums = noise.init((1, 1), 3, "cpu", driver_id=0), [0.0]
    for _ in range(m):
        v, state = noise.step(state)
        sums.append(sums[-1] + m**-0.6 * float(v))
    both = Field(lambda z: torch.stack([-torch.sin(z), torch.cos(z)], dim=2))
    W = np.column_stack([times, sums])
    np.testing.assert_allclose(forward_path(both, W, 0.7)[:, 0], x, rtol=1e-12)


def test_forward_and_marcus_differ_by_the_squares_of_the_jumps() -> None:
    """Lemma C.2: |X - X~|_p <= K sum |dW|^2, with one K while a driver is made finer."""
    rng, p = np.random.default_rng(1), 1.5
    coarse = rng.normal(size=17).cumsum()
    ratios, gaps = [], []
    for factor in (4, 16, 64):
        W = np.interp(np.linspace(0, 16, 16 * factor + 1), np.arange(17), coarse)
        gap = forward_path(ROTATION, W, [1.0, 0.0]) - marcus_path(ROTATION, W, [1.0, 0.0])
        gaps.append(p_variation(gap, p))
        ratios.append(gaps[-1] / (np.diff(W) ** 2).sum())
    assert max(ratios) < 2.0 * min(ratios)
    assert gaps[0] > 10.0 * gaps[2]


def test_constant_couplings_agree() -> None:
    W = np.random.default_rng(2).normal(size=(20, 2)).cumsum(axis=0)
    b = Constant([[1.0, 2.0], [0.0, -1.0]])
    one, two = forward_path(b, W, [0.0, 0.0]), marcus_path(b, W, [0.0, 0.0])
    np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="W must have 1 coordinates for this coupling, got 2"):
        forward_path(ROTATION, np.zeros((3, 2)), [1.0, 0.0])
    with pytest.raises(ValueError, match=r"Linear has a matrix \(2, 2\), but d = 1"):
        marcus_path(ROTATION, [0.0, 1.0], 1.0)
    with pytest.raises(ValueError, match="W must be finite, got nan at index 1"):
        marcus_path(ROTATION, [0.0, np.nan], [1.0, 0.0])
