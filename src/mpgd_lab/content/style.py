"""How figures look: one style, and the colours of `mpgd_lab.content.colors`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mpgd_lab.content import colors
from mpgd_lab.content.blocks import Plate
from mpgd_lab.schemes import SYMMETRIC, Scheme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, RED, GREEN, ORANGE, SKY, PINK, INDIGO, PLUM, OLIVE, GREY, PALE, GRID = (
    light for light, _ in colors.PALETTE.values()
)
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
        return colors.of("symmetric")
    return colors.of(scheme.kind)


@contextmanager
def styled(**further: Any) -> Iterator[None]:
    """Give what is drawn in this block our style, and ``further`` settings of matplotlib."""
    try:
        from matplotlib import rc_context
    except ImportError:
        raise ImportError('figures need matplotlib: pip install "mpgd[lab]"') from None
    with rc_context(STYLE | further):
        yield


def save(plate: Plate, file: Path, columns: int = 4) -> None:
    """Write a plate to a file; the name says of which kind, such as .png or .pdf."""
    with styled():
        figure_of(plate, columns).savefig(file, dpi=200)


def figure_of(plate: Plate, columns: int) -> Figure:
    """Return the panels of a plate in one figure, with their common legend below."""
    from matplotlib.figure import Figure

    count = len(plate.panels)
    columns = min(columns, count)
    rows = -(-count // columns)
    width, height = plate.size
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel, ax in zip(plate.panels, axes, strict=False):
        panel.draw(ax)
    for ax in axes[count:]:
        ax.axis("off")
    if plate.legend:
        entries = legend_of(axes[:count])
        figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=columns)
    return figure


def legend_of(axes: Iterable[Any]) -> dict[str, Any]:
    """Return what a common legend of some panels explains, by label."""
    entries: dict[str, Any] = {}
    for ax in axes:
        if ax.get_legend():  # it explains itself
            continue
        handles, labels = ax.get_legend_handles_labels()
        entries |= {
            label: h for h, label in zip(handles, labels, strict=True) if label not in entries
        }
    return entries
