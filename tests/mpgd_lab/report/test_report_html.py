"""The page of a store in which every text is hostile somewhere, and some files are no results."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from mpgd_lab import report
from mpgd_lab.content import blocks as content
from mpgd_lab.report import html
from mpgd_lab.store import Record, Run
from mpgd_lab.studies.airfoil import runs as airfoil
from mpgd_lab.studies.cifar10 import runs as cifar10
from mpgd_lab.studies.cifar10.checkpoint import Checkpoint, Progress
from mpgd_lab.studies.ecg import runs as ecg
from tests import fake_results
from tests.fake_results import PARTS

GOING_ON = next(
    task
    for task in cifar10.tasks("corrected", [7], fake_results.STUDY)
    if task.scheme.startswith("mpgd")
)
HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>`[x](javascript:alert(3))|-->"


class Page(HTMLParser):
    """What a browser would make of the page: its elements, its text and its scripts."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.scripts, self.inside = "", [], ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element."""
        self.elements.append((tag, dict(attrs)))
        self.inside = tag

    def handle_data(self, data: str) -> None:
        """Keep a text."""
        if self.inside == "script":
            self.scripts.append(data)
        elif self.inside != "style":
            self.text += data

    def handle_endtag(self, tag: str) -> None:
        """Leave an element."""
        self.inside = ""

    def all(self, attribute: str) -> list[str]:
        """Return the values of an attribute."""
        return [value for _, attrs in self.elements if (value := attrs.get(attribute))]


def hostile(record: Record) -> list[dict[str, Any]]:
    """Return copies of a record, in each another text replaced; a copy's name fits its content."""
    body = {"format": "mpgd-run-1", **asdict(record.run)}
    body |= {name: getattr(record, name) for name in ("metrics", "curves", "seconds", "versions")}
    changes = [{name: HOSTILE} for name in ("experiment", "protocol", "scheme", "commit")]
    changes += [{"metrics": {**body["metrics"], HOSTILE: 1.0}}]
    changes += [{"curves": {**body["curves"], HOSTILE: [1.0]}}]
    changes += [{"metrics": dict.fromkeys(body["metrics"], HOSTILE)}, {"seconds": HOSTILE}]
    changes += [{"versions": {HOSTILE: HOSTILE}}]
    for name in body["hyperparameters"]:
        changes.append({"hyperparameters": {**body["hyperparameters"], name: HOSTILE}})
    return [{"commit": None} | body | change for change in changes]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    store = fake_results.fill(folder)
    one = {record.run.experiment: record for record in store.records()}
    for record in one.values():
        for number, body in enumerate(hostile(record)):
            run = Run(
                *(body[name] for name in ("experiment", "protocol", "scheme", "hyperparameters")),
                10**6 + number,
            )
            store.path(run).write_text(json.dumps(body | {"seed": run.seed}))
    (store.folder / f"{'0' * 64}.json").write_text('{"format": "mpgd-run-1", ')
    (store.folder / "shopping <b>list.json").write_text('["milk"]')
    (store.folder / "0123-4567.tmp").write_text("half a rec")
    checkpoints = folder / "checkpoints"
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    Checkpoint(GOING_ON, checkpoints, every=0.0).save(Progress(1), model, optimizer)
    (checkpoints / "running.pt").write_bytes(b"\x80\x02")
    (checkpoints / "0123-4567.tmp").write_bytes(b"\x80\x02")
    return folder


@pytest.fixture(scope="module")
def written(folder: Path) -> report.WrittenReport:
    return report.write(folder, folder / "report.html")


@pytest.fixture(scope="module")
def page(written: report.WrittenReport) -> Page:
    return Page(written.file.read_text(encoding="utf-8"))


def test_every_section_has_something_to_show(written: report.WrittenReport, page: Page) -> None:
    assert written.missing == ()
    assert {"summary", "runs", *PARTS, "unfinished", "files"} <= set(page.all("id"))
    assert written.file.stat().st_size < 8e6


def test_no_text_of_a_record_becomes_markup(page: Page) -> None:
    assert HOSTILE in page.text
    assert not [tag for tag, _ in page.elements if tag in ("img", "iframe", "object", "base")]
    assert not [name for _, attrs in page.elements for name in attrs if name.startswith("on")]
    kinds = [attrs.get("type") for tag, attrs in page.elements if tag == "script"]
    assert kinds.count(None) == 1
    assert set(kinds) == {None, "application/json"}
    assert "alert(" not in "".join(page.scripts)


def test_only_the_page_s_own_script_may_run_and_nothing_is_fetched(page: Page) -> None:
    (policy,) = [attrs["content"] for _, attrs in page.elements if attrs.get("http-equiv")]
    assert policy
    assert "default-src 'none'" in policy
    assert re.search(r"script-src 'sha256-[\w+/=]{44}'", policy)
    links = page.all("href") + page.all("src") + page.all("xlink:href")
    assert {link[0] for link in links} == {"#", "d"}  # places of the page, and the empty icon
    assert set(page.all("href")) & {"data:,"}


def test_ids_are_unique_and_every_link_leads_somewhere(page: Page) -> None:
    ids = page.all("id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in page.all("href") if link.startswith("#")} <= set(ids)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("0" * 64 + ".json", "corrupt: not JSON"),
        ("shopping <b>list.json", "foreign: no result file"),
        ("checkpoints/running.pt", "corrupt: no state of a run"),
    ],
)
def test_files_that_are_no_results_are_named(
    written: report.WrittenReport, page: Page, name: str, why: str
) -> None:
    assert name in written.unusable
    assert re.search(re.escape(name) + r"\s*" + re.escape(why), page.text)


def test_what_a_killed_writer_left_is_no_unusable_result(
    written: report.WrittenReport, page: Page
) -> None:
    assert not [name for name in written.unusable if name.endswith(".tmp")]
    assert ".tmp" not in page.text


def test_a_run_with_a_checkpoint_is_unfinished_not_unusable(
    written: report.WrittenReport, page: Page
) -> None:
    assert not [name for name in written.unusable if GOING_ON.key in name]
    assert re.search(
        r"cifar10, with corrected signs, mpgd plain 0.55 beta 0.5, seed 7\s*"
        r"mpgd reproduce cifar10 --seeds 7 --data DIR",
        page.text,
    )


def test_every_printed_number_is_there(page: Page) -> None:
    pairs = [*airfoil.PRINTED.values(), *cifar10.PRINTED.values()]
    printed = [text for pair in pairs for text in pair if text] + list(ecg.PRINTED.values())
    assert len(printed) > 70
    assert not [text for text in printed if text not in page.text]


def test_figures_say_what_they_show_and_follow_the_theme(page: Page) -> None:
    shown = [attrs for _, attrs in page.elements if attrs.get("role") == "img"]
    assert len(shown) > 60
    assert all(attrs["aria-label"] for attrs in shown)
    assert "ECG, mpgd plain 0.6 beta 0.5: change of test accuracy, % by each deviation." in [
        attrs["aria-label"] for attrs in shown
    ]
    styles = " ".join(page.all("style"))
    assert "var(--blue)" in styles
    assert not re.search(r"#[0-9a-fA-F]{6}", styles)


def test_every_heading_of_a_table_is_a_button(page: Page) -> None:
    tags = [tag for tag, attrs in page.elements if attrs.get("aria-sort") or tag == "button"]
    headings = [place for place, tag in enumerate(tags) if tag == "th"]
    assert len(headings) > 100
    assert all(tags[place + 1] == "button" for place in headings)


class Texts(list[str]):
    """Texts that would be markup if they were not escaped, no two alike."""

    def __call__(self) -> str:
        """Return one more."""
        self.append(f"<b>&\"'{len(self)}")
        return self[-1]


def every_block(text: Texts) -> tuple[content.Block, ...]:
    """Return a block of each kind, short and long, drawn and not, whose every text is its own."""
    cell, column = content.Cell, content.Column
    rows = tuple(
        (cell(text()), cell(text(), 1.0), cell(text(), word=text()))
        for _ in range(content.SHORT_TABLE + 1)
    )
    columns = (column(text()), column(text()), column(text(), text()))
    findings = (
        content.Finding(text(), text(), text(), word, text())
        for word in content.WORDS * content.SHORT_TABLE
    )
    reason = text()

    def write(ax: Any) -> None:
        ax.set_title(HOSTILE)

    def fail(ax: Any) -> None:
        raise ValueError(reason)

    return (
        content.Text(text()),
        content.Commands((text(), text())),
        content.Missing(text(), text()),
        content.Table(text(), columns, rows[:1], wordy=True),
        content.Table(text(), columns, rows),
        content.Findings(text(), tuple(findings)),
        content.Plate(text(), text(), (content.Panel(write, text()),)),
        content.Plate(text(), "", (content.Panel(fail, ""),)),
        content.Landscape(text(), text(), (content.Route(text(), HOSTILE, (0.0,), (1.0,)),)),
    )


def test_every_value_that_reaches_a_template_is_escaped() -> None:
    text = Texts()
    blocks = every_block(text)
    assert {type(block) for block in blocks} == set(get_args(content.Block))
    tally = content.Tally(text(), ((text(), 1), (text(), 2)))
    source = html.render(
        content.Page(
            title=text(),
            lead=text(),
            commands=content.Commands((text(),)),
            claims=(content.Claim(text(), text(), (tally,)),),
            conclusions=(text(), text()),
            sections=(content.Section(text(), text(), blocks),),
        )
    )
    page = Page(source)
    values = [value or "" for _, attrs in page.elements for value in attrs.values()]
    shown = "\n".join([page.text, *values])
    assert not [each for each in text if each not in shown]
    assert "<b>" not in source
    names = {name for _, attrs in page.elements for name in attrs}
    assert not [name for name in names if not re.fullmatch(r"[\w:-]+", name)]
