"""One colour for a scheme, in figures, report and lab."""

from __future__ import annotations

import re

import pytest

from mpgd_lab.content import colors, style
from mpgd_lab.schemes import ORDER, Scheme
from mpgd_lab.studies.escape import figure as escape
from mpgd_lab.studies.generalization import figure as generalization


def test_no_two_schemes_share_a_colour() -> None:
    assert len(set(colors.SCHEMES.values())) == len(colors.SCHEMES)
    assert set(ORDER) < set(colors.SCHEMES)
    for which in (0, 1):
        assert len({shades[which] for shades in colors.PALETTE.values()}) == len(colors.PALETTE)


@pytest.mark.parametrize(
    ("scheme", "name"),
    [
        (Scheme(), "gd"),
        (Scheme(batch=8), "sgd"),
        (Scheme("langevin"), "langevin"),
        (Scheme("matched", False, 0.6), "gaussian"),
        (Scheme("chaotic", False, 0.6, 0.5), "mpgd"),
        (Scheme("chaotic", True, 0.6, 0.5), "symmetric"),
    ],
)
def test_a_figure_takes_the_colour_of_the_list(scheme: Scheme, name: str) -> None:
    assert style.color(scheme) == colors.of(name)


def test_figures_with_names_of_their_own_take_it_too() -> None:
    assert {name: colors.of(name) for name in ("mpgd", "gaussian", "stable")} == escape.COLORS
    shades = {name: look[1] for name, look in generalization.BASELINES.items()}
    assert shades == {"descent": colors.of("gd"), "gaussian": colors.of("gaussian")}


def test_every_variable_of_the_page_is_a_colour_that_is_there() -> None:
    text = colors.stylesheet()
    for name, (light, dark) in colors.PALETTE.items():
        assert re.findall(rf"--{name}: (#\w+);", text) == [light, dark, dark]
    assert set(re.findall(r"var\(--(\w+)\)", text)) == set(colors.SCHEMES.values())
