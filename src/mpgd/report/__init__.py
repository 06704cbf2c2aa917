"""The report: one self-contained HTML page or Markdown document from a store of results.

It reads the store and never trains. A part the store lacks is named with the command that makes it;
files that are no results are named too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mpgd.report import html, markdown
from mpgd.report.page import build
from mpgd.report.shelf import read


@dataclass(frozen=True)
class Written:
    """What a report has become.

    Attributes:
        file: where it was written.
        records: how many finished runs it shows.
        missing: the sections the store has nothing for.
        unusable: the files that could not be used.
    """

    file: Path
    records: int
    missing: tuple[str, ...]
    unusable: tuple[str, ...]


def write(folder: Path, file: Path) -> Written:
    """Write the report of the results in ``folder``.

    Args:
        folder: the folder `mpgd reproduce` wrote to, with the results in its ``runs``.
        file: what to write; ``.html`` is one page, ``.md`` a document with figures beside it in
            ``figures``.

    Raises:
        ValueError: if the file's name ends otherwise.
        FileNotFoundError: if there are no results, or no folder for the file.
    """
    if file.suffix not in (".html", ".md"):
        raise ValueError(f"a report is written as .html or .md, got {file.name!r}")
    shelf = read(folder)
    if not file.parent.is_dir():
        raise FileNotFoundError(f"cannot write {file}: there is no folder {file.parent}")
    page = build(shelf, file.name)
    if file.suffix == ".html":
        replace(file, html.render(page))
    else:
        document, figures = markdown.render(page)
        (file.parent / markdown.FIGURES).mkdir(exist_ok=True)
        for name, svg in figures.items():
            replace(file.parent / markdown.FIGURES / name, svg)
        replace(file, document)
    missing = tuple(section.name for section in page.sections if section.is_missing)
    return Written(file, len(shelf.records), missing, tuple(shelf.unusable))


def replace(file: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never half of it."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)
