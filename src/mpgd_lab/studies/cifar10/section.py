"""CIFAR-10: validation accuracy and gap of ResNet-18, of the full recipe or a reduced study."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from mpgd_lab.content.blocks import Block, Panel, Plate, Text, panel
from mpgd_lab.content.curves import against_gamma, along_training
from mpgd_lab.content.findings import PROTOCOLS, unfinished, verdict_blocks, without_text
from mpgd_lab.content.selection import matching, most_common, records_of
from mpgd_lab.content.tables import IncompleteError, Setting, scheme_table
from mpgd_lab.schemes import Scheme
from mpgd_lab.store import Record
from mpgd_lab.studies.cifar10 import runs
from mpgd_lab.studies.cifar10.runs import BESIDE, MEASURES, SIZES, comparison_of, tasks
from mpgd_lab.verdicts import by_scheme

HEADLINES: Final = {
    "validation": "CIFAR-10: MPGD has a higher validation accuracy",
    "gap": "CIFAR-10: MPGD has a smaller accuracy gap",
}
STUDIES: Final = ("full", "reduced", "tiny")
ENOUGH: Final = 10  # seeds of a reduced study for verdicts
SHOWN: Final = 0.6  # gamma of the curves


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows."""
    shown: list[Block] = [
        Text(
            "ResNet-18, exact full-batch gradients, only the input layer perturbed. The full "
            "recipe wants a GPU. The reduced study (a narrow network, few small images, few steps) "
            "says what this noise does to a small network; its numbers are no estimate of the "
            "paper's, and its verdicts are counted for themselves. The tiny one is a smoke test."
        )
    ]
    for study in STUDIES:
        if mine := matching(records, study=study):
            shown += _study(study, mine)
    return [*shown, *map(_one_step, matching(records, study=runs.ONE_STEP))]


def _study(study: str, records: Sequence[Record]) -> Iterator[Block]:
    groups = {
        f"{PROTOCOLS[protocol]}, {study} study": own for protocol, own in _finished(records).items()
    }
    size = runs.describe(dict(records[-1].run.hyperparameters))
    yield Text(f"{size[0].upper()}{size[1:]}.")
    size_of = SIZES[study] | {"device": records[-1].run.hyperparameters["device"]}
    options = f"--size {study}"
    yield from unfinished("cifar10", groups, partial(tasks, study=size_of), options)
    if study == "full":
        yield from without_text("cifar10", records)
    least, comparison = min(map(_seeds, groups.values())), comparison_of(study)
    if study == "full":
        yield from verdict_blocks(groups, HEADLINES, comparison)
    elif study == "reduced" and least >= ENOUGH:  # and even so no test of what the paper states
        yield from verdict_blocks(groups, HEADLINES, comparison, groups, "reduced")
    elif study == "reduced":
        text = f"No verdicts yet: the rule asks for {ENOUGH} seeds of every row"
        yield Text(f"{text}, and the row with the fewest has {least}.")
    else:
        yield Text("No verdicts: a smoke test.")
    yield Plate(
        f"cifar10-{study}",
        f"Validation accuracy on the way at γ = {SHOWN}, means over "
        "seeds with bands where the middle half of them is, and at the end against γ.",
        tuple(_panels(groups, with_printed=study == "full")),
        legend=True,
        across=3,
    )
    for measure in (*MEASURES, BESIDE):
        settings = [Setting(title, own, measure) for title, own in groups.items()]
        caption = f"{measure.title.capitalize()}, {study} study"
        yield scheme_table(caption, settings, measure.better)


def _seeds(records: Sequence[Record]) -> int:
    """Return the number of seeds of the row with the fewest; no verdict is on a displaced one."""
    rows = by_scheme(r for r in records if not Scheme.of(r.run).matched_over)
    every = comparison_of("reduced").schemes(records[0].run.protocol)
    return min(len(rows.get(str(scheme), ())) for scheme in every)


def _finished(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records of each protocol of one study, as the experiment now defines them."""
    groups = {}
    for protocol in PROTOCOLS:
        own = [record for record in records if record.run.protocol == protocol]
        own = most_common(own, "device", "width", "train", "test", "pixels", "block")
        if ours := [record for record in own if Scheme.of(record.run).kind == "mpgd"]:
            h = ours[0].run.hyperparameters
            study = {name: h[name] for name in (*SIZES[h["study"]], "device") if name in h}
            seeds = sorted({record.run.seed for record in own})
            groups[protocol] = records_of(own, tasks(protocol, seeds, study))
    if not any(groups.values()):
        raise IncompleteError("no run of MPGD")
    return {protocol: own for protocol, own in groups.items() if own}


def _panels(groups: Mapping[str, Sequence[Record]], with_printed: bool) -> Iterator[Panel]:
    measures = list(MEASURES)
    if not with_printed:
        measures = [replace(measure, printed=lambda name: "") for measure in measures]
    for title, own in groups.items():
        short = title.split(",")[0].capitalize()
        alt = f"Validation accuracy against steps, {title}."
        drawn = (own, SHOWN, runs.BETA, "step", "val_accuracy", short, measures[0].title)
        yield panel(alt, along_training, *drawn)
        for measure in measures:
            alt = f"{measure.title} against γ, {title}."
            yield panel(alt, against_gamma, own, measure, runs.BETA, short)


def _one_step(record: Record) -> Text:
    m, h = record.metrics, record.run.hyperparameters
    return Text(
        f"One step of the full recipe on {h['device']} ({record.run.scheme}, {h['train']:,} "
        f"images): {m['training_seconds']:,.0f} seconds, {m['cpu_seconds']:,.0f} of CPU time."
    )
