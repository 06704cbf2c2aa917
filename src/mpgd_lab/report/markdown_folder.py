"""A report as a folder of Markdown pages: an index with the answer, and a page for each study.

    index.md      the question answered, a line for each study, every claim with its verdicts
    NAME.md       one study: its answer, its figures, its tables
    runs.md       what was run, with what, and how to run it
    figures/      what the pages show

A study that the store lacks has no page; the index names the command that runs it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from mpgd_lab.content import blocks
from mpgd_lab.report import markdown
from mpgd_lab.report.markdown import Files, bold, code, document, inline
from mpgd_lab.report.summary import answer, collect_claims, is_compared, spoken, tally_text

INDEX: Final = "index.md"
RUNS: Final = "runs.md"
PILL: Final = re.compile(r"\b(provisionally )?(supported|contradicted|mixed|undecided)\b")
OTHERS: Final = ("runs", "unfinished", "files")  # sections that are no study


def render(page: blocks.Page, name: str) -> Files:
    """Return the files of the folder ``name``."""
    studies = [section for section in page.sections if section.name not in OTHERS]
    shown = [section for section in studies if not section.is_missing]
    files: Files = {}
    for section in shown:
        parts = [f"# {inline(section.title)}", *markdown.section_parts(section, files)]
        files[f"{section.name}.md"] = document(parts)
    lacking = [section for section in studies if section.is_missing]
    picture = markdown.overview_parts(page, files)
    index = document([*_index(page, shown, lacking, picture)])
    runs = document([*_runs(page, files)])
    placed = {INDEX: index, **files, RUNS: runs}
    return {f"{name}/{file}": text for file, text in placed.items()}


def _index(
    page: blocks.Page,
    shown: Sequence[blocks.Section],
    lacking: Sequence[blocks.Section],
    picture: Sequence[str],
) -> Iterator[str]:
    yield f"# {markdown.TITLE}"
    yield f"*{inline(page.title)}* {bold(page.answer)}"
    yield inline(page.lead)
    yield from picture
    yield inline(page.conclusions[0])
    columns = (blocks.Column("study"), blocks.Column("what came out"))
    yield _linked(columns, [(_link(section), inline(outcome(section))) for section in shown])
    yield "## Every claim"
    yield _claims(page.claims)
    yield f"[What was run, and with what]({RUNS}) has the commands that made all of this."
    if lacking:
        names = ", ".join(f"{section.title} (`{_command(section)}`)" for section in lacking)
        yield inline(f"Not in these results: {names}.")


def _link(section: blocks.Section) -> str:
    return f"[{inline(section.title)}]({section.name}.md)"


def _linked(columns: Sequence[blocks.Column], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose cells are Markdown already."""
    lines = [[column.title for column in columns], ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def outcome(section: blocks.Section) -> str:
    """Return in a sentence or two what came out of a study."""
    if section.answers:
        return " ".join(section.answers)
    claims = collect_claims([section])
    if is_compared(claims):
        return answer(claims)
    verdicts = {spoken(one) for one in claims}
    if len(verdicts) == 1 < len(claims):
        every, each = "; ".join(one.text for one in claims), verdicts.pop()
        return f"{every}. Each: {each[:1].lower()}{each[1:]}."
    return " ".join(f"{one.text}. {spoken(one)}." for one in claims) or "No verdict yet."


def _command(section: blocks.Section) -> str:
    return next(block.command for block in section.blocks if isinstance(block, blocks.Missing))


def _claims(claims: Sequence[blocks.Claim]) -> str:
    """Return a table with the verdicts on each claim, counted for each setting.

    A claim is a link to the page whose tables it rests on.
    """
    columns = [blocks.Column(title) for title in ("claim of the paper", "setting", "verdict")]
    rows = [
        [
            f"[{inline(claim.text)}]({claim.section}.md)",
            inline(tally.setting),
            PILL.sub(_pill, inline(tally_text(tally))),
        ]
        for claim in claims
        for tally in claim.tallies
    ]
    return _linked(columns, rows)


def _pill(verdict: re.Match[str]) -> str:
    """Return a verdict as the site colours it; elsewhere it is plain text."""
    return f'<span class="verdict {verdict[2]}">{verdict[0]}</span>'


def _runs(page: blocks.Page, files: Files) -> Iterator[str]:
    first, *rest = [section for section in page.sections if section.name in OTHERS]
    yield f"# {inline(first.title)}"
    yield "Made by"
    yield code(page.commands.lines)
    yield from markdown.section_parts(first, files)
    for section in rest:
        yield f"## {inline(section.title)}"
        yield from markdown.section_parts(section, files)
