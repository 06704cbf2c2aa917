"""A killed run goes on with the same bits, and two processes train as one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from mpgd.optim import MPGD
from mpgd_lab.runner import Context
from mpgd_lab.store import Run
from mpgd_lab.studies.cifar10.checkpoint import Checkpoint, Progress
from mpgd_lab.studies.cifar10.runs import TINY as SMOKE
from mpgd_lab.studies.cifar10.runs import tasks
from mpgd_lab.studies.cifar10.training import make_model, train

TINY = SMOKE | {"study": "tiny", "width": 2, "train": 40, "test": 50, "block": 16}
SCHEMES = ("mpgd symmetric 0.6 beta 0.5", "sgd")


def chosen(steps: int) -> list[Run]:
    every = tasks("corrected", [1], TINY | {"steps": steps, "device": "cpu"})
    return [run for run in every if run.scheme in SCHEMES]


def state_of(run: Run, folder: Path) -> Any:
    return torch.load(folder / f"{run.key}.pt", weights_only=True)


def same_bits(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_bits(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same_bits, one, other))
    return bool(one == other)


# --- killed ------------------------------------------------------------------------------------

TRAIN = """
import json, sys, torch
from pathlib import Path
from mpgd_lab.studies.cifar10.training import train
from mpgd_lab.store import Run
torch.set_num_threads(1)
train(Run(**json.loads(sys.argv[1])), None, Path(sys.argv[2]), every=0.0)
"""


def steps_done(run: Run, folder: Path) -> int:
    if not (folder / f"{run.key}.pt").exists():
        return 0
    return int(state_of(run, folder)["progress"]["steps"])


def killed(run: Run, folder: Path) -> int:
    """Start a run, kill it without warning after 3 steps or more, and return how far it was."""
    with subprocess.Popen([sys.executable, "-c", TRAIN, run.canonical, str(folder)]) as process:
        while steps_done(run, folder) < 3:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    return steps_done(run, folder)


def same_end(run: Run, one: Path, two: Path, data: Path) -> bool:
    """Finish the run of each folder; return whether metrics, curves and states have equal bits."""
    ends = [train(run, data, folder, every=0.0) for folder in (one, two)]
    for metrics, _ in ends:
        for name in ("training_seconds", "cpu_seconds"):
            del metrics[name]
    states = [state_of(run, folder) for folder in (one, two)]
    parts = [[state["model"], state["optimizer"]] for state in states]
    return ends[0] == ends[1] and same_bits(*parts)


def test_a_killed_run_goes_on_with_the_same_bits(tmp_path: Path, data_folder: Path) -> None:
    run = next(run for run in chosen(40) if run.scheme == SCHEMES[0])
    assert 3 <= killed(run, tmp_path / "killed") < 40
    assert same_end(run, tmp_path / "whole", tmp_path / "killed", data_folder)


@pytest.mark.parametrize(
    ("protocol", "scheme"),
    [("corrected", "sgd"), ("released", "gaussian"), ("released", "mpgd plain 0.7 beta 0.5")],
)
def test_every_kind_of_run_goes_on_with_the_same_bits(
    protocol: str, scheme: str, tmp_path: Path, data_folder: Path
) -> None:
    study = TINY | {"steps": 20, "device": "cpu"}
    run = next(run for run in tasks(protocol, [1], study) if run.scheme == scheme)

    def stop(line: str) -> None:
        if "step 3 of" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(run, data_folder, tmp_path / "stopped", every=0.0, say=stop)
    assert steps_done(run, tmp_path / "stopped") == 3
    assert same_end(run, tmp_path / "whole", tmp_path / "stopped", data_folder)


def test_an_unusable_checkpoint_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run, other = chosen(4)
    model = make_model(run)
    optimizer = MPGD(model.parameters(), 0.1)
    checkpoint = Checkpoint(run, tmp_path, every=0.0)
    checkpoint.save(Progress(3), model, optimizer)
    path = tmp_path / f"{run.key}.pt"
    whole = path.read_bytes()
    assert checkpoint.load(model, optimizer).steps == 3
    os.replace(path, tmp_path / f"{other.key}.pt")
    for said, place, content in (
        ("it belongs to another run", Checkpoint(other, tmp_path), whole),
        ("no checkpoint", checkpoint, whole[: len(whole) // 2]),
        ("no checkpoint", checkpoint, b""),
    ):
        assert place.path is not None
        place.path.write_bytes(content)
        assert place.load(model, optimizer).steps == 0
        assert said in caplog.text
        assert not place.path.exists()
        assert place.path.with_name(place.path.name + ".corrupt").exists()


def test_checkpoints_are_not_written_all_the_time(tmp_path: Path) -> None:
    (run, _) = chosen(4)
    model = make_model(run)
    Checkpoint(run, tmp_path).save(Progress(1), model, MPGD(model.parameters(), 0.1))
    assert not list(tmp_path.iterdir())


# --- several processes -------------------------------------------------------------------------

TOGETHER = """
import os, sys, torch
from functools import partial
from pathlib import Path
from mpgd_lab.runner import Context
from mpgd_lab.studies.cifar10 import reproduction as cifar10, training
torch.set_num_threads(1)
every = cifar10.tasks
cifar10.tasks = lambda *rest: [run for run in every(*rest) if run.scheme in {schemes!r}]
cifar10.print_items = lambda *rest: None
cifar10.train = training.train = partial(cifar10.train, every=0.0)
cifar10.Checkpoint.remove = lambda self: None  # states are kept, to be compared
cifar10.run(Context(Path(sys.argv[1]), protocols=("corrected",), seeds=1), {study!r})
names = [open(f"/proc/self/task/{{each}}/comm").read() for each in os.listdir("/proc/self/task")]
assert not any("gloo" in name for name in names), names  # one would abort when Python ends
"""


def test_two_processes_train_as_one(tmp_path: Path, data_folder: Path) -> None:
    """Three blocks over two processes; parameters and running statistics, to rounding."""
    script = tmp_path / "together.py"
    script.write_text(TOGETHER.format(schemes=SCHEMES, study=TINY | {"steps": 10}))
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [sys.executable, *launch, str(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    for run in chosen(10):
        record = Context(tmp_path).store.load(run)
        assert record is not None
        metrics, curves = train(run, data_folder, tmp_path / "alone", every=0.0)
        assert record.curves["train_loss"] == pytest.approx(curves["train_loss"], rel=1e-5)
        assert record.metrics["val_accuracy"] == metrics["val_accuracy"]
        ours = state_of(run, tmp_path / "alone")["model"]
        theirs = state_of(run, tmp_path / "checkpoints")["model"]
        for name, x in ours.items():
            torch.testing.assert_close(x, theirs[name], rtol=1e-4, atol=1e-6)
