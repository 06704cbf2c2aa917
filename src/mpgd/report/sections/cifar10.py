"""CIFAR-10: validation accuracy and gap of ResNet-18, of the full recipe or a reduced study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from mpgd.experiments import cifar10
from mpgd.experiments.statistics import Columns, Direction, by_scheme
from mpgd.experiments.store import Record
from mpgd.report.content import Block, Findings, Panel, Plate, Text
from mpgd.report.curves import against_gamma, on_the_way
from mpgd.report.sections.common import (
    PROTOCOLS,
    RULE,
    findings,
    scheme_names,
    under,
    unfinished,
)
from mpgd.report.shelf import chosen, commonest, part
from mpgd.report.tables import Setting, scheme_table

TITLE: Final = "CIFAR-10"
HEADLINES: Final = {
    "validation": "CIFAR-10: MPGD has a higher validation accuracy",
    "gap": "CIFAR-10: MPGD has a smaller accuracy gap",
}
STUDIES: Final = ("full", "reduced")
SHOWN: Final = 0.6  # gamma of the curves


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows."""
    found: list[Block] = [
        Text(
            "ResNet-18, exact full-batch gradients, only the input layer perturbed. The full "
            "recipe wants a GPU; on a CPU a reduced study (a narrow network, few small images, few "
            "steps) shows that everything runs, and its numbers are no estimate of the paper's."
        )
    ]
    for study in STUDIES:
        if mine := part(records, study=study):
            found += _study(study, mine)
    return [*found, *map(_one_step, part(records, study="one step"))]


def _study(study: str, records: Sequence[Record]) -> Iterator[Block]:
    held = {f"{PROTOCOLS[protocol]}, {study} study": own
            for protocol, own in _finished(records).items()}  # fmt: skip
    titles = {title: title for title in held}
    order = scheme_names(record for own in held.values() for record in own)
    size = cifar10.describe(dict(records[-1].run.hyperparameters))
    yield Text(f"{size[0].upper()}{size[1:]}.")
    yield from unfinished("cifar10", held, partial(cifar10.tasks, study=cifar10.FULL))
    found = under(findings(held, "", cifar10.verdicts, 2, titles), HEADLINES)
    if study != "full":  # no test of what the paper states
        found = tuple(replace(one, basis="elsewhere") for one in found)
    yield Findings(RULE, found)
    yield Plate(f"cifar10-{study}", f"Validation accuracy on the way at γ = {SHOWN}, means over "
                "seeds with bands where the middle half of them is, and at the end against γ.",
                tuple(_panels(held, with_printed=study == "full")), legend=True)  # fmt: skip
    shown: tuple[tuple[Columns, Direction], ...] = ((accuracy(), "higher"), (gap(), "lower"))
    for column, direction in shown:
        settings = [Setting(title, own, column) for title, own in held.items()]
        caption = f"{column.title.capitalize()}, {study} study"
        yield scheme_table(caption, settings, direction, order)


def accuracy() -> Columns:
    """Return the column of the validation accuracy."""
    return Columns("val_accuracy", "validation accuracy, %", 2, _printed(0))


def gap() -> Columns:
    """Return the column of the accuracy gap."""
    return Columns("accuracy_gap", "accuracy gap, %", 2, _printed(1))


def _printed(place: int) -> Any:
    return lambda name: cifar10.PRINTED.get(name, ("", ""))[place]


def _finished(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records of each protocol of one study, as the experiment now defines them."""
    held = {}
    for protocol in PROTOCOLS:
        own = [record for record in records if record.run.protocol == protocol]
        own = commonest(own, "device", "width", "train", "test", "pixels", "block")
        if ours := [record for record in own if record.run.scheme.startswith("mpgd")]:
            h = ours[0].run.hyperparameters
            study = {name: h[name] for name in (*cifar10.FULL, "device")}
            seeds = sorted({record.run.seed for record in own})
            held[protocol] = chosen(own, cifar10.tasks(protocol, seeds, study))
    if not any(held.values()):
        raise LookupError("no run of MPGD")
    return {protocol: own for protocol, own in held.items() if own}


def _panels(held: Mapping[str, Sequence[Record]], with_printed: bool) -> Iterator[Panel]:
    columns = [accuracy(), gap()]
    if not with_printed:
        columns = [replace(column, printed=lambda name: "") for column in columns]
    for title, own in held.items():
        short = title.split(",")[0].capitalize()
        yield Panel(partial(on_the_way, schemes=by_scheme(own), gamma=SHOWN, beta=cifar10.BETA,
                            x="step", y="val_accuracy", title=short, ylabel=columns[0].title),
                    f"Validation accuracy against steps, {title}.")  # fmt: skip
        for column in columns:
            yield Panel(partial(against_gamma, records=own, columns=column, gammas=cifar10.GAMMAS,
                                beta=cifar10.BETA, title=short),
                        f"{column.title} against γ, {title}.")  # fmt: skip


def _one_step(record: Record) -> Text:
    m, h = record.metrics, record.run.hyperparameters
    return Text(
        f"One step of the full recipe on {h['device']} ({record.run.scheme}, {h['train']:,} "
        f"images): {m['training_seconds']:,.0f} seconds, {m['cpu_seconds']:,.0f} of CPU time."
    )
