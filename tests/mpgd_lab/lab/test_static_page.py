"""The lab without a server: its files hold the library's numbers, and no folder is overwritten."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from mpgd_lab.cli import main
from mpgd_lab.lab import static_page
from mpgd_lab.lab.settings import Settings
from mpgd_lab.lab.static_page import SOURCES, STOPS, export, grid, page, rounded
from mpgd_lab.lab.wells import wells

EVERYWHERE = static_page.EVERYWHERE | {"gamma": [0.7], "dwell": [20], "steps": [100]}
FEW = {"wells": EVERYWHERE | {"landscape": ["wells"], "force": [1, 2], "decay": [0]}}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_page, "STOPS", FEW)


@pytest.mark.usefixtures("few")
def test_the_files_hold_the_numbers_of_their_settings(tmp_path: Path) -> None:
    size = export(tmp_path / "lab")
    written = [file for file in (tmp_path / "lab").rglob("*") if file.is_file()]
    assert size == sum(file.stat().st_size for file in written)
    names = {file.stem for file in written if file.parent.name == "numbers"}
    noise, push = "0.7_0.5_0_100_plain", "0.7_0.5_0_100_plain_20_0.01"
    assert names == {
        f"orbit_{noise}_20",
        f"sums_{noise}",
        f"wells_{push}_1",
        f"wells_{push}_2",
    }
    found = (tmp_path / "lab" / "numbers" / f"wells_{push}_2.bin").read_bytes()
    expected = wells(Settings(steps=100, force=2), frames=160)
    assert json.loads(gzip.decompress(found)) == rounded(expected, 3)
    shown = (tmp_path / "lab" / "index.html").read_text()
    stops = re.findall(r'<script type="application/json" id="stops">(.*)</script>', shown)
    assert [json.loads(each) for each in stops] == [FEW]


@pytest.mark.usefixtures("few")
def test_a_folder_with_files_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "mine.txt"
    kept.write_text("mine")
    assert main(["lab", "--export", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"mpgd: {tmp_path} must be new or an empty folder\n"
    assert [*tmp_path.iterdir()] == [kept]
    assert main(["lab", "--export", str(tmp_path / "lab")]) == 0
    assert capsys.readouterr().out.startswith(f"the lab is in {tmp_path / 'lab'}")


def test_the_grid_has_all_stops_of_every_landscape_and_all_are_settings() -> None:
    counts = {source: 0 for source in SOURCES}
    for name in grid():
        counts[name.partition("_")[0]] += 1
    assert counts == {"orbit": 9, "sums": 3, "wells": 45, "descent": 54}
    assert all(len(stops["gamma"]) * len(stops["dwell"]) == 9 for stops in STOPS.values())


def test_page_and_files_agree_on_what_numbers_depend_on() -> None:
    script = page()["source.js"].decode()
    listed = re.findall(r"^  (\w+): (\[.*\]),$", script, re.MULTILINE)
    assert {source: json.loads(names) for source, names in listed} == {
        source: list(each.names) for source, each in SOURCES.items()
    }
