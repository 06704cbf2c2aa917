"""An experiment as a value: a study says what it is, and `mpgd_lab.runner` reproduces it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mpgd_lab.catalogue import EXPERIMENTS
from mpgd_lab.content.blocks import Block
from mpgd_lab.data.sources import Source, folders, is_available
from mpgd_lab.schema import NOTHING, Needs
from mpgd_lab.store import Record, Run

Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]  # title, headings, rows
Said = str | Table

LARGEST: Final = 40  # runs that are trained together
LAST: Final = 100  # place of a section that asks for none


@dataclass(frozen=True)
class Part:
    """How an experiment becomes a section of a report."""

    title: str  # its heading
    blocks: Callable[[Sequence[Record]], Sequence[Block]]  # of its records and those of ``others``
    others: tuple[str, ...] = ()  # experiments whose records it shows too
    place: int = LAST  # sections are sorted by it


@dataclass(frozen=True)
class Experiment:
    """A study: what it runs, how that is trained, what is said of it.

    Attributes:
        name: what the command line calls it.
        runs: returns the runs of (protocol, seeds) or (protocol, seeds, size); a size shortens.
        train: yields metrics and curves of (runs, data folder), for runs trained together. It is
            a function of a module, so that a worker can import it.
        told: returns tables and lines about the records, in the order in which they are printed.
        title: what it is about, in a line; by default its line in the catalogue.
        needs: returns what the record of a run must hold.
        section: its part of the report.
        data: the data sets without which it cannot run.
        also: the data sets it uses where they are found.
        on_request: whether it takes so long that it is run only if named.
        seeded: whether ``--seeds`` is for it.
        seconds: about how long one of its runs takes on one core, trained with its like.
        devices: where it can train.
        sized: whether ``--size`` is for it.
        largest: returns how many runs like this one may be trained together.
        label: names a run in the progress; by default runs are counted.
        figures: returns blocks, of which plates are written to files.
        wanted: returns the runs of a context; by default all, for its protocols and seeds.
        run: reproduces it, where the usual loop does not do.
    """

    name: str
    runs: Callable[..., list[Run]]
    train: Callable[..., Iterable[Any]]
    told: Callable[[list[Record]], Iterable[Said]]
    title: str = ""
    needs: Callable[[Run], Needs] = lambda run: NOTHING
    section: Part | None = None
    data: tuple[Source, ...] = ()
    also: tuple[Source, ...] = ()
    on_request: bool = False
    seeded: bool = True
    seconds: float = 0.0
    devices: tuple[str, ...] = ("cpu",)
    sized: bool = False
    largest: Callable[[Run], int] = lambda run: LARGEST
    label: Callable[[Run], str] | None = None
    figures: Callable[[list[Record]], Iterable[Block]] | None = None
    wanted: Callable[..., list[Run]] | None = None
    run: Callable[..., None] | None = None

    def __post_init__(self) -> None:
        if not self.title and self.name in EXPERIMENTS:
            object.__setattr__(self, "title", EXPERIMENTS[self.name].title)

    @property
    def uses(self) -> set[str]:
        """The experiments whose records it has runs among or shows, itself among them."""
        return {self.name, *(self.section.others if self.section else ())}

    def lacks(self, data: Path | None = None) -> str | None:
        """Return why it is left out where nothing is named, and what to do, or None."""
        if self.on_request:
            return f"{self.name} is left out: it takes long; `mpgd reproduce {self.name}` runs it"
        for source in self.data:
            if not is_available(source, data):
                looked = ", ".join(str(folder / source.folder) for folder in folders(data))
                return (
                    f"{self.name} is left out: no {' and '.join(source.files)} in {looked}; "
                    f"`mpgd reproduce {self.name}` downloads what is missing;\n  {source.remedy}"
                )
        return None
