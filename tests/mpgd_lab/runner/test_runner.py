"""The same table comes out however the work is spread, and whatever dies on the way."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from mpgd_lab.batched_training import Result
from mpgd_lab.runner import Context, complete, processes, split
from mpgd_lab.runner.processes import WorkerError
from mpgd_lab.store import Run, StoreError
from mpgd_lab.studies.digits import runs as digits
from mpgd_lab.studies.digits import training as digits_training
from mpgd_lab.studies.valley import runs as valley
from mpgd_lab.studies.valley import training
from tests.conftest import hear_interrupts
from tests.mpgd_lab.recording_reporter import RecordingReporter

SEEDS = (1, 2)
Table = dict[str, dict[str, Any]]


def tasks(steps: int = 40) -> list[Run]:
    return valley.tasks("corrected", SEEDS, steps)


def table(context: Context, train: Any = training.train, size: int = 4, steps: int = 40) -> Table:
    records = complete(context, tasks(steps), train, lambda run: size)
    return {record.run.canonical: dict(record.metrics) for record in records}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return table(Context(tmp_path_factory.mktemp("alone")))


def killed_once(
    runs: list[Run], mark: Path, by: signal.Signals = signal.SIGKILL
) -> Iterator[Result]:
    """Die at the first batch anyone begins, without a word."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        yield from training.train(runs)
    else:
        os.kill(os.getpid(), by)


def noted(runs: list[Run], folder: Path, mark: Path) -> Iterator[Result]:
    """Die once; else leave a file for this batch."""
    yield from killed_once(runs, mark)
    (folder / f"batch {runs[0].key}").touch()


def killed_always(runs: list[Run]) -> Iterator[Result]:
    os.kill(os.getpid(), signal.SIGKILL)
    yield from ()


def failing(runs: list[Run]) -> Iterator[Result]:
    raise ValueError("this training fails")
    yield


def with_threads(runs: list[Run]) -> Iterator[Result]:
    """Train digits, whose products are large enough to be cut, and note the threads."""
    for run, metrics, curves in digits_training.train(runs):
        yield run, {**metrics, "threads": torch.get_num_threads()}, curves


def test_the_bits_are_the_same_whoever_trains(tmp_path: Path) -> None:
    """Here with four threads, here with one, and by two workers, in batches of other sizes."""
    found = []
    for place, (threads, workers, size) in enumerate([(4, 1, 7), (1, 1, 40), (4, 2, 6)]):
        torch.set_num_threads(threads)
        context = Context(tmp_path / str(place), workers=workers)
        runs = digits.tasks("corrected", [1], 5)
        records = complete(context, runs, with_threads, lambda run, size=size: size)
        found.append([(record.metrics, record.curves) for record in records])
        assert torch.get_num_threads() == threads
    assert found[0] == found[1] == found[2]
    assert {metrics["threads"] for metrics, _ in found[0]} == {1}


def test_what_is_in_the_store_is_not_run_again(tmp_path: Path, undisturbed: Table) -> None:
    context = Context(tmp_path)
    assert table(context) == undisturbed
    assert table(context, failing) == undisturbed
    gone = context.store.path(tasks()[3])
    gone.unlink()
    before = {path: path.stat().st_mtime_ns for path in context.store.folder.iterdir()}
    assert table(context) == undisturbed
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


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_two_workers_make_the_same_table_and_a_killed_one_costs_its_batch(
    by: signal.Signals, tmp_path: Path, undisturbed: Table
) -> None:
    """The first worker to begin is killed; the other's batches are not disturbed."""
    context = Context(tmp_path / "out", workers=2)
    train = partial(killed_once, mark=tmp_path / "mark", by=by)
    assert table(context, train) == undisturbed
    assert (tmp_path / "mark").exists()
    assert {path.suffix for path in context.store.folder.iterdir()} == {".json"}


def test_a_batch_that_kills_every_worker_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "ATTEMPTS", 1)
    context = Context(tmp_path, workers=2)
    with pytest.raises(WorkerError, match=r"workers died 1 times at 8 runs of valley"):
        table(context, killed_always, size=8)


def removing(runs: list[Run], folder: Path, after: int) -> Iterator[Result]:
    """Let the folder of results disappear after so many of this batch."""
    for place, result in enumerate(training.train(runs), 1):
        yield result
        if place == after:
            shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("after", [2, 4])
def test_a_results_folder_that_disappears_is_named(
    tmp_path: Path, workers: int, after: int
) -> None:
    """In the middle of a batch of four, or after its last result."""
    context = Context(tmp_path, workers=workers)
    train = partial(removing, folder=context.store.folder, after=after)
    with pytest.raises(StoreError, match=f"^the results folder is gone: {tmp_path / 'runs'}$"):
        table(context, train)


def test_an_error_in_training_is_the_callers(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="this training fails"):
        table(Context(tmp_path, workers=2), failing, size=8)


SHORT = """
import sys
from functools import partial
from dataclasses import replace
from mpgd_lab import cli
from mpgd_lab.studies.valley import EXPERIMENT
cli.load = lambda name: replace(EXPERIMENT, runs=partial(EXPERIMENT.runs, steps={steps}))
sys.exit(cli.main(sys.argv[1:]))
"""

pytestmark = pytest.mark.timeout(900)  # whole commands, two at once, each of which writes a page


def sweep(
    folder: Path, steps: int, *arguments: str, before: Callable[[], None] = hear_interrupts
) -> subprocess.Popen[str]:
    """Start the command line on a short valley; its two protocols are two batches."""
    command = [sys.executable, "-c", SHORT.format(steps=steps), "reproduce", "valley"]
    return subprocess.Popen(
        [*command, "--seeds", "1", "--out", str(folder), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,
    )


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


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "runs").iterdir()}


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that two sweeps at once have filled, started at the same moment."""
    folder = tmp_path_factory.mktemp("earlier")
    both = [sweep(folder, 60), sweep(folder, 60)]
    shown = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    first, second = (re.sub(r" \(\d+ s\)", "", text).split("\n")[-8:] for text in shown)
    assert first == second
    return folder


def test_two_sweeps_at_once_make_the_table_of_one(earlier: Path) -> None:
    runs = [run for name in ("corrected", "released") for run in valley.tasks(name, [1], 60)]
    found = stored(earlier)
    for protocol in ("corrected", "released"):
        own = [run for run in runs if run.protocol == protocol]
        alone = {run.canonical: dict(metrics) for run, metrics, _ in training.train(own)}
        assert {key: found[key] for key in alone} == alone
    assert {path.suffix for path in (earlier / "runs").iterdir()} == {".json"}


SAID = {
    signal.SIGKILL: (-signal.SIGKILL, None),
    signal.SIGINT: (130, "mpgd: interrupted; finished runs are kept"),
    signal.SIGTERM: (143, "mpgd: terminated; finished runs are kept"),
}


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", SAID)
def test_a_parent_that_ends_takes_its_workers_along_and_leaves_earlier_results(
    number: signal.Signals, earlier: Path
) -> None:
    before = contents(earlier)
    process = sweep(earlier, 10**6, "--workers", "2")  # too long to finish
    while len(pids := children(process)) < 3:  # two workers, and Python's resource tracker
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    wait_until_gone(pids)
    code, said = SAID[number]
    assert process.returncode == code
    assert said is None or errors.splitlines()[-1] == said
    assert contents(earlier) == before


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_full_disk_has_a_message_and_a_code_and_leaves_earlier_results(
    workers: str, earlier: Path
) -> None:
    """The kernel refuses every file of more than 1000 bytes."""
    before = contents(earlier)
    process = sweep(earlier, 61, "--workers", workers, before=small_files_only)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors == f"mpgd: cannot write results in {earlier / 'runs'}: File too large\n"
    assert contents(earlier) == before


def small_files_only() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def test_a_corrupt_result_is_reported_set_aside_and_run_again(
    tmp_path: Path, undisturbed: Table
) -> None:
    listener = RecordingReporter()
    context = Context(tmp_path, listener)
    table(context)
    torn = context.store.path(tasks()[5])
    torn.write_bytes(torn.read_bytes()[:-40])
    assert table(context) == undisturbed
    assert any(f"{torn}.corrupt: corrupt: not JSON" in line for line in listener.lines)
    assert {path.suffix for path in context.store.folder.iterdir()} == {".json", ".corrupt"}


def test_a_dask_cluster_makes_the_same_table_though_a_worker_dies(
    tmp_path: Path, undisturbed: Table
) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0"
    ) as cluster:
        context = Context(tmp_path / "out", cluster=cluster.scheduler_address)
        train = partial(noted, folder=tmp_path, mark=tmp_path / "mark")
        assert table(context, train) == undisturbed
        assert (tmp_path / "mark").exists()
        assert len(list(tmp_path.glob("batch *"))) >= 4 * 2  # tasks for each worker, not 4 in all
        assert table(context, failing) == stored(tmp_path / "out")


def test_a_cluster_without_dask_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r'pip install "mpgd\[cluster\]"'):
        table(Context(tmp_path, cluster="tcp://127.0.0.1:1"))


def test_a_training_that_forgets_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="training returned no result for"):
        table(Context(tmp_path), lambda runs: iter(()))


def start_undisturbed(command: list[str], started: list[str]) -> None:
    with processes._signals_deferred():
        os.kill(os.getpid(), signal.SIGINT)
        started.append(subprocess.check_output(command, text=True))


def test_ctrl_c_waits_until_a_worker_is_started_and_never_reaches_it() -> None:
    blocked = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    started: list[str] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            start_undisturbed([sys.executable, "-c", blocked], started)
    finally:
        signal.signal(signal.SIGINT, before)
    assert started == ["True\n"]
