"""Digits: the paper's claims put to the test on real data that needs no download."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from mpgd.experiments import digits
from mpgd.experiments.store import Record
from mpgd.report.content import Block, Findings, Panel, Plate, Text
from mpgd.report.curves import against_gamma
from mpgd.report.sections.common import (
    PROTOCOLS,
    RULE,
    findings,
    scheme_names,
    under,
    unfinished,
)
from mpgd.report.shelf import chosen, commonest
from mpgd.report.tables import Setting, scheme_table

TITLE: Final = "Digits"
HEADLINES: Final = {
    "accuracy": "Digits: MPGD has a higher test accuracy",
    "test loss": "Digits: MPGD has a lower test loss",
    "gap": "Digits: MPGD has a smaller gap",
}


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows."""
    own = commonest(records, "steps")
    seeds = sorted({record.run.seed for record in own})
    own = chosen(own, digits.tasks(seeds, own[0].run.hyperparameters["steps"]))
    found = [
        replace(one, setting="on digits", basis="elsewhere")  # the paper has no such experiment
        for one in findings({"paper": own}, "", digits.verdicts, 4)
    ]
    directions = {metric: direction for metric, _, direction in digits.CLAIMS}
    panels = [
        Panel(partial(against_gamma, records=own, columns=columns, gammas=digits.GAMMAS,
                      beta=digits.BETA, title=columns.title.capitalize()),
              f"{columns.title} against γ on digits.")
        for columns in digits.METRICS
    ]  # fmt: skip
    return [
        *unfinished("digits", {"on digits": own}, lambda protocol, seeds: digits.tasks(seeds)),
        Text(
            "A 64-16-10 ReLU net on scikit-learn's digits, 300 training images, full batch. The "
            "paper has no such experiment: it is a check of its claims on other data, with the "
            "text's noise only."
        ),
        Plate("digits", "Means with 95 % intervals at β = 0.5.", tuple(panels), legend=True),
        Findings(RULE, under(found, HEADLINES)),
        *(scheme_table(f"{columns.title.capitalize()}: mean (standard deviation), and paired "
                       "differences with 95 % intervals",
                       [Setting(PROTOCOLS["paper"], own, columns)], directions[columns.metric],
                       scheme_names(own))
          for columns in digits.METRICS),
    ]  # fmt: skip
