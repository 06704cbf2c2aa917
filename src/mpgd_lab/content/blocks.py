"""The content of a report, without its layout: sections of paragraphs, tables, figures, verdicts.

    store -> StoreContents -> Page of Sections -> html.render, markdown.render

All of it is text and numbers, and functions that draw on matplotlib axes; no markup is in it. In a
paragraph, words between backticks are code.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Word = Literal[
    "supported",
    "contradicted",
    "mixed",
    "undecided",
    "provisionally supported",
    "provisionally contradicted",
    "provisionally mixed",
]
WORDS: tuple[Word, ...] = get_args(Word)
SIZE = (3.6, 2.75)  # of a panel, inches
SHORT_TABLE = 6  # rows; longer tables are folded
RECORD_ERRORS = (
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    RecursionError,
)  # of odd records
# What a claim was tested on: the paper's own text, the authors' scripts, the text with an error
# put right, a smaller network and fewer images, or something that is not in the paper.
Basis = Literal["stated", "scripts", "corrected", "reduced", "elsewhere"]


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    answer: bool = False  # whether it states the result; then it is first in its section


@dataclass(frozen=True)
class Commands:
    """Lines for a shell."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Missing:
    """Missing results and the command that makes them; ``begun`` if some are in the store."""

    text: str
    command: str
    begun: bool = False


@dataclass(frozen=True)
class Cell:
    """An entry of a table."""

    text: str  # what is shown
    order: float | None = None  # the sort key of its column; by default the text
    word: str | None = None  # the verdict on it, if there is one


@dataclass(frozen=True)
class Column:
    """A heading, and the group of columns it stands under."""

    title: str
    group: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first cell names its row."""

    caption: str  # what it shows
    columns: tuple[Column, ...]  # its headings
    rows: tuple[tuple[Cell, ...], ...]  # its cells
    wordy: bool = False  # whether its cells hold sentences

    @property
    def is_long(self) -> bool:
        """Whether a page folds it."""
        return len(self.rows) > SHORT_TABLE


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    draw: Callable[[Any], None]  # draws it
    alt: str  # its description in words
    left: float = 0.18  # the share of its width for the labels of the vertical axis


def panel(alt: str, draw: Callable[..., None], *given: Any, left: float = 0.18) -> Panel:
    """Return a panel on which ``draw`` draws what is ``given``."""
    return Panel(lambda ax: draw(ax, *given), alt, left)


@dataclass(frozen=True)
class Plate:
    """A figure of some panels; with ``legend`` their common legend stands beside them."""

    name: str
    caption: str
    panels: tuple[Panel, ...]
    legend: bool = False
    across: int | None = None  # panels in a row of a page, where it is not the default
    size: tuple[float, float] = SIZE  # of a panel, inches; a table of many cells takes more

    @property
    def columns(self) -> int:
        """How many panels are in a row of a page, however narrow: many come in pairs."""
        count = len(self.panels)
        return self.across or (count if count < 4 else 3 if count % 3 == 0 and count % 2 else 2)

    @property
    def scale(self) -> float:
        """The width of a panel relative to the default."""
        return self.size[0] / SIZE[0]

    @property
    def rows(self) -> int:
        """How many rows of panels there are."""
        return -(-len(self.panels) // self.columns)


@dataclass(frozen=True)
class Route:
    """The path of one scheme through the valley: |u| and v."""

    label: str
    color: str
    u: tuple[float, ...]
    v: tuple[float, ...]
    shown: bool = True

    @property
    def path(self) -> Array:
        """Its points, (coordinate, point), up to the first that is not finite."""
        points = np.array([self.u, self.v], dtype=float)
        return points[:, np.isfinite(points).all(axis=0).cumprod(dtype=bool)]


@dataclass(frozen=True)
class Landscape:
    """The valley in three dimensions with the paths of all schemes."""

    name: str
    caption: str
    routes: tuple[Route, ...]


def figure_problem(figure: Plate | Landscape, problem: Exception) -> Text:
    """Return the text in place of a figure that cannot be drawn from its records."""
    reason = f"{type(problem).__name__}: {problem}"
    return Text(f"The figure {figure.name} cannot be drawn from these records ({reason}).")


@dataclass(frozen=True)
class Finding:
    """A verdict."""

    headline: str  # the claim of the paper it belongs to
    setting: str  # under what it was tested, such as a protocol
    claim: str  # what exactly was tested
    word: str  # one of WORDS
    reason: str  # the numbers it comes from
    basis: Basis = "elsewhere"  # what it was tested on
    deciding_seeds: float = 0.0  # that would decide it, if it is undecided


@dataclass(frozen=True)
class Findings:
    """Verdicts with the rule they follow."""

    rule: str
    items: tuple[Finding, ...]


Block = Text | Commands | Missing | Table | Plate | Landscape | Findings


@dataclass(frozen=True)
class Section:
    """A part of the report: its anchor, its title and what stands in it."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    note: str = ""  # whether its published runs were trained again, and agree

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All verdicts in this section."""
        return tuple(
            item for block in self.blocks if isinstance(block, Findings) for item in block.items
        )

    @property
    def answers(self) -> tuple[str, ...]:
        """The texts that state its result."""
        return tuple(
            block.text for block in self.blocks if isinstance(block, Text) and block.answer
        )

    @property
    def is_missing(self) -> bool:
        """Whether the store has nothing of it."""
        return all(isinstance(block, Missing) for block in self.blocks)

    @property
    def is_begun(self) -> bool:
        """Whether the store has only a part of it."""
        return any(isinstance(block, Missing) and block.begun for block in self.blocks)


@dataclass(frozen=True)
class Tally:
    """How often each verdict was reached on one claim under one setting."""

    setting: str
    counts: tuple[tuple[str, int], ...]
    basis: Basis = "elsewhere"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper with its verdicts, and the section that shows them."""

    text: str
    section: str
    tallies: tuple[Tally, ...]


@dataclass(frozen=True)
class Page:
    """The whole report."""

    title: str  # its heading
    lead: str  # what it is, in two sentences
    commands: Commands  # what made the store and the report
    claims: tuple[Claim, ...]  # the summary
    conclusions: tuple[str, ...]  # the summary in words
    sections: tuple[Section, ...] = field(default=())  # everything else
    answer: str = ""  # to the question of the title, in one sentence
    overview: Plate | None = None  # the paper's numbers against ours
