"""Equal displacement: the verdicts, and tables of what stands beside what."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mpgd_lab import verdicts
from mpgd_lab.content.blocks import Block, Finding, Findings, Missing, Table, Text
from mpgd_lab.content.findings import command, finding
from mpgd_lab.content.selection import matching, records_of
from mpgd_lab.content.tables import IncompleteError, cell, table, terminal_table
from mpgd_lab.experiment import PrintItem
from mpgd_lab.schemes import SYMMETRIC, Scheme
from mpgd_lab.store import Record, Run
from mpgd_lab.studies.airfoil.runs import is_random
from mpgd_lab.studies.displacement.runs import BETA, NETWORKS, PARTS, Part, ratio, schemes, tasks
from mpgd_lab.studies.generalization.gap_verdicts import fitted_change
from mpgd_lab.studies.generalization.runs import GAMMAS, MPGD
from mpgd_lab.verdicts import (
    BySeed,
    Measure,
    Verdict,
    by_scheme,
    by_seed,
    holm_corrected,
    paired_difference,
    worst_of,
)

OWN: Final = "displacement"
AT_MPGD: Final = "at MPGD's displacement"
AT_GAUSSIAN: Final = "at the Gaussian's displacement"
RULE: Final = (
    f"{verdicts.RULE} Compared are runs of this study with published runs of the study named, of "
    "the same seeds, with fresh signs and β = 0.5. The paper has no such comparison: none of it is "
    "counted in the answer."
)
HEADS: Final = (
    "row",
    "moves farther by",
    "MPGD",
    "Gaussian as far",
    "difference",
    "Gaussian",
    "MPGD as far",
    "difference",
)
NETWORK_CLAIM: Final = "Networks, equal displacement"
DIGITS: Final = 4  # of a difference of gaps and traces


@dataclass(frozen=True)
class Row:
    """What is compared for one gamma and variant, each by seed."""

    gamma: float
    variant: str
    mpgd: BySeed  # published
    gaussian: BySeed  # published, of the same variance
    descent: BySeed  # published
    far_gaussian: BySeed  # moves as far as MPGD
    near_mpgd: BySeed  # moves as far as the Gaussian

    @property
    def name(self) -> str:
        """Variant and gamma."""
        return f"{self.variant} {self.gamma:g}"


def blocks(records: Sequence[Record]) -> list[Block]:
    """Return what the section shows."""
    held = {name: _rows(name, records) for name in PARTS}
    nets = {name: own for name in NETWORKS if (own := _networks(name, records))}
    if not any(held.values()) and not nets:
        raise IncompleteError("no study of which both displacements were run")
    found = [one for name, rows in held.items() for one in _findings(PARTS[name], rows)]
    found += [one for name, own in nets.items() for one in _network_findings(name, own)]
    return [
        *unfinished(held),
        Text(summary(found), answer=True),
        Text(
            "Chaotic values are correlated, so MPGD moves the parameters farther than Gaussian "
            "noise of the same variance per step, 3 to 8 times here. How much of a difference "
            "is the displacement? Two rows answer: a Gaussian that moves as far as MPGD (root mean "
            "square over all perturbed steps), and MPGD at a level at which it moves as far as the "
            "Gaussian."
        ),
        Findings(RULE, tuple(found)),
        *(one for name, rows in held.items() for one in _tables(PARTS[name], rows)),
        *(_network_table(name, own) for name, own in nets.items()),
    ]


def unfinished(held: Mapping[str, Mapping[Measure, Sequence[Row]]]) -> Iterator[Missing]:
    """Yield how to finish the Gaussians that move as far, where they have fewer seeds."""
    lacking, most = [], 0
    for name, measures in held.items():
        for rows in list(measures.values())[:1]:
            far, near = _seeds(rows)
            if far < near:
                lacking.append(f"{PARTS[name].title} {far} of {near}")
                most = max(most, near)
    if lacking:
        text = f"Unfinished: seeds of the Gaussian as far: {', '.join(lacking)}. To finish it:"
        yield Missing(text, command(OWN, options=f"--seeds {most}"), begun=True)


def _seeds(rows: Sequence[Row]) -> tuple[int, int]:
    """Return how many seeds the Gaussians as far have, and how many MPGD as far."""
    return min(len(row.far_gaussian) for row in rows), max(len(row.near_mpgd) for row in rows)


def summary(found: Sequence[Finding]) -> str:
    """Return how often MPGD was better and worse than the Gaussian, at either displacement."""
    sentences = []
    for setting in (AT_GAUSSIAN, AT_MPGD):
        counts = []
        for part in PARTS.values():
            words = Counter(
                one.word
                for one in found
                if one.setting == setting
                and one.headline.startswith(part.title)
                and one.headline.endswith("the Gaussian")
            )
            if words:
                better, worse = words["supported"], words["contradicted"]
                counts.append(f"{part.title} {better} and {worse} of {words.total()}")
        if counts:
            title = f"{setting[0].upper()}{setting[1:]}"
            text = f"{title} MPGD is significantly better and worse than the Gaussian in:"
            sentences.append(f"{text} {'; '.join(counts)} comparisons.")
    networks = [one for one in found if one.headline.startswith(NETWORK_CLAIM)]
    if networks:
        seen = sum(one.word in ("supported", "contradicted") for one in networks)
        sentences.append(
            f"On networks, at the Gaussian's displacement, {seen} of {len(networks)} comparisons "
            "of gaps and traces are significant."
        )
    return " ".join(sentences)


def printout(records: Sequence[Record]) -> Iterator[PrintItem]:
    """Yield the means of the rows at equal displacement."""
    for name, part in PARTS.items():
        own = by_scheme(matching(records, data=name))
        for measure in part.measures if own else ():
            rows = [
                [scheme, verdicts.summary(by_seed(each, measure.metric).values()).text(DIGITS)]
                for scheme, each in own.items()
            ]
            yield terminal_table(table(f"{part.title}: {measure.title}", ("row", "ours"), rows))


def _rows(name: str, records: Sequence[Record]) -> dict[Measure, list[Row]]:
    """Return the rows of a study that are complete, by measure."""
    part = PARTS[name]
    seeds = sorted({record.run.seed for record in records if record.run.experiment == OWN})
    own = by_scheme(records_of(matching(records, data=name), tasks("corrected", seeds)))
    theirs = by_scheme(r for r in records if r.run.experiment == name and _is_rival(r.run, part))
    pairs: dict[tuple[float, str], dict[str, str]] = {}
    for scheme in schemes(part):
        pairs.setdefault((scheme.gamma or 0.0, scheme.variant or ""), {})[scheme.kind] = str(scheme)
    rows: dict[Measure, list[Row]] = {}
    for (gamma, variant), names in pairs.items():
        other: Any = {"gamma": gamma, "symmetric": variant == SYMMETRIC}
        mpgd, gaussian = Scheme("chaotic", **other, beta=BETA), Scheme("matched", **other)
        published = [theirs.get(str(one)) for one in (mpgd, gaussian, Scheme())]
        found = [*published, own.get(names["gaussian"]), own.get(names["mpgd"])]
        for measure in part.measures if all(found) else ():
            values = [by_seed(each or (), measure.metric) for each in found]
            if set.intersection(*map(set, values)):
                rows.setdefault(measure, []).append(Row(gamma, variant, *values))
    return rows


def _is_rival(run: Run, part: Part) -> bool:
    """Return whether a run of the study itself is one that its rows are compared with."""
    h = run.hyperparameters
    same = all(h.get(name) == part.fixed[name] for name in ("eta", "steps", "widths"))
    return run.protocol == "corrected" and same and not is_random(run)


def _findings(part: Part, rows: Mapping[Measure, Sequence[Row]]) -> Iterator[Finding]:
    for measure, own in rows.items():
        for (setting, rival), verdict in judged(part, measure, own):
            headline = f"{part.title}, equal displacement: MPGD has a {measure.better} "
            headline += f"{measure.noun} than {rival}"
            yield finding(headline, verdict, setting, measure.digits)


def judged(
    part: Part, measure: Measure, rows: Sequence[Row]
) -> list[tuple[tuple[str, str], Verdict]]:
    """Return the verdicts on a measure, judged together, each with its setting and rival."""
    every = [
        values
        for row in rows
        for values in (row.mpgd, row.gaussian, row.descent, row.far_gaussian, row.near_mpgd)
    ]
    worst = worst_of(every, measure.better)
    places, claims = [], []
    for row in rows:
        for setting, rival, ours, theirs in (
            (AT_MPGD, "the Gaussian", row.mpgd, row.far_gaussian),
            (AT_GAUSSIAN, "the Gaussian", row.near_mpgd, row.gaussian),
            (AT_GAUSSIAN, "descent", row.near_mpgd, row.descent),
        ):
            claim = f"{part.title}: MPGD {row.name} has a {measure.better} {measure.noun}"
            claim += f" than {rival}, {setting}"
            difference = paired_difference(ours, theirs, worst)
            places.append((setting, rival))
            claims.append(Verdict(claim, measure.better, difference))
    return list(zip(places, holm_corrected(claims), strict=True))


def _tables(part: Part, rows: Mapping[Measure, Sequence[Row]]) -> Iterator[Table]:
    for measure, own in rows.items():
        every = iter(judged(part, measure, own))
        body = []
        for row in own:
            far, near, _ = (next(every)[1] for _ in range(3))
            means = [
                verdicts.summary(x.values()).text(measure.digits)
                for x in (row.mpgd, row.far_gaussian, row.gaussian, row.near_mpgd)
            ]
            texts = [one.difference.text(measure.digits) for one in (far, near)]
            farther = f"{ratio(row.gamma, BETA, part.steps):.2f}"
            cells = [*means[:2], texts[0], *means[2:], texts[1]]
            words = [None, None, far.label, None, None, near.label]
            shown = [cell(text, word) for text, word in zip(cells, words, strict=True)]
            body.append((cell(row.name), cell(farther), *shown))
        few, seeds = _seeds(own)
        caption = f"{part.title}, {measure.title}: mean (standard deviation), {seeds} seeds"
        caption += f", of the Gaussian as far {few}" * (few < seeds)
        plain = table(caption, HEADS, ())
        yield Table(caption, plain.columns, tuple(body))


def _networks(name: str, records: Sequence[Record]) -> dict[str, Record]:
    """Return the rows of `generalization`'s networks and their rivals there, if all are there."""
    own = by_scheme(records_of(matching(records, data=name), tasks("corrected", ())))
    there = [r for r in records if r.run.experiment == "generalization"]
    theirs = by_scheme(matching(there, data=NETWORKS[name]))
    wanted = {f"{kind} {gamma:g}" for kind in ("gaussian", "mpgd") for gamma in GAMMAS}
    if own.keys() < wanted or not {"gaussian", "descent", *MPGD} <= theirs.keys():
        return {}
    rivals = {f"own {scheme}": each[0] for scheme, each in theirs.items()}
    return rivals | {scheme: each[0] for scheme, each in own.items()}


def _curve(records: Mapping[str, Record], scheme: str, quantity: str) -> np.ndarray:
    return np.asarray(records[scheme].curves[quantity], dtype=np.float64)


def network_verdicts(records: Mapping[str, Record]) -> list[Verdict]:
    """Return the verdicts on the networks of one data set at the Gaussian's displacement."""
    gaps, traces = (
        np.array([_curve(records, f"mpgd {gamma:g}", quantity) for gamma in GAMMAS])
        for quantity in ("worst_gap", "hessian_trace")
    )
    differences = {
        "smaller alpha, smaller gap": fitted_change(gaps),
        "MPGD has a smaller gap than the Gaussian": gaps.mean(axis=0)
        - _curve(records, "own gaussian", "worst_gap"),
        "MPGD has a lower trace than the Gaussian": traces.mean(axis=0)
        - _curve(records, "own gaussian", "hessian_trace"),
    }
    return holm_corrected(
        Verdict(f"{claim}, {AT_GAUSSIAN}", "lower", verdicts.interval(d))
        for claim, d in differences.items()
    )


def _network_findings(name: str, records: Mapping[str, Record]) -> Iterator[Finding]:
    for verdict in network_verdicts(records):
        claim = verdict.claim.partition(",")[0]
        if claim == "smaller alpha":
            claim = "smaller α, smaller generalisation gap"
        yield finding(f"{NETWORK_CLAIM}: {claim}", verdict, name, DIGITS)


def _network_table(name: str, records: Mapping[str, Record]) -> Table:
    def text(scheme: str, quantity: str, digits: int) -> str:
        d = verdicts.interval(_curve(records, scheme, quantity))
        return f"{d.mean:.{digits}f} ± {d.high - d.mean:.{digits}f}"

    rows = []
    for gamma in GAMMAS:
        schemes = (f"own mpgd {gamma:g}", f"gaussian {gamma:g}", "own gaussian", f"mpgd {gamma:g}")
        gaps = [text(scheme, "worst_gap", 3) for scheme in schemes]
        steps = records["own gaussian"].run.hyperparameters["steps"]
        rows.append([f"{gamma:g}", f"{ratio(gamma, 0.0, steps):.2f}", *gaps])
    seeds = records["own gaussian"].run.hyperparameters["seeds"]
    heads = ("γ", *HEADS[1:4], *HEADS[5:7])
    return table(f"{name}, worst gap: mean over {seeds} seeds ± half the interval", heads, rows)
