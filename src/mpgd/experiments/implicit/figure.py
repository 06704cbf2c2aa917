"""How Theorem 4.3's test is drawn: records in, a matplotlib figure out; nothing is computed here.

Above, for one case of each loss, D(eps) against eps^2 and its extrapolation to 0, between the two
forms of the theorem. Below, all cases, each over its completed coefficient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mpgd.experiments.content.style import BLUE, GRID, RED, lettered, styled
from mpgd.experiments.implicit.runs import PROBLEMS, Case, case_of, cases
from mpgd.experiments.store import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AGREE: Final = 3.0  # standard errors
TITLES: Final = {
    "quartic": "scalar quartic",
    "pair": "two-parameter quartic",
    "valley": "valley",
    "network": "tanh network 2-3-1",
}
SHOWN: Final = Case(mu0=1.0, sigma0=0.0, beta=0.5, shared=True)


def figure(records: Sequence[Record]) -> Figure:
    """Return two rows of panels, a column for each loss."""
    with styled(11.0, 5.6) as fig:
        axes = fig.subplots(2, len(PROBLEMS), height_ratios=[1, 1.25])
        for column, name in enumerate(PROBLEMS):
            mine = [record for record in records if record.run.scheme == name]
            (shown,) = [record for record in mine if case_of(record.run) == SHOWN]
            draw_epsilon(axes[0, column], shown)
            draw_cases(axes[1, column], mine, named=column == 0)
            axes[0, column].set_title(TITLES[name])
        lettered(axes[0])
        axes[0, 0].set_ylabel(rf"$D(\varepsilon)$,  {label(SHOWN)}")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper center", ncols=4)
    return fig


def draw_epsilon(ax: Axes, record: Record) -> None:
    """Draw D(eps) with intervals of three standard errors, its limit, and the two predictions."""
    m, c = record.metrics, record.curves
    square = np.square(c["epsilon"])
    ax.axhline(m["completed"], color=BLUE, lw=1.3, label="theorem, completed")
    ax.axhline(m["printed"], color=RED, lw=1.3, ls="--", label="theorem, as printed")
    look: Any = {"color": "black", "ms": 4, "elinewidth": 0.9, "capsize": 2}
    bars = AGREE * np.asarray(c["stderr"])
    ax.errorbar(square, c["D"], bars, fmt="o", label=r"simulation, $\pm 3$ s.e.", **look)
    limit = r"extrapolated to $\varepsilon=0$"
    ax.errorbar(0, m["measured"], AGREE * m["stderr"], fmt="o", mfc="white", label=limit, **look)
    low, high = min(m["printed"], *c["D"] - bars), max(m["completed"], *c["D"] + bars)
    pad = 0.12 * (high - low)
    ax.set(xlabel=r"$\varepsilon^2$", xlim=(-0.004, 0.044), ylim=(low - pad, high + pad))
    ax.set_xticks([0, 0.01, 0.04])


def draw_cases(ax: Axes, records: Sequence[Record], named: bool) -> None:
    """Draw every case's simulation and printed prediction over the completed coefficient."""
    rows = [label(case) for case in cases("network")]  # a scalar has fewer: shared says nothing
    y = np.array([rows.index(label(case_of(record.run))) for record in records])
    completed = np.array([record.metrics["completed"] for record in records])
    measured = np.array([record.metrics["measured"] for record in records]) / completed
    bars = AGREE * np.array([r.metrics["stderr"] for r in records]) / np.abs(completed)
    printed = np.array([record.metrics["printed"] for record in records]) / completed
    ax.axvline(1.0, color=BLUE, lw=1.3)
    ax.plot(printed, y, "x", color=RED, ms=6, mew=1.5)
    ax.errorbar(measured, y, xerr=bars, fmt="o", color="black", ms=3.5, elinewidth=0.9, capsize=2)
    ax.set_yticks(range(len(rows)), rows if named else [""] * len(rows))
    ax.set(ylim=(len(rows) - 0.5, -0.5), xlim=(0.35, 1.12), xlabel="coefficient / completed")
    ax.grid(axis="y", color=GRID, lw=0.6)
    ax.set_axisbelow(True)


def label(case: Case) -> str:
    """Return a case as a short label."""
    drivers = {(True, True): r"$\mu_0,\sigma_0$", (True, False): r"$\mu_0$"}
    text = drivers.get((case.mu0 > 0, case.sigma0 > 0), r"$\sigma_0$")
    if case.mu0:
        text += " shared" if case.shared else " per coord."
    return rf"{text}, $\beta={case.beta:g}$"
