"""The report: one self-contained HTML page, or Markdown, from a store of results.

It reads the store and never trains. A part the store lacks is named with the command that makes it;
files that are no results are named too.
"""

import gc
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mpgd.files import check_place, write_whole
from mpgd_lab.archive import PUBLISHED, pack, unpack
from mpgd_lab.catalogue import catalogue
from mpgd_lab.content.blocks import Page
from mpgd_lab.experiment import Experiment
from mpgd_lab.report import html, markdown, markdown_folder
from mpgd_lab.report.page import build
from mpgd_lab.report.store_contents import StoreContents, read, sort, together
from mpgd_lab.verification import check_folder, published_records

RENDERERS: Final[Mapping[str, Callable[[Page, str], markdown.Files]]] = {
    ".html": lambda page, name: {name: html.render(page)},
    ".md": markdown.render,
    "": markdown_folder.render,
}
UNSEEN: Final = re.compile(  # control characters, surrogates, and what turns the reading direction
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


@dataclass(frozen=True)
class WrittenReport:
    """What a report has become."""

    file: Path  # where it was written
    records: int  # how many finished runs it shows
    missing: tuple[str, ...]  # the sections the store has nothing for
    unusable: tuple[str, ...]  # the files that could not be used
    answer: str  # the first sentence of the page


def write(
    folder: Path | None,
    file: Path,
    studies: Sequence[Experiment] = (),
    published: bool = False,
    data: Path | None = None,
) -> WrittenReport:
    """Write the report of the results in ``folder``.

    Args:
        folder: the folder `mpgd reproduce` wrote to, with the results in its ``runs``; None is the
            results that come with the package.
        file: what to write; ``.html`` is one page, ``.md`` a document with figures beside it in
            ``figures``, a name without an ending a folder of such documents, one for each study.
        studies: experiments beside those of the catalogue, whose sections come last.
        published: show the results that come with the package too, and how many agree.
        data: the folder of data sets that is searched first, to say why a study is not checked.

    Raises:
        ValueError: if the file's name ends otherwise.
        FileNotFoundError: if there are no results, or no folder for the file.
        FileExistsError: if the folder has an index page that is none of results.
    """
    if file.suffix not in RENDERERS:
        raise ValueError(f"a report is an .html or .md file, or a folder, got {file.name!r}")
    if not file.suffix:
        file = _folder(file)
    every = [*catalogue(), *studies]
    contents, checks = _contents(folder, every, published, data)
    shown = ["results"] * (folder is not None) + ["--published"] * (published or folder is None)
    how = f"mpgd report {' '.join(shown)} -o {file.name}"
    check_place(file)
    with _kept():
        page = build(contents, how, every, checks)
        files = RENDERERS[file.suffix](page, file.name)
    for name, text in files.items():
        replace(file.parent / name, text)
    missing = tuple(section.name for section in page.sections if section.is_missing)
    return WrittenReport(
        file,
        len(contents.records),
        missing,
        tuple(map(visible, contents.unusable)),
        visible(page.answer),
    )


def _contents(
    folder: Path | None, studies: Sequence[Experiment], published: bool, data: Path | None
) -> tuple[StoreContents, dict[str, str]]:
    """Return the records of a page, and of every published study whether it was checked."""
    if folder is None:
        return sort(unpack(PUBLISHED), studies), {}
    own = read(folder, studies)
    if not published:
        return own, {}
    known = [study for study in studies if study.name in published_records()]
    checks = {study.name: check_folder(folder, study, data).sentence for study in known}
    every = (record for each in published_records().values() for record in each)
    return together(sort(every, studies), own), checks


def _folder(given: Path) -> Path:
    """Return a folder that pages may be written to, by its own name: ``.`` has none."""
    folder = given.resolve()
    if not folder.name:
        raise ValueError(f"a folder of pages must have a name, got {str(given)!r}")
    index = folder / "index.md"
    if index.is_file() and not index.read_bytes().startswith(f"# {markdown.TITLE}".encode()):
        raise FileExistsError(f"{index} is no page of results; give another folder")
    return folder


def publish(folder: Path, file: Path, published: bool = False) -> int:
    """Write the usable records of ``folder`` to one compressed file and return their number.

    Those of an earlier driver, and of experiments outside of the catalogue, are left out. With
    ``published`` they are added to those that come with the package, which stay as they are.
    """
    check_place(file)
    studies = catalogue()
    contents = read(folder, studies)
    if published:
        contents = together(sort(unpack(PUBLISHED), studies), contents)
    records = [record for study in studies for record in contents[study.name]]
    pack(records, file)
    return len(records)


@contextmanager
def _kept() -> Iterator[None]:
    """Keep the garbage collector from walking over what is there now: figures set it off often."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def replace(file: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never half of it."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, visible(text).encode())
    except OSError as problem:
        raise OSError(f"cannot write {file}: {problem.strerror}") from problem


def visible(text: str) -> str:
    """Return text in which each character that hides or reorders others is a replacement mark."""
    return UNSEEN.sub("\ufffd", text)
