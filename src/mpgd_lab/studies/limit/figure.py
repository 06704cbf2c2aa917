"""How the convergence to the limit equation is drawn; nothing is computed here."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from mpgd_lab.content.selection import matching
from mpgd_lab.content.style import BLUE, GREEN, GREY, ORANGE, PALE, RED
from mpgd_lab.store import Record

SYMMETRIC, CLAIMED = "product signs, to the symmetric limit", "product signs, to the claimed limit"
LINES: Final[tuple[tuple[Any, ...], ...]] = (  # beta, signs, curve, label, look, shift in m
    (0.0, "fresh", "", "fresh signs", {"color": GREEN, "marker": "o"}, 0.92),
    (0.5, "fresh", "", "fresh signs", {"color": BLUE, "marker": "s"}, 0.97),
    (0.5, "product", "", SYMMETRIC, {"color": ORANGE, "marker": "^"}, 1.03),
    (0.5, "product", "claimed_", CLAIMED, {"color": RED, "marker": "v", "ls": "--"}, 1.08),
)
DISTANCES: Final = {"ks": "Kolmogorov", "wasserstein": "Wasserstein", "energy": "Energy"}


def draw_laws(ax: Any, records: Sequence[Record], title: str) -> None:
    """Draw the distribution function at the last time for the smallest, a middle, the largest m."""
    records = _with(records, 0.5, "fresh")
    limit = records[-1].curves
    ax.plot(limit["grid"], limit["limit_cdf"], color=PALE, lw=5, label="limit equation")
    chosen = [records[0], records[len(records) // 3], records[-1]]
    for record, color, ls in zip(chosen, (RED, ORANGE, "black"), (":", "--", "-"), strict=True):
        label = f"$m={steps(record):,}$".replace(",", "{,}")
        ax.plot(limit["grid"], record.curves["cdf"], color=color, ls=ls, lw=1.1, label=label)
    name = "u" if "Valley" in title else "x"
    ax.set(title=title, ylim=(0, 1), xlabel=rf"asinh$\,{name}$ at $t={limit['times'][-1]:g}$")
    ax.set_ylabel(r"distribution function, $\beta=0.5$, fresh", fontsize=8)
    ax.legend(loc="best")


def draw_distances(
    ax: Any, records: Sequence[Record], drivers: Sequence[Record], title: str, name: str = "ks"
) -> None:
    """Draw a distance at the last time against m, with bootstrap intervals.

    Beside the Kolmogorov distance stands the driver's own to its stable law; the line is what
    sampling alone exceeds.
    """
    for beta, signs, curve, label, look, shift in LINES:
        mine = _with(records, beta, signs)
        m = shift * np.array([steps(r) for r in mine])
        value, low, high, _ = np.array([r.curves[curve + name][-1] for r in mine]).T
        look = {"ms": 4, "lw": 1.1, "mew": 0, "elinewidth": 0.8} | look
        error = [value - low, high - value]
        ax.errorbar(m, value, error, label=rf"$\beta={beta:g}$, {label}", **look)
    if name == "ks":
        own = _with(drivers, 0.5, "fresh")
        label, ks = r"driver alone, $\beta=0.5$, fresh signs", [r.metrics["ks"] for r in own]
        ax.plot([steps(r) for r in own], ks, ":", color="black", lw=1.2, label=label)
    noise = float(np.mean([r.curves[name][-1][3] for r in records]))
    _noise_line(ax, [steps(r) for r in records], noise)
    ax.set(xscale="log", yscale="log", title=title, xlabel="$m$")
    ax.set_ylabel(f"{DISTANCES[name]} distance" + (r" of asinh$\,x$" if name != "ks" else ""))
    ax.set_ylim(0.4 * noise, None)
    _plain_ticks(ax)


def draw_circle(ax: Any, jump: Record) -> None:
    """Draw one jump made in n forward steps, and where the two integrals put its end."""
    theta, angle = jump.run.hyperparameters["theta"], np.linspace(0, 2 * np.pi, 400)
    ax.plot(np.cos(angle), np.sin(angle), color=GREY, lw=0.6)
    for n, color, ls in ((4, ORANGE, "--"), (16, BLUE, "-")):
        z = (1 + 1j * theta / n) ** np.arange(n + 1)
        ax.plot(z.real, z.imag, color=color, ls=ls, lw=1.1, label=f"{n} steps")
    ax.plot([1, 1], [0, theta], color=RED, lw=1.1, ls=":", label="1 step")
    for name, color, marker in (("marcus", GREEN, "o"), ("ito", RED, "v")):
        label = {"marcus": "Marcus", "ito": "Ito"}[name]
        ax.plot(*jump.curves[name], marker, color=color, ms=7, mew=0, label=label)
    ax.set(title=rf"One jump of $\theta={theta:g}$", xlabel="$x$", ylabel="$y$", aspect="equal")
    ax.set_xlim(-2.6, 2.0)
    ax.legend(loc="lower left", ncols=2, handlelength=1.4, columnspacing=0.8)
    ax.set_ylim(-2.3, 2.8)


def draw_gap(ax: Any, jump: Record) -> None:
    """Draw how far the end of n forward steps is from either integral."""
    n, x, y = (np.asarray(jump.curves[name]) for name in ("n", "x", "y"))
    ito = np.hypot(x - jump.curves["ito"][0], y - jump.curves["ito"][1])
    ax.loglog(n, jump.curves["gap"], "o-", color=GREEN, ms=4, mew=0, label="to Marcus")
    ax.loglog(n[1:], ito[1:], "v--", color=RED, ms=4, mew=0, label="to Ito")
    ax.set(title="The end of the jump", xlabel="forward steps $n$", ylabel="distance")
    ax.legend(loc="lower left")


def draw_rotation_distance(ax: Any, records: Sequence[Record]) -> None:
    """Draw the Wasserstein distance of asinh x to either equation against m."""
    m = [steps(r) for r in records]
    for name, color, fmt in (("marcus", GREEN, "o-"), ("ito", RED, "v--")):
        value, low, high, noise = np.array([r.curves[name] for r in records]).T
        ax.fill_between(m, low, high, color=color, alpha=0.15, lw=0)
        label = {"marcus": "to Marcus", "ito": "to Ito"}[name]
        ax.loglog(m, value, fmt, color=color, ms=4, mew=0, lw=1.1, label=label)
    _noise_line(ax, m, float(np.mean(noise)))
    ax.set(title="Rotation driven by chaos", xlabel="$m$", ylabel="Wasserstein distance at $t=1$")
    _plain_ticks(ax)
    ax.legend(loc="best")


def draw_radius(ax: Any, records: Sequence[Record]) -> None:
    """Draw median and 90 % range of |x| against m, with those of the equations."""
    m = [steps(r) for r in records]
    low, middle, high = np.array([r.curves["radius"] for r in records]).T
    ito = records[-1].curves["ito_radius"]
    ax.fill_between(m, low, high, color=BLUE, alpha=0.15, lw=0)
    ax.plot(m, middle, "s-", color=BLUE, ms=4, mew=0, lw=1.1, label="chaos, $m$ steps")
    ax.fill_between(m, ito[0], ito[2], color=RED, alpha=0.1, lw=0)
    ax.axhline(ito[1], color=RED, ls="--", lw=1.1, label="Ito equation")
    ax.axhline(1.0, color=GREEN, lw=1.1, label="Marcus equation")
    ax.set(xscale="log", yscale="log", title="Norm at $t=1$: median and 90 %", xlabel="$m$")
    ax.set(ylabel="$|x|$")
    _plain_ticks(ax)
    ax.legend(loc="upper right")


def _noise_line(ax: Any, m: Sequence[int], noise: float) -> None:
    ax.axhline(noise, color=GREY, lw=0.8)
    ax.text(min(m), noise, "noise of sampling", color=GREY, va="bottom", ha="left", fontsize=7)


def _plain_ticks(ax: Any) -> None:
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def _with(records: Sequence[Record], beta: float, signs: str) -> list[Record]:
    return [record for record in matching(records, beta=beta) if record.run.scheme == signs]


def steps(record: Record) -> int:
    """Return m, the steps a unit of time."""
    return int(record.run.hyperparameters["m"])
