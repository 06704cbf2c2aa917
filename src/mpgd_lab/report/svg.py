"""Panels drawn by matplotlib as SVG: elements of a page, or files of their own.

In the page each colour becomes a CSS variable, so that figures follow light and dark. A file keeps
the colours of light paper, and has rules that change them where its reader asks for dark.
"""

import re
from collections.abc import Mapping
from io import StringIO
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpgd_lab.content import colors, style
from mpgd_lab.content.blocks import SIZE, Landscape, Plate
from mpgd_lab.content.style import legend_of, styled

try:
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogFormatter, NullLocator
except ImportError:
    raise ImportError('figures need matplotlib: pip install "mpgd[lab]"') from None

Array = NDArray[np.float64]

THEMED: Final[Mapping[str, str]] = {  # in the SVG: in the page
    **{light: name for name, (light, _) in colors.PALETTE.items()},
    "#FFFFFF": "paper",
    "#000000": "ink",
    "#CCCCCC": "grid",
}
RC: Final[dict[str, Any]] = {
    "svg.fonttype": "path",
    "svg.hashsalt": "mpgd",
    "lines.linewidth": 1.2,
    "axes.titley": 1.0,  # where it comes to stand anyway; to find that out is slow
}
BOTTOM, RIGHT, HIGH = 0.17, 0.96, 0.72  # where the axes of a panel are
LINE: Final = 0.2  # inches of a line of a legend
REM: Final = 7.0  # of the page, to an inch of a legend: as large as in a panel of full width
RAISED: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
PAPER: Final = {"paper": "#1A1E23", "ink": "#E6E9EC"}  # of a file on dark paper
NO_METADATA: Final = {"Creator": None, "Date": None, "Format": None, "Type": None}


def page_elements(plate: Plate, prefix: str) -> list[str]:
    """Return the panels as SVG elements of a page, and their legend last if they share one.

    Margins are fixed: to measure every label first takes as long as to draw.
    """
    elements, axes = [], []
    with styled(**RC):
        for number, panel in enumerate(plate.panels):
            figure = Figure(figsize=plate.size)
            axes.append(figure.add_axes((panel.left, BOTTOM, RIGHT - panel.left, HIGH)))
            panel.draw(axes[-1])
            _lighten(axes[-1])
            elements.append(_for_page(_svg(figure), f"{prefix}-{number}"))
        if plate.legend:
            elements.append(_key(axes, f"{prefix}-legend"))
    return elements


def _lighten(ax: Any) -> None:
    """Write powers of ten as plain text, without ticks between them: both take long to draw."""
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        if isinstance(axis.get_major_formatter(), LogFormatter) and high > 100 * low:
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(power_of_ten)


def power_of_ten(x: float, place: int = 0) -> str:
    """Return a tick's label.

    Examples:
        >>> power_of_ten(0.001), power_of_ten(10.0), power_of_ten(1.0)
        ('10⁻³', '10', '1')
    """
    exponent = round(np.log10(x))
    return f"{x:g}" if exponent in (0, 1) else "10" + str(exponent).translate(RAISED)


def _key(axes: list[Any], prefix: str) -> str:
    """Return the legend: an SVG element for each label, so that a narrow page can wrap them."""
    elements = []
    for number, (label, handle) in enumerate(legend_of(axes).items()):
        entry = _entry(label, handle)
        width = f'<svg style="width: {REM * entry.get_figwidth():.1f}rem"'
        elements.append(_for_page(_svg(entry), f"{prefix}-{number}").replace("<svg", width, 1))
    return "\n".join(elements)


def _entry(label: str, handle: Any) -> Figure:
    length = len(re.sub(r"[$\\]", "", label))
    figure = Figure(figsize=(min(0.6 + 0.065 * length, SIZE[0]), 0.23))
    look = {"handlelength": 2.6, "fontsize": 8.5, "borderpad": 0.1}
    figure.legend([handle], [label], loc="center left", **look)
    return figure


def svg_file(plate: Plate) -> str:
    """Return a plate as an SVG file of its own."""
    with styled(**RC):
        figure = Figure(figsize=(plate.columns * plate.size[0], plate.rows * plate.size[1]))
        for panel in plate.panels:
            ax = figure.add_axes((0.0, 0.0, 1.0, 1.0), label=str(len(figure.axes)))
            panel.draw(ax)
            _lighten(ax)
        entries = legend_of(figure.axes) if plate.legend else {}
        _place(
            figure, plate, below=LINE * (-(-len(entries) // plate.columns) + 0.5) * bool(entries)
        )
        if entries:
            figure.legend(entries.values(), entries.keys(), loc="lower center", ncols=plate.columns)
        return _file(figure)


def _place(figure: Figure, plate: Plate, below: float) -> None:
    """Give panels their places row by row, and what stands ``below`` them its inches.

    Margins are those of the page: to measure every label first takes as long as to draw.
    """
    columns, each = plate.columns, plate.size[1]
    height = plate.rows * each + below
    figure.set_figheight(height)
    for number, (panel, ax) in enumerate(zip(plate.panels, figure.axes, strict=True)):
        row, column = divmod(number, columns)
        bottom = height - (row + 1) * each + BOTTOM * each
        left, width = column + panel.left, RIGHT - panel.left
        ax.set_position((left / columns, bottom / height, width / columns, HIGH * each / height))


def landscape_file(block: Landscape) -> str:
    """Return the valley in three dimensions as an SVG file of its own."""
    shown = {route: route.path for route in block.routes if route.shown}
    every = np.abs(np.concatenate(list(shown.values()), axis=1))
    u_most, v_most = every.max(axis=1) * 1.05 + 1e-9
    most = 1.1 * float(_loss(*every).max()) + 1e-9
    u = np.linspace(0, u_most, 25)[:, None]
    rim = np.minimum(v_most, np.sqrt(2 * most) / np.maximum(u, 1e-9))  # a level line
    v = rim * np.linspace(-1, 1, 21)
    with styled(**RC):
        figure = Figure(figsize=(6.4, 4.6), layout="constrained")
        ax = figure.add_subplot(projection="3d", computed_zorder=False)
        ax.plot_surface(
            v, u + 0 * v, _loss(u, v), color=style.SKY, alpha=0.25, lw=0.2, edgecolor=style.BLUE
        )
        sizes = reversed(range(len(shown)))
        for larger, (route, (y, x)) in zip(sizes, shown.items(), strict=True):
            way = np.stack([x, y, _loss(y, x)])
            ax.plot(*way, color=route.color, lw=0.9, label=route.label)
            look = {"marker": "o", "color": route.color, "ms": 4 + 3 * larger}  # none hides another
            ax.plot(*way[:, -1:], **look)
            ax.plot(*way[:, :1], **look | {"mfc": "none", "ms": 7 + 3 * larger})
        for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
            axis.set_pane_color(style.GRID, 0.5)
        ax.set(xlabel="v", ylabel="|u|", zlabel="loss")
        ax.view_init(30, -55)
        ax.legend(loc="upper left")
        return _file(figure)


def _loss(u: Array, v: Array) -> Array:
    return np.asarray(u**2 * v**2 / 2)


def _file(figure: Figure) -> str:
    """Return a figure as a file with the rules of dark paper."""
    return _svg(figure, facecolor="white").replace("</style>", f"{_dark_rules()}</style>", 1)


def _dark_rules() -> str:
    """Return CSS that changes each colour of an SVG; what names no colour is ink, such as text."""
    dark = {name: shade for name, (_, shade) in colors.PALETTE.items()} | PAPER
    rules = [
        f'[style*="{part}: {light.lower()}"]{{{part}: {dark[name]} !important}}'
        for light, name in THEMED.items()
        for part in ("fill", "stroke")
    ]
    return f"\n@media (prefers-color-scheme: dark){{svg{{fill: {PAPER['ink']}}}{''.join(rules)}}}"


def _svg(figure: Figure, facecolor: str = "none") -> str:
    text = StringIO()
    figure.savefig(text, format="svg", facecolor=facecolor, metadata=NO_METADATA)
    return text.getvalue()


def _for_page(svg: str, prefix: str) -> str:
    """Return the element alone, its colours as variables, its ids its own."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<!--.*?-->\s*|<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"#[0-9a-fA-F]{6}\b", _variable, svg)
    svg = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    head, rest = svg.split(">", 1)
    head = re.sub(r' (width|height|xmlns:xlink|xmlns|version)="[^"]*"', "", head)
    return f'{head} aria-hidden="true" focusable="false">{rest}'.replace("xlink:href", "href")


def _variable(match: re.Match[str]) -> str:
    name = THEMED.get(match[0].upper())
    return f"var(--{name})" if name else match[0]
