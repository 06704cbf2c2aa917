"""A store in which some records are odd: each costs itself alone, and is named."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from mpgd_lab import report
from mpgd_lab.catalogue import catalogue, load
from mpgd_lab.content.blocks import Block
from mpgd_lab.report import store_contents
from mpgd_lab.store import Run, Store
from mpgd_lab.studies.cifar10 import runs as cifar10
from mpgd_lab.studies.valley import runs as valley
from tests import fake_results

HUGE = 10**400
TICKED = "evil`\n\n<script>alert(1)</script>\n\n`x"
UNSEEN = "\x1b[31m\x9b\x7f\u202eevil\u2066\u200f\ud800"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    fake_results.fill(folder, ("noise", "valley", "digits"))
    return folder


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Store:
    shutil.copytree(sound / "runs", tmp_path / "runs")
    return Store(tmp_path / "runs", lambda text: None)


def runs(store: Store) -> dict[str, list[Run]]:
    """Return the runs of every experiment, or of every part of it."""
    held: dict[str, list[Run]] = {}
    for record in store.records():
        part = record.run.hyperparameters.get("part", "")
        held.setdefault(f"{record.run.experiment} {part}".strip(), []).append(record.run)
    return held


def read(folder: Path) -> store_contents.StoreContents:
    return store_contents.read(folder, catalogue())


def spoil(store: Store, run: Run, change: dict[str, Any]) -> Path:
    """Change the file of a run, and its name if need be."""
    body = json.loads(store.path(run).read_text()) | change
    store.path(run).unlink()
    path = store.path(Run.of(body))
    path.write_text(json.dumps(body))
    return path


RECORD_ERRORS: list[tuple[str, dict[str, Any], str]] = [
    ("valley", {"metrics": {}}, "corrupt: trace missing in its metrics"),
    ("valley", {"metrics": None}, "corrupt: metrics must not be None"),
    ("valley", {"metrics": [1.0]}, "corrupt: metrics must not be [1.0]"),
    ("valley", {"metrics": {"trace": "1"}}, "corrupt: 'trace' of its metrics is no number"),
    ("valley", {"metrics": {"trace": None}}, "corrupt: 'trace' of its metrics is no number"),
    ("valley", {"metrics": {"trace": [1.0]}}, "corrupt: 'trace' of its metrics is no number"),
    ("valley", {"metrics": {"trace": HUGE}}, "corrupt: 'trace' of its metrics is no number"),
    ("valley", {"curves": {"trace": HUGE}}, "'trace' of its curves is no list of numbers"),
    ("valley", {"curves": {"trace": [HUGE]}}, "'trace' of its curves is no list of numbers"),
    ("valley", {"curves": {"trace": 3.0}}, "'trace' of its curves is no list of numbers"),
    ("valley", {"curves": {"step": [0], "trace": [[1.0]]}}, "step, trace of its curves must be"),
    ("valley", {"curves": {"step": [0], "trace": [1.0, 2.0]}}, "must be numbers in lists of one"),
    ("valley", {"curves": {"step": [], "trace": []}}, "must be numbers in lists of one length"),
    ("valley landscape", {"curves": {"u": [1.0, None], "v": [0, 0]}}, "'u' of its curves is no"),
    ("valley", {"curves": {"trace": [1.0]}}, "corrupt: step missing in its curves"),
    ("valley landscape", {"curves": {}}, "corrupt: u, v missing in its curves"),
    ("valley landscape", {"curves": {"u": [1.0], "v": [0, 0]}}, "u, v of its curves must be"),
    ("digits", {"seconds": None}, "corrupt: seconds must not be None"),
    ("digits", {"seconds": "long"}, "corrupt: seconds must not be 'long'"),
    ("digits", {"driver": 1, "seconds": "long"}, "corrupt: seconds must not be 'long'"),
    ("digits", {"protocol": 3}, "corrupt: protocol must not be 3"),
    ("digits", {"experiment": ["digits"]}, "corrupt: experiment must not be ['digits']"),
    ("digits", {"driver": "2"}, "corrupt: driver must not be '2'"),
    ("digits", {"commit": 7}, "corrupt: commit must not be 7"),
    ("digits", {"seconds": HUGE}, "corrupt: its seconds are no number"),
    ("digits", {"seconds": inf}, "corrupt: its seconds are no number"),
    ("digits", {"seed": True}, "corrupt: seed must not be True"),
    ("digits", {"hyperparameters": {"steps": "1"}}, "'steps' of its hyperparameters is no number"),
    ("digits", {"metrics": {"gap": 0.1, "test_loss": 0.1}}, "test_accuracy missing in its metrics"),
    ("noise sums", {"metrics": {"mean": 0.0}}, "ks_limit, ks_symmetric, ks_of_exact_draws missing"),
]


@pytest.mark.parametrize(("kind", "change", "reason"), RECORD_ERRORS)
def test_an_odd_record_is_set_apart_and_no_other(
    store: Store, kind: str, change: dict[str, Any], reason: str
) -> None:
    before = len(read(store.folder.parent).records)
    path = spoil(store, runs(store)[kind][0], change)
    found = read(store.folder.parent)
    assert len(found.records) == before - 1
    assert list(found.unusable) == [path.name]
    assert reason in found.unusable[path.name]


@pytest.mark.parametrize("ending", ["html", "md"])
def test_a_page_of_a_store_with_every_oddity_names_them(store: Store, ending: str) -> None:
    held = runs(store)
    names = [
        spoil(store, held[kind].pop(), change).name
        for kind, change, _ in RECORD_ERRORS
        if kind != "noise sums"
    ]
    os.mkfifo(store.folder / "pipe.json")
    (store.folder / "zero.json").symlink_to("/dev/zero")
    (store.folder / "gone.json").symlink_to("nowhere")
    (store.folder / "deep.json").write_text("[" * 100_000)
    store.save(Run(UNSEEN, TICKED, UNSEEN, {}, 10**15), {}, {}, seconds=1.0)
    store.save(Run(TICKED, UNSEEN, TICKED, {}, 0), {}, {}, seconds=1.0)
    folder = store.folder.parent
    written = report.write(folder, folder / f"results.{ending}")
    assert {*names, "pipe.json", "zero.json", "gone.json", "deep.json"} == set(written.unusable)
    text = written.file.read_text(encoding="utf-8")
    assert all(name in text for name in written.unusable)
    assert not {"noise", "valley", "digits"} & set(written.missing)
    assert "cannot be drawn" not in text
    assert not (set(UNSEEN) - set("[31mevil")) & set(text)
    assert "\ufffdevil\ufffd\ufffd\ufffd" in text


@pytest.mark.parametrize("name", [TICKED, "`<img src=x onerror=alert(1)>`", "a`b", "``<b>``"])
def test_no_name_becomes_markup_in_rendered_markdown(tmp_path: Path, name: str) -> None:
    markdown = pytest.importorskip("markdown")
    Store(tmp_path / "runs").save(Run(name, name, name, {}, 0), {}, {}, seconds=1.0)
    text = report.write(tmp_path, tmp_path / "results.md").file.read_text()
    page = markdown.markdown(text, extensions=["tables", "admonition"])
    assert page.count("<table>") == 2
    assert not re.search(r"<(script|img|b)\b", page)


@pytest.mark.parametrize("ending", ["html", "md"])
def test_a_figure_that_cannot_be_drawn_says_so_and_the_page_goes_on(
    store: Store, ending: str
) -> None:
    for each in [r for r in store.records() if "density" in r.curves]:
        spoil(store, each.run, {"curves": {**each.curves, "density": [1.0]}})
    folder = store.folder.parent
    written = report.write(folder, folder / f"results.{ending}")
    text = written.file.read_text(encoding="utf-8")
    assert "The figure noise cannot be drawn from these records (ValueError: " in text
    assert "Sums of k values" in text


@pytest.mark.parametrize("ending", ["html", "md"])
def test_a_path_that_leaves_the_valley_is_drawn_as_far_as_it_goes(
    store: Store, ending: str
) -> None:
    for run, kept in zip(valley.landscape("corrected", 40), (0, 1, 5), strict=False):
        record = store.load(run)
        assert record is not None
        u = [*record.curves["u"][:kept], inf, *record.curves["u"][kept + 1 :]]
        spoil(store, run, {"curves": {**record.curves, "u": u}})
    folder = store.folder.parent
    text = report.write(folder, folder / f"results.{ending}").file.read_text(encoding="utf-8")
    assert "cannot be drawn" not in text
    if ending == "html":
        (data,) = re.findall(r'"figure-valley-corrected".*?json">(.*?)</script>', text, re.DOTALL)
        assert "NaN" not in data
        assert "Infinity" not in data
        ends = {r["u"].index(None) for r in json.loads(data) if None in r["u"]}
        assert ends == {0, 1, 5}


def test_a_sweep_in_which_no_mpgd_run_is_finished_is_begun(tmp_path: Path) -> None:
    task = next(
        run for run in cifar10.tasks("corrected", [1], fake_results.STUDY) if run.scheme == "gd"
    )
    metrics = {"val_accuracy": 50.0, "accuracy_gap": 1.0}
    Store(tmp_path / "runs").save(task, metrics, {}, seconds=1.0)
    text = report.write(tmp_path, tmp_path / "results.md").file.read_text()
    assert "1 records, but not all that this section needs (no run of MPGD)" in text


def test_an_interrupted_sweep_of_one_study_does_not_stop_the_page(store: Store) -> None:
    """Of the noise study only what was trained first is there: its runs of one sign rule."""
    for run in [*runs(store)["noise sums"], *runs(store)["noise orbit"]]:
        if run.scheme == "product":
            store.path(run).unlink()
    text = report.write(store.folder.parent, store.folder.parent / "page.html").file.read_text()
    assert "not all that this section needs (no sums of signs as printed" in text
    assert 'id="digits"' in text


def test_a_section_that_cannot_be_made_is_named_and_the_others_are_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = load("noise")
    assert noise.section is not None

    def fails(records: object) -> list[Block]:
        raise KeyError("odd")

    broken = replace(noise, section=replace(noise.section, blocks=fails))
    others = [one for one in catalogue() if one.name != "noise"]
    monkeypatch.setattr(report, "catalogue", lambda: [broken, *others])
    text = report.write(store.folder.parent, store.folder.parent / "page.md").file.read_text()
    assert "from which this section cannot be made (KeyError: 'odd')" in text
    assert "## Digits" in text
