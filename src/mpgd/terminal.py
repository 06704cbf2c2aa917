"""Words, tables and progress on a terminal, and plain lines elsewhere."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

PLAIN_WIDTH: Final = 120  # of tables where there is no terminal to ask
TINY: Final = 1e-12  # what is shown as 0


class Terminal:
    """A reporter with a progress bar on a terminal and plain lines elsewhere."""

    def __init__(self, quiet: bool = False, stream: TextIO | None = None) -> None:
        self.quiet = quiet
        self.stream = stream or sys.stdout

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
        from rich import progress as rich

        columns = (
            rich.TextColumn("{task.description}", markup=False),
            rich.BarColumn(),
            rich.MofNCompleteColumn(),
            rich.TimeRemainingColumn(elapsed_when_finished=True),
            rich.TextColumn("left"),
        )
        with rich.Progress(*columns, console=self.console, transient=True) as progress:
            task = progress.add_task("", total=len(items))
            for item in items:
                progress.update(task, description=label(item))
                yield item
                progress.advance(task)

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table."""
        from rich.table import Table
        from rich.text import Text

        table = Table(title=title, title_justify="left", title_style="bold")
        for place, column in enumerate(columns):
            table.add_column(column, justify="right" if place else "left")
        for row in rows:
            table.add_row(*map(Text, row))
        self.console.print(table)


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
