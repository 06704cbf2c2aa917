"""The page: every section from the records of its experiment, and what is missing by name."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil, inf
from types import MappingProxyType
from typing import Final

from mpgd_lab.catalogue import EXPERIMENTS, USUAL
from mpgd_lab.content.blocks import (
    RECORD_ERRORS,
    Block,
    Commands,
    Missing,
    Page,
    Section,
    Table,
    Text,
)
from mpgd_lab.content.findings import NOT_RUN, PROTOCOLS, command
from mpgd_lab.content.overview import TableSpec, overview
from mpgd_lab.content.tables import IncompleteError, table
from mpgd_lab.experiment import Experiment
from mpgd_lab.perturbations.noise_versions import NOISES
from mpgd_lab.report.store_contents import StoreContents
from mpgd_lab.report.summary import OURS, answer, collect_claims, conclusions
from mpgd_lab.store import Record, Run
from mpgd_lab.studies.airfoil import runs as airfoil
from mpgd_lab.studies.ecg import runs as ecg
from mpgd_lab.terminal import duration

LEAD: Final = (
    "Lim, Wan & Simsekli (2022) perturb gradient descent by a chaotic map whose sums are heavy-"
    "tailed, and claim flatter minima and better generalisation. Here every claim that was run is "
    "tested where it can be under three protocols: as the text says to the letter, with its signs "
    "corrected, and as the authors' scripts ran."
)


CIFAR: Final = "CIFAR-10"
NO_SEED: Final = 0  # of a run that holds all seeds; --seeds counts from 1
TABLES: Final = (  # the paper's, in the picture at the top
    TableSpec(
        "Airfoil",
        airfoil.COMPARISON,
        {"text": "airfoil, text", "released": "airfoil, released"},
    ),
    TableSpec(
        "ECG",
        ecg.COMPARISON,
        {
            "text": "ecg, text, two hidden layers",
            "released": "ecg, released, two hidden layers",
        },
    ),
)
TO_MAKE: Final = "To make it, with `--out` and the store's folder if that is not `results`:"
DATA: Final = (
    "# DIR: the folder of the data sets; without --data, MPGD_DATA and the cache are looked into"
)


def studies_with_section(studies: Iterable[Experiment]) -> list[Experiment]:
    """Return the studies that have a section, in the order of the page."""
    return sorted((one for one in studies if one.section), key=_place)


def _place(study: Experiment) -> int:
    return study.section.place if study.section else 0


def build(
    contents: StoreContents,
    how: str,
    studies: Sequence[Experiment],
    checks: Mapping[str, str] = MappingProxyType({}),
) -> Page:
    """Return the page of a store; ``how`` is the command that writes it.

    ``checks`` says of studies whether their published runs were trained again, and agree.
    """
    seeded = {study.name for study in studies if study.seeded}
    shown = [section(study, contents) for study in studies_with_section(studies)]
    parts = [replace(part, note=checks.get(part.name, "")) for part in shown]
    tested = collect_claims(parts)
    own = "".join(f" --study {one.name}.py" for one in studies if one.name not in EXPERIMENTS)
    return Page(
        "Does chaos help gradient descent?",
        LEAD,
        Commands((*commands(contents, parts, seeded), f"{how}{own}")),
        tested,
        conclusions(tested, " ".join(filter(None, (_not_run(parts), _to_decide(parts, studies))))),
        (runs(contents, parts), *parts, *leftovers(contents, parts)),
        answer(tested, _unseen(parts)),
        overview(TABLES, {one.title: contents[one.title.lower()] for one in TABLES}),
    )


def _unseen(parts: Sequence[Section]) -> str:
    """Return the paper's table that no answer counts while it has not been run."""
    return CIFAR if any(part.title == CIFAR and part.is_missing for part in parts) else ""


def _not_run(parts: Sequence[Section]) -> str:
    """Return which parts lack the paper's text to the letter, and what runs it."""
    lacking = [
        part.name
        for part in parts
        if any(isinstance(b, Missing) and NOT_RUN in b.text for b in part.blocks)
    ]
    how = f"`{command(*lacking, options='--protocol text')}` runs it"
    return f"The paper's {NOT_RUN} in {', '.join(lacking)}; {how}." if lacking else ""


def _to_decide(parts: Sequence[Section], studies: Sequence[Experiment]) -> str:
    """Return what would decide half of the comparisons that are undecided, and its cost.

    Counted are those of the answer. The other half has smaller differences and needs more seeds.
    """
    undecided = {part.name: _deciding_seeds(part) for part in parts}
    needed = sorted(seeds for each in undecided.values() for seeds in each)
    if not needed or needed[len(needed) // 2] == inf:
        return ""
    seeds = _rounded_up(needed[len(needed) // 2])
    asked = [one for one in studies if one.seeded and undecided.get(one.name)]
    cost = duration(seeds * sum(one.total_seconds(one.runs("text", [1])) for one in asked))
    how = command(*(one.name for one in asked), options=f"--protocol text --seeds {seeds}")
    return (
        f"{len(needed)} comparisons are undecided. If the differences are as measured, {seeds:,} "
        f"seeds would decide half of them: `{how}`, {cost} of one core."
    )


def _deciding_seeds(part: Section) -> list[float]:
    """Return for each undecided comparison that is counted to the letter what would decide it."""
    return [
        one.deciding_seeds
        for one in part.findings
        if one.basis == "stated" and OURS in one.headline and one.deciding_seeds
    ]


def _rounded_up(seeds: float) -> int:
    """Return a count with two digits that is not smaller.

    Examples:
        >>> _rounded_up(1234.5)
        1300
    """
    unit = 10 ** max(0, len(str(int(seeds))) - 2)
    return int(ceil(seeds / unit) * unit)


def section(study: Experiment, contents: StoreContents) -> Section:
    """Return a section; one that the store lacks says which command makes it."""
    name, records, part = study.name, contents[study.name], study.section
    assert part is not None
    if not records:
        missing = Missing(f"Not in this store. {TO_MAKE}", command(name))
        return Section(name, part.title, (missing,))
    try:
        others = [record for other in part.others for record in contents[other]]
        blocks = tuple(part.blocks([*records, *others]))
    except IncompleteError as problem:
        text = f"{len(records)} records, but not all that this section needs ({problem})."
        begun = Missing(f"{text} {TO_MAKE}", command(name), begun=True)
        return Section(name, part.title, (begun,))
    except RECORD_ERRORS as problem:
        reason = f"{type(problem).__name__}: {problem}"
        text = f"{len(records)} records, from which this section cannot be made ({reason})."
        return Section(name, part.title, (Missing(f"{text} {TO_MAKE}", command(name), begun=True),))
    return Section(name, part.title, blocks)


def commands(
    contents: StoreContents, parts: Iterable[Section], seeded: Container[str]
) -> list[str]:
    """Return the commands that make a store like this one; one that was not finished says so."""
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for part in parts:
        comment = "  # not finished yet" if part.is_begun else ""
        for options in _options(part, contents[part.name], part.name in seeded):
            alike[options, comment].append(part.name)
    lines = [
        command(*names, options=options) + comment for (options, comment), names in alike.items()
    ]
    return [DATA, *lines] if any("--data" in line for line in lines) else lines


def _options(part: Section, records: Sequence[Record], seeded: bool) -> list[str]:
    """Return the options of what ran a part: of one command, or of one for each protocol."""
    if not seeded:
        return [""] if records else []
    seeds = {
        protocol: {r.run.seed for r in records if r.run.protocol == protocol} - {NO_SEED}
        for protocol in PROTOCOLS
    }
    counts = {protocol: len(own) for protocol, own in seeds.items() if own}
    if counts and (part.is_begun or len({*counts.values()}) == 1):
        sizes = {r.run.hyperparameters.get("study") for r in records} & {"reduced", "full"}
        size = f"--size {sizes.pop()} " if len(sizes) == 1 else ""
        asked = "" if {*counts} <= {*USUAL} and not size else f"--protocol {','.join(counts)} "
        return [f"{size}{asked}--seeds {max(counts.values())}"]
    return [f"--protocol {protocol} --seeds {count}" for protocol, count in counts.items()]


def runs(contents: StoreContents, parts: Sequence[Section]) -> Section:
    """Return what was run, with what, and how long it took."""
    groups: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in [*contents.records, *contents.earlier]:
        run = record.run
        groups[run.experiment, run.protocol, _noise(run)].append(record)
    known = {part.name: place for place, part in enumerate(parts)}
    rows = [
        [*group, *_facts(groups[group])]
        for group in sorted(groups, key=lambda group: (known.get(group[0], len(known)), group))
    ]
    total = sum(record.seconds for record in contents.records)
    blocks: list[Block] = [
        table(
            f"{len(contents.records):,} runs, {_time(total)} of computing; "
            "runs trained together share their time",
            ["experiment", "protocol", "driver", "runs", "schemes", "seeds", "seconds"],
            rows,
        ),
        _versions(contents.records),
    ]
    return Section("runs", "What was run, and with what", tuple(blocks))


def _noise(run: Run) -> str:
    """Return the version of the driver, and those of other noises where they are earlier ones."""
    texts = [str(run.driver)]
    for name, title in (("gaussian", "Gaussian"), ("stable", "stable")):
        if run.driver == NOISES["driver"] and getattr(run, name) not in (None, NOISES[name]):
            texts.append(f"{title} {getattr(run, name)}")
    return ", ".join(texts)


def _facts(records: Sequence[Record]) -> list[str]:
    schemes = {record.run.scheme for record in records}
    seconds = sum(record.seconds for record in records)
    return [
        f"{len(records):,}",
        f"{len(schemes)}",
        _seeds(r.run.seed for r in records),
        f"{seconds:,.1f}",
    ]


def _seeds(seeds: Iterable[int]) -> str:
    """Return seeds in words, those without a gap as one.

    Examples:
        >>> _seeds([3, 1, 2, 7, 101, 102])
        '1–3, 7, 101–102'
    """
    rows: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if rows and seed == rows[-1][-1] + 1:
            rows[-1].append(seed)
        else:
            rows.append([seed])
    return ", ".join(f"{own[0]}–{own[-1]}" if len(own) > 1 else f"{own[0]}" for own in rows)


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds > 7200 else f"{seconds / 60:.1f} minutes"


def _versions(records: Iterable[Record]) -> Table:
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for record in records:
        for name, version in record.versions.items():
            counts[name][str(version)] += 1
        counts["commit"][str(record.commit or "none")[:12]] += 1
    rows = [
        [name, version, f"{count:,}"]
        for name, versions in counts.items()
        for version, count in versions.items()
    ]
    return table("Versions in the records", ["what", "version", "runs"], rows)


def leftovers(contents: StoreContents, parts: Sequence[Section]) -> list[Section]:
    """Return what the store holds beside finished runs that are shown, if there is any."""
    known = {part.name for part in parts}
    strange = [name for name in contents.experiments if name not in known]
    blocks: list[Block] = []
    if contents.earlier:
        blocks.append(
            Text(
                f"{len(contents.earlier):,} records were made with an earlier chaotic driver or "
                "earlier Gaussian or stable noise. They are counted above and not shown: a run "
                "with the present noise is another run."
            )
        )
    if strange:
        names = ", ".join(f"{name} ({len(contents[name])})" for name in strange)
        blocks.append(Text(f"Records of experiments this page does not know: {names}."))
    if contents.unusable:
        rows = [[name, reason] for name, reason in contents.unusable.items()]
        blocks.append(table(f"{len(rows)} files", ["file", "why"], rows, wordy=True))
    going = table(
        "They go on from their checkpoints",
        ["unfinished run", "goes on with"],
        map(_going_on, contents.unfinished),
        wordy=True,
    )
    sections = [
        Section("unfinished", "Unfinished runs", (going,) * bool(going.rows)),
        Section("files", "Files that could not be used", tuple(blocks)),
    ]
    return [section for section in sections if section.blocks]


def _going_on(run: Run) -> tuple[str, str]:
    h = run.hyperparameters
    name = "cifar10_step" if h.get("study") == "one step" else "cifar10"
    size = f" --size {h['study']}" if h.get("study") in ("reduced", "full") else ""
    device = " --device cuda" if h.get("device") == "cuda" else ""
    said = f"{PROTOCOLS.get(run.protocol, run.protocol)}, {run.scheme}, seed {run.seed}"
    return f"{name}, {said}", command(name, options=f"--seeds {run.seed}{size}{device}")
