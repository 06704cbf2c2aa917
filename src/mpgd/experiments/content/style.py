"""How figures look: one style, one set of colours, and the colour of every scheme.

Colours are Okabe & Ito's, told apart by colour-blind readers and in grey; a scheme has the same one
in every figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from mpgd.experiments.schemes import SYMMETRIC, Scheme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, RED, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
SKY, PINK, INDIGO, GREY = "#56B4E9", "#CC79A7", "#5D4A9C", "#7F7F7F"
PALE, GRID = "#BFD9EA", "#E6E6E6"
COLORS: Final = {"mpgd": BLUE, "gaussian": ORANGE, "langevin": PINK, "gd": GREY, "sgd": INDIGO}
STYLE: Final[Any] = {
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "mathtext.fontset": "dejavusans",
}


def color(scheme: Scheme) -> str:
    """Return the colour of a scheme: of descent, of a Gaussian, or of MPGD and its variant.

    Examples:
        >>> color(Scheme("chaotic", gamma=0.6, beta=0.5)) == BLUE
        True
    """
    if scheme.kind == "mpgd" and scheme.variant == SYMMETRIC:
        return GREEN
    return COLORS[scheme.kind]


@contextmanager
def styled(width: float, height: float) -> Iterator[Figure]:
    """Give a new figure; what is drawn in this block has our style."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError('figures need matplotlib: pip install "mpgd[lab]"') from None
    with rc_context(STYLE):
        yield Figure(figsize=(width, height), layout="constrained")


def lettered(axes: Iterable[Any]) -> None:
    """Put (a), (b), ... before the titles of panels."""
    for letter, ax in zip("abcdefghijklmnop", axes, strict=False):
        ax.set_title(f"({letter})  {ax.get_title(loc='left')}")
