"""A page as Markdown: the same content for the documentation, figures as files beside it.

Text is escaped, so that nothing in a result becomes markup.
"""

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, Final

from mpgd.experiments.content import blocks
from mpgd.experiments.content.tables import findings_table
from mpgd.report.drawing import landscape, whole
from mpgd.report.summary import tally_text

FIGURES: Final = "figures"
CODE: Final = re.compile(r"`([^`<>&\n]+)`")
ICONS: Final = {
    "supported": "✓",
    "contradicted": "✗",
    "mixed": "±",
    "undecided": "–",
    "provisional": "…",
}
Figures = dict[str, str]  # name of the file: SVG
FILES: Final[Any] = {blocks.Plate: whole, blocks.Landscape: landscape}


def render(page: blocks.Page) -> tuple[str, Figures]:
    """Return the document and its figures."""
    figures: Figures = {}
    parts = [
        "# Results and audit",
        *([f"**{_inline(page.answer)}**"] if page.answer else ()),
        _inline(page.lead),
        "Made by",
        _code(page.commands.lines),
        "## What we conclude, plainly",
        f"**{_inline(page.conclusions[0])}**",
        "\n".join(f"- {_inline(text)}" for text in page.conclusions[1:]),
        _claims(page.claims),
    ]
    for section in page.sections:
        parts += _section(section, figures)
    return "\n\n".join(part for part in parts if part) + "\n", figures


def _claims(claims: Sequence[blocks.Claim]) -> str:
    columns = tuple(blocks.Column(title) for title in ("claim of the paper", "setting", "verdict"))
    rows = tuple(
        (blocks.Cell(claim.text), blocks.Cell(tally.setting), blocks.Cell(tally_text(tally)))
        for claim in claims
        for tally in claim.tallies
    )
    return _table(blocks.Table("", columns, rows)) if rows else ""


def _section(section: blocks.Section, figures: Figures) -> Iterator[str]:
    yield f"## {_inline(section.title)}"
    for block in section.blocks:
        yield from _block(block, figures)


def _block(block: blocks.Block, figures: Figures) -> Iterator[str]:
    match block:
        case blocks.Text():
            yield _inline(block.text)
        case blocks.Commands():
            yield _code(block.lines)
        case blocks.Missing():
            yield _inline(block.text)
            yield _code([block.command])
        case blocks.Table():
            yield f"**{_inline(block.caption)}**"
            yield _table(block)
        case blocks.Findings():
            yield _table(findings_table(block))
            yield f"*{_inline(block.rule)}*"
        case blocks.Plate() | blocks.Landscape():
            name = f"results-{block.name}.svg"
            try:
                figures[name] = FILES[type(block)](block)
            except blocks.ODD as problem:
                yield _inline(blocks.undrawn(block, problem).text)
                return
            yield f"![{_inline(block.caption)}]({FIGURES}/{name})"
            yield f"*{_inline(block.caption)}*"


def _table(table: blocks.Table) -> str:
    titles = [(column.group, column.title) for column in table.columns]
    heads = [": ".join(filter(None, pair)) for pair in titles]
    lines = [heads, ["---"] * len(heads), *([_cell(cell) for cell in row] for row in table.rows)]
    escaped = [map(_plain, heads), *lines[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


def _cell(cell: blocks.Cell) -> str:
    verdict = f"{ICONS[cell.word]} {cell.word}" if cell.word else ""
    return " ".join(filter(None, [_plain(cell.text), verdict]))


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    text = escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*_\[\]|~])", r"\\\1", text)


def _inline(text: str) -> str:
    """Return a paragraph's text; what stands between backticks stays code, if it has no markup."""
    parts = enumerate(CODE.split(text))
    return "".join(f"`{part}`" if place % 2 else _spaced(part) for place, part in parts)


def _spaced(text: str) -> str:
    """Return plain text with the blanks at its ends kept."""
    start = " " if text[:1].isspace() else ""
    end = " " if text[-1:].isspace() and text.strip() else ""
    return f"{start}{_plain(text)}{end}"


def _code(lines: Sequence[str]) -> str:
    return "\n".join(f"    {' '.join(line.split())}" for line in lines)
