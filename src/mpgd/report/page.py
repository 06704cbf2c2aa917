"""The page: every section from the records of its experiment, and what is missing by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mpgd.experiments.store import Record, Run
from mpgd.report.content import ODD, Block, Commands, Missing, Page, Section, Table, Text
from mpgd.report.sections import (
    airfoil,
    audit,
    cifar10,
    digits,
    ecg,
    generalization,
    implicit,
    limit,
    noise,
    valley,
)
from mpgd.report.sections.common import PROTOCOLS, command
from mpgd.report.shelf import Shelf
from mpgd.report.summary import claims, conclusions
from mpgd.report.tables import table

LEAD: Final = (
    "Lim, Wan & Simsekli (2022) perturb gradient descent by a chaotic map whose sums are heavy-"
    "tailed, and claim flatter minima and better generalisation. Here every claim that was run is "
    "tested twice where it can be: as the text says, and as the authors' scripts ran."
)


@dataclass(frozen=True)
class Part:
    """How an experiment becomes a section."""

    title: str
    blocks: Callable[[Sequence[Record]], Sequence[Block]]
    others: tuple[str, ...] = ()  # experiments whose records it needs too


PARTS: Final[Mapping[str, Part]] = {
    "noise": Part(noise.TITLE, noise.blocks),
    "limit": Part(limit.TITLE, limit.blocks),
    "valley": Part(valley.TITLE, valley.blocks),
    "airfoil": Part(airfoil.TITLE, airfoil.blocks),
    "ecg": Part(ecg.TITLE, ecg.blocks),
    "cifar10": Part(cifar10.TITLE, cifar10.blocks),
    "digits": Part(digits.TITLE, digits.blocks),
    "audit": Part(audit.TITLE, audit.blocks, ("airfoil", "ecg", "valley")),
    "implicit": Part(implicit.TITLE, implicit.blocks),
    "generalization": Part(generalization.TITLE, generalization.blocks),
}
DATA: Final = (
    "# DIR: the folder of the data sets; without --data, MPGD_DATA and the cache are looked into"
)
SEEDED: Final = ("valley", "airfoil", "ecg", "cifar10", "digits", "audit")  # --seeds is theirs


def build(shelf: Shelf, file: str) -> Page:
    """Return the page of a store; ``file`` is the name it will have."""
    parts = [section(name, part, shelf) for name, part in PARTS.items()]
    tested = claims(parts)
    return Page(
        "Does chaos help gradient descent?",
        LEAD,
        Commands((*commands(shelf, parts), f"mpgd report results -o {file}")),
        tested,
        conclusions(tested),
        (runs(shelf), *parts, *leftovers(shelf)),
    )


def section(name: str, part: Part, shelf: Shelf) -> Section:
    """Return a section; one that the store lacks says which command makes it."""
    records = shelf[name]
    if not records:
        missing = Missing("Not in this store. To make it:", command(name))
        return Section(name, part.title, (missing,))
    try:
        others = [record for other in part.others for record in shelf[other]]
        blocks = tuple(part.blocks([*records, *others]))
    except ODD as problem:
        said = f"{type(problem).__name__}: {problem}"
        text = f"{len(records)} records, but not all that this section needs ({said}). To make it:"
        return Section(name, part.title, (Missing(text, command(name), begun=True),))
    return Section(name, part.title, blocks)


def commands(shelf: Shelf, parts: Iterable[Section]) -> list[str]:
    """Return the commands that make a store like this one; one that was not finished says so."""
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for part in parts:
        comment = "  # not finished yet" if part.is_begun else ""
        for options in _options(part, shelf[part.name]):
            alike[options, comment].append(part.name)
    lines = [command(*names, options=options) + comment
             for (options, comment), names in alike.items()]  # fmt: skip
    return [DATA, *lines] if any("--data" in line for line in lines) else lines


def _options(part: Section, records: Sequence[Record]) -> list[str]:
    """Return the options of what ran a part: of one command, or of one for each protocol."""
    if part.name not in SEEDED:
        return [""] if records else []
    seeds = {protocol: {r.run.seed for r in records if r.run.protocol == protocol}
             for protocol in PROTOCOLS}  # fmt: skip
    counts = {protocol: len(own) for protocol, own in seeds.items() if own}
    if counts and (part.is_begun or len({*counts.values()}) == 1):
        return [f"--seeds {max(counts.values())}"]
    return [f"--protocol {protocol} --seeds {count}" for protocol, count in counts.items()]


def runs(shelf: Shelf) -> Section:
    """Return what was run, with what, and how long it took."""
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in shelf.records:
        groups[record.run.experiment, record.run.protocol].append(record)
    known = {name: place for place, name in enumerate(PARTS)}
    rows = [[name, protocol, *_facts(groups[name, protocol])] for name, protocol in
            sorted(groups, key=lambda group: (known.get(group[0], len(known)), group))]  # fmt: skip
    total = sum(record.seconds for record in shelf.records)
    blocks: list[Block] = [
        table(
            f"{len(shelf.records):,} runs, {_time(total)} of computing; "
            "runs trained together share their time",
            ["experiment", "protocol", "runs", "schemes", "seeds", "seconds"],
            rows,
        ),
        _versions(shelf.records),
    ]
    return Section("runs", "What was run, and with what", tuple(blocks))


def _facts(records: Sequence[Record]) -> list[str]:
    schemes = {record.run.scheme for record in records}
    seconds = sum(record.seconds for record in records)
    return [f"{len(records):,}", f"{len(schemes)}", _seeds(r.run.seed for r in records),
            f"{seconds:,.1f}"]  # fmt: skip


def _seeds(seeds: Iterable[int]) -> str:
    known = sorted(set(seeds))
    whole = known[-1] - known[0] + 1 == len(known)
    return f"{known[0]}–{known[-1]}" if whole and len(known) > 1 else ", ".join(map(str, known))


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds > 7200 else f"{seconds / 60:.1f} minutes"


def _versions(records: Iterable[Record]) -> Table:
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for record in records:
        for name, version in record.versions.items():
            found[name][str(version)] += 1
        found["commit"][str(record.commit or "none")[:12]] += 1
    rows = [[name, version, f"{count:,}"] for name, versions in found.items()
            for version, count in versions.items()]  # fmt: skip
    return table("Versions in the records", ["what", "version", "runs"], rows)


def leftovers(shelf: Shelf) -> list[Section]:
    """Return what the store holds beside finished runs that are shown, if there is any."""
    strange = [name for name in shelf.experiments if name not in PARTS]
    blocks: list[Block] = []
    if strange:
        names = ", ".join(f"{name} ({len(shelf[name])})" for name in strange)
        blocks.append(Text(f"Records of experiments this page does not know: {names}."))
    if shelf.unusable:
        rows = [[name, reason] for name, reason in shelf.unusable.items()]
        blocks.append(table(f"{len(rows)} files", ["file", "why"], rows, wordy=True))
    going = table("They go on from their checkpoints", ["unfinished run", "goes on with"],
                  map(_going_on, shelf.unfinished), wordy=True)  # fmt: skip
    sections = [Section("unfinished", "Unfinished runs", (going,) * bool(going.rows)),
                Section("files", "Files that could not be used", tuple(blocks))]  # fmt: skip
    return [section for section in sections if section.blocks]


def _going_on(run: Run) -> tuple[str, str]:
    h = run.hyperparameters
    name = "cifar10_step" if h.get("study") == "one step" else "cifar10"
    device = " --device cuda" if h.get("device") == "cuda" else ""
    said = f"{PROTOCOLS.get(run.protocol, run.protocol)}, {run.scheme}, seed {run.seed}"
    return f"{name}, {said}", command(name, options=f"--seeds {run.seed}{device}")
