"""Sweeps killed by signal 9 at random moments, twenty times in all, end with the same table.

Fifteen times the process that trains is killed, forked from a server that has torch loaded, so
that a kill costs little; five times a worker of a pool of two, or the pool's parent.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch

from mpgd.experiments import Context, valley
from mpgd.experiments.runner import complete
from mpgd.experiments.sources import perturbations
from mpgd.experiments.store import Run, Store
from mpgd.experiments.training import Result

STEPS, SEEDS, SIZE = 400, range(1, 21), 4
Table = dict[str, dict[str, Any]]

pytestmark = pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")


def tasks() -> list[Run]:
    return valley.tasks("paper", SEEDS, STEPS)


def train(runs: list[Run], log: Path) -> Iterator[Result]:
    """Train the valley, note which runs were begun, and add each run's noise to its metrics."""
    with log.open("a") as file:
        file.write("".join(f"{run.key}\n" for run in runs))
    noises = noise_of(runs)
    for run, metrics, curves in valley.train(runs):
        yield run, {**metrics, "noise": noises[run.key]}, curves


def noise_of(runs: list[Run]) -> dict[str, str]:
    """Return a digest of the bits of every run's noise, as it is in this batch."""
    sums = [hashlib.sha256() for _ in runs]
    for source in perturbations(runs, valley.SHAPES, torch.float64):
        for _ in range(10):
            terms = torch.stack(source.next())
            for place, row in enumerate(source.rows.tolist()):
                sums[row].update(terms[:, place].numpy().tobytes())
    return {run.key: digest.hexdigest() for run, digest in zip(runs, sums, strict=True)}


def sweep(folder: Path, log: Path, workers: int) -> None:
    torch.set_num_threads(1)
    context = Context(folder, workers=workers)
    complete(context, tasks(), partial(train, log=log), lambda run: SIZE)


class Watched:
    """A sweep in a process of its own, and what must hold of it however it ends."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder, self.log = folder, folder / "begun"
        self.log.write_text("")
        self.before = finished(folder)
        context = get_context("forkserver")
        context.set_forkserver_preload([valley.__name__, __name__])
        self.process: BaseProcess = context.Process(target=sweep, args=(folder, self.log, workers))
        self.process.start()

    def wait_for_training(self) -> None:
        """Return when the first batch has begun."""
        deadline = time.monotonic() + 120
        while self.process.is_alive() and not self.log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def workers(self) -> list[int]:
        """Return the processes of the pool, those that are just starting included."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split() if is_worker(int(pid))]

    def kill(self, pid: int | None = None) -> None:
        """End the sweep, or another process, without a word."""
        assert self.process.is_alive(), "the sweep was over before it could be killed"
        os.kill(pid or self.process.pid or 0, signal.SIGKILL)

    def ended(self) -> None:
        """Wait for the end, and check that nothing finished was repeated and nothing is torn."""
        self.process.join(60)
        assert not self.process.is_alive()
        begun, after = set(self.log.read_text().split()), finished(self.folder)
        assert not begun & {path.stem for path in self.before}
        assert self.before.items() <= after.items()  # the same files, not new ones of the name
        store = Store(self.folder / "runs", lambda text: None)
        assert len(list(store.records())) == len(after)
        assert {path.suffix for path in store.unreadable} <= {".tmp"}


def is_worker(pid: int) -> bool:
    try:
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False  # gone meanwhile


def finished(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return the result files and what changes when one is written again."""
    found = {path: path.stat() for path in (folder / "runs").glob("*.json")}
    return {path: (stat.st_ino, stat.st_mtime_ns) for path, stat in found.items()}


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 60
    while any(map(is_worker, pids)):
        assert time.monotonic() < deadline, f"workers {pids} outlive their parent"
        time.sleep(0.02)


def table(folder: Path) -> Table:
    records = Store(folder / "runs").records()
    return {record.run.canonical: dict(record.metrics) for record in records if record.metrics}


def test_twenty_kills_leave_no_trace_in_the_table(tmp_path: Path) -> None:
    rng, kills, folder = random.Random(0), 0, tmp_path / "killed"
    folder.mkdir()
    for _ in range(15):
        alone = Watched(folder, workers=1)
        alone.wait_for_training()
        time.sleep(rng.uniform(0.0, 0.2))
        alone.kill()
        alone.ended()
        kills += 1
    for plan in (("worker", "worker", "parent"), ("worker", "parent")):
        pool = Watched(folder, workers=2)
        pool.wait_for_training()
        for victim in plan:
            time.sleep(rng.uniform(0.0, 0.5))
            workers = pool.workers()
            pool.kill(rng.choice(workers) if victim == "worker" else None)
            kills += 1
        wait_until_gone(workers)
        pool.ended()
    assert kills == 20
    before = finished(folder)
    for out in (folder, tmp_path / "undisturbed"):
        complete(Context(out), tasks(), partial(train, log=tmp_path / "log"))
    assert 0 < len(before) < len(tasks())
    assert before.items() <= finished(folder).items()
    found, expected = table(folder), table(tmp_path / "undisturbed")
    assert len(expected) == len(tasks())
    assert found.keys() == expected.keys()
    for key, metrics in expected.items():
        assert found[key]["noise"] == metrics["noise"]
        assert found[key]["trace"] == pytest.approx(metrics["trace"], rel=1e-5)
    digests = {metrics["noise"] for metrics in expected.values()}
    assert len(digests) > 100  # runs differ in their noise, so the check can fail
