"""A real training run, killed half-way and resumed from disk, ends with the same bits."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.optim import workers
from tests.optim.workers import same_bits

EPOCHS = 12  # of 8 steps each
pytestmark = pytest.mark.timeout(120)


def process(kind: str, folder: Path, die_after: int | None) -> int:
    """Train in a new process and return its exit code."""
    folder.mkdir(exist_ok=True)
    last = "-" if die_after is None else str(die_after)
    command = [sys.executable, workers.__file__, kind, str(folder), str(EPOCHS), last]
    return subprocess.run(command, timeout=100, check=False).returncode


def result(folder: Path) -> Any:
    return torch.load(folder / "checkpoint.pt", weights_only=True)


@pytest.mark.parametrize("kind", ["mpgd", "adamw"])
def test_a_killed_run_resumes_and_ends_with_the_same_bits(kind: str, tmp_path: Path) -> None:
    """Small CNN on scikit-learn's digits, cosine schedule, a checkpoint after every step."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    workers.train_digits(kind, whole, EPOCHS, None)
    assert process(kind, broken, die_after=41) == -signal.SIGKILL
    assert len(result(broken)["losses"]) == 42
    assert process(kind, broken, die_after=None) == 0
    expected, found = result(whole), result(broken)
    assert len(expected["losses"]) == 8 * EPOCHS
    assert same_bits(found, expected)
    first, last = (sum(expected["losses"][part]) / 8 for part in (slice(8), slice(-8, None)))
    assert first > 1.8
    assert last < 0.6 * first


@pytest.mark.parametrize("kind", ["mpgd", "adamw"])
def test_without_the_optimizers_state_the_bits_would_differ(kind: str, tmp_path: Path) -> None:
    """Twin: resumed with fresh orbits, the run ends elsewhere."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken):
        folder.mkdir()
        workers.train_digits(kind, folder, 2, None)
    content = result(broken)
    for values in content["optimizer"]["state"].values():
        for name, value in values.items():
            if name.endswith("additive"):
                value.neg_()
    torch.save(content, broken / "checkpoint.pt")
    for folder in (whole, broken):
        workers.train_digits(kind, folder, 3, None)
    assert not same_bits(result(whole)["model"], result(broken)["model"])
