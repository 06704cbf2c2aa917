"""Airfoil self-noise: test RMSE and gap of a small net, as printed and as run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from mpgd.experiments import airfoil
from mpgd.experiments.statistics import Columns
from mpgd.experiments.store import Record
from mpgd.report.content import Block, Findings, Panel, Plate, Text
from mpgd.report.curves import Middle, against_gamma
from mpgd.report.sections.common import (
    PROTOCOLS,
    RULE,
    findings,
    finished,
    scheme_names,
    settings,
    under,
    unfinished,
)
from mpgd.report.shelf import commonest
from mpgd.report.tables import scheme_table

TITLE: Final = "Airfoil self-noise"
HEADLINES: Final = {
    "RMSE": "Airfoil: MPGD has a lower test error",
    "gap": "Airfoil: MPGD has a smaller gap",
}
GAPS: Final = {"paper": "gap", "released": "released_gap"}
MIDDLES: Final[Mapping[str, Middle]] = {"paper": "median", "released": "mean"}


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows."""
    held = finished(commonest(records, "steps"), airfoil.tasks)
    judged = [findings({protocol: own}, "", partial(airfoil.verdicts, gap=GAPS[protocol]), 4)
              for protocol, own in held.items()]  # fmt: skip
    order = scheme_names(record for own in held.values() for record in own)
    error = columns("test_rmse", "test RMSE", 0)
    gaps = {protocol: columns(metric, "RMSE gap", 1) for protocol, metric in GAPS.items()}
    shown = {"paper": (error, replace(gaps["paper"], printed=lambda name: "")),
             "released": (error, gaps["released"])}  # fmt: skip
    panels = [
        Panel(partial(against_gamma, records=own, columns=column, gammas=airfoil.GAMMAS, beta=0.5,
                      title=f"{column.title}, {PROTOCOLS[protocol]}", middle=MIDDLES[protocol]),
              f"{column.title} against γ at β = 0.5, {PROTOCOLS[protocol]}.")
        for protocol, own in held.items() for column in shown[protocol]
    ]  # fmt: skip
    return [
        *unfinished("airfoil", held, airfoil.tasks),
        Text(
            "A 5-16-1 ReLU net, full batch, 3000 steps. As the scripts ran, descent and Gaussian "
            "noise come out as printed within 0.0003; MPGD rows come near, not equal, since 10,000 "
            "iterates of a chaotic map amplify the last bit of a platform's power function. The "
            "printed gap is test RMSE minus train MSE, not RMSE: as the text says, the true gap "
            "is taken. At γ = 0.7 as the text says, a difference in the last bit grows to one in "
            "the first digits: single runs there depend on the processor, and only their law can "
            "be reproduced."
        ),
        Findings(RULE, under([one for each in judged for one in each], HEADLINES)),
        Plate("airfoil", "At β = 0.5. As the text says, medians and where the middle half of the "
              "seeds is: a few runs end so far off that they alone would make the mean, which the "
              "tables have. As the scripts ran, means with 95 % intervals. Open diamonds are the "
              "paper's means, left out beside the text's gap, which is another quantity.",
              tuple(panels), legend=True),
        scheme_table("Test RMSE: mean (standard deviation), and paired differences with 95 % "
                     "intervals; lower is better", settings(held, error), "lower", order),
        scheme_table("RMSE gap: as the scripts ran, test RMSE minus train MSE; as the text says, "
                     "minus train RMSE", settings(held, gaps["paper"], **gaps), "lower", order),
    ]  # fmt: skip


def columns(metric: str, title: str, place: int) -> Columns:
    """Return a column of the table with the paper's numbers."""
    return Columns(metric, title, 4, lambda name: airfoil.PRINTED.get(name, ("", ""))[place])
