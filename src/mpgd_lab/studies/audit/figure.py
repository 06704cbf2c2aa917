"""How the audit is drawn: the change that each deviation makes, with its interval."""

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

import numpy as np

from mpgd_lab.content.style import BLUE, GREY
from mpgd_lab.verdicts import Difference, Measure

ARROWS: Final = {"lower": "← better", "higher": "better →"}
CAPTION: Final = (
    "What each deviation changes against its base, with 95 % intervals. A filled marker: the "
    "interval leaves out 0; an open one: it holds 0. Each interval stands for itself; the verdicts "
    "in the tables are corrected for how many there are."
)


def draw_changes(
    ax: Any, differences: Mapping[str, Difference], title: str, measure: Measure
) -> None:
    """Draw a difference and its interval for each deviation, the first on top."""
    finite = {name: each for name, each in differences.items() if isfinite(each.low)}
    for place, each in enumerate(finite.values()):
        fill = "white" if each.low <= 0.0 <= each.high else BLUE
        look: Any = {"color": BLUE, "mfc": fill, "ms": 4, "capsize": 2, "elinewidth": 1.2}
        bar = np.array([[each.mean - each.low], [each.high - each.mean]])
        ax.errorbar(each.mean, place, xerr=bar, fmt="o", **look)
    ax.axvline(0.0, color=GREY, lw=0.8, zorder=0)
    ax.set_yticks(range(len(finite)), [name.replace("_", " ") for name in finite])
    ax.locator_params(axis="x", nbins=5)
    xlabel = f"change of {measure.title.removeprefix('final ')} ({ARROWS[measure.better]})"
    ax.set(ylim=(len(finite) - 0.5, -0.5), xlabel=xlabel)
    ax.set_title(title, fontsize=8.5)
