"""Interleaved repeated timing, and the tables and verdicts made from it.

Every round runs every case once, each time starting with another one, so that a slow moment of
the machine hits all cases alike. A ratio is the median over rounds of the ratio within a round.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

Case = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """The seconds of one case, round by round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median over rounds."""
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        """The fastest round."""
        return min(self.seconds)

    def over(self, other: Timing) -> float:
        """Return how many times as long as ``other`` this takes."""
        pairs = zip(self.seconds, other.seconds, strict=True)
        return statistics.median(mine / its for mine, its in pairs)


@dataclass(frozen=True)
class Claim:
    """A ratio that must show, and the one measured.

    Attributes:
        text: the claim in words, with its bound.
        measured: the number measured.
        bound: the number promised.
        at_least: whether the measured number must be at least the bound, or at most.
    """

    text: str
    measured: float
    bound: float
    at_least: bool = True

    def __str__(self) -> str:
        good = self.measured >= self.bound if self.at_least else self.measured <= self.bound
        return f"{'pass ' if good else 'SHORT'}  {self.text}: {self.measured:.3g}"


@dataclass(frozen=True)
class Table:
    """One table of the report: a title, columns, rows of text, remarks and claims."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str] = ()
    claims: Sequence[Claim] = field(default_factory=tuple)

    def markdown(self) -> str:
        """Return the table in Markdown."""
        lines = [f"## {self.title}", ""]
        if self.rows:
            rule = ["---"] + ["---:"] * (len(self.columns) - 1)
            lines += ["| " + " | ".join(row) + " |" for row in (self.columns, rule, *self.rows)]
            lines.append("")
        for remark in self.remarks:
            lines += [remark, ""]
        if self.claims:
            lines += ["```text", *map(str, self.claims), "```", ""]
        return "\n".join(lines)


def interleaved(cases: Mapping[str, Case], rounds: int) -> dict[str, Timing]:
    """Time every case ``rounds`` times, after one call of each that does not count."""
    names = list(cases)
    for name in names:
        cases[name]()
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            began = time.perf_counter()
            cases[name]()
            seconds[name].append(time.perf_counter() - began)
    return {name: Timing(tuple(times)) for name, times in seconds.items()}


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch, and the engines with it, use ``count`` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
