"""A page as Markdown: the same content for the documentation, figures as files beside it.

Each section begins with its answer; long tables are folded. Text is escaped, so that nothing in a
result becomes markup.
"""

import re
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Any, Final

from mpgd_lab.content import blocks
from mpgd_lab.content.tables import findings_table
from mpgd_lab.report.folding import folded_blocks, is_answer, visible_blocks
from mpgd_lab.report.summary import answer, collect_claims, is_compared, spoken
from mpgd_lab.report.svg import landscape_file, svg_file

TITLE: Final = "Results and audit"
FIGURES: Final = "figures"
CODE: Final = re.compile(r"`([^`<>&\n]+)`")
ICONS: Final = {
    "supported": "✓",
    "contradicted": "✗",
    "mixed": "±",
    "undecided": "–",
    "provisionally supported": "✓…",
    "provisionally contradicted": "✗…",
    "provisionally mixed": "±…",
}
Files = dict[str, str]  # name, from where the report is written: text
DRAWERS: Final[Any] = {blocks.Plate: svg_file, blocks.Landscape: landscape_file}


def render(page: blocks.Page, name: str) -> Files:
    """Return the document called ``name``, and its figures."""
    files: Files = {}
    parts = [
        f"# {TITLE}",
        bold(page.answer),
        inline(page.lead),
        *overview_parts(page, files),
        "Made by",
        code(page.commands.lines),
        "## What we conclude, plainly",
        bold(page.conclusions[0]),
        "\n".join(f"- {inline(text)}" for text in page.conclusions[1:]),
    ]
    for section in page.sections:
        parts += [f"## {inline(section.title)}", *section_parts(section, files)]
    return files | {name: document(parts)}


def overview_parts(page: blocks.Page, files: Files) -> list[str]:
    """Return the picture at the top; its file is added to ``files``."""
    return list(_block(page.overview, files)) if page.overview else []


def document(parts: Sequence[str]) -> str:
    """Return paragraphs as one text."""
    return "\n\n".join(filter(None, parts)) + "\n"


def section_parts(section: blocks.Section, files: Files) -> Iterator[str]:
    """Yield the paragraphs of a section, the answer first; its figures are added to ``files``."""
    if section.note:
        yield inline(section.note)
    yield from answer_parts(section)
    for block in visible_blocks(section.blocks):
        if not is_answer(block):
            yield from _block(block, files)
    for block in folded_blocks(section.blocks):
        yield from _block(block, files)


def answer_parts(section: blocks.Section) -> Iterator[str]:
    """Yield what came out of a study: a sentence, and the verdicts on each claim in words."""
    claims = collect_claims([section])
    yield from map(bold, section.answers)
    if not section.answers and is_compared(claims):
        yield f"*Does chaos help here?* {bold(answer(claims))}"
    yield "\n".join(f"- {bold(f'{one.text}.')} {inline(spoken(one))}." for one in claims)


def _block(block: blocks.Block, files: Files) -> Iterator[str]:
    match block:
        case blocks.Text():
            yield inline(block.text)
        case blocks.Commands():
            yield code(block.lines)
        case blocks.Missing():
            yield inline(block.text)
            yield code([block.command])
        case blocks.Table():
            yield from table_parts(block)
        case blocks.Findings():
            yield from table_parts(findings_table(block))
            yield f"*{inline(block.rule)}*"
        case blocks.Plate() | blocks.Landscape():
            name = f"{FIGURES}/{block.name}.svg"
            try:
                files[name] = DRAWERS[type(block)](block)
            except blocks.RECORD_ERRORS as problem:
                yield inline(blocks.figure_problem(block, problem).text)
                return
            yield f"![{inline(block.caption)}]({name})"
            yield f"*{inline(block.caption)}*"


def table_parts(table: blocks.Table) -> Iterator[str]:
    """Yield a table, or one for each group of its columns; it is folded where it is long."""
    if table.is_long:
        rows = f"{len(table.rows)} rows"
        yield f'<details markdown="1"><summary>{_safe(table.caption)} ({rows})</summary>'
    else:
        yield bold(table.caption)
    for title, part in _by_group(table):
        yield bold(title)
        yield _table(part)
    if table.is_long:
        yield "</details>"


def _by_group(table: blocks.Table) -> Iterator[tuple[str, blocks.Table]]:
    """Yield the columns of each group beside those that all share, without empty rows."""
    places = {
        group: [place for place, _ in own]
        for group, own in groupby(enumerate(table.columns), lambda pair: pair[1].group)
    }
    groups = {title: own for title, own in places.items() if title and len(own) > 1}
    shared = [place for title, own in places.items() if title not in groups for place in own]
    for title, own in (groups or {"": []}).items():
        rows = [row for row in table.rows if not own or any(row[place].text for place in own)]
        chosen = [*shared, *own]
        columns = tuple(blocks.Column(table.columns[place].title) for place in chosen)
        kept = tuple(tuple(row[place] for place in chosen) for row in rows)
        yield title, blocks.Table(table.caption, columns, kept)


def _table(table: blocks.Table) -> str:
    lines = [
        [plain(column.title) for column in table.columns],
        ["---"] * len(table.columns),
        *([_cell(cell) for cell in row] for row in table.rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(cell: blocks.Cell) -> str:
    verdict = f"{ICONS[cell.word]} {cell.word}" if cell.word else ""
    return " ".join(filter(None, [plain(cell.text), verdict]))


def bold(text: str) -> str:
    """Return a text in bold, or nothing."""
    return f"**{inline(text)}**" if text else ""


def _safe(text: str) -> str:
    """Return a text of one line in which nothing is a tag."""
    return escape(" ".join(text.split()), quote=False)


def plain(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*_\[\]|~])", r"\\\1", _safe(text))


def inline(text: str) -> str:
    """Return a paragraph's text; what stands between backticks stays code, if it has no markup."""
    parts = enumerate(CODE.split(text))
    return "".join(f"`{part}`" if place % 2 else _spaced(part) for place, part in parts)


def _spaced(text: str) -> str:
    """Return plain text with the blanks at its ends kept."""
    start = " " if text[:1].isspace() else ""
    end = " " if text[-1:].isspace() and text.strip() else ""
    return f"{start}{plain(text)}{end}"


def code(lines: Sequence[str]) -> str:
    """Return lines of a shell."""
    return "\n".join(f"    {' '.join(line.split())}" for line in lines)
