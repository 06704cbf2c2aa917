import importlib.util
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate
from scipy.stats import kstest, levy_stable, norm

from mpgd.stable import StableLaw, integral, standard
from mpgd.stable.sampling import chambers_mallows_stuck
from mpgd.stable.standard import SUBTRACT_FROM

HERE = Path(__file__).parent
TOLERANCE = 2e-12  # of the promised 1e-10; what remains is the rounding of y^(alpha/(alpha-1))
NEAR_ONE = 2e-11  # the same below alpha = 1.05, where that power reaches 101
VISIBLE = 1e-15  # values below are not promised
LEVEL = 1e-5
ALPHAS = [1.01, 1.02, 1.035, 1.05, 1.1, 1.25, 1.5, 5 / 3, 1.9, 1.999, 2.0]
BETAS = [-1.0, -0.5, 0.0, 0.5, 1.0]

Array = NDArray[np.float64]


def load_oracle():
    """Import the oracle's script by path: it is no module of the package."""
    spec = importlib.util.spec_from_file_location("oracle", HERE / "make_oracle.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = np.array(json.loads((HERE / "oracle.json").read_text()))


def rows(alpha: float, beta: float) -> tuple[Array, Array, Array]:
    """Return y, P(X > y) and f(y) of one law."""
    chosen = TABLE[(TABLE[:, 0] == alpha) & (TABLE[:, 1] == beta)]
    return chosen[:, 2], chosen[:, 3], chosen[:, 4]


def allowed(alpha: float) -> float:
    """Return the relative error a function of a law of index ``alpha`` may have."""
    return TOLERANCE if alpha >= 1.05 else NEAR_ONE


def assert_relative(value: Array, expected: Array, tolerance: float = TOLERANCE) -> None:
    visible = np.abs(expected) > VISIBLE
    np.testing.assert_allclose(value[visible], expected[visible], rtol=tolerance, atol=0.0)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_table_of_the_inverted_characteristic_function(alpha: float, beta: float) -> None:
    y, tail, density = rows(alpha, beta)
    assert y.size >= 12
    right, left = StableLaw(alpha, beta), StableLaw(alpha, -beta)
    near, inner = allowed(alpha), 1e-13 if alpha >= 1.05 else NEAR_ONE
    assert_relative(right.sf(y), tail, near)
    assert_relative(right.cdf(y), 1.0 - tail, inner)
    assert_relative(right.pdf(y), density, near)
    assert_relative(left.cdf(-y), tail, near)
    assert_relative(left.sf(-y), 1.0 - tail, inner)
    assert_relative(left.pdf(-y), density, near)
    np.testing.assert_allclose(np.exp(right.logpdf(y)), right.pdf(y), rtol=1e-15)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_quantiles_of_the_table(alpha: float, beta: float) -> None:
    """The table read backwards, where a rounding of the tail moves y by less than 1e-12."""
    y, tail, density = rows(alpha, beta)
    good = (y * density > 1e-3 * tail) & (tail > VISIBLE)
    assert_relative(-StableLaw(alpha, -beta).ppf(tail[good]), y[good], allowed(alpha))


@pytest.mark.parametrize(
    ("alpha", "beta", "y"), [(1.3, -0.7, 2.2), (1.5, 1.0, 3e4), (1.8, -1.0, 5.0), (1.97, 0.2, 7.5)]
)
def test_live_inversion_off_the_grid(alpha: float, beta: float, y: float) -> None:
    tail, density = load_oracle().tail_and_density(alpha, beta, y)
    assert StableLaw(alpha, beta).sf(y) == pytest.approx(tail, rel=TOLERANCE, abs=0.0)
    assert StableLaw(alpha, beta).pdf(y) == pytest.approx(density, rel=TOLERANCE, abs=0.0)


def test_live_inversion_agrees_with_the_table() -> None:
    oracle = load_oracle()
    for row in TABLE[100::150]:
        if row[0] >= 1.25:  # the sector of a thin tail narrows with alpha - 1, and time grows
            np.testing.assert_allclose(oracle.tail_and_density(*row[:3]), row[3:], rtol=1e-15)


@pytest.mark.parametrize(("alpha", "beta"), [(1.5, 0.0), (1.5, 0.5), (1.8, -1.0), (1.9, 0.3)])
def test_scipy_near_the_centre(alpha: float, beta: float) -> None:
    x = np.array([-3.0, -0.5, 0.4, 2.0])
    law = StableLaw(alpha, beta, scale=1.7)
    theirs = levy_stable(alpha, beta, scale=1.7)
    np.testing.assert_allclose(law.pdf(x), theirs.pdf(x), rtol=1e-7)
    np.testing.assert_allclose(law.cdf(x), theirs.cdf(x), rtol=1e-7)


@pytest.mark.parametrize("beta", [-1.0, 0.0, 0.4])
def test_alpha_two_is_normal(beta: float) -> None:
    law, theirs = StableLaw(2.0, beta, scale=0.5), norm(scale=0.5 * np.sqrt(2.0))
    x = np.linspace(-5.5, 5.5, 221)
    p = np.concatenate([np.geomspace(1e-15, 0.5, 50), 1.0 - np.geomspace(1e-15, 0.4, 50)])
    np.testing.assert_allclose(law.pdf(x), theirs.pdf(x), rtol=1e-12)
    np.testing.assert_allclose(law.cdf(x), theirs.cdf(x), rtol=1e-12)
    np.testing.assert_allclose(law.sf(x), theirs.sf(x), rtol=1e-12)
    np.testing.assert_allclose(law.ppf(p), theirs.ppf(p), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(law.logpdf(1e6 * x), theirs.logpdf(1e6 * x), rtol=1e-13)


@pytest.mark.parametrize("alpha", [1.01, 1.05, 1.5, 2.0])
@pytest.mark.parametrize("beta", [-1.0, 0.3, 1.0])
def test_reflection_and_scale(alpha: float, beta: float) -> None:
    x = np.concatenate([np.linspace(-40.0, 40.0, 161), [1e-9, -1e-9, 1e9, -1e9]])
    law, mirror = StableLaw(alpha, beta, scale=3.0), StableLaw(alpha, -beta)
    np.testing.assert_allclose(law.pdf(x), mirror.pdf(-x / 3.0) / 3.0, rtol=allowed(alpha) / 2)
    np.testing.assert_allclose(law.cdf(x), mirror.sf(-x / 3.0), rtol=allowed(alpha) / 2)
    np.testing.assert_allclose(law.cdf(x) + law.sf(x), 1.0, rtol=0.0, atol=allowed(alpha) / 40)


def test_pdf_integrates_to_one_and_to_the_cdf() -> None:
    """Gauss-Legendre between neighbouring points, tails from sf and cdf."""
    node, weight = np.polynomial.legendre.leggauss(20)
    edge = np.linspace(-30.0, 30.0, 121)
    x = edge[:-1, None] + 0.25 * (node + 1.0)
    for alpha, beta in [(1.05, 1.0), (1.3, -0.6), (1.7, 0.0), (1.999, 1.0), (2.0, 0.0)]:
        law = StableLaw(alpha, beta)
        piece = 0.25 * law.pdf(x) @ weight
        np.testing.assert_allclose(piece, np.diff(law.cdf(edge)), rtol=1e-11, atol=2e-15)
        total = piece.sum() + law.cdf(-30.0) + law.sf(30.0)
        assert total == pytest.approx(1.0, abs=2e-14)


def test_pdf_is_the_slope_of_sf_in_the_far_tail() -> None:
    """Over a ratio of 1.001 the increment of a power is its midpoint value, to 1e-7."""
    law = StableLaw(1.4, 0.2)
    x = np.geomspace(1e3, 1e30, 28)
    slope = (law.sf(x) - law.sf(1.001 * x)) / (0.001 * x)
    np.testing.assert_allclose(slope, law.pdf(1.0005 * x), rtol=1e-6)


@pytest.mark.parametrize(("alpha", "beta"), [(1.5, 0.5), (1.2, -0.8)])
def test_characteristic_function_is_the_transform_of_the_density(alpha: float, beta: float) -> None:
    """E exp(i t X) by quadrature on [-600, 600]; the two tails beyond add at most their mass."""
    law = StableLaw(alpha, beta, scale=0.8)
    x = np.linspace(-600.0, 600.0, 60_001)
    density = law.pdf(x)
    for t in (-1.3, 0.4, 2.0):
        transform = integrate.simpson(density * np.exp(1j * t * x), x=x)
        mass = law.cdf(-600.0) + law.sf(600.0)
        assert abs(transform - law.characteristic_function(t)) < mass
    assert abs(law.characteristic_function(0.4).imag) > 10 * mass  # the check sees the skewness


def test_characteristic_function_at_the_ends() -> None:
    law = StableLaw(1.5, 1.0, scale=1e200)
    np.testing.assert_array_equal(
        law.characteristic_function([0.0, 1e200, np.inf]), [1.0, 0.0, 0.0]
    )
    expected = np.exp(-(2.0**1.5) * (1.0 + 0.5j * np.sign(2.0)))
    assert StableLaw(1.5, 0.5).characteristic_function(2.0) == pytest.approx(expected)


@pytest.mark.parametrize("alpha", [1.01, 1.05, 1.3, 1.9, 1.999999, 2.0])
@pytest.mark.parametrize("beta", [-1.0, -1.0 + 1e-12, 0.0, 0.7])
def test_quantile_inverts_the_cdf(alpha: float, beta: float) -> None:
    tail = np.concatenate([np.geomspace(1e-15, 0.5, 60), [1e-100, 1e-30]])
    law = StableLaw(alpha, beta, scale=4.0)
    assert_relative(law.cdf(law.ppf(tail)) / tail, np.ones_like(tail), allowed(alpha))
    ratio = law.sf(law.ppf(1.0 - tail[:60])) / (1.0 - (1.0 - tail[:60]))
    assert_relative(ratio, np.ones(60), allowed(alpha))
    assert (np.diff(law.ppf(np.linspace(0.001, 0.999, 199))) > 0.0).all()


def test_quantile_at_zero_and_at_the_ends() -> None:
    law = StableLaw(1.3, 0.6)
    at_zero = law.cdf(0.0)
    near = law.ppf(at_zero + np.array([-1e-10, 0.0, 1e-10]))
    np.testing.assert_allclose(near * law.pdf(0.0), [-1e-10, 0.0, 1e-10], atol=1e-14)
    np.testing.assert_array_equal(law.ppf([0.0, 1.0, np.nan]), [-np.inf, np.inf, np.nan])


@pytest.mark.parametrize("beta", [-1.0, 0.2])
@pytest.mark.parametrize("alpha", [0.4, 0.9, 1.01, 1.05, 1.6, 1.999])
def test_no_jump_where_the_computation_changes(alpha: float, beta: float) -> None:
    """Cells and pages of xi, the floor and the ceiling of y, and the sign of x."""
    law, side = StableLaw(alpha, beta), standard.side_of(alpha, beta) if alpha > 1 else None
    power = alpha / (alpha - 1.0)
    offset = side.offset if side else standard.side_of(alpha, 0.2).offset
    switch = np.exp((integral.CELL * np.arange(-20, 25) - offset) / power)
    switch = switch[(switch > 1e-12) & (switch < 1e12)]
    if side and beta > -1.0:
        switch = np.append(switch, np.exp(side.log_ends))
    below, above = switch * (1.0 - 1e-15), switch * (1.0 + 1e-15)
    for f in (law.pdf, law.sf, law.cdf):
        assert_relative(f(above), f(below), 2e-11)
        if alpha > 1:
            assert f(-1e-17) == pytest.approx(f(1e-17), rel=1e-13)


@pytest.mark.parametrize(
    ("alpha", "beta"),
    [(0.3, 0.5), (0.8, 1.0), (1.0, 0.4), (1.2, -0.9), (1.99, -0.99), (2 - 1e-9, 0)],
)
def test_dense_points_have_the_values_of_single_ones(
    alpha: float, beta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dense points are interpolated; the last laws change quickly where their heavy tail begins."""
    x = np.concatenate([np.linspace(-12.0, 12.0, 5000), np.geomspace(1e-3, 1e3, 5000)])
    law, some = StableLaw(alpha, beta, parametrization="S0"), slice(0, None, 97)
    for name in ("logpdf", "logsf", "logcdf"):
        alone = np.array([getattr(law, name)(v) for v in x[some]])
        dense = getattr(law, name)(x)[some]
        finite = np.isfinite(alone)
        np.testing.assert_array_equal(dense[~finite], alone[~finite])
        np.testing.assert_allclose(dense[finite], alone[finite], rtol=2e-13, atol=2e-13)
    if alpha > 1.9:
        monkeypatch.setattr(integral, "LAST_TERM", 1.0)  # without halving
        assert not np.allclose(law.logcdf(x)[some], alone, rtol=1e-9, atol=1e-9)


def test_step_has_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the step, at indices and skewnesses next to their ends."""
    y = np.geomspace(1e-12, 1e12, 97)
    for alpha, beta in [
        (0.2, 0.5),
        (0.7, 1.0),
        (0.99, 1 - 1e-9),
        (1.01, -1 + 1e-9),
        (1.05, -1 + 1e-9),
        (1.5, -1 + 1e-15),
        (2 - 1e-6, 0.3),
        (2 - 1e-14, -0.9),
    ]:
        rows = (0, 2) if alpha > SUBTRACT_FROM else (0, 1, 2)
        coarse = np.exp(standard.log_side(y, alpha, beta, rows))
        with monkeypatch.context() as patch:
            patch.setattr(integral, "STEP", 0.5 * integral.STEP)
            standard.side_of.cache_clear()
            fine = np.exp(standard.log_side(y, alpha, beta, rows))
        standard.side_of.cache_clear()
        assert_relative(coarse, fine, 1e-12)


def test_logpdf_on_the_thin_tail_follows_its_asymptote() -> None:
    """Log f = -k x^(alpha/(alpha-1)) + O(log x), k from Zolotarev's V at the end point."""
    for alpha in (1.01, 1.05, 1.5, 1.9):
        cosine = abs(np.cos(0.5 * np.pi * alpha))
        k = (cosine / alpha) ** (1.0 / (alpha - 1.0)) * (alpha - 1.0) / alpha
        x = (np.array([1e4, 1e8, 1e20]) / k) ** ((alpha - 1.0) / alpha)
        np.testing.assert_allclose(StableLaw(alpha, -1.0).logpdf(x), [-1e4, -1e8, -1e20], rtol=2e-3)
        np.testing.assert_array_equal(StableLaw(alpha, -1.0).pdf(x), 0.0)


def test_extreme_arguments_keep_their_shape() -> None:
    x = np.array([[-np.inf, -1e308, 0.0], [1e308, np.inf, np.nan]])
    for law in (StableLaw(1.05, 1.0), StableLaw(1.5, scale=1e-300), StableLaw(2.0, scale=1e300)):
        assert law.pdf(x).shape == law.cdf(x).shape == law.logpdf(x).shape == (2, 3)
        np.testing.assert_array_equal(law.cdf(x)[[0, 1, 1], [0, 1, 2]], [0.0, 1.0, np.nan])
        np.testing.assert_array_equal(law.sf(x)[[0, 1, 1], [0, 1, 2]], [1.0, 0.0, np.nan])
        assert law.pdf(x)[0, 0] == law.pdf(x)[1, 1] == 0.0
    assert StableLaw(1.5).cdf([]).shape == (0,)
    assert isinstance(StableLaw(1.5).cdf(1), np.float64)
    assert isinstance(StableLaw(1.5).ppf(0.3), np.float64)
    assert StableLaw(Fraction(3, 2)) == StableLaw(1.5)


@pytest.mark.parametrize(
    ("alpha", "beta"),
    [(0.4, 0.5), (0.8, 1.0), (1.0, -0.6), (1.01, 0.0), (1.3, 1.0), (1.7, -0.5), (2.0, 0.0)],
)
def test_chambers_mallows_stuck_draws_follow_the_law(alpha: float, beta: float) -> None:
    rng = np.random.default_rng(0)
    angle, exponential = np.pi * (rng.random(50_000) - 0.5), rng.standard_exponential(50_000)
    x = chambers_mallows_stuck(angle, exponential, alpha, beta)
    assert kstest(x, StableLaw(alpha, beta).cdf).pvalue > LEVEL
    wrong = StableLaw(alpha, beta - 0.15) if alpha < 2.0 else StableLaw(2.0, scale=1.04)
    assert kstest(x, wrong.cdf).pvalue < LEVEL  # the check can fail


def test_chambers_mallows_stuck_is_the_published_formula() -> None:
    """Weron's form of the formula, away from the ends of the angle, and finite at them."""
    rng = np.random.default_rng(1)
    U, W = 1.5 * (2.0 * rng.random(1000) - 1.0), rng.standard_exponential(1000)
    for alpha, beta in [(0.6, 0.3), (1.1, 0.4), (1.5, -1.0), (1.9, 1.0)]:
        tangent = beta * np.tan(0.5 * np.pi * alpha)
        B, S = np.arctan(tangent) / alpha, (1.0 + tangent**2) ** (0.5 / alpha)
        expected = S * np.sin(alpha * (U + B)) / np.cos(U) ** (1.0 / alpha)
        expected *= (np.cos(U - alpha * (U + B)) / W) ** ((1.0 - alpha) / alpha)
        x = chambers_mallows_stuck(U, W, alpha, beta)
        np.testing.assert_allclose(x, expected, rtol=1e-10, atol=1e-12)
        ends = np.nextafter([-0.5 * np.pi, 0.5 * np.pi], 0.0)
        assert np.isfinite(chambers_mallows_stuck(ends, np.ones(2), alpha, beta)).all()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"alpha": 2.1}, r"alpha must lie in \(0, 2\], got 2.1"),
        ({"alpha": 0}, r"alpha must lie in \(0, 2\], got 0.0"),
        ({"alpha": np.nan}, r"alpha must lie in \(0, 2\], got nan"),
        ({"alpha": [1.5, 2.5]}, r"alpha must lie in \(0, 2\], got 2.5"),
        ({"alpha": 1.5, "loc": np.inf}, r"loc must be finite, got inf"),
        (
            {"alpha": 1.5, "parametrization": "S2"},
            r"parametrization must be 'S0' or 'S1', got 'S2'",
        ),
        ({"alpha": 1.5, "beta": -1.1}, r"beta must lie in \[-1, 1\], got -1.1"),
        ({"alpha": 1.5, "beta": np.nan}, r"beta must lie in \[-1, 1\], got nan"),
        ({"alpha": 1.5, "scale": 0.0}, r"scale must be finite and at least 2.23e-308, got 0.0"),
        ({"alpha": 1.5, "scale": np.inf}, r"scale must be finite and at least 2.23e-308, got inf"),
        ({"alpha": 1.5, "scale": np.nan}, r"scale must be finite and at least 2.23e-308, got nan"),
    ],
)
def test_parameters_outside_their_range(arguments: dict[str, float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        StableLaw(**arguments)


@pytest.mark.parametrize("name", ["alpha", "beta", "loc", "scale"])
@pytest.mark.parametrize("value", ["1.5", True, None, 1.5j])
def test_parameters_of_the_wrong_type(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"{name} must be a real number or an array of them, got "):
        StableLaw(**{"alpha": 1.5, name: value})


def test_wrong_arguments() -> None:
    law = StableLaw(1.5)
    assert np.isnan(law.ppf([-0.1, 1.5])).all()  # as in scipy
    assert np.isnan(law.isf([-0.1, 1.5])).all()
    with pytest.raises(TypeError, match="alpha must hold real numbers, got dtype"):
        StableLaw(["1.5"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="x must hold real numbers, got dtype"):
        law.pdf("0.5")
    with pytest.raises(TypeError, match="t must hold real numbers, got dtype complex128"):
        law.characteristic_function(1j)
    with pytest.raises(ValueError, match=r"angle must lie in \(-pi/2, pi/2\)"):
        chambers_mallows_stuck([0.5 * np.pi], [1.0], 1.5, 0.0)
    with pytest.raises(ValueError, match="exponential must be non-negative"):
        chambers_mallows_stuck([0.1], [-1.0], 1.5, 0.0)
    with pytest.raises(ValueError, match=r"beta in \[-1, 1\], got 1.5, 2.0"):
        chambers_mallows_stuck([0.1], [1.0], 1.5, 2.0)
