"""A long run's state on disk, so that a killed run goes on with the same bits.

The file holds the configuration of its run, the parameters and running statistics, the optimizer
with its orbits, and the curves so far. It is written to a temporary name, synced and renamed, so
that there is always a whole one, and it is taken away when the run is in the store.
"""

import io
import json
import logging
import os
import pickle
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from torch.optim import Optimizer

from mpgd.files import open_regular, write_whole
from mpgd_lab.store import Run

EVERY: Final = 300.0  # seconds between two checkpoints
Curves = dict[str, list[float]]


@dataclass
class Progress:
    """How far a run is: its steps, the time they took in all and on a CPU, and its curves."""

    steps: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    curves: Curves = field(default_factory=dict)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time of the block."""
        began, cpu = time.perf_counter(), time.process_time()
        yield
        self.seconds += time.perf_counter() - began
        self.cpu_seconds += time.process_time() - cpu

    def note(self, **values: float) -> None:
        """Add a point to every curve."""
        for name, value in ({"step": float(self.steps)} | values).items():
            self.curves.setdefault(name, []).append(value)


@dataclass
class Checkpoint:
    """The file of one run."""

    run: Run  # whose state it holds
    folder: Path | None  # where it lies; None keeps nothing
    every: float = EVERY  # the least number of seconds between two writes
    last_write: float = field(default_factory=time.monotonic)

    @property
    def path(self) -> Path | None:
        """The file, whether it exists or not."""
        return self.folder / f"{self.run.key}.pt" if self.folder else None

    def load(self, model: nn.Module, optimizer: Optimizer) -> Progress:
        """Restore model and optimizer and return how far they are, if there is a file.

        A file that cannot be used is set aside and the run begins anew.
        """
        if self.path is None or not self.path.exists():
            return Progress()
        try:
            with open_regular(self.path) as file:
                content = io.BytesIO(file.read())
            state = torch.load(content, map_location="cpu", weights_only=True)
            if state["run"] != self.run.canonical:
                raise ValueError("it belongs to another run")
            if _shapes(state["model"]) != _shapes(model.state_dict()):
                raise ValueError("its network has another shape")
            optimizer.load_state_dict(state["optimizer"])
            model.load_state_dict(state["model"])
        except (pickle.UnpicklingError, RuntimeError, ValueError, KeyError, EOFError) as problem:
            aside = self.path.with_name(self.path.name + ".corrupt")
            with suppress(FileNotFoundError):  # another process was faster
                os.replace(self.path, aside)
            logging.getLogger("mpgd").warning(
                "%s: no checkpoint (%s); set aside, the run begins anew", aside, problem
            )
            return Progress()
        return Progress(**state["progress"])

    def save(self, progress: Progress, model: nn.Module, optimizer: Optimizer) -> bool:
        """Write the state, unless the last time was just now; return whether it was written."""
        if self.path is None or time.monotonic() - self.last_write < self.every:
            return False
        state = {"run": self.run.canonical, "progress": asdict(progress)}
        state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, partial(torch.save, state))
        self.last_write = time.monotonic()
        return True

    def remove(self) -> None:
        """Take the file away."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def run_in(path: Path) -> Run:
    """Return the run whose state a file holds."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        run = Run.of(json.loads(state["run"]))
    except (pickle.UnpicklingError, RuntimeError, ValueError, LookupError, TypeError, EOFError):
        raise ValueError("corrupt: no state of a run") from None
    if run.key != path.stem or not isinstance(run.seed, int):
        raise ValueError("corrupt: its name is not the hash of its run")
    if not run.is_current:
        raise ValueError("made with earlier noise; the run begins anew")
    return run


def _shapes(state: dict[str, Any]) -> dict[str, torch.Size]:
    return {name: x.shape for name, x in state.items()}
