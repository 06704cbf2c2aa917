"""How gap, tail, dimension and Hessian are drawn against gamma."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from mpgd_lab.content import colors
from mpgd_lab.content.style import BLUE
from mpgd_lab.store import Record
from mpgd_lab.studies.generalization.gap_verdicts import interval
from mpgd_lab.studies.generalization.runs import GAMMAS, MPGD

PANELS: Final = {
    "worst_gap": "worst gap |train \N{MINUS SIGN} test|",
    "tail_index": "tail index of increments",
    "dimension": "dimension of the trajectory",
    "hessian_trace": "trace of the Hessian",
}
BASELINES: Final = {
    "descent": ("gradient descent", colors.of("gd"), "--"),
    "gaussian": ("Gaussian, same variance", colors.of("gaussian"), "-."),
}
MINE, LIMIT = "MPGD", r"limit, $\alpha=1/\gamma$"
FURTHER: Final = {  # what else is drawn in a panel
    "worst_gap": ("late_gap", "MPGD, second half (gap)"),
    "tail_index": ("tail_blocks", "MPGD, increments far apart (tail)"),
}


def draw_panel(ax: Any, records: Mapping[str, Record], quantity: str, title: str) -> None:
    """Draw seeds as dots, means with intervals, and the two baselines as bands."""
    for scheme, (label, color, style) in BASELINES.items():
        if quantity not in records[scheme].curves:  # no noise, no tail
            continue
        mean, low, high = interval(records[scheme].curves[quantity])
        ax.axhspan(low, high, color=color, alpha=0.15, lw=0)
        ax.axhline(mean, color=color, ls=style, lw=1.1, label=label)
    if quantity in ("tail_index", "dimension"):
        grid = np.linspace(GAMMAS[0] - 0.03, GAMMAS[-1] + 0.03, 100)
        ax.plot(grid, 1 / grid, color="black", lw=0.9, ls=":", label=LIMIT)
    values = [records[scheme].curves[quantity] for scheme in MPGD]
    for gamma, each in zip(GAMMAS, values, strict=True):
        spread = gamma + 0.012 * np.linspace(-1, 1, len(each))
        ax.plot(spread, each, ".", color=BLUE, alpha=0.3, ms=4, mew=0)
    middle, low, high = np.array([interval(each) for each in values]).T
    look: Any = {"color": BLUE, "ms": 5, "lw": 1.1, "elinewidth": 1.2, "capsize": 2.5}
    ax.errorbar(GAMMAS, middle, [middle - low, high - middle], fmt="o-", label=MINE, **look)
    if quantity in FURTHER:
        name, label = FURTHER[quantity]
        means = [interval(records[scheme].curves[name])[0] for scheme in MPGD]
        style = "s:" if name == "late_gap" else "D--"
        ax.plot(GAMMAS, means, style, color=BLUE, mfc="white", ms=4, lw=0.9, label=label)
    ax.set(title=title, xlabel=r"$\gamma$", xticks=GAMMAS)
