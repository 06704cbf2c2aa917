"""Formulas of the source as LaTeX: each construction once, and what is none is refused."""

from __future__ import annotations

import pytest

pytest.importorskip("latex2mathml", reason='these need pip install "mpgd[docs]"')

from tools.site.formulas import FormulaError, latex, mathml


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ("mu eta^gamma v1 x", r"\mu \eta^{\gamma} v_{1} x"),
        ("F = sigma c0 eta^(gamma-1)", r"F = \sigma c_{0} \eta^{\gamma - 1}"),
        ("grad R(x)/m", r"\nabla R(x) / m"),
        ("x' = x - eta grad(x)", r"x' = x - \eta \;\mathrm{grad}(x)"),
        ("x <- x - m x", r"x \leftarrow x - m x"),
        ("x <-1", r"x < - 1"),
        ("sum_(j<k) P_kj v1_j", r"\sum_{j < k} P_{k j} v_{1,j}"),
        ("a(X) dt + b_i(X) <> dL_i", r"a(X) d t + b_{i}(X) \diamond d L_{i}"),
        ("Z = (y*, 1]", r"Z = (y^{*} , 1]"),
        ("sqrt(alpha / n)", r"\sqrt{\alpha / n}"),
        ("k^exponent", r"k^{\mathrm{exponent}}"),
        ("phi^T C", r"\phi^{\top} C"),
        ("eta 0.02", r"\eta \;0.02"),
        ("log|t| >= 1,000", r"\mathrm{log} |t| \ge 1{,}000"),
        ("d x r", r"d \times r"),
        ("E[v1 phi] -> 0", r"E[v_{1} \phi] \to 0"),
    ],
)
def test_a_formula_becomes_latex(plain: str, expected: str) -> None:
    assert latex(plain) == expected


def test_quotients_are_fractions_outside_brackets() -> None:
    assert latex("(H(a) - H(b)) / P(Z)", fractions=True) == r"\frac{H(a) - H(b)}{P(Z)}"
    assert latex("(1/eta) x", fractions=True) == r"(1 / \eta) x"


def test_words_are_kept_where_they_are_allowed() -> None:
    assert r"\text{ over }" in latex("sum over chi", words=True)
    with pytest.raises(FormulaError, match="'over' is no name"):
        latex("sum over chi")


@pytest.mark.parametrize("text", ["y_star", "f(x", "a @ b", "x_i_j", "/ 2 ^"])
def test_what_is_no_formula_is_refused(text: str) -> None:
    with pytest.raises(FormulaError):
        latex(text)


def test_mathml_has_the_signs() -> None:
    found = mathml(latex("eta^gamma"))
    assert found.startswith("<math")
    assert "<msup>" in found


def test_a_prime_is_raised_once() -> None:
    found = mathml(latex("R'(x)"))
    assert "&#x02032;" in found
    assert "<msup>" not in found
