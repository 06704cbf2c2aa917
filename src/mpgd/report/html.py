"""A page as one HTML file that needs nothing else: no network, no other file.

Every text is escaped, and the page's own policy lets no script run but the one in it, known by its
hash.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from math import isfinite
from typing import Final

from mpgd.experiments.content.blocks import (
    ODD,
    WORDS,
    Block,
    Cell,
    Claim,
    Column,
    Commands,
    Findings,
    Landscape,
    Missing,
    Page,
    Plate,
    Section,
    Table,
    Tally,
    Text,
    undrawn,
)
from mpgd.experiments.content.tables import findings_table
from mpgd.report.drawing import THEMED, themed
from mpgd.report.summary import MIXED, by_headline, verdicts

ICONS: Final = {
    "supported": '<path d="M3.5 8.5l3 3 6-7"/>',
    "contradicted": '<path d="M4 4l8 8M12 4l-8 8"/>',
    "undecided": '<path d="M3.5 8h9"/>',
}


def render(page: Page) -> str:
    """Return the page as HTML."""
    style, script = (files(__package__).joinpath(name).read_text("utf-8")
                     for name in ("page.css", "page.js"))  # fmt: skip
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    policy += f"script-src 'sha256-{digest}'"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escape(page.title)} · mpgd</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
{_symbols()}
<header class="top"><a class="brand" href="#summary">mpgd <span>report</span></a>
<button type="button" id="theme" hidden>Theme: system</button></header>
<div class="layout">
{_nav(page.sections)}
<main id="content" tabindex="-1">
{_summary(page)}
{"".join(_section(section) for section in page.sections)}
</main>
</div>
<script>{script}</script>
</body>
</html>
"""


def _symbols() -> str:
    icons = "".join(
        f'<symbol id="i-{word}" viewBox="0 0 16 16">{path}</symbol>' for word, path in ICONS.items()
    )
    return f'<svg class="hidden" aria-hidden="true">{icons}</svg>'


def _nav(sections: Iterable[Section]) -> str:
    links = "".join(
        f'<li><a href="#{escape(s.name)}"{_faded(s)}>{escape(s.title)}</a></li>' for s in sections
    )
    return (
        f'<nav aria-label="Sections"><ol><li><a href="#summary">Summary</a></li>{links}</ol></nav>'
    )


def _faded(section: Section) -> str:
    return ' class="absent" title="not in this store"' if section.is_missing else ""


# The summary --------------------------------------------------------------------------------------


def _summary(page: Page) -> str:
    claims = "".join(_claim(claim) for claim in page.claims)
    said = "".join(f"<li>{_inline(text)}</li>" for text in page.conclusions[1:])
    plain = (
        f"<details><summary>The same in words</summary><ul>{said}</ul></details>" if said else ""
    )
    return f"""<section id="summary">
<h1>{escape(page.title)}</h1>
<p class="lead">{_inline(page.lead)}</p>
{_tiles(page.claims)}
<p class="overall">{_inline(page.conclusions[0])}</p>
<ul class="claims">{claims}</ul>
{plain}
<details><summary>How this page was made</summary>{_commands(page.commands)}</details>
</section>
"""


def _tiles(claims: Sequence[Claim]) -> str:
    """Return how many claims ended with each verdict, as the paper states them."""
    counts = dict.fromkeys((*WORDS, MIXED), 0) | verdicts(claims, "stated")
    tiles = "".join(
        f'<li class="{word}"><strong>{count}</strong>{_chip(word)}</li>'
        for word, count in counts.items()
    )
    return f'<ul class="tiles" aria-label="Claims as stated, by verdict">{tiles}</ul>'


def _claim(claim: Claim) -> str:
    link = f'<a href="#{escape(claim.section)}">{escape(claim.text)}</a>'
    return f"<li>{link}{_settings(claim.tallies)}</li>"


def _settings(found: Iterable[Tally]) -> str:
    pairs = "".join(
        f'<div class="setting"><dt>{escape(tally.setting)}</dt><dd>{_tally(tally)}</dd></div>'
        for tally in found
    )
    return f"<dl>{pairs}</dl>"


def _tally(tally: Tally) -> str:
    total = sum(count for _, count in tally.counts)
    return " ".join(
        _chip(word, f" {count} of {total}" if total > 1 else "") for word, count in tally.counts
    )


def _chip(word: str, more: str = "") -> str:
    known = word if word in WORDS else "undecided"
    icon = f'<svg aria-hidden="true"><use href="#i-{known}"/></svg>'
    return f'<span class="verdict {known}">{icon}{escape(word + more)}</span>'


# Sections -----------------------------------------------------------------------------------------


def _section(section: Section) -> str:
    body = "".join(_block(block, f"{section.name}-{n}") for n, block in enumerate(section.blocks))
    name = escape(section.name)
    link = f'<a class="anchor" href="#{name}" aria-label="Link to this section">#</a>'
    return f'<section id="{name}"><h2>{escape(section.title)} {link}</h2>\n{body}</section>\n'


def _block(block: Block, name: str) -> str:
    match block:
        case Text():
            return f"<p>{_inline(block.text)}</p>\n"
        case Commands():
            return _commands(block)
        case Missing():
            return (
                f'<div class="missing"><p>{_inline(block.text)}</p>'
                f"<pre><code>{escape(block.command)}</code></pre></div>\n"
            )
        case Table():
            return _table(block)
        case Findings():
            return _findings(block)
        case Plate() | Landscape():
            try:
                return _plate(block, name) if isinstance(block, Plate) else _landscape(block)
            except ODD as problem:
                return _block(undrawn(block, problem), name)


def _findings(block: Findings) -> str:
    """Return the verdicts: counted for each claim, then one by one, then the rule."""
    verdicts = findings_table(block)
    counted = "".join(
        f"<li><strong>{escape(headline)}</strong>{_settings(found)}</li>"
        for headline, found in by_headline(block.items).items()
    )
    strip = f'<ul class="claims">{counted}</ul>' if verdicts.is_long else ""
    return f'{strip}{_table(verdicts)}<p class="rule">{_inline(block.rule)}</p>\n'


def _inline(text: str) -> str:
    """Return escaped text; what stands between backticks is code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _commands(block: Commands) -> str:
    return f"<pre><code>{escape(chr(10).join(block.lines))}</code></pre>\n"


def _table(table: Table) -> str:
    caption = escape(table.caption)
    body = "".join(f"<tr>{_row(row)}</tr>" for row in table.rows)
    heads = "".join(map(_heading, table.columns))
    wordy = ' class="wordy"' if table.wordy else ""
    box = (
        f'<div class="scroll" role="region" aria-label="{caption}" tabindex="0"><table{wordy}>'
        f"<caption><span>{_inline(table.caption)}</span></caption><thead>{_groups(table.columns)}"
        f"<tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>\n"
    )
    if not table.is_long:
        return box
    said = f"{_inline(table.caption)} <small>{len(table.rows)} rows</small>"
    return f"<details><summary>{said}</summary>{box}</details>\n"


def _groups(columns: Sequence[Column]) -> str:
    if not any(column.group for column in columns):
        return ""
    cells = []
    for title, members in groupby(columns, key=lambda column: column.group):
        count = len(list(members))
        scope = ' scope="colgroup"' if title else ""
        tag = "th" if title else "td"
        cells.append(f'<{tag} colspan="{count}"{scope}>{escape(title)}</{tag}>')
    return f'<tr class="groups">{"".join(cells)}</tr>'


def _heading(column: Column) -> str:
    return (
        f'<th scope="col" aria-sort="none"><button type="button">{escape(column.title)}'
        "</button></th>"
    )


def _row(row: Sequence[Cell]) -> str:
    first, *rest = row
    head = f'<th scope="row"{_order(first)}>{escape(first.text)}</th>'
    return head + "".join(f"<td{_order(cell)}>{_content(cell)}</td>" for cell in rest)


def _order(cell: Cell) -> str:
    return "" if cell.order is None else f' data-order="{cell.order!r}"'


def _content(cell: Cell) -> str:
    if cell.word is None:
        return escape(cell.text)
    text = f"<span>{escape(cell.text)}</span> " if cell.text else ""
    return f"{text}{_chip(cell.word)}"


# Figures ------------------------------------------------------------------------------------------


def _plate(plate: Plate, name: str) -> str:
    alts = [*(panel.alt for panel in plate.panels), "Legend of these panels."]
    panels = [
        f'<div class="panel" role="img" aria-label="{escape(alt)}">{svg}</div>'
        for alt, svg in zip(alts, themed(plate, name), strict=False)
    ]
    return (
        f'<figure class="plate" id="figure-{escape(plate.name)}"><div class="panels">'
        f"{''.join(panels)}</div><figcaption>{_inline(plate.caption)}</figcaption></figure>\n"
    )


def _landscape(block: Landscape) -> str:
    """Return a canvas that the page's script draws on, its data and its controls."""
    routes = [
        {"u": _rounded(r.u, 4), "v": _rounded(r.v, 5),
         "color": THEMED.get(r.color.upper(), "ink")}
        for r in block.routes
    ]  # fmt: skip
    data = json.dumps(routes, allow_nan=False).replace("<", "\\u003c")
    boxes = "".join(
        f'<label><input type="checkbox" data-route="{n}"{" checked" if r.shown else ""}>'
        f'<i style="background:var(--{THEMED.get(r.color.upper(), "ink")})"></i>'
        f"{escape(r.label)}</label>"
        for n, r in enumerate(block.routes)
    )
    slider = '<label>steps shown <input type="range" min="1" max="100" value="100"></label>'
    said = (
        f"{block.caption} Drag, or use the arrow keys, to turn it; untick a path to see the others "
        "closer."
    )
    return f"""<figure class="landscape" id="figure-{escape(block.name)}">
<canvas tabindex="0" role="img" aria-label="{escape(said)}"></canvas>
<script type="application/json">{data}</script>
<div class="controls">{boxes}{slider}</div>
<figcaption>{_inline(said)}</figcaption>
</figure>
"""


def _rounded(values: Iterable[float], digits: int) -> list[float | None]:
    """Return numbers as JSON has them: what is not finite is null."""
    return [round(x, digits) if isfinite(x) else None for x in values]
