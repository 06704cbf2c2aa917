"""A page as one HTML file that needs nothing else: no network, no other file.

The templates in ``templates`` escape every text, and the page's own policy lets no script run but
the one in it, known by its hash.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from itertools import groupby
from math import isfinite
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from mpgd_lab.content import blocks, colors
from mpgd_lab.content.tables import findings_table
from mpgd_lab.report.folding import is_answer, visible_blocks
from mpgd_lab.report.summary import by_headline, tiles
from mpgd_lab.report.svg import THEMED, page_elements

Call = tuple[str, tuple[Any, ...]]  # a macro of blocks.html, and what it is given


def render(page: blocks.Page) -> str:
    """Return the page as HTML."""
    script = _own("page.js")
    counted, shown = tiles(page.claims)
    return TEMPLATES.get_template("page.html").render(
        page=page,
        tiles=shown,
        overview=_call(page.overview, "overview") if page.overview else None,
        counted=counted,
        sections=[(section, *_laid(section)) for section in page.sections],
        style=Markup(colors.stylesheet()) + _own("page.css"),
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _own(name: str) -> Markup:
    """Return a file of this package, to stand in the page as it is."""
    return Markup(files(__package__).joinpath(name).read_text("utf-8"))


def _laid(section: blocks.Section) -> tuple[list[Call], list[Call], str]:
    """Return what a section shows at once, what it shows when it is asked, and what that is.

    At once: what is missing, the answer, one paragraph if it is short, one figure.
    """
    name = escape(section.name)  # it becomes a part of the ids in the drawings
    calls = [(block, _call(block, f"{name}-{n}")) for n, block in enumerate(section.blocks)]
    first = visible_blocks(section.blocks)
    shown = [call for block in first for own, call in calls if own is block]
    counted = [
        ("counted", (call[1][1],)) for own, call in calls if isinstance(own, blocks.Findings)
    ]
    told = [block for block in first if not isinstance(block, blocks.Missing)]
    place = len(first) - len(told) + sum(is_answer(block) for block in told)
    rest = [(own, call) for own, call in calls if not any(own is block for block in first)]
    return [*shown[:place], *counted, *shown[place:]], [call for _, call in rest], _named(rest)


def _named(rest: Sequence[tuple[blocks.Block, Call]]) -> str:
    """Return in words what is folded."""
    kinds = {
        "all verdicts": blocks.Findings,
        "figure": blocks.Plate | blocks.Landscape,
        "table": blocks.Table,
        "paragraph": blocks.Text,
    }
    said = []
    for word, kind in kinds.items():
        count = sum(isinstance(block, kind) for block, _ in rest)
        if count:
            plural = "s" if count > 1 else ""
            said.append(word if word.startswith("all") else f"{count} {word}{plural}")
    return ", ".join(said)


def _call(block: blocks.Block, name: str) -> Call:
    """Return the macro that shows a block, with what has to be computed or drawn for it."""
    match block:
        case blocks.Findings():
            return "findings", (block, by_headline(block.items), findings_table(block))
        case blocks.Plate() | blocks.Landscape():
            try:
                return _figure(block, name)
            except blocks.RECORD_ERRORS as problem:
                return "text", (blocks.figure_problem(block, problem),)
    return type(block).__name__.lower(), (block,)


def _figure(block: blocks.Plate | blocks.Landscape, name: str) -> Call:
    if isinstance(block, blocks.Landscape):
        return "landscape", (block, [_route(route) for route in block.routes])
    alts = [*(panel.alt for panel in block.panels), "Legend of these panels."]
    return "plate", (block, list(zip(alts, map(Markup, page_elements(block, name)), strict=False)))


def _route(route: blocks.Route) -> dict[str, Any]:
    """Return a route as the page's script reads it."""
    color = THEMED.get(route.color.upper(), "ink")
    return {"u": _rounded(route.u, 4), "v": _rounded(route.v, 5), "color": color}


def _rounded(values: Iterable[float], digits: int) -> list[float | None]:
    """Return numbers as JSON has them: what is not finite is null."""
    return [round(x, digits) if isfinite(x) else None for x in values]


def _inline(text: str) -> Markup:
    """Return escaped text; what stands between backticks is code.

    Examples:
        >>> _inline("`a < b` & c")
        Markup('<code>a &lt; b</code> &amp; c')
    """
    escaped = str(escape(text))  # as Markup it would escape the tags, too
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", escaped))


def _whole(text: str) -> Markup:
    """Return escaped text in whose small numbers no line ends.

    Examples:
        >>> _whole("p < 2e-05")
        Markup('p &lt; <span class="number">2e-05</span>')
    """
    return Markup(re.sub(r"\d[\d.]*e-\d+", r'<span class="number">\g<0></span>', str(escape(text))))


def _groups(columns: Sequence[blocks.Column]) -> list[tuple[str, int]]:
    """Return the title of each run of columns that stand under one title, and how many they are."""
    runs = groupby(columns, key=lambda column: column.group)
    return [(title, len(list(members))) for title, members in runs]


def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {"inline": _inline, "whole": _whole, "groups": _groups}
    templates.globals["WORDS"] = blocks.WORDS
    templates.policies["json.dumps_kwargs"] = {"allow_nan": False}
    return templates


TEMPLATES: Final = _templates()
