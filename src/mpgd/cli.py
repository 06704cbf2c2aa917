"""The command line: parsing, progress and exit codes.

Each command is a frozen dataclass that `tyro` fills from the arguments, and its ``run``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import mpgd
from mpgd.experiments import EXPERIMENTS, Context, find, lacks, load
from mpgd.experiments.store import StoreError, installed, versions

try:
    import tyro
except ImportError:
    sys.exit('mpgd: the command line needs tyro: pip install "mpgd[lab]"')

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

OK, FAILED, USAGE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

HELP: Final = """Gradient descent with chaotic, heavy-tailed perturbations.

Examples:
  mpgd reproduce                            all experiments, into ./results
  mpgd reproduce noise --out figures        one of them
  mpgd reproduce airfoil --seeds 100 --workers 2 --data DIR
  mpgd noise --gamma 0.7 --beta 0.5         constants of a noise, distance to its limit
  mpgd noise --gamma 0.7 --plot noise.png   the same as a figure
  mpgd info --json                          versions and folders, for a script
  mpgd --version

Exit codes:
  0    done
  1    a run failed
  2    wrong arguments
  130  Ctrl-C, 143 terminated; finished runs are kept and not run again

Environment:
  NO_COLOR=1         no colours
  MPGD_TRACEBACK=1   show where an error came from
  MPGD_CACHE, MPGD_DATA   folders of tables and of data sets"""


class UsageError(Exception):
    """The arguments are wrong: exit code 2."""


@dataclass(frozen=True)
class Reproduce:
    """Run the paper's experiments; what is finished is not run again."""

    names: Annotated[
        tyro.conf.Positional[tuple[str, ...]],
        tyro.conf.arg(
            metavar="[NAMES ...]",
            help="Experiments to run; if none is named, all whose data is found. There are: "
            f"{', '.join(EXPERIMENTS)}.",
        ),
    ] = ()
    protocol: Literal["paper", "released", "both"] = "both"
    """As the paper's text says, as the authors' scripts do, or both."""
    seeds: int = 5
    """Seeds of every scheme of valley, airfoil and ecg, from 1 on."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the data sets; looked into before MPGD_DATA and the cache."""
    workers: int = 1
    """Processes that train."""
    cluster: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None
    """Address of a Dask scheduler that trains instead, such as tcp://host:8786."""
    out: Path = Path("results")
    """Folder for figures, and for results in its `runs`."""
    quiet: bool = False
    """Print nothing but errors."""

    def run(self) -> None:
        """Run the experiments one after the other."""
        with usage_errors():
            names = find(self.names)
            context = Context(
                self.out, Terminal(self.quiet), self.protocol, self.seeds, self.data,
                self.workers, self.cluster,
            )  # fmt: skip
        context.store.check_writable()
        for name in names:
            if not self.names and (reason := lacks(name, self.data)):
                context.reporter.say(reason)
                continue
            context.reporter.say(f"{name}: {EXPERIMENTS[name]}")
            load(name)(context)


@dataclass(frozen=True)
class Noise:
    """Show the constants of a chaotic noise and how near its sums are to the stable limit."""

    gamma: float = 0.6
    """Intermittency exponent, in (0.5, 1); the tail index is alpha = 1/gamma."""
    beta: float = 0.0
    """Skewness of the limit, in [-1, 1]."""
    steps: int = 1000
    """Values in each sum."""
    count: int = 10_000
    """Number of sums."""
    seed: int = 0
    """A non-negative integer."""
    signs: Literal["fresh", "product"] = "fresh"
    """A fresh sign after each visit to Z, or the product of all so far, as the paper prints it."""
    plot: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write a figure to this file: .png, .pdf or .svg."""
    json: bool = False
    """Print the numbers as JSON."""

    def run(self) -> None:
        """Print the numbers and write the figure."""
        from mpgd.experiments.noise import describe, plot

        with usage_errors():
            noise = mpgd.ChaoticNoise(self.gamma, self.beta, self.signs)
            numbers = describe(noise, self.steps, self.count, self.seed)
            if self.plot:
                plot(noise, self.steps, self.count, self.seed).savefig(self.plot, dpi=200)
        show(numbers, self.json)


@dataclass(frozen=True)
class Info:
    """Show versions, engines, threads and folders."""

    json: bool = False
    """Print as JSON."""

    def run(self) -> None:
        """Print what this installation is."""
        import torch

        from mpgd.maps.tables import cache_folder
        from mpgd.noise.engines import has_numba

        data = Path(os.environ.get("MPGD_DATA") or cache_folder() / "data")
        extras = {
            name: installed(name) for name in ("numba", "scipy", "tyro", "rich", "matplotlib")
        }
        facts: dict[str, Any] = {**versions(), **extras}
        facts["engines"] = ["torch", "numba"] if has_numba() else ["torch"]
        facts |= {"threads": torch.get_num_threads(), "cache_folder": str(cache_folder())}
        facts |= {"data_folder": str(data), "data_found": data.is_dir()}
        show(facts, self.json)


Command = Reproduce | Noise | Info


class Terminal:
    """A reporter with a progress bar on a terminal and plain lines elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet

    @cached_property
    def console(self) -> Console:
        """Where text goes: standard output."""
        try:
            from rich.console import Console
        except ImportError:
            raise ImportError('progress needs rich: pip install "mpgd[lab]"') from None
        width = None if sys.stdout.isatty() else 120
        return Console(quiet=self.quiet, highlight=False, width=width, soft_wrap=width is not None)

    def say(self, text: str) -> None:
        """Print one line."""
        self.console.print(text, markup=False)

    def track(self, items: Sequence[T], label: Callable[[T], str]) -> Iterator[T]:
        """Yield ``items`` with a progress bar and the time left, or one line for each."""
        if self.console.is_terminal and not self.quiet:
            yield from self._bar(items, label)
            return
        for number, item in enumerate(items, 1):
            began = time.perf_counter()
            yield item
            seconds = time.perf_counter() - began
            self.say(f"  {number}/{len(items)}  {label(item)}  ({seconds:.1f} s)")

    def _bar(self, items: Sequence[T], label: Callable[[T], str]) -> Iterator[T]:
        from rich.progress import Progress

        with Progress(console=self.console, transient=True) as progress:
            task = progress.add_task("", total=len(items))
            for item in items:
                progress.update(task, description=label(item))
                yield item
                progress.advance(task)

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table."""
        from rich.table import Table

        table = Table(title=title, title_justify="left", title_style="bold")
        for place, column in enumerate(columns):
            table.add_column(column, justify="right" if place else "left")
        for row in rows:
            table.add_row(*row)
        self.console.print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if list(arguments) == ["--version"]:
        print(f"mpgd {mpgd.__version__}")
        return OK
    try:
        with termination():
            parse(arguments).run()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else FAILED
    except KeyboardInterrupt:
        return fail(INTERRUPTED, "interrupted; finished runs are kept")
    except UsageError as mistake:
        return fail(USAGE, str(mistake))
    except (
        ValueError,
        TypeError,
        ImportError,
        StoreError,
        OSError,
        RuntimeError,
        MemoryError,
    ) as problem:
        return fail(FAILED, str(problem))
    return OK


def parse(arguments: Sequence[str]) -> Command:
    """Return the command the arguments ask for; tyro exits by itself on help and mistakes."""
    conf = tyro.conf
    config = (conf.FlagCreatePairsOff, conf.OmitArgPrefixes, conf.OmitSubcommandPrefixes)
    command: Command = tyro.cli(
        Reproduce | Noise | Info,
        prog="mpgd", description=HELP, args=arguments, config=config,
    )  # fmt: skip
    return command


def fail(code: int, text: str) -> int:
    """Print an error of one line, or the traceback where MPGD_TRACEBACK is set."""
    if os.environ.get("MPGD_TRACEBACK"):
        raise
    print(f"mpgd: {' '.join(text.split())}", file=sys.stderr)
    return code


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn the library's words about a wrong argument into a usage error."""
    try:
        yield
    except (ValueError, TypeError) as mistake:
        raise UsageError(str(mistake)) from mistake


@contextmanager
def termination() -> Iterator[None]:
    """Leave cleanly on SIGTERM: temporary files are removed on the way out."""

    def leave(number: int, frame: FrameType | None) -> None:
        print("mpgd: terminated; finished runs are kept", file=sys.stderr)
        sys.exit(TERMINATED)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def show(facts: dict[str, Any], as_json: bool) -> None:
    """Print names and values, one a line or as JSON."""
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:<{width}}  {_text(value)}")


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    if isinstance(value, float):
        return f"{value:.10g}"
    words = {"None": "none", "True": "yes", "False": "no"}
    return words.get(str(value), str(value))


if __name__ == "__main__":
    sys.exit(main())
