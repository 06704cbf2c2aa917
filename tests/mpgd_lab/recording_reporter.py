"""A reporter for tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mpgd_lab.runner import SilentReporter

Rows = list[list[str]]


class RecordingReporter(SilentReporter):
    """A reporter that remembers what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.every: list[tuple[str, list[str], Rows]] = []  # tables: title, headings, rows

    @property
    def tables(self) -> dict[str, Rows]:
        """The rows of each table, by its title."""
        return {title: rows for title, _, rows in self.every}

    def say(self, text: str) -> None:
        """Keep one line."""
        self.lines.append(text)

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Keep a table."""
        self.every.append((title, list(columns), [list(row) for row in rows]))
