"""How gap, tail, dimension and Hessian against gamma are drawn: records in, a figure out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mpgd.experiments.content.style import BLUE, GREY, RED, lettered, styled
from mpgd.experiments.generalization.runs import GAMMAS, MPGD
from mpgd.experiments.generalization.verdicts import interval
from mpgd.experiments.store import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS: Final = {
    "worst_gap": "worst gap |train \N{MINUS SIGN} test|",
    "tail_index": "tail index of increments",
    "dimension": "dimension of the trajectory",
    "hessian_trace": "trace of the Hessian",
}
BASELINES: Final = {
    "descent": ("gradient descent", RED, "--"),
    "gaussian": ("Gaussian, same variance", GREY, "-."),
}
MINE, LATE, LIMIT = "MPGD", "MPGD, second half (gap)", r"limit, $\alpha=1/\gamma$"
LEGEND: Final = (MINE, LATE, *(label for label, _, _ in BASELINES.values()), LIMIT)


def figure(found: Mapping[str, Mapping[str, Record]]) -> Figure:
    """Return a row of panels for each data set: a quantity against gamma in each."""
    with styled(11.0, 0.5 + 2.6 * len(found)) as fig:
        axes = fig.subplots(len(found), len(PANELS), squeeze=False)
        for row, (name, records) in zip(axes, found.items(), strict=True):
            for ax, quantity in zip(row, PANELS, strict=True):
                draw_panel(ax, records, quantity)
                ax.set_title(f"{name}: {PANELS[quantity]}")
        lettered(axes.flat)
        fig.legend(*_legend(axes[0]), loc="outside upper center", ncols=len(LEGEND))
    return fig


def draw_panel(ax: Axes, records: Mapping[str, Record], quantity: str) -> None:
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
    if quantity == "worst_gap":
        late = [interval(records[scheme].curves["late_gap"])[0] for scheme in MPGD]
        ax.plot(GAMMAS, late, "s:", color=BLUE, mfc="white", ms=4, lw=0.9, label=LATE)
    ax.set(xlabel=r"$\gamma$", xticks=GAMMAS)


def _legend(axes: Any) -> tuple[list[Any], list[str]]:
    """Return the handles of a row of panels, each label once and in order."""
    found: dict[str, Any] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    return [found[label] for label in LEGEND], list(LEGEND)
