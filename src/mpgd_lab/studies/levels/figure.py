"""Decay and force against what they did, with what was foreseen."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mpgd_lab.content.style import BLUE, GREY, RED
from mpgd_lab.studies.levels.effects import TENFOLD, Effect


def draw_decay(ax: Any, effects: Mapping[float, Effect], title: str, ylabel: str) -> None:
    """Draw the difference to descent against M, and shade where harm is foreseen."""
    decays = sorted(effects)
    differences = [effects[M].difference for M in decays]
    middle = np.array([one.mean for one in differences])
    error = [
        [one.mean - one.low for one in differences],
        [one.high - one.mean for one in differences],
    ]
    ax.errorbar(decays, middle, error, fmt="o-", color=BLUE, ms=4, capsize=2, label="measured")
    ax.axhline(0.0, color=GREY, lw=0.8, ls="--", label="gradient descent")
    foreseen = [M for M in decays if effects[M].growth > TENFOLD]
    if foreseen:
        ax.axvspan(min(foreseen), max(decays), color=RED, alpha=0.1, lw=0, label="harm foreseen")
    ax.set(title=title, xlabel="decay M", ylabel=ylabel, xscale="log")


def draw_force(ax: Any, effects: Mapping[float, Effect]) -> None:
    """Draw the median final trace of the valley against F, measured and foreseen."""
    forces = sorted(effects)
    for name, shade, style in (("trace", BLUE, "o-"), ("free", RED, "s--")):
        quartiles = [
            np.quantile([r.metrics[name] for r in effects[F].records], [0.25, 0.5, 0.75])
            for F in forces
        ]
        low, middle, high = np.array(quartiles).T
        error = [middle - low, high - middle]
        label = "measured" if name == "trace" else "foreseen: start plus pushes"
        ax.errorbar(forces, middle, error, fmt=style, color=shade, ms=4, capsize=2, label=label)
    title, ylabel = "valley", "final trace, median and quartiles"
    ax.set(title=title, xlabel="force F", ylabel=ylabel, xscale="log", yscale="log")
