from itertools import pairwise

import numpy as np
import pytest
import torch

from mpgd import ChaoticNoise, FastSlow, MarcusSDE, StableLaw
from mpgd.limits import Diagonal, holder_distance
from mpgd.limits.coefficients import takes_m

NOISE = ChaoticNoise(0.6, beta=0.5)


def changing() -> FastSlow:
    return FastSlow(
        lambda x, m: -x * (1.0 + 1.0 / m),
        [(lambda x, m: torch.cos(x) + 2.0 / m, NOISE), (Diagonal(-0.1), NOISE), (0.3, NOISE)],
    )


def test_a_system_at_one_m_is_the_one_with_those_coefficients() -> None:
    m = 40.0
    fixed = FastSlow(
        lambda x: -x * (1.0 + 1.0 / m),
        [(lambda x: torch.cos(x) + 2.0 / m, NOISE), (Diagonal(-0.1), NOISE), (0.3, NOISE)],
    )
    one, two = (system.simulate(1.0, m, paths=5, seed=2).final for system in (changing(), fixed))
    assert torch.equal(one, two)
    assert not torch.equal(one, changing().simulate(1.0, m + 1, paths=5, seed=2).final)


def test_the_limit_takes_what_is_given_or_says_what_it_found() -> None:
    x = torch.tensor([[0.3], [2.0]], dtype=torch.float64)
    given = changing().limit(drift=lambda x: -x, couplings=[torch.cos, Diagonal(-0.1), 0.3])
    found = changing().limit(at=x)
    assert given.note == ""
    assert "drift taken at m = 1e+12, changed by 1e-10 from m = 1e+10" in found.note
    assert "couplings[0] taken at m = 1e+12" in found.note
    assert "couplings[1]" not in found.note
    torch.testing.assert_close(given.drift(x), found.drift(x), rtol=1e-9, atol=0.0)
    one, two = (sde.solve(0.5, steps=50, paths=4, seed=1).final for sde in (given, found))
    torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-8)
    plain = FastSlow(lambda x: -x, [(0.5, NOISE)]).limit()
    assert plain.couplings[0][1] == StableLaw(NOISE.alpha, 0.5)


def test_what_does_not_converge_is_refused() -> None:
    growing = FastSlow(lambda x, m: -x * np.log(m), [(0.5, NOISE)])
    with pytest.raises(
        ValueError, match=r"drift must converge as m grows, but changes by 0\.1\d* "
    ):
        growing.limit(at=[1.0])
    with pytest.raises(ValueError, match="drift depends on m: give its limit, or points at="):
        growing.limit()
    with pytest.raises(ValueError, match="couplings must hold 3 limits, got 1"):
        changing().limit(drift=torch.neg, couplings=[0.1])
    swinging = FastSlow(torch.neg, [(lambda x, m: np.sin(m) * x, NOISE)])
    with pytest.raises(ValueError, match=r"couplings\[0\] must converge as m grows"):
        swinging.limit(at=[1.0])


def test_solutions_with_near_coefficients_are_near() -> None:
    """Equation (18): on one noise, the path with b_n tends to the path with b, at the rate 1/n."""
    limit = changing().limit(drift=torch.neg, couplings=[torch.cos, Diagonal(-0.1), 0.3])

    def distance(n: float) -> float:
        near = MarcusSDE(
            lambda x: -x * (1.0 + 1.0 / n),
            [
                (coupling if k else lambda x: torch.cos(x) + 2.0 / n, law)
                for k, (coupling, law) in enumerate(limit.couplings)
            ],
        )
        paths = [sde.solve(1.0, steps=100, paths=20, seed=4).x for sde in (near, limit)]
        return float((paths[0] - paths[1]).abs().max())

    found = [distance(n) for n in (1e2, 1e3, 1e4)]
    assert found[0] > 1e-3  # b_n and b do differ
    for near, nearer in pairwise(found):
        assert nearer == pytest.approx(near / 10.0, rel=0.2)


def test_which_functions_take_m() -> None:
    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    assert takes_m(lambda x, m: x)
    assert not takes_m(lambda x, scale=2.0: x)
    assert not takes_m(lambda x, *, m=1: x)
    assert not takes_m(torch.tanh)
    assert not takes_m(Module())
    assert not takes_m(Diagonal(1.0))


def test_the_holder_distance_of_a_quadratic_in_closed_form() -> None:
    """With f - g = c x^2 on [-1, 1]: sizes c and 2c, and a quotient of 2c 2^(1-s) at most."""
    c, s = 0.3, 0.4
    found = holder_distance(lambda x: c * x**2, torch.zeros_like, -1.0, 1.0, 1.0 + s, points=20_000)
    exact = 2.0 * c + 2.0 * c * 2.0 ** (1.0 - s)
    assert 0.75 * exact < found <= exact * (1.0 + 1e-12)  # a lower bound, from pairs of points
    more = holder_distance(lambda x: c * x**2, torch.zeros_like, -1.0, 1.0, 1.0 + s, points=20)
    assert more <= found
    assert holder_distance(torch.sin, torch.sin, -1.0, 1.0, 1.5) == 0.0


def test_the_holder_distance_of_vectors_and_of_higher_order() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x[:, 0] * x[:, 1], x[:, 0] ** 3], dim=1)

    found = holder_distance(f, torch.zeros_like, [0.0, 0.0], [1.0, 1.0], 2.5, points=5000)
    assert 0.8 * 12.0 < found <= 12.0  # 6 for the second derivative, 6 sup |x - y|^(1/2)
    falls = [
        holder_distance(lambda x, n=n: torch.sin(x) * (1 + 1 / n), torch.sin, -2.0, 2.0, 1.7)
        for n in (10, 100, 1000)
    ]
    np.testing.assert_allclose(np.array(falls[:2]) / np.array(falls[1:]), 10.0, rtol=1e-6)


def test_bad_arguments() -> None:
    with pytest.raises(
        ValueError, match=r"low must be a finite corner below high, got 1.0 and 0.0"
    ):
        holder_distance(torch.sin, torch.sin, 1.0, 0.0, 1.5)
    with pytest.raises(ValueError, match=r"gamma must lie in \(0, inf\), got -1"):
        holder_distance(torch.sin, torch.sin, 0.0, 1.0, -1)
