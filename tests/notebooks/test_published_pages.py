"""The pages of docs/results/ are those of the records that come with the package."""

from __future__ import annotations

from pathlib import Path

from mpgd_lab import report

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_the_pages_of_results_are_those_of_the_published_records(tmp_path: Path) -> None:
    """Pictures are compared by name: their last digits depend on the machine."""
    report.write(None, tmp_path / "results")
    written, kept = (
        {one.relative_to(folder): one for one in folder.rglob("*.*")}
        for folder in (tmp_path / "results", RESULTS)
    )
    assert written.keys() == kept.keys()
    for name, file in written.items():
        assert name.suffix == ".svg" or file.read_text() == kept[name].read_text(), name
