"""The store: whole files or none, nothing reused that should not be, clear words on failure."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import mpgd
from mpgd_lab.store import MAX_BYTES, Record, Run, Store, StoreError

RUN = Run("noise", "paper", "fresh", {"gamma": 0.6, "steps": 1000}, seed=0)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs", lambda text: None)


def save(store: Store, run: Run = RUN, ks: float = 0.02) -> Record:
    return store.save(run, {"ks": ks}, {"x": [1, 2]}, seconds=1.5)


def head() -> str | None:
    """Return the commit of the clone that the package lies in; git may refuse another user."""
    root = Path(mpgd.__file__).parents[2]
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    if not (root / ".git").exists():
        return None
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or None


def test_what_is_saved_is_loaded(store: Store) -> None:
    assert store.load(RUN) is None
    saved = save(store)
    assert store.load(RUN) == saved
    assert (saved.run, saved.metrics, saved.curves) == (RUN, {"ks": 0.02}, {"x": [1, 2]})
    assert saved.seconds == 1.5
    assert saved.versions["mpgd"] == mpgd.__version__
    assert set(saved.versions) == {"python", "mpgd", "torch", "numpy"}
    assert saved.commit == head()


def test_a_file_is_named_by_the_hash_of_its_configuration(store: Store) -> None:
    save(store)
    assert [path.name for path in store.folder.iterdir()] == [f"{RUN.key}.json"]
    assert len(RUN.key) == 64


def test_arrays_and_tensors_become_lists(store: Store) -> None:
    record = store.save(RUN, {"m": np.float64(0.5)}, {"a": np.arange(2), "t": torch.ones(2)}, 0.0)
    assert record.metrics == {"m": 0.5}
    assert record.curves == {"a": [0, 1], "t": [1.0, 1.0]}
    with pytest.raises(TypeError, match="numbers, texts and lists of them, got set"):
        store.save(RUN, {"m": {1}}, {}, 0.0)


@pytest.mark.parametrize(
    "other",
    [
        Run("valley", "paper", "fresh", {"gamma": 0.6, "steps": 1000}, 0),
        Run("noise", "released", "fresh", {"gamma": 0.6, "steps": 1000}, 0),
        Run("noise", "paper", "product", {"gamma": 0.6, "steps": 1000}, 0),
        Run("noise", "paper", "fresh", {"gamma": 0.6000000000000001, "steps": 1000}, 0),
        Run("noise", "paper", "fresh", {"gamma": 0.6, "steps": 1000, "more": None}, 0),
        Run("noise", "paper", "fresh", {"gamma": 0.6, "steps": 1000}, 1),
    ],
)
def test_a_changed_configuration_is_never_reused(store: Store, other: Run) -> None:
    save(store)
    assert store.load(other) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "corrupt: not JSON"),
        (b'{"format": "mpgd-run-1", "exp', "corrupt: not JSON"),
        (b"\xff\xfe\x00", "corrupt: not a text file"),
        (b'{"hello": 1}', "foreign"),
        (b"[1, 2]", "foreign"),
        (b"[" * 100_000, "corrupt: nested too deeply"),
        (b'{"format": "mpgd-run-1", "experiment": "noise"}', "protocol, .* missing"),
    ],
)
def test_a_corrupt_file_is_reported_set_aside_and_run_again(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    told: list[str] = []
    store = Store(tmp_path, told.append)
    store.path(RUN).write_bytes(content)
    assert store.load(RUN) is None
    aside = tmp_path / f"{RUN.key}.json.corrupt"
    assert aside.read_bytes() == content
    assert list(store.unreadable) == [aside]
    assert len(told) == 1
    assert re.search(reason, told[0])
    save(store)
    assert store.load(RUN) is not None


def test_a_record_of_another_run_under_this_name_is_not_believed(store: Store) -> None:
    save(store)
    body = json.loads(store.path(RUN).read_text())
    store.path(RUN).write_text(json.dumps(body | {"seed": 7}))
    assert store.load(RUN) is None
    assert "not the hash of its configuration" in next(iter(store.unreadable.values()))


def test_records_gives_the_good_and_names_the_bad(store: Store) -> None:
    save(store)
    (store.folder / "notes.json").write_text('{"by": "somebody else"}')
    (store.folder / "broken.json").write_text("{")
    (store.folder / "half-done.tmp").write_text("{")
    assert [record.run for record in store.records()] == [RUN]
    reasons = {path.name: reason.split(":")[0] for path, reason in store.unreadable.items()}
    assert reasons == {"notes.json": "foreign", "broken.json": "corrupt"}
    assert (store.folder / "notes.json").exists()  # only a file in a run's place is set aside


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, MAX_BYTES + 1)  # takes no room


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (os.mkfifo, "foreign: a pipe or a device"),
        (lambda path: path.symlink_to("/dev/zero"), "foreign: a pipe or a device"),
        (lambda path: path.symlink_to("nowhere"), "corrupt: a link to nothing"),
        (lambda path: path.symlink_to(path), "corrupt: a link to itself"),
        (huge, "foreign: larger than 67,108,864 bytes"),
    ],
    ids=["pipe", "device", "link to nothing", "loop", "huge"],
)
def test_what_cannot_be_read_to_its_end_is_never_opened(
    store: Store, make: Callable[[Path], object], reason: str
) -> None:
    other = save(store, Run("noise", "paper", "fresh", {}, seed=1))
    make(store.path(RUN))
    assert list(store.records()) == [other]
    assert store.unreadable == {store.path(RUN): reason}
    assert store.load(RUN) is None
    save(store)
    assert store.load(RUN) is not None


def test_records_of_no_folder_are_none(tmp_path: Path) -> None:
    assert list(Store(tmp_path / "absent").records()) == []


def test_a_failed_write_leaves_the_old_file_and_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = save(store)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match=rf"{store.folder}: No space left on device"):
        save(store, ks=0.5)
    assert store.load(RUN) == old
    assert list(store.folder.iterdir()) == [store.path(RUN)]


def test_a_disk_that_fills_up_while_writing(store: Store) -> None:
    """A file-size limit makes the kernel itself refuse the bytes."""
    old = save(store)
    code = f"""
import resource
from mpgd_lab.store import *
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
run = Run("noise", "paper", "fresh", {{"gamma": 0.6, "steps": 1000}}, seed=0)
try:
    Store({str(store.folder)!r}).save(run, {{}}, {{"x": list(range(10000))}}, 0.0)
except StoreError as error:
    print(error)
"""
    assert "cannot write results in" in python(code).stdout
    assert store.load(RUN) == old
    assert list(store.folder.iterdir()) == [store.path(RUN)]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "runs")
    for attempt in (store.check_writable, lambda: save(store)):
        with pytest.raises(
            StoreError, match=r"cannot write results in .*file/runs: Not a directory"
        ):
            attempt()


def test_a_folder_in_the_place_of_a_file_is_an_error(store: Store) -> None:
    store.path(RUN).mkdir(parents=True)
    with pytest.raises(StoreError, match=r"cannot read results in .*: Is a directory"):
        store.load(RUN)


def test_a_folder_that_was_there_and_is_gone_is_not_made_again(store: Store) -> None:
    """What was in it is lost, and a new one would hide that."""
    save(store)
    shutil.rmtree(store.folder)
    with pytest.raises(StoreError, match=f"^the results folder is gone: {store.folder}$"):
        save(store)
    assert not store.folder.exists()


def test_two_processes_share_a_folder(tmp_path: Path) -> None:
    """Both write the same 20 runs while this process reads: never a torn file."""
    code = f"""
from mpgd_lab.store import *
store = Store({str(tmp_path)!r})
for seed in 4 * list(range(20)):
    store.save(Run("a", "b", "c", {{}}, seed), {{}}, {{"x": [seed] * 2000}}, 0.0)
"""
    writers = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    store = Store(tmp_path, lambda text: None)
    while any(writer.poll() is None for writer in writers):
        for seed in range(20):
            store.load(Run("a", "b", "c", {}, seed))
        assert not store.unreadable
        time.sleep(0.01)
    assert [writer.returncode for writer in writers] == [0, 0]
    assert sorted(record.run.seed for record in store.records()) == list(range(20))
    assert not store.unreadable


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
