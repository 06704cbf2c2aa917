"""Sweeps killed by signal 9 at random moments, twenty times in all, end with the same table.

Fifteen times the process that trains is killed, forked from a server that has torch loaded, so
that a kill costs little; five times a worker of a pool of two, or the pool's parent.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch

import mpgd
from mpgd_lab.runner import Context, complete
from mpgd_lab.store import Store
from tests.mpgd_lab.runner import killable

Table = dict[str, dict[str, Any]]

pytestmark = pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.002)


class Watched:
    """A sweep in a process of its own, and what must hold of it however it ends."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder, self.log = folder, folder / "begun"
        self.log.write_text("")
        self.before = finished(folder)
        context = get_context("forkserver")
        context.set_forkserver_preload([killable.__name__])
        arguments = (folder, self.log, workers)
        self.process: BaseProcess = context.Process(target=killable.sweep, args=arguments)
        self.process.start()
        wait_until(lambda: bool(self.log.read_text()) or not self.process.is_alive())

    def kill_worker(self, rng: random.Random) -> None:
        """End a process of the pool, perhaps one that is just starting."""
        wait_until(lambda: bool(self.workers()))
        os.kill(rng.choice(self.workers()), signal.SIGKILL)

    def workers(self) -> list[int]:
        """Return the processes of the pool."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split() if is_worker(int(pid))]

    def kill(self) -> None:
        """End the sweep; check that it repeated nothing, tore no file and left no process."""
        workers = self.workers()
        assert self.process.is_alive(), "the sweep was over before it could be killed"
        self.process.kill()
        self.process.join()
        wait_until(lambda: not any(map(is_worker, workers)))
        begun, after = set(self.log.read_text().split()), finished(self.folder)
        assert not begun & {path.stem for path in self.before}
        assert self.before.items() <= after.items()  # the same files, not new ones of the name
        store = Store(self.folder / "runs", lambda text: None)
        assert len(list(store.records())) == len(after)
        assert not store.unreadable


def is_worker(pid: int) -> bool:
    try:
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False  # gone


def finished(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return the result files and what changes when one is written again."""
    found = {path: path.stat() for path in (folder / "runs").glob("*.json")}
    return {path: (stat.st_ino, stat.st_mtime_ns) for path, stat in found.items()}


def table(folder: Path) -> Table:
    records = Store(folder / "runs", lambda text: None).records()
    return {r.run.canonical: dict(r.metrics) | dict(r.curves) for r in records}


def random_moment(folder: Path, rng: random.Random) -> None:
    """Wait for up to six more results, and then a little."""
    wanted = len(finished(folder)) + rng.randrange(7)
    wait_until(lambda: len(finished(folder)) >= wanted)
    time.sleep(rng.uniform(0.0, 0.02))


def kill_and_complete(
    folder: Path, rng: random.Random, alone: int, pools: Sequence[int]
) -> tuple[Table, Table]:
    """Kill a sweep many times, finish it here; return its table and that of one never killed.

    ``alone`` sweeps have one process; of every pool as many workers are killed, then its parent.
    """
    killed, undisturbed = folder / "killed", folder / "undisturbed"
    killed.mkdir()
    for _ in range(alone):
        sweep = Watched(killed, workers=1)
        random_moment(killed, rng)
        sweep.kill()
    for workers_killed in pools:
        pool = Watched(killed, workers=2)
        for _ in range(workers_killed):
            random_moment(killed, rng)
            pool.kill_worker(rng)
        random_moment(killed, rng)
        pool.kill()
    before = finished(killed)
    torch.set_num_threads(4)  # this process trains the rest, and its bits must be those of workers
    for out in (killed, undisturbed):
        complete(Context(out), killable.tasks(), partial(killable.train, log=folder / "log"))
    assert 0 < len(before) < len(killable.tasks())
    assert before.items() <= finished(killed).items()
    assert {path.suffix for path in (killed / "runs").iterdir()} == {".json"}
    return table(killed), table(undisturbed)


def let_children_import() -> str:
    """Return the path of tests and package, for the fork server."""
    roots = (Path(__file__).parents[3], Path(mpgd.__file__).parents[1])
    return os.pathsep.join(map(str, roots))


def test_twenty_kills_leave_no_trace_in_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", let_children_import())
    found, expected = kill_and_complete(tmp_path, random.Random(0), alone=15, pools=(2, 1))
    assert len(expected) == len(killable.tasks())
    assert found == expected  # bit for bit: JSON keeps every digit of a double
    digests = {metrics["noise"] for metrics in expected.values()}
    assert len(digests) > 100  # runs differ in their noise, so the check can fail
