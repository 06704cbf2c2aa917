"""The same table comes out however the work is spread, and whatever dies on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conftest import hear_interrupts
from mpgd.experiments import Context, runner, valley
from mpgd.experiments.runner import WorkerError, complete, split
from mpgd.experiments.store import Run
from mpgd.experiments.training import Result

SEEDS = (1, 2)
Table = dict[str, dict[str, Any]]


def tasks(steps: int = 40) -> list[Run]:
    return valley.tasks("paper", SEEDS, steps)


def table(context: Context, train: Any = valley.train, size: int = 4, steps: int = 40) -> Table:
    records = complete(context, tasks(steps), train, lambda run: size)
    return {record.run.canonical: dict(record.metrics) for record in records}


def same(one: Table, other: Table) -> bool:
    return one.keys() == other.keys() and all(
        one[key] == {name: pytest.approx(x, rel=1e-5) for name, x in other[key].items()}
        for key in one
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return table(Context(tmp_path_factory.mktemp("alone")))


def killed_once(runs: list[Run], mark: Path) -> Iterator[Result]:
    """Die at the first batch anyone begins, without a word."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        yield from valley.train(runs)
    else:
        os.kill(os.getpid(), signal.SIGKILL)


def killed_always(runs: list[Run]) -> Iterator[Result]:
    os.kill(os.getpid(), signal.SIGKILL)
    yield from ()


def failing(runs: list[Run]) -> Iterator[Result]:
    raise ValueError("this training fails")
    yield


def test_what_is_in_the_store_is_not_run_again(tmp_path: Path, undisturbed: Table) -> None:
    context = Context(tmp_path)
    assert same(table(context), undisturbed)
    assert table(context, failing) == undisturbed
    gone = context.store.path(tasks()[3])
    gone.unlink()
    before = {path: path.stat().st_mtime_ns for path in context.store.folder.iterdir()}
    assert same(table(context), undisturbed)
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())


def test_a_changed_configuration_is_not_reused(tmp_path: Path) -> None:
    context = Context(tmp_path)
    first, longer = table(context), table(context, steps=41)
    assert not first.keys() & longer.keys()
    assert len(list(context.store.records())) == 2 * len(first)


def test_batches_hold_runs_of_one_shape_in_order() -> None:
    runs = [*tasks(40), *tasks(50), *valley.tasks("released", SEEDS, 40)]
    batches = split(runs, lambda run: 5)
    assert all(len(batch) <= 5 for batch in batches)
    assert {run.key for batch in batches for run in batch} == {run.key for run in runs}
    for batch in batches:
        assert len({(run.protocol, run.hyperparameters["steps"]) for run in batch}) == 1


def test_two_workers_make_the_same_table_and_a_killed_one_costs_its_batch(
    tmp_path: Path, undisturbed: Table
) -> None:
    """The first worker to begin is killed by signal 9; the other's batches are not disturbed."""
    context = Context(tmp_path / "out", workers=2)
    train = partial(killed_once, mark=tmp_path / "mark")
    assert same(table(context, train), undisturbed)
    assert (tmp_path / "mark").exists()
    assert {path.suffix for path in context.store.folder.iterdir()} == {".json"}


def test_a_batch_that_kills_every_worker_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "ATTEMPTS", 1)
    context = Context(tmp_path, workers=2)
    with pytest.raises(WorkerError, match=r"workers died 1 times at 8 runs of valley"):
        table(context, killed_always, size=8)


def test_an_error_in_training_is_the_callers(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="this training fails"):
        table(Context(tmp_path, workers=2), failing, size=8)


SHORT = """
import sys
from functools import partial
from mpgd import cli
from mpgd.experiments import valley
cli.load = lambda name: partial(valley.run, steps={steps})
sys.exit(cli.main(sys.argv[1:]))
"""


def sweep(folder: Path, steps: int, *arguments: str) -> subprocess.Popen[str]:
    """Start the command line on a short valley; its two protocols are two batches."""
    command = [sys.executable, "-c", SHORT.format(steps=steps), "reproduce", "valley"]
    return subprocess.Popen(
        [*command, "--seeds", "1", "--out", str(folder), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hear_interrupts,
    )  # fmt: skip


def stored(folder: Path) -> Table:
    records = Context(folder).store.records()
    return {record.run.canonical: dict(record.metrics) for record in records}


def children(process: subprocess.Popen[str]) -> list[int]:
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in found]


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, f"workers {pids} are still there"
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_parent_that_ends_takes_its_workers_along_and_the_next_sweep_finishes(
    number: int, tmp_path: Path
) -> None:
    first = sweep(tmp_path, 10**6, "--workers", "2")  # too long to finish
    while len(pids := children(first)) < 3:  # two workers, and Python's resource tracker
        assert first.poll() is None
        time.sleep(0.05)
    first.send_signal(number)
    _, errors = first.communicate(timeout=60)
    wait_until_gone(pids)
    if number == signal.SIGINT:
        assert first.returncode == 130
        assert errors.splitlines()[-1] == "mpgd: interrupted; finished runs are kept"
    both = [sweep(tmp_path, 60), sweep(tmp_path, 60)]  # they share the folder
    shown = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert shown[0].split("\n")[-8:] == shown[1].split("\n")[-8:]
    finished = [key for key in stored(tmp_path) if '"steps":60,' in key]
    assert len(finished) == sum(len(valley.tasks(name, [1])) for name in ("paper", "released"))


def test_a_dask_cluster_makes_the_same_table(tmp_path: Path, undisturbed: Table) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        context = Context(tmp_path, cluster=cluster.scheduler_address)
        assert same(table(context), undisturbed)
        assert table(context, failing) == stored(tmp_path)


def test_a_cluster_without_dask_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r'pip install "mpgd\[cluster\]"'):
        table(Context(tmp_path, cluster="tcp://127.0.0.1:1"))


def test_a_training_that_forgets_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="training returned no result for"):
        table(Context(tmp_path), lambda runs: iter(()))
