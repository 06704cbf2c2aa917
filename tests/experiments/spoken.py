"""A reporter for tests."""

from __future__ import annotations

from typing import Any

from mpgd.experiments import Silent


class Spoken(Silent):
    """A reporter that remembers what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.tables: dict[str, Any] = {}

    def say(self, text: str) -> None:
        """Keep one line."""
        self.lines.append(text)

    def table(self, title: str, columns: Any, rows: Any) -> None:
        """Keep a table."""
        self.tables[title] = list(rows)
