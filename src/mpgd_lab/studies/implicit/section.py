"""Theorem 4.3: the coefficient of eps^2, printed and completed, against simulation."""

from collections.abc import Iterator, Sequence
from typing import Final

from mpgd_lab.content import tables
from mpgd_lab.content.blocks import Block, Finding, Findings, Panel, Plate, Table, Text, panel
from mpgd_lab.content.selection import matching, most_common, of_schemes
from mpgd_lab.content.tables import IncompleteError, table
from mpgd_lab.experiment import PrintItem
from mpgd_lab.store import Record
from mpgd_lab.studies.implicit.figure import AGREE, SHOWN, TITLES, draw_cases, draw_epsilon
from mpgd_lab.studies.implicit.runs import (
    FIXED_STEPS,
    GAMMA,
    PROBLEMS,
    RATIO,
    RATIO_SIZES,
    case_of,
    describe,
)
from mpgd_lab.verdicts import by_scheme

PRECISE: Final = 0.02  # largest relative standard error
HEADLINE: Final = "Theorem 4.3: the ε² coefficient of the risk"
SETTINGS: Final = {"printed": "as printed", "completed": "with the term the proof drops"}
RULE: Final = (
    f"Rule: a form of the theorem is supported on a loss if it is within {AGREE:g} standard errors "
    "of the simulation in every case, contradicted if in any case it is not. The rule was written "
    "after these numbers had been seen."
)


RATIO_TEXT: Final = (
    "The paper remarks that this ratio is at most C/m. That holds at a fixed number of steps; with "
    "2 m steps, the regime of Theorem 4.1, lambda is 1/m times a sum of 2 m terms: the ratio stays."
)


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows."""
    ratios = of_schemes(records, (RATIO,)) if any(r.run.scheme == RATIO for r in records) else []
    records = [record for record in records if record.run.scheme != RATIO]
    records = of_schemes(records, PROBLEMS) if records else []
    if not records:
        raise IncompleteError("no run of a loss of the test")
    held = [record for name in PROBLEMS for record in _cases(records, name)]
    return [
        Text(
            "With perturbations of size ε the mean risk after k steps differs from that of descent "
            "by a coefficient times ε². The paper's proof drops a term in which the multiplicative "
            "noise meets its own past; where that noise is on, the printed coefficient misses."
        ),
        Findings(RULE, tuple(findings(held))),
        Text(" ".join(f"{line[0].upper()}{line[1:]}." for line in verdict(held))),
        Plate(
            "implicit",
            "First the measured coefficient against ε², with 3 standard errors, and "
            "both forms of the theorem (shared multiplicative noise, β = 0.5); then all cases, "
            "each divided by its completed coefficient, where crosses are the printed form.",
            tuple(_panels(held)),
            legend=True,
        ),
        table(
            f"Coefficient of ε² in E R(x_k), γ = {GAMMA}; z in standard errors",
            ["loss", "drivers", "measured", "s.e.", "completed", "z", "printed", "z", "agrees"],
            map(row, held),
        ),
        *_ratio(ratios),
    ]


def _ratio(records: Sequence[Record]) -> list[Block]:
    return [ratio_table(records), Text(RATIO_TEXT)] if records else []


def ratio_table(records: Sequence[Record]) -> Table:
    """Return the ratio of the lambda term to the trace term, by m, in both regimes."""
    m = sorted({record.run.hyperparameters["m"] for record in records})
    rows = []
    for regime, words in (("fixed", f"{FIXED_STEPS} steps"), ("limit", "2 m steps")):
        for mu0, sigma0 in RATIO_SIZES:
            mine = matching(records, regime=regime, mu0=mu0, sigma0=sigma0)
            metrics = {r.run.hyperparameters["m"]: r.metrics for r in mine}
            cells = [
                f"{abs(metrics[k]['third'] / metrics[k]['trace']):.4f}" if k in metrics else ""
                for k in m
            ]
            rows.append([words, "mu0" if mu0 else "sigma0", *cells])
    caption = "The λ term over the trace term, |∇ᵀλ| / tr(C Hess), two-parameter quartic"
    return table(caption, ["steps", "noise", *(f"m = {k}" for k in m)], rows)


def _panels(records: Sequence[Record]) -> Iterator[Panel]:
    outcome = "the simulation tends to the completed coefficient, not to the printed one."
    for record in records:
        if case_of(record.run) == SHOWN:
            yield panel(f"{TITLES[record.run.scheme]}: {outcome}", draw_epsilon, record, left=0.22)
    for name, mine in by_scheme(records).items():
        alt = f"{TITLES[name]}: all cases over the completed coefficient."
        yield panel(alt, draw_cases, mine, left=0.47)


def findings(records: Sequence[Record]) -> list[Finding]:
    """Return the verdict on both forms of the theorem for each loss."""
    verdicts = []
    for theory, setting in SETTINGS.items():
        for name, mine in by_scheme(records).items():
            z = [abs(deviation(record, theory)) for record in mine]
            good = sum(each <= AGREE for each in z)
            reason = f"agrees in {good} of {len(z)} cases; at most {max(z):.1f} standard errors off"
            word = "supported" if good == len(z) else "contradicted"
            about = (HEADLINE, setting, TITLES[name], word, reason)
            verdicts.append(Finding(*about, "stated" if theory == "printed" else "corrected"))
    return verdicts


def _cases(records: Sequence[Record], name: str) -> list[Record]:
    return sorted(most_common([r for r in records if r.run.scheme == name], "count"), key=_place)


def _place(record: Record) -> tuple[float, float, float, bool]:
    case = case_of(record.run)
    return case.beta, -case.mu0, case.sigma0, not case.shared


def printout(records: Sequence[Record]) -> Iterator[PrintItem]:
    """Yield the table of all cases, and in how many each form of the theorem holds."""
    if ratios := [record for record in records if record.run.scheme == RATIO]:
        yield tables.terminal_table(ratio_table(ratios))
        yield RATIO_TEXT
    records = [record for record in records if record.run.scheme != RATIO]
    columns = ["loss", "drivers", "measured", "s.e.", "completed", "z", "printed", "z", "verdict"]
    title = f"Coefficient of eps^2 in E R(x_k), gamma {GAMMA}"
    yield title, columns, [row(record) for record in records]
    yield from verdict(records)


def deviation(record: Record, theory: str) -> float:
    """Return measured minus ``theory``, "completed" or "printed", in standard errors."""
    m = record.metrics
    return float((m["measured"] - m[theory]) / m["stderr"])


def verdict(records: Sequence[Record]) -> list[str]:
    """Return in words in how many cases each form of the theorem holds."""
    lines = []
    for theory in ("completed", "printed"):
        good = sum(abs(deviation(record, theory)) <= AGREE for record in records)
        lines.append(
            f"{theory} theorem: within {AGREE:g} standard errors in {good} of {len(records)} cases"
        )
    with_mu = [record for record in records if record.run.hyperparameters["mu0"]]
    wrong = sum(abs(deviation(record, "printed")) > AGREE for record in with_mu)
    lines.append(f"printed theorem fails in {wrong} of the {len(with_mu)} cases with mu0 > 0")
    largest = max(r.metrics["stderr"] / abs(r.metrics["completed"]) for r in records)
    state = "below" if largest < PRECISE else "NOT below"
    lines.append(f"largest standard error: {largest:.2%} of the coefficient, {state} {PRECISE:.0%}")
    return lines


def row(record: Record) -> list[str]:
    """Return a row of the table: measured, completed, printed, and which of the two agrees."""
    m = record.metrics
    z = {theory: deviation(record, theory) for theory in ("completed", "printed")}
    words = [name for name in z if abs(z[name]) <= AGREE]
    agree = {0: "neither", 1: f"{words[0]} only" if words else "", 2: "both"}[len(words)]
    numbers = [f"{m['measured']:.5f}", f"{m['stderr']:.5f}", f"{m['completed']:.5f}"]
    numbers += [f"{z['completed']:+.1f}", f"{m['printed']:.5f}", f"{z['printed']:+.1f}"]
    return [record.run.scheme, describe(case_of(record.run)), *numbers, agree]
