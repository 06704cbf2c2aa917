"""Formulas are found in running text, code spans and blocks, and nothing else is."""

from __future__ import annotations

import html
import re

import pytest

pytest.importorskip("latex2mathml", reason='these need pip install "mpgd[docs]"')

from tools.site import text

MATH = re.compile(r"<math.*?</math>", re.DOTALL)


def marked(page: str | None) -> str:
    """Return HTML with formulas in brackets, as characters."""
    plain = MATH.sub(lambda found: f"⟦{re.sub('<[^>]+>', '', found[0])}⟧", page or "")
    return html.unescape(plain).replace("\u2212", "-")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("At gamma 0.6, eta 0.02 (sigma 0.3).", "At ⟦γ0.6⟧, ⟦η0.02⟧ ⟦(σ0.3)⟧."),
        ("MPGD plain 0.6 beta 0.5 has", "MPGD plain 0.6 ⟦β0.5⟧ has"),
        ("mpgd 0.6\nbeta 0.5", "mpgd 0.6\n⟦β0.5⟧"),
        ("eta 0.1 gamma 0.6 beta 0.5", "⟦η0.1⟧ ⟦γ0.6⟧ ⟦β0.5⟧"),
        ("x = 2 gamma and 1 - 2 gamma > 0", "⟦x=2γ⟧ and ⟦1-2γ>0⟧"),
        ("With e = 1 - gamma and 1/2 < gamma < 1,", "With ⟦e=1-γ⟧ and ⟦1/2<γ<1⟧,"),
        ("a sigma of the map's mean", "a ⟦σ⟧ of the map's mean"),
        ("gamma's", "⟦γ⟧'s"),
        ("the paper's sigma", "the paper's ⟦σ⟧"),
        ("the switch lower_sigma", "the switch lower_sigma"),
        ("left of y*, steps", "left of ⟦y*⟧, steps"),
        ("the limits b_i of all", "the limits ⟦bi⟧ of all"),
        ("Z = (y*, 1] and back", "⟦Z=(y*,1]⟧ and back"),
        ("steps^gamma (steps^(1/2) if normal)", "⟦stepsγ⟧ (⟦steps1/2⟧ if normal)"),
        ("the y with cdf(y) = u", "the y with cdf(y) = u"),
        ("+0.82 [0.73, 0.91], 5 < 7", "+0.82 [0.73, 0.91], 5 < 7"),
        ("I want a dog - or two", "I want a dog - or two"),
        ("10^4 & more", "⟦104⟧ & more"),
    ],
)
def test_formulas_of_running_text_are_found(words: str, expected: str) -> None:
    assert marked(text.text(words)) == expected


@pytest.mark.parametrize("code", ["eps^2", "R'(x)", "C_k", "s < 1", "alpha = 1/gamma", "m", "chi"])
def test_code_that_is_a_formula_becomes_one(code: str) -> None:
    assert MATH.match(text.span(code) or "")


@pytest.mark.parametrize(
    "code",
    [
        "gamma",
        "gamma=0.6",
        "y_star",
        "--seeds",
        "-o",
        "mpgd.noise",
        "train()",
        "x0",
        "(d,)",
        "0.5",
        "make",
        "p_variation",
        "sign",
    ],
)
def test_code_that_is_code_stays(code: str) -> None:
    assert text.span(code) is None


def test_blocks_of_formulas_are_displayed_and_commands_are_not() -> None:
    found = marked(text.block("x' = x + a(x)/m        the recursion\n   = y\n"))
    assert "⟦x′=x+a(x)m⟧" in found
    assert "<span>the recursion</span>" in found
    assert 'class="goes-on"' in found
    for other in (
        "mpgd reproduce limit",
        "pip install x",
        "maps -> noise -> optim",
        "mpgd --x a = b",
    ):
        assert text.block(other) is None


def test_headings_code_and_attributes_are_left_alone() -> None:
    page = '<h2>Choosing gamma</h2><pre>eta = 1</pre><img alt="gamma"><p>gamma</p>'
    assert marked(text.rendered(page)) == page.replace("<p>gamma", "<p>⟦γ⟧")


def test_the_name_of_an_argument_stays_and_a_stop_stays_with_its_formula() -> None:
    page = text.rendered("<b><code>m</code></b>, with gamma.")
    assert page.startswith("<b><code>m</code></b>")
    assert marked(page).endswith('with <span class="formula">⟦γ⟧.</span>')
