"""How exits, the time in two wells and the map of regimes are drawn; nothing is simulated here."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from mpgd.theory.phases.laminar import constants, unit
from mpgd_lab.content import colors
from mpgd_lab.content.style import BLUE, GREEN, GREY, INDIGO, ORANGE, RED, SKY
from mpgd_lab.schemes import PLAIN
from mpgd_lab.store import Record
from mpgd_lab.studies.airfoil.runs import FIXED as AIRFOIL
from mpgd_lab.studies.airfoil.runs import LEVELS as AIRFOIL_LEVELS
from mpgd_lab.studies.cifar10.runs import FULL as CIFAR10
from mpgd_lab.studies.cifar10.runs import LEVEL as CIFAR10_LEVEL
from mpgd_lab.studies.ecg.runs import FIXED as ECG
from mpgd_lab.studies.ecg.runs import LEVEL as ECG_LEVEL
from mpgd_lab.studies.escape.runs import GAMMA
from mpgd_lab.studies.escape.well_shapes import NARROW, WIDE, two_slopes, two_wells
from mpgd_lab.studies.valley.runs import FIXED as VALLEY
from mpgd_lab.studies.valley.runs import LEVEL as VALLEY_LEVEL

SETTINGS: Final = {  # the paper's eta, mu, sigma
    "valley": (VALLEY["eta"], VALLEY_LEVEL["mu"], VALLEY_LEVEL["sigma"]),
    "airfoil": (AIRFOIL["eta"], *AIRFOIL_LEVELS[PLAIN]),
    "ECG5000": (ECG["eta"], ECG_LEVEL["mu"], ECG_LEVEL["sigma"]),
    "CIFAR-10": (CIFAR10["eta"], CIFAR10_LEVEL["mu"], CIFAR10_LEVEL["sigma"]),
}
COLORS: Final = {kind: colors.of(kind) for kind in ("mpgd", "gaussian", "stable")}
NAMES: Final = {"mpgd": "MPGD", "gaussian": "Gaussian, same variance", "stable": "stable noise"}
FLOOR: Final = 1e-6  # a rate below this is drawn here
DESCENT: Final = 4000  # steps of it in the picture


def setting(record: Record, name: str) -> Any:
    """Return a hyperparameter of a record."""
    return record.run.hyperparameters[name]


def measured(ax: Any, x: Any, records: Sequence[Record], key: str = "rate", **look: Any) -> None:
    """Draw what was measured with its intervals; what was never seen is an open triangle."""
    held = np.array([[r.metrics[name] for name in (key, "low", "high")] for r in records])
    seen, x = held[:, 0] > 0, np.asarray(x)
    y, low, high = held[seen].T
    look = {"fmt": "o", "ms": 4, "capsize": 2, "elinewidth": 1.1, "ls": "none"} | look
    ax.errorbar(x[seen], y, [y - low, high - y], **look)
    if not seen.all():
        ax.plot(x[~seen], held[~seen, 2], "v", mfc="none", ms=5, color=look["color"])


def draw_steps(ax: Any, records: Sequence[Record], title: str) -> None:
    """Draw the exit rate against the step size."""
    shades = dict(zip(sorted({_shade(r) for r in records}), (BLUE, RED), strict=False))
    for shade, color in shades.items():
        own = sorted((r for r in records if _shade(r) == shade), key=lambda r: setting(r, "eta"))
        eta = [setting(r, "eta") for r in own]
        gamma, sigma = shade
        measured(ax, eta, own, color=color, label=f"γ = {gamma:g}, σ = {sigma:g}")
        for key, style in (("theory", "-"), ("one_phase", "--"), ("levy", ":")):
            y = np.maximum([r.metrics[key] for r in own], FLOOR / 10)
            ax.plot(eta, y, style, color=color, lw=1.1)
    top = max(r.metrics["levy"] for r in records)
    _ticks(ax, records)
    ax.set(yscale="log", xlabel="step size η", ylabel="exits per unit of time")
    ax.set(title=title, ylim=(FLOOR, 3 * top))
    ax.legend(loc="lower left", fontsize=7)


def _ticks(ax: Any, records: Sequence[Record]) -> None:
    """Make the horizontal axis that of the step sizes there are."""
    steps = sorted({setting(r, "eta") for r in records})
    ax.set(xscale="log", xticks=steps, xticklabels=[f"{eta:g}" for eta in steps])
    ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)


def _shade(record: Record) -> tuple[float, float]:
    return setting(record, "gamma"), setting(record, "sigma")


def draw_threshold(ax: Any, records: Sequence[Record], title: str) -> None:
    """Draw the exit rate against the force."""
    own = sorted(records, key=lambda r: r.metrics["force"])
    force = [r.metrics["force"] for r in own]
    ax.axvspan(0, own[0].metrics["threshold"], color=GREY, alpha=0.12, lw=0)
    measured(ax, force, own, color=BLUE, label="measured")
    for key, style, name in (
        ("theory", "-", "phase to phase"),
        ("one_phase", "--", "one phase"),
        ("levy", ":", "Lévy limit"),
    ):
        y = np.maximum([r.metrics[key] for r in own], FLOOR / 10)
        ax.plot(force, y, style, color=BLUE, lw=1.1, label=name)
    ax.set(yscale="log", ylim=(FLOOR, None), xlim=(0.9 * force[0], None), title=title)
    ax.set(xlabel="force F (steepest slope: 1)", ylabel="exits per unit of time")
    ax.legend(loc="lower right")


def draw_kinds(ax: Any, records: Sequence[Record], title: str) -> None:
    """Draw the exit rate of all noises against sigma."""
    for kind, color in COLORS.items():
        own = sorted(
            (r for r in records if setting(r, "kind") == kind), key=lambda r: setting(r, "sigma")
        )
        sigma = [setting(r, "sigma") for r in own]
        measured(ax, sigma, own, color=color, label=NAMES[kind])
        key = {"mpgd": "theory", "gaussian": "kramers", "stable": "levy"}[kind]
        ax.plot(sigma, [max(r.metrics[key], FLOOR / 10) for r in own], color=color, lw=1.1)
    ax.set(yscale="log", ylim=(FLOOR, None), title=title)
    ax.set(xlabel="σ", ylabel="exits per unit of time")
    ax.legend(loc="lower right")


def draw_longest(ax: Any, records: Sequence[Record], title: str) -> None:
    """Draw the exit rate against the longest phase."""
    capped = [r for r in records if setting(r, "longest")]
    own = sorted(capped, key=lambda r: setting(r, "longest"))
    longest = [setting(r, "longest") for r in own]
    measured(ax, longest, own, color=BLUE, label="measured")
    y = np.maximum([r.metrics["theory"] for r in own], FLOOR / 10)
    ax.plot(longest, y, color=BLUE, lw=1.1, label="phase to phase")
    for record in (r for r in records if not setting(r, "longest")):
        ax.axhline(record.metrics["rate"], color=GREY, ls="--", lw=1.1, label="no cap")
    ax.set(xscale="log", yscale="log", ylim=(FLOOR, None), title=title)
    ax.set(xlabel="longest phase, steps", ylabel="exits per unit of time")
    ax.legend(loc="lower right")


def draw_dimensions(ax: Any, records: Sequence[Record], title: str) -> None:
    """Draw measured rates in two and ten dimensions over the step size, with one phase's."""
    for (d, rotation), color in zip(
        ((2, "aligned"), (2, "rotated"), (10, "aligned"), (10, "rotated")),
        (SKY, BLUE, ORANGE, RED),
        strict=True,
    ):
        own = [
            r for r in records if (setting(r, "dimension"), setting(r, "rotation")) == (d, rotation)
        ]
        own.sort(key=lambda r: setting(r, "eta"))
        eta = [setting(r, "eta") for r in own]
        measured(ax, eta, own, color=color, label=f"{d} dimensions, {rotation}")
        y = np.maximum([r.metrics["one_phase"] for r in own], FLOOR / 10)
        ax.plot(eta, y, "--", color=color, lw=1.1)
    _ticks(ax, records)
    ax.set(yscale="log", title=title, ylim=(1e-4, None))
    ax.set(xlabel="step size η", ylabel="exits per unit of time")
    ax.legend(loc="lower left", fontsize=7)


def draw_shares(ax: Any, records: Sequence[Record], title: str) -> None:
    """Draw the time in the wide well against the force."""
    for slope in (np.pi / 3, np.pi):
        ax.axvline(slope, color=GREY, lw=0.8, ls=":")
    ax.axhline(0.5, color=GREY, lw=0.6)
    for kind, color in COLORS.items():
        own = sorted(
            (r for r in records if setting(r, "kind") == kind), key=lambda r: r.metrics["force"]
        )
        force = [r.metrics["force"] for r in own]
        measured(ax, force, own, "share", color=color, label=NAMES[kind])
        if kind == "mpgd":
            for key, style, name in (
                ("theory", "-", "theory"),
                ("long_run", "--", "in the long run"),
            ):
                ax.plot(
                    force, [r.metrics[key] for r in own], style, color=color, lw=1.1, label=name
                )
            ax.axhline(own[0].metrics["levy"], color=color, ls=":", lw=1.1, label="Lévy limit")
    ax.set(xlabel="force F of a phase", ylabel="share of time in the wide well", title=title)
    ax.set(ylim=(0, 1), xscale="log", xticks=[1, 2, 3, 5, 7], xticklabels=["1", "2", "3", "5", "7"])
    ax.minorticks_off()


def draw_map(ax: Any, record: Record, title: str) -> None:
    """Draw where a phase cannot leave a well of slope and half width 1, and where it is a jump."""
    eta, sigma = (np.array(record.curves[name]) for name in ("eta", "sigma"))
    ratio = np.array(record.curves["ratio"])
    c1, fine = constants(GAMMA).burst_value, np.geomspace(eta[0], eta[-1], 200)
    threshold = 1.0 / (unit(1.0, GAMMA) * fine ** (GAMMA - 1.0))
    coarse = -1.0 / (fine**GAMMA * c1)
    ax.fill_between(fine, sigma[0], threshold, color=GREY, alpha=0.15, lw=0)
    ax.fill_between(fine, np.maximum(coarse, threshold), sigma[-1], color=ORANGE, alpha=0.2, lw=0)
    ax.plot(fine, threshold, color=BLUE, lw=1.4)
    ax.plot(fine, coarse, color=ORANGE, lw=1.2)
    ax.contour(eta, sigma, ratio, [0.5, 0.9], colors=[INDIGO], linestyles=["--", "-"], linewidths=1)
    ax.text(1.5e-5, 2e-3, "no phase leaves:\nF below the slope", fontsize=7)
    ax.text(1.3e-5, 3.5, "Lévy regime", fontsize=7, color=INDIGO)
    ax.text(0.08, 5.5, "one burst\nleaves", fontsize=7, ha="center", va="center")
    for k, (name, (step, _, level)) in enumerate(SETTINGS.items()):
        ax.plot(step, level, "D", color=RED, ms=4)
        ax.annotate(
            name,
            (step, level),
            (-5, -3 + 7 * (k == 1)),
            textcoords="offset points",
            fontsize=7,
            ha="right",
            va="center",
        )
    ax.set(xscale="log", yscale="log", xlim=(eta[0], eta[-1]), ylim=(sigma[0], sigma[-1]))
    ax.set(xlabel="step size η", ylabel="σ", title=title)


def draw_tilted(ax: Any, chi: float, force: float, title: str) -> None:
    """Draw the loss that descent sees in a phase, and where descent goes from both minima."""
    x = np.linspace(-0.72, 2.25, 1201)

    def tilted(x: Any) -> Any:
        return two_wells(x) - chi * force * x

    ax.plot(x, two_wells(x), color=GREY, lw=1.0, ls="--", label="the loss R")
    ax.plot(x, tilted(x), color=BLUE, lw=1.2, label=f"in the phase: R {'−' if chi > 0 else '+'} Fx")
    for start, color in ((-NARROW, RED), (WIDE, GREEN)):
        path = [np.array([start])]
        for _ in range(DESCENT):
            path.append(path[-1] - 0.005 * (two_slopes(path[-1]) - chi * force))
        way = np.concatenate(path)
        ax.plot(way, tilted(way), color=color, lw=4, alpha=0.45, solid_capstyle="round")
        ax.plot(way[0], tilted(way[0]), "o", mfc="white", mec=color, ms=6)
        ax.plot(way[-1], tilted(way[-1]), "o", color=color, ms=6)
    for name, fill in (("start", "white"), ("end", GREY)):
        ax.plot([], [], "o", mfc=fill, mec=GREY, ms=6, label=name)
    low = min(tilted(x).min(), 0.0)
    ax.set(title=title, xlabel="x", ylabel="loss", ylim=(low - 0.4, 3.4 if chi > 0 else None))
    ax.legend(loc="lower left" if chi > 0 else "upper left", fontsize=7)  # off the curves
