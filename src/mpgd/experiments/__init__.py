"""Experiments: one file per table or figure of the paper, and the store of their results.

An experiment is a module of this folder with a function ``run(context) -> None``, and a line in
`EXPERIMENTS`. It asks the store before it computes, so a second run is quick.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, TypeVar

from mpgd.experiments.store import Store
from mpgd.parameters import check_choice, check_integer

T = TypeVar("T")

EXPERIMENTS: Final = {
    "noise": "Figure 1: an orbit, its values and their sums, for both sign rules",
    "valley": "Section 5.1: descent in a widening valley, the trace of the Hessian",
    "airfoil": "Tables on airfoil self-noise: test RMSE and RMSE gap",
    "ecg": "Tables on ECG5000: test accuracy",
    "digits": "A small net on scikit-learn's digits, all schemes: real training, no download",
    "audit": "What each deviation of the authors' scripts does to airfoil, ecg and valley",
    "cifar10": "Table on CIFAR-10: accuracy of a full-batch ResNet-18; reduced on a CPU",
    "cifar10_step": "One step of that table's full recipe, timed",
    "limit": "Theorem 4.1: convergence of MPGD to its Marcus equation as m grows",
    "implicit": "Theorem 4.3: the coefficient of eps^2, printed and completed, against simulation",
    "generalization": "Theorem 4.2: gap, tail index, dimension and Hessian trace against gamma",
}
PROTOCOLS: Final = ("paper", "released")
ON_REQUEST: Final = ("cifar10", "cifar10_step")  # too long to run unless named
NEEDS: Final = {"airfoil": "airfoil", "ecg": "ecg5000"}  # experiment: data set


class Reporter(Protocol):
    """Where an experiment says what it does."""

    def say(self, text: str) -> None:
        """Show one line."""

    def track(self, items: Sequence[T], label: Callable[[T], str]) -> Iterable[T]:
        """Yield ``items`` and show how far the loop is."""

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Show a table."""


class Silent:
    """A reporter that shows nothing."""

    def say(self, text: str) -> None:
        """Show nothing."""

    def track(self, items: Sequence[T], label: Callable[[T], str]) -> Iterable[T]:
        """Return ``items``."""
        return items

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Show nothing."""


@dataclass(frozen=True)
class Context:
    """What an experiment is given.

    Attributes:
        out: the folder of figures.
        reporter: where it says what it does.
        protocol: ``paper``, ``released`` or ``both``.
        seeds: how many seeds of each scheme, from 1 on.
        data: the folder of data sets, looked into first.
        workers: how many processes train.
        cluster: the address of a Dask scheduler that trains instead.
        device: ``cpu`` or ``cuda``; only cifar10 asks.
    """

    out: Path
    reporter: Reporter = field(default_factory=Silent)
    protocol: str = "both"
    seeds: int = 5
    data: Path | None = None
    workers: int = 1
    cluster: str | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_choice("protocol", self.protocol, (*PROTOCOLS, "both"))
        check_integer("seeds", self.seeds, 1)
        check_integer("workers", self.workers, 1)
        check_choice("device", self.device, ("cpu", "cuda"))
        if self.data is not None and not self.data.is_dir():
            raise ValueError(f"data must be a folder, got {str(self.data)!r}")

    @property
    def protocols(self) -> tuple[str, ...]:
        """The protocols to run."""
        return PROTOCOLS if self.protocol == "both" else (self.protocol,)

    @cached_property
    def store(self) -> Store:
        """The store of finished runs, in ``out/runs``."""
        return Store(self.out / "runs", self.reporter.say)


def find(names: Sequence[str]) -> list[str]:
    """Return the experiments of these names, all of them for no name, in their usual order."""
    for name in names:
        if name not in EXPERIMENTS:
            close = difflib.get_close_matches(name, EXPERIMENTS, n=1)
            hint = (
                f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(EXPERIMENTS)}"
            )
            raise ValueError(f"no experiment is named {name!r}; {hint}")
    return [name for name in EXPERIMENTS if name in names or not names]


def lacks(name: str, data: Path | None = None) -> str | None:
    """Return why an experiment is left out where none is named and what to do, or None."""
    from mpgd.experiments.data import SOURCES, folders, is_available

    if name in ON_REQUEST:
        return f"{name} is left out: it takes long; `mpgd reproduce {name}` runs it"
    source = SOURCES.get(NEEDS.get(name, ""))
    if source is None or is_available(source, data):
        return None
    looked = ", ".join(str(folder / source.folder) for folder in folders(data))
    return (
        f"{name} is left out: no {' and '.join(source.files)} in {looked}; "
        f"`mpgd reproduce {name}` downloads what is missing;\n  {source.remedy}"
    )


def load(name: str) -> Callable[[Context], None]:
    """Return the experiment's ``run``; only now is its module imported."""
    run: Callable[[Context], None] = import_module(f"mpgd.experiments.{name}").run
    return run
