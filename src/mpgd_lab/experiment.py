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
PrintItem = str | Table

MAX_BATCH: Final = 40  # runs trained together, by default
SAMPLE: Final = 24  # published runs of a study that are trained again
LAST: Final = 100  # place of a section without one
ROUNDING: Final = 1e-6  # relative; float64 stays far below unless a run amplifies its rounding


@dataclass(frozen=True)
class SectionSpec:
    """The section of a report that shows an experiment."""

    title: str  # its heading
    blocks: Callable[[Sequence[Record]], Sequence[Block]]  # of its records and those of ``others``
    others: tuple[str, ...] = ()  # experiments whose records it shows too
    place: int = LAST  # sections are sorted by it


@dataclass(frozen=True)
class Experiment:
    """A study: its runs, how they are trained, what is printed and reported.

    Attributes:
        name: what the command line calls it.
        runs: returns the runs of (protocol, seeds) or (protocol, seeds, size); a size shortens.
        train: yields metrics and curves of (runs, data folder), for runs trained together. It is
            a function of a module, so that a worker can import it.
        printout: returns tables and lines about the records, in the order of printing.
        title: what it is about, in a line; by default its line in the catalogue.
        needs: returns what the record of a run must hold.
        section: its part of the report.
        data: the data sets without which it cannot run.
        optional_data: the data sets it uses where they are available.
        sources: returns the data sets of a run, where runs differ in that; by default ``data``.
        tolerance: returns by how much, relative, a metric may differ where a run is trained again.
        on_request: whether it runs only if named, because it takes long.
        heavy: whether not even its data is fetched and its published runs are checked unless named.
        sample: how many of its published runs are trained again.
        seeded: whether ``--seeds`` applies.
        seconds: estimated time of one run on one core, trained in a batch.
        run_seconds: the same of a run, where runs differ much.
        devices: those it can train on.
        sized: whether ``--size`` applies.
        max_batch: returns how many runs of this kind may be trained together.
        label: names a run in the progress; by default runs are counted.
        figures: returns blocks; its plates are written to files.
        select_runs: returns the runs of a context; by default all, for its protocols and seeds.
        run: reproduces it instead of the shared loop.
    """

    name: str
    runs: Callable[..., list[Run]]
    train: Callable[..., Iterable[Any]]
    printout: Callable[[list[Record]], Iterable[PrintItem]]
    title: str = ""
    needs: Callable[[Run], Needs] = lambda run: NOTHING
    section: SectionSpec | None = None
    data: tuple[Source, ...] = ()
    optional_data: tuple[Source, ...] = ()
    sources: Callable[[Run], tuple[Source, ...]] | None = None
    tolerance: Callable[[Run], float] = lambda run: ROUNDING
    on_request: bool = False
    heavy: bool = False
    sample: int = SAMPLE
    seeded: bool = True
    seconds: float = 0.0
    run_seconds: Callable[[Run], float] | None = None
    devices: tuple[str, ...] = ("cpu",)
    sized: bool = False
    max_batch: Callable[[Run], int] = lambda run: MAX_BATCH
    label: Callable[[Run], str] | None = None
    figures: Callable[[list[Record]], Iterable[Block]] | None = None
    select_runs: Callable[..., list[Run]] | None = None
    run: Callable[..., None] | None = None

    def __post_init__(self) -> None:
        if not self.title and self.name in EXPERIMENTS:
            object.__setattr__(self, "title", EXPERIMENTS[self.name].title)

    @property
    def uses(self) -> set[str]:
        """Its own name, and the experiments whose records its section shows."""
        return {self.name, *(self.section.others if self.section else ())}

    def sources_of(self, run: Run) -> tuple[Source, ...]:
        """Return the data sets without which a run cannot be trained."""
        return self.sources(run) if self.sources else self.data

    def total_seconds(self, runs: Iterable[Run]) -> float:
        """Return the estimated time of runs on one core."""
        return sum(self.run_seconds(run) if self.run_seconds else self.seconds for run in runs)

    def reason_to_skip(self, data: Path | None = None) -> str | None:
        """Return why it is left out where no study is named, with the remedy, or None."""
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
