"""The tables of the study of exits."""

from collections.abc import Mapping, Sequence
from typing import Final

from mpgd.theory.phases.laminar import decay_of, force_of
from mpgd_lab.content.blocks import Table
from mpgd_lab.content.selection import matching
from mpgd_lab.content.tables import table
from mpgd_lab.store import Record
from mpgd_lab.studies.escape.figure import NAMES, SETTINGS, setting
from mpgd_lab.studies.escape.runs import ETAS, GAMMA, KINDS, SIGMA

RATE_COLUMNS: Final = ("measured", "exits", "phase to phase", "ratio", "one phase")


def plain(rates: Sequence[Record], kind: str | None = "mpgd") -> list[Record]:
    """Return the records of the quadratic well at the usual gamma, symmetric and not capped."""
    quadratic = matching(rates, well="quadratic", gamma=GAMMA, beta=0.0, longest=None)
    return [r for r in quadratic if kind in (None, setting(r, "kind"))]


def by_step(rates: Sequence[Record]) -> list[Record]:
    """Return the records of the table of step sizes, for which most exits are counted."""
    most = max(setting(r, "exits") for r in rates)
    results = [
        r for r in matching(rates, well="quadratic", exits=most) if setting(r, "eta") in ETAS
    ]
    return sorted(results, key=lambda r: (setting(r, "gamma"), -setting(r, "eta")))


def _measured(r: Record) -> str:
    m = r.metrics
    return f"{m['rate']:.3g} [{m['low']:.3g}, {m['high']:.3g}]"


def _rate_cells(r: Record) -> list[str]:
    m = r.metrics
    cells = [_measured(r), f"{m['exits']:,.0f}", _number(m, "theory"), _ratio(m, "theory")]
    return [*cells, _number(m, "one_phase")]


def _number(metrics: Mapping[str, float], name: str) -> str:
    return f"{metrics[name]:.3g}" if name in metrics else ""


def _ratio(metrics: Mapping[str, float], name: str) -> str:
    """Return theory over measurement, where both are there."""
    return f"{metrics[name] / metrics['rate']:.2f}" if name in metrics and metrics["rate"] else ""


def step_table(rates: Sequence[Record]) -> Table:
    """Return the table of step sizes in the quadratic well."""
    rows = [
        [
            f"{setting(r, 'gamma'):g}",
            f"{setting(r, 'eta'):g}",
            f"{r.metrics['force']:.3f}",
            f"{1.0 - 3.0 * r.metrics['burst']:.3f}",
            *_rate_cells(r),
            f"{r.metrics['levy']:.3g}",
        ]
        for r in by_step(rates)
    ]
    return table(
        f"Quadratic well |x| < 1, σ = {SIGMA:g}: exits per unit of time against the step size. No "
        "exit is expected where F is below 1 minus three bursts; ratio is theory over measurement",
        ["γ", "η", "F", "1 − 3 bursts", *RATE_COLUMNS, "Lévy"],
        rows,
    )


def other_table(rates: Sequence[Record]) -> Table:
    """Return the table of all other counts of MPGD in one dimension."""
    rest = [r for r in matching(rates, kind="mpgd") if r not in by_step(rates)]
    rest.sort(key=lambda r: (setting(r, "well"), setting(r, "longest") or 0, r.metrics["force"]))
    rows = [
        [
            setting(r, "well"),
            f"{setting(r, 'sigma'):.3g}",
            f"{setting(r, 'eta'):g}",
            f"{setting(r, 'beta'):g}",
            f"{setting(r, 'longest') or ''}",
            f"{r.metrics['force']:.2f}",
            *_rate_cells(r),
            f"{r.metrics['levy']:.3g}",
        ]
        for r in rest
    ]
    return table(
        f"Wells, forces, skewness β and caps on the longest phase, γ = {GAMMA:g}: exits per unit "
        "of time",
        ["well", "σ", "η", "β", "cap", "F", *RATE_COLUMNS, "Lévy"],
        rows,
    )


def noise_table(rates: Sequence[Record]) -> Table:
    """Return the table of the other noises beside MPGD in the quadratic well."""
    own = [r for r in plain(rates, kind=None) if setting(r, "sigma") in (0.3, 0.6, 1.0)]
    own = [r for r in own if setting(r, "eta") in (0.02, 0.005)]
    own.sort(
        key=lambda r: (setting(r, "eta"), setting(r, "sigma"), KINDS.index(setting(r, "kind")))
    )
    rows = [
        [
            NAMES[setting(r, "kind")],
            f"{setting(r, 'sigma'):g}",
            f"{setting(r, 'eta'):g}",
            _measured(r),
            _number(r.metrics, "theory"),
            f"{r.metrics['levy']:.3g}",
            f"{r.metrics['kramers']:.3g}",
        ]
        for r in own
    ]
    return table(
        f"Three noises in the quadratic well, γ = {GAMMA:g}: exits per unit of time, and what "
        "theory says of MPGD, of stable noise (Lévy) and of the Gaussian (diffusion, Kramers)",
        ["noise", "σ", "η", "measured", "phase to phase", "Lévy", "Kramers"],
        rows,
    )


def share_table(shares: Sequence[Record]) -> Table:
    """Return the table of the time in the wide well."""
    own = sorted(shares, key=lambda r: (KINDS.index(setting(r, "kind")), r.metrics["force"]))
    rows = []
    for r in own:
        m, chaotic = r.metrics, setting(r, "kind") == "mpgd"
        named = ("theory", "long_run", "by_rates", "levy")
        rows.append(
            [
                NAMES[setting(r, "kind")],
                f"{m['force']:.2f}",
                f"{setting(r, 'eta'):.2g}",
                f"{m['share']:.3f} [{m['low']:.3f}, {m['high']:.3f}]",
                *(f"{m[name]:.3f}" if chaotic else "" for name in named),
            ]
        )
    time = setting(own[0], "time")
    return table(
        f"Two wells: share of the first {time:g} units of time in the wide one, with 95 % "
        "intervals over walkers; theory over that time, in the long run, and from the exit rates",
        ["noise", "F", "η", "share", "theory", "long run", "by rates", "Lévy"],
        rows,
    )


def box_table(boxes: Sequence[Record]) -> Table:
    """Return the table of boxes in more dimensions."""
    own = sorted(
        boxes,
        key=lambda r: (
            setting(r, "dimension"),
            setting(r, "rotation"),
            -setting(r, "eta"),
        ),
    )
    rows = [
        [
            f"{setting(r, 'dimension')}, {setting(r, 'rotation')}",
            f"{setting(r, 'eta'):g}",
            f"{r.metrics['force']:.2f}",
            *_rate_cells(r),
            _ratio(r.metrics, "one_phase"),
            f"{r.metrics['levy']:.3g}",
        ]
        for r in own
    ]
    return table(
        "Boxes in two and ten dimensions with a driver for each coordinate: exits per unit of "
        "time. A phase of driver i pushes towards wall j with F |Q_ji| only",
        ["dimensions", "η", "F", *RATE_COLUMNS, "its ratio", "Lévy"],
        rows,
    )


def paper_table() -> Table:
    """Return force and decay of the paper's settings."""
    rows = []
    for name, (eta, mu, sigma) in SETTINGS.items():
        F = force_of(lr=eta, sigma=sigma, gamma=GAMMA)
        M = decay_of(lr=eta, mu=mu, gamma=GAMMA)
        rows.append([name, f"{eta:g}", f"{mu:g}", f"{sigma:g}", f"{F:.3f}", f"{M:.3f}"])
    return table(
        f"The paper's settings as force and decay at γ = {GAMMA:g}",
        ["setting", "η", "μ", "σ", "F", "M"],
        rows,
    )
