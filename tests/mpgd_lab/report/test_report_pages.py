"""A report as a folder of pages: the answer first, a page for each study, links that lead on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mpgd_lab import report
from mpgd_lab.catalogue import catalogue
from mpgd_lab.content.blocks import Cell, Column, Finding, Findings, Section, Table, Text
from mpgd_lab.report.markdown import section_parts, table_parts
from mpgd_lab.report.markdown_folder import outcome
from mpgd_lab.report.page import studies_with_section
from mpgd_lab.store import Store
from mpgd_lab.studies.airfoil import runs as airfoil

AIRFOIL = {"gap": 0.1, "released_gap": 0.1}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    store = Store(folder / "runs")
    for run in airfoil.tasks("text", range(1, 10)):
        error = 0.4 + 0.01 * run.seed * (1 + run.scheme.startswith("mpgd"))
        store.save(run, AIRFOIL | {"test_rmse": error}, {}, seconds=1.0)
    return report.write(folder, folder / "results").file


def test_a_study_with_records_has_a_page_and_the_index_leads_to_it(pages: Path) -> None:
    index = (pages / "index.md").read_text()
    assert sorted(file.name for file in pages.glob("*.md")) == ["airfoil.md", "index.md", "runs.md"]
    links = re.findall(r"\]\(([\w-]+\.md)\)", index)
    assert set(links) == {"airfoil.md", "runs.md"}
    claims = [line for line in index.split("## Every claim")[1].splitlines() if line[:2] == "| "]
    assert len(claims) > 2
    assert all("](airfoil.md) |" in line for line in claims[2:])
    others = [study.name for study in studies_with_section(catalogue()) if study.name != "airfoil"]
    assert not [name for name in others if f"(`mpgd reproduce {name}" not in index]


def test_every_page_opens_with_its_answer(pages: Path) -> None:
    """The question of the title on the index, the verdicts of the study on its page."""
    index, study = (
        (pages / f"{name}.md").read_text().split("\n\n") for name in ("index", "airfoil")
    )
    assert index[1].startswith("*Does chaos help gradient descent?* **")
    said = re.search(r"of \d+ comparisons in which the paper says that MPGD is better", study[1])
    assert study[0] == "# Airfoil self-noise"
    assert said
    assert study[2].startswith(
        "- **Airfoil: MPGD has a lower test error than descent.** As the text says:"
    )


def test_figures_lie_beside_the_pages(pages: Path) -> None:
    written = [(pages / name).read_text() for name in ("index.md", "airfoil.md")]
    figures = re.findall(r"\]\((figures/[\w-]+\.svg)\)", "\n".join(written))
    assert figures
    assert {pages / name for name in figures} == {*(pages / "figures").iterdir()}


def test_the_outcome_of_a_study_is_its_own_sentence_or_its_verdicts() -> None:
    found = Findings("", (Finding("Sums tend", "fresh signs", "", "supported", "0.1"),))
    assert outcome(Section("noise", "", (found,))) == "Sums tend. Fresh signs: supported."
    alike = Findings("", (*found.items, Finding("Steps tend", "fresh signs", "", "supported", "")))
    said = "Sums tend; Steps tend. Each: fresh signs: supported."
    assert outcome(Section("noise", "", (alike,))) == said
    told = Section("audit", "", (Text("how"), found, Text("none makes a gain", answer=True)))
    assert outcome(told) == "none makes a gain"
    assert [*section_parts(told, {})][:2] == [
        "**none makes a gain**",
        "- **Sums tend.** Fresh signs: supported.",
    ]


def test_groups_of_columns_are_tables_of_their_own_and_long_ones_are_folded() -> None:
    columns = (Column("scheme"), *(Column(name, group) for group in "ab" for name in ("x", "y")))
    rows = [tuple(map(Cell, (f"row {n}", "1", "2", "", ""))) for n in range(7)]
    rows[0] = tuple(map(Cell, ("row 0", "1", "2", "3", "4")))
    first, *rest, last = table_parts(Table("a < b", columns, tuple(rows)))
    assert first == '<details markdown="1"><summary>a &lt; b (7 rows)</summary>'
    assert last == "</details>"
    assert rest[0] == "**a**"
    assert rest[1].count("\n") == 8
    assert rest[2:] == ["**b**", "| scheme | x | y |\n| --- | --- | --- |\n| row 0 | 3 | 4 |"]


def test_pages_are_written_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder ``.`` has no name of its own; its pages once went to the root of all files."""
    (tmp_path / "runs").mkdir()
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.chdir(own)
    report.write(tmp_path, Path("."))
    assert (own / "index.md").read_text().startswith("# Results and audit")
    report.write(tmp_path, Path("."))  # its own pages are replaced
    with pytest.raises(ValueError, match="must have a name, got '/'"):
        report.write(tmp_path, Path("/"))


def test_no_other_index_page_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    index = tmp_path / "site" / "index.md"
    index.parent.mkdir()
    index.write_text("my notes")
    with pytest.raises(FileExistsError, match=r"index.md is no page of results"):
        report.write(tmp_path, index.parent)
    assert index.read_text() == "my notes"
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cannot write"):
        report.write(tmp_path, tmp_path / "file")
