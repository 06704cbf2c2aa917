"""How the convergence to the limit equation is drawn; nothing is computed here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mpgd.experiments.content.style import BLUE, GREEN, GREY, ORANGE, PALE, RED, lettered, styled
from mpgd.experiments.store import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES: Final = (  # beta, signs, curve, label, style
    (0.0, "fresh", "", r"$\beta=0$, fresh signs", {"color": GREEN, "marker": "o"}),
    (0.5, "fresh", "", r"$\beta=0.5$, fresh signs", {"color": BLUE, "marker": "s"}),
    (
        0.5,
        "product",
        "",
        r"$\beta=0.5$, product signs, to the symmetric limit",
        {"color": ORANGE, "marker": "^"},
    ),
    (
        0.5,
        "product",
        "claimed_",
        r"$\beta=0.5$, product signs, to the claimed limit",
        {"color": RED, "marker": "v", "ls": "--"},
    ),
)
PANELS: Final = {
    "ks": "Kolmogorov distance",
    "wasserstein": "Wasserstein distance of asinh$\\,x$",
    "energy": "Energy distance of asinh$\\,x$",
}


def draw_case(title: str, records: Sequence[Record], drivers: Sequence[Record]) -> Figure:
    """Return the laws for a few m and three distances against m, for one loss and noise."""
    with styled(13.2, 3.6) as figure:
        axes = figure.subplots(1, 4)
        draw_laws(axes[0], [r for r in records if _key(r) == (0.5, "fresh")], title)
        for ax, (name, label) in zip(axes[1:], PANELS.items(), strict=True):
            for line, shift in zip(LINES, (0.92, 0.97, 1.03, 1.08), strict=True):
                draw_distance(ax, records, name, *line, shift)
            finish_distance(ax, name, label, records)
        draw_driver(axes[1], [r for r in drivers if _key(r) == (0.5, "fresh")])
        handles, labels = axes[1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        lettered(axes)
    return figure


def draw_laws(ax: Axes, records: Sequence[Record], title: str) -> None:
    """Draw the distribution function at the last time for the smallest, a middle, the largest m."""
    limit = records[-1].curves
    ax.plot(limit["grid"], limit["limit_cdf"], color=PALE, lw=5, label="limit equation")
    chosen = [records[0], records[len(records) // 3], records[-1]]
    for record, color, ls in zip(chosen, (RED, ORANGE, "black"), (":", "--", "-"), strict=True):
        label = f"$m={_m(record):,}$".replace(",", "{,}")
        ax.plot(limit["grid"], record.curves["cdf"], color=color, ls=ls, lw=1.1, label=label)
    name = "u" if "Valley" in title else "x"
    ax.set(title=title, ylim=(0, 1), xlabel=rf"asinh$\,{name}$ at $t={limit['times'][-1]:g}$")
    ax.set_ylabel(r"distribution function, $\beta=0.5$, fresh", fontsize=8)
    ax.legend(loc="best")


def draw_distance(
    ax: Axes,
    records: Sequence[Record],
    name: str,
    beta: float,
    signs: str,
    curve: str,
    label: str,
    style: dict[str, Any],
    shift: float,
) -> None:
    """Draw one distance at the last time against m, with its bootstrap interval."""
    mine = [r for r in records if _key(r) == (beta, signs)]
    m = shift * np.array([_m(r) for r in mine])
    value, low, high, _ = np.array([r.curves[curve + name][-1] for r in mine]).T
    error = [value - low, high - value]
    look: dict[str, Any] = {"ms": 4, "lw": 1.1, "mew": 0, "elinewidth": 0.8, "label": label}
    ax.errorbar(m, value, error, **look | style)


def draw_driver(ax: Axes, records: Sequence[Record]) -> None:
    """Draw the driver's own distance to its stable law."""
    m = [_m(r) for r in records]
    label = r"driver alone, $\beta=0.5$, fresh signs"
    ax.plot(m, [r.metrics["ks"] for r in records], ":", color="black", lw=1.2, label=label)


def draw_rotation(jump: Record, records: Sequence[Record]) -> Figure:
    """Return the appendix's example, and the rotation driven by chaos."""
    with styled(13.2, 3.4) as figure:
        axes = figure.subplots(1, 4)
        draw_circle(axes[0], jump)
        draw_gap(axes[1], jump)
        draw_rotation_distance(axes[2], records)
        draw_radius(axes[3], records)
        lettered(axes)
    return figure


def draw_circle(ax: Axes, jump: Record) -> None:
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


def draw_gap(ax: Axes, jump: Record) -> None:
    """Draw how far the end of n forward steps is from either integral."""
    n, x, y = (np.asarray(jump.curves[name]) for name in ("n", "x", "y"))
    ito = np.hypot(x - jump.curves["ito"][0], y - jump.curves["ito"][1])
    ax.loglog(n, jump.curves["gap"], "o-", color=GREEN, ms=4, mew=0, label="to Marcus")
    ax.loglog(n[1:], ito[1:], "v--", color=RED, ms=4, mew=0, label="to Ito")
    ax.set(title="The end of the jump", xlabel="forward steps $n$", ylabel="distance")
    ax.legend(loc="lower left")


def draw_rotation_distance(ax: Axes, records: Sequence[Record]) -> None:
    """Draw the Wasserstein distance of asinh x to either equation against m."""
    m = [_m(r) for r in records]
    for name, color, fmt in (("marcus", GREEN, "o-"), ("ito", RED, "v--")):
        value, low, high, noise = np.array([r.curves[name] for r in records]).T
        ax.fill_between(m, low, high, color=color, alpha=0.15, lw=0)
        label = {"marcus": "to Marcus", "ito": "to Ito"}[name]
        ax.loglog(m, value, fmt, color=color, ms=4, mew=0, lw=1.1, label=label)
    _noise_line(ax, m, float(np.mean(noise)))
    ax.set(title="Rotation driven by chaos", xlabel="$m$", ylabel="Wasserstein distance at $t=1$")
    _plain_ticks(ax)
    ax.legend(loc="best")


def draw_radius(ax: Axes, records: Sequence[Record]) -> None:
    """Draw median and 90 % range of |x| against m, with those of the equations."""
    m = [_m(r) for r in records]
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


def finish_distance(ax: Axes, name: str, label: str, records: Sequence[Record]) -> None:
    """Label the axes of one distance and draw what sampling alone exceeds."""
    noise = np.mean([r.curves[name][-1][3] for r in records])
    _noise_line(ax, [_m(r) for r in records], float(noise))
    ax.set(xscale="log", yscale="log", title=label, xlabel="$m$")
    ax.set_ylabel(f"distance at $t={records[0].curves['times'][-1]:g}$")
    ax.set_ylim(0.4 * noise, None)
    _plain_ticks(ax)


def _noise_line(ax: Axes, m: Sequence[int], noise: float) -> None:
    ax.axhline(noise, color=GREY, lw=0.8)
    ax.text(min(m), noise, "noise of sampling", color=GREY, va="bottom", ha="left", fontsize=7)


def _plain_ticks(ax: Axes) -> None:
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def _key(record: Record) -> tuple[float, str]:
    return record.run.hyperparameters["beta"], record.run.scheme


def _m(record: Record) -> int:
    return int(record.run.hyperparameters["m"])
