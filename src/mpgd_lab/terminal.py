"""Words, tables and progress on a terminal, and plain lines elsewhere."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

PLAIN_WIDTH: Final = 200  # of tables where there is no terminal to ask
TRUST: Final = 60.0  # seconds for which estimates weigh as much as the time that was measured
TINY: Final = 1e-12  # what is shown as 0


class PlannedWork(Protocol):
    """One part of a plan."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def runs(self) -> int:
        """How many runs it has to train."""

    @property
    def seconds(self) -> float:
        """About how long that takes."""


class Clock:
    """How long a plan still takes: estimates, corrected by how the time went so far.

    Examples:
        >>> clock = Clock({"short": 60.0, "long": 240.0}, now=lambda: 100.0)
        >>> clock.begin("short")
        >>> clock.left(0.0)
        300.0
        >>> clock.now = lambda: 190.0  # half of "short" took 90 seconds, not 30
        >>> clock.left(0.5)
        450.0
    """

    def __init__(
        self, seconds: Mapping[str, float], now: Callable[[], float] = time.perf_counter
    ) -> None:
        self.seconds, self.now = dict(seconds), now
        self.began, self.done, self.current = now(), 0.0, 0.0

    def begin(self, name: str) -> None:
        """Go on to the next part."""
        self.done += self.current
        self.current = self.seconds.get(name, 0.0)

    def left(self, share: float) -> float:
        """Return the seconds left when ``share`` of the present part is done."""
        done = self.done + share * self.current
        pace = (self.now() - self.began + TRUST) / (done + TRUST)
        return pace * max(0.0, sum(self.seconds.values()) - done)


class Terminal:
    """A reporter with a progress bar on a terminal and, if ``verbose``, plain lines elsewhere."""

    def __init__(
        self, quiet: bool = False, stream: TextIO | None = None, verbose: bool = True
    ) -> None:
        self.quiet, self.verbose = quiet, verbose
        self.stream = stream or sys.stdout
        self.clock: Clock | None = None  # of the whole plan

    @cached_property
    def console(self) -> Console:
        """What writes to the stream; it leaves colours out where NO_COLOR is set."""
        try:
            from rich.console import Console
        except ImportError:
            raise ImportError('progress needs rich: pip install "mpgd[lab]"') from None

        class Ours(Console):
            def on_broken_pipe(self) -> None:
                raise  # rich would leave with exit code 1

        width = None if self.stream.isatty() else PLAIN_WIDTH
        lines: Any = {"width": width, "soft_wrap": width is not None, "highlight": False}
        return Ours(file=self.stream, quiet=self.quiet, **lines)

    def say(self, text: str) -> None:
        """Print one line."""
        self.console.print(text, markup=False)

    def plan(self, dues: Sequence[PlannedWork]) -> None:
        """Say what is about to be done and how long it takes; from now on say how much is left."""
        self.clock = Clock({due.name: due.seconds for due in dues})
        runs, seconds = sum(due.runs for due in dues), sum(due.seconds for due in dues)
        if runs:
            self.say(f"To train: {runs_text(runs)}, {duration(seconds)} in all")
            for due in dues:
                what = (
                    f"{runs_text(due.runs):>11}  {duration(due.seconds)}"
                    if due.runs
                    else "in store"
                )
                self.say(f"  {due.name:<15} {what:>11}")

    def begin(self, name: str) -> None:
        """Go on to the next part of the plan."""
        if self.clock:
            self.clock.begin(name)

    def left(self, share: float) -> str:
        """Return how long the whole plan still takes, in words, or nothing without a plan."""
        return f"; all: {duration(self.clock.left(share))} left" if self.clock else ""

    def link(self, path: Path) -> None:
        """Print the path of a file, on a terminal as a link to it."""
        from rich.text import Text

        text = Text(str(path))
        if self.console.is_terminal:
            text.stylize(f"link {path.resolve().as_uri()}")
        self.console.print(text)

    def track(
        self, items: Sequence[T], label: Callable[[T], str], size: Callable[[T], int] = lambda _: 1
    ) -> Iterator[T]:
        """Yield ``items`` with a progress bar and the time left, or one line for each.

        What is counted are not the items but their sizes, such as the runs of a batch.
        """
        if self.console.is_terminal and not self.quiet:
            yield from self._bar(items, label, size)
            return
        total, done = sum(map(size, items)), 0
        for item in items:
            began = time.perf_counter()
            yield item
            seconds, done = time.perf_counter() - began, done + size(item)
            if self.verbose:
                left = self.left(done / total)
                self.say(f"  {done}/{total}  {label(item)}  ({seconds:.1f} s{left})")

    def _bar(
        self, items: Sequence[T], label: Callable[[T], str], size: Callable[[T], int]
    ) -> Iterator[T]:
        from rich import progress as rich

        columns = (
            rich.TextColumn("{task.description}", markup=False),
            rich.BarColumn(),
            rich.MofNCompleteColumn(),
            rich.TimeRemainingColumn(elapsed_when_finished=True),
            rich.TextColumn("left{task.fields[left]}"),
        )
        with rich.Progress(*columns, console=self.console, transient=True) as progress:
            total, done = sum(map(size, items)), 0
            task = progress.add_task("", total=total, left="")
            for item in items:
                left = self.left(done / total)
                progress.update(task, description=label(item), left=left)
                yield item
                done += size(item)
                progress.advance(task, size(item))

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table as wide as it is: a narrow terminal wraps its lines and loses nothing."""
        from rich import box
        from rich.measure import Measurement
        from rich.table import Table
        from rich.text import Text

        look: Any = {"box": box.SIMPLE_HEAD, "pad_edge": False, "padding": 0}
        table = Table(title=title, title_justify="left", title_style="bold", **look)
        for place, column in enumerate(columns):
            table.add_column(column, justify="right" if place else "left", no_wrap=True)
        for row in rows:
            table.add_row(*map(Text, row))
        every = self.console.options.update(width=10_000)
        width = Measurement.get(self.console, every, table).maximum
        self.console.print(table, width=width, crop=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """Return a length of time as people say it.

    Examples:
        >>> [duration(seconds) for seconds in (12, 80, 400, 5000)]
        ['under a minute', 'about 1 min', 'about 7 min', 'about 1 h 23 min']
    """
    minutes = round(seconds / 60)
    if seconds < 60:
        return "under a minute"
    return (
        f"about {minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"about {minutes} min"
    )


def runs_text(count: int) -> str:
    """Return a number of runs in words."""
    return "1 run" if count == 1 else f"{count:,} runs"


def show(facts: Mapping[str, Any], as_json: bool) -> None:
    """Print names and values on standard output, one a line or as JSON."""
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
        return f"{value if abs(value) > TINY else 0.0:.6g}"
    words = {"None": "none", "True": "yes", "False": "no"}
    return words.get(str(value), str(value))
