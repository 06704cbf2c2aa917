"""Differences to descent against the step size, and accuracy against the level."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mpgd_lab import verdicts
from mpgd_lab.content.findings import PROTOCOLS
from mpgd_lab.content.style import BLUE, GREEN, GREY, ORANGE
from mpgd_lab.studies.steps.runs import LOWER
from mpgd_lab.studies.steps.step_verdicts import Row

SHADES: Final = {"text": GREEN, "corrected": BLUE, "released": ORANGE}
MARKS: Final = {"text": "s", "corrected": "o", "released": "D"}
APART: Final = 1.05  # between the protocols, so that their intervals do not hide each other


def draw_steps(
    ax: Any, rows: Mapping[str, Sequence[Row]], title: str, ylabel: str, linear: float | None
) -> None:
    """Draw MPGD minus descent against eta, one line for each protocol.

    Within ``linear`` of 0 the vertical axis is linear, beyond it logarithmic; None is linear.
    """
    ax.axhline(0.0, color=GREY, lw=0.8, ls="--", label="gradient descent")
    for place, (protocol, own) in enumerate(rows.items()):
        differences = [row.verdict.difference for row in own]
        middle = [one.mean for one in differences]
        error = [
            [one.mean - one.low for one in differences],
            [one.high - one.mean for one in differences],
        ]
        at = [row.at * APART ** (place - 1) for row in own]
        look = {"fmt": f"{MARKS[protocol]}-", "color": SHADES[protocol], "lw": 1.0}
        label = f"MPGD, {PROTOCOLS[protocol]}"
        ax.errorbar(at, middle, error, ms=4, capsize=2, label=label, **look)
    first = next(iter(rows.values()))[0]
    ax.axvline(first.study.fixed["eta"], color=GREY, lw=0.8, ls=":", label="the paper's step")
    ax.set(title=title, xlabel=r"step size $\eta$", ylabel=ylabel, xscale="log")
    if linear:
        ax.set_yscale("symlog", linthresh=linear)
        ax.yaxis.set_major_formatter("{x:g}")  # a page's own labels of powers know no negative ones


def draw_levels(ax: Any, rows: Mapping[str, Sequence[Row]], title: str, ylabel: str) -> None:
    """Draw the mean accuracy against the level: MPGD under each protocol, and descent."""
    for place, (protocol, own) in enumerate(rows.items()):
        each = [row for row in own if row.kind == "descent"]
        summaries = [verdicts.summary(row.ours.values()) for row in each]
        error = [one.std / max(1, one.count) ** 0.5 for one in summaries]
        at = [row.at * APART ** (place - 1) for row in each]
        look = {"fmt": f"{MARKS[protocol]}-", "color": SHADES[protocol], "lw": 1.0}
        label = f"MPGD, {PROTOCOLS[protocol]}"
        ax.errorbar(
            at, [one.mean for one in summaries], error, ms=4, capsize=2, label=label, **look
        )
    descent = next(iter(rows.values()))[0].theirs
    mean = verdicts.summary(descent.values()).mean
    ax.axhline(mean, color=GREY, lw=0.8, ls="--", label="gradient descent")
    ax.set(title=title, xlabel=r"level $\mu=\sigma$", ylabel=ylabel, xscale="log")
    ax.set_xticks(LOWER, [f"{level:g}" for level in LOWER])
    ax.minorticks_off()
