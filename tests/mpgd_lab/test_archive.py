"""One compressed file of records: what is kept, what is thinned, and what is refused."""

from __future__ import annotations

import lzma
from dataclasses import replace
from math import nan, pi
from pathlib import Path

import pytest

from mpgd_lab import archive, cli, report
from mpgd_lab.archive import THINNED, pack, unpack
from mpgd_lab.store import Record, Run
from tests import fake_results

RUN = Run("valley", "text", "gd", {"eta": 0.01, "steps": 8000}, seed=3)


def record(curves: dict[str, list[float]], run: Run = RUN) -> Record:
    return Record(run, {"trace": pi, "gap": nan}, curves, 2.5, {"mpgd": "0.1.0"}, "abc")


def test_metrics_come_back_whole_and_curves_thinned(tmp_path: Path) -> None:
    file, long = tmp_path / "records.jsonl.xz", [pi * k for k in range(30)]
    curves = {"step": list(range(30)), "trace": long, "short": [pi, pi]}
    pack([record(curves)], file)
    (found,) = unpack(file)
    assert (found.run, found.run.key, found.seconds) == (RUN, RUN.key, 2.5)
    assert (found.versions, found.commit) == ({"mpgd": "0.1.0"}, "abc")
    assert found.metrics["trace"] == pi
    assert found.metrics["gap"] != found.metrics["gap"]
    assert found.curves["trace"] == [float(f"{x:.6g}") for x in long]
    assert found.curves["short"] == [pi, pi]
    assert found.curves["step"] == list(range(30))
    head = lzma.decompress(file.read_bytes()).decode().splitlines()[0]
    assert THINNED in head
    assert '"records":1' in head


def test_a_curve_that_no_figure_shows_goes_with_its_steps(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl.xz"
    curves = {"step": [0, 1, 2], "train_loss": [3.0, 2.0, 1.0], "accuracy": [50.0, 60.0]}
    pack([record(curves)], file)
    (found,) = unpack(file)
    assert found.curves == {"accuracy": [50.0, 60.0]}


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"plain", "is no file of records"),
        (lzma.compress(b"not JSON\n"), "is no file of records"),
        (lzma.compress(b'{"format": "other"}\n'), "no format 'mpgd-records-1'"),
        (lzma.compress(b'{"format": "mpgd-records-1", "records": 2}\n'), "must hold 2 records"),
        (
            lzma.compress(b'{"format": "mpgd-records-1", "records": 1}\n{"seed": 1}\n'),
            "corrupt: experiment, protocol, scheme, .* missing",
        ),
    ],
)
def test_a_file_that_holds_no_records_is_refused(
    content: bytes, match: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match=match):
        list(unpack(tmp_path / "file"))


def test_without_the_file_the_error_names_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "PUBLISHED", tmp_path / "none.jsonl.xz")
    assert cli.main(["report", "--published", "-o", str(tmp_path / "page.html")]) == cli.FAILED
    said = capsys.readouterr().err
    assert "no published records: " in said
    assert "`mpgd report DIR --publish " in said
    assert not (tmp_path / "page.html").exists()


def test_the_page_of_published_results_is_that_of_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every experiment: what the page shows survives the thinning, but for lines in pictures."""
    monkeypatch.delenv("MPGD_DATA", raising=False)
    monkeypatch.setenv("MPGD_CACHE", str(tmp_path / "no data"))
    names = ("valley", "airfoil", "ecg", "digits", "audit", "limit", "generalization")
    fake_results.fill(tmp_path, names).save(Run("stray", "x", "y", {}, 1), {}, {}, 1.0)
    file = tmp_path / "records.jsonl.xz"
    assert cli.main(["report", str(tmp_path), "--publish", str(file)]) == cli.OK
    assert f"bytes: {file}" in "".join(capsys.readouterr().out.split("\n"))
    monkeypatch.setattr(report, "PUBLISHED", file)
    whole = report.write(tmp_path, tmp_path / "whole.md")
    shown = report.write(None, tmp_path / "published.md")
    assert shown.records == whole.records - 1  # not the stray one
    pages = [written.file.read_text() for written in (whole, shown)]
    first, second = (page[page.index("## The valley") :].splitlines() for page in pages)
    assert "mpgd report --published -o published.md" in pages[1]
    assert [line for line in first if line not in second] == [
        "## Files that could not be used",
        "Records of experiments this page does not know: stray (1).",
    ]


def test_results_are_added_to_the_published_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that both have stays as it was published."""
    first, more, file = tmp_path / "first", tmp_path / "more", tmp_path / "records.jsonl.xz"
    kept = list(fake_results.fill(first, ("digits",)).records())
    assert cli.main(["report", str(first), "--publish", str(file)]) == cli.OK
    monkeypatch.setattr(report, "PUBLISHED", file)
    added = fake_results.fill(more, ("valley",))
    changed = replace(kept[0], metrics=dict.fromkeys(kept[0].metrics, 7.0))
    added.keep(changed)
    options = ["--published", "--publish", str(file)]
    assert cli.main(["report", str(more), *options]) == cli.OK
    records = {record.run.key: record for record in unpack(file)}
    assert len(records) == len(kept) + len(list(added.records())) - 1
    assert records[changed.run.key].metrics == kept[0].metrics != changed.metrics
    assert cli.main(["report", *options]) == cli.USAGE
    assert "adds the results of a folder; name it" in capsys.readouterr().err


def test_the_packages_own_file_is_small_where_it_is_there() -> None:
    assert not archive.PUBLISHED.exists() or archive.PUBLISHED.stat().st_size < 10_000_000


@pytest.mark.parametrize("body", [b"null", b"3", b"[1]", b'{"seed": 1}'], ids=repr)
def test_a_line_that_is_no_record_is_named_with_its_file(tmp_path: Path, body: bytes) -> None:
    file = tmp_path / "records.jsonl.xz"
    head = b'{"format": "mpgd-records-1", "records": 1}\n'
    file.write_bytes(lzma.compress(head + body + b"\n"))
    with pytest.raises(ValueError, match=r"records.jsonl.xz is no file of records: corrupt"):
        list(unpack(file))
