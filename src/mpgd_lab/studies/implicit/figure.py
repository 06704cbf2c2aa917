"""How Theorem 4.3's test is drawn; nothing is computed here.

For one case of each loss, D(eps) against eps^2 and its extrapolation to 0, between the two forms
of the theorem; and all cases, each over its completed coefficient.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from mpgd_lab.content.style import BLUE, GRID, RED
from mpgd_lab.store import Record
from mpgd_lab.studies.implicit.runs import Case, case_of, cases, describe

AGREE: Final = 3.0  # standard errors
TITLES: Final = {
    "quartic": "scalar quartic",
    "pair": "two-parameter quartic",
    "valley": "valley",
    "network": "tanh network 2-3-1",
}
SHOWN: Final = Case(mu0=1.0, sigma0=0.0, beta=0.5, shared=True)


def draw_epsilon(ax: Any, record: Record) -> None:
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
    ax.set(ylabel=r"coefficient of $\varepsilon^2$")
    ax.set_xticks([0, 0.01, 0.04])
    ax.set_title(TITLES[record.run.scheme])


def draw_cases(ax: Any, records: Sequence[Record]) -> None:
    """Draw every case's simulation and printed prediction over the completed coefficient."""
    rows = [label(case) for case in cases("network")]  # a scalar has fewer: shared says nothing
    y = np.array([rows.index(label(case_of(record.run))) for record in records])
    completed = np.array([record.metrics["completed"] for record in records])
    measured = np.array([record.metrics["measured"] for record in records]) / completed
    bars = AGREE * np.array([r.metrics["stderr"] for r in records]) / np.abs(completed)
    printed = np.array([record.metrics["printed"] for record in records]) / completed
    ax.axvline(1.0, color=BLUE, lw=1.3)
    ax.plot(printed, y, "x", color=RED, ms=6, mew=1.5, label="as printed, in all cases")
    ax.errorbar(measured, y, xerr=bars, fmt="o", color="black", ms=3.5, elinewidth=0.9, capsize=2)
    ax.set_yticks(range(len(rows)), rows)
    ax.set(ylim=(len(rows) - 0.5, -0.5), xlim=(0.35, 1.12), xlabel="coefficient / completed")
    ax.grid(axis="y", color=GRID, lw=0.6)
    ax.set_axisbelow(True)
    ax.set_title(TITLES[records[0].run.scheme])


def label(case: Case) -> str:
    """Return a case as a short label, in the paper's letters."""
    letters = {"sigma0": r"$\sigma_0$", "mu0": r"$\mu_0$", "beta ": r"$\beta=$"}
    text = describe(case)
    for word, letter in letters.items():
        text = text.replace(word, letter)
    return text
