"""Verdicts in sections on the paper's tables: protocols, settings, headlines, missing runs."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from mpgd_lab.catalogue import EXPERIMENTS, load
from mpgd_lab.content.blocks import Basis, Block, Finding, Findings, Missing
from mpgd_lab.content.selection import records_of
from mpgd_lab.content.tables import AS_PRINTED, Comparison, IncompleteError, Setting, findings_table
from mpgd_lab.store import Record, Run
from mpgd_lab.verdicts import RULE, Measure, Verdict, by_scheme

PROTOCOLS: Final = {
    "text": "as the text says",
    "corrected": "with corrected signs",
    "released": "as the scripts ran",
}
BASIS: Final[dict[str, Basis]] = {  # what a protocol's verdicts count as
    "text": "stated",
    "corrected": "corrected",
    "released": "scripts",
}
BASES: Final[dict[str, Basis]] = {"product": "stated", "fresh": "corrected"}  # sign rules
NOT_RUN: Final = "text to the letter: not run"
WORSE: Final = "rows that the paper prints as worse than the rival"
POOLED: Final = "Summary, not counted: means over several rows, judged together"
ByProtocol = Mapping[str, Sequence[Record]]


def command(*names: str, options: str = "") -> str:
    """Return the command that runs these experiments.

    Examples:
        >>> command("valley", "ecg", options="--seeds 20")
        'mpgd reproduce valley ecg --seeds 20 --data DIR'
    """
    ours = [load(name) for name in names if name in EXPERIMENTS]
    data = "--data DIR" if any(one.data or one.optional_data for one in ours) else ""
    written = [name if name in EXPERIMENTS else f"{name}.py" for name in names]
    return " ".join(filter(None, ("mpgd reproduce", *written, options, data)))


def unfinished(
    name: str,
    groups: ByProtocol,
    tasks: Callable[[str, Sequence[int]], list[Run]],
    options: str = "",
) -> tuple[Missing, ...]:
    """Return how to finish an experiment in which some schemes have fewer seeds than others.

    ``options`` are those of the command beside the seeds.
    """
    uneven, most = [], 0
    for title, group in groups.items():
        schemes = by_scheme(group)
        counts = [len(schemes.get(task.scheme, ())) for task in tasks(group[0].run.protocol, [1])]
        if min(counts) < max(counts):
            uneven.append(f"{PROTOCOLS.get(title, title)}, {min(counts)} to {max(counts)} seeds")
            most = max(most, *counts)
    text = f"Unfinished: {'; '.join(uneven)}. To finish it, run again:"
    options = f"{options} --seeds {most}".strip()
    return (Missing(text, command(name, options=options), begun=True),) * bool(uneven)


def finished(
    records: Sequence[Record], tasks: Callable[[str, Sequence[int], int], list[Run]]
) -> dict[str, list[Record]]:
    """Return for each protocol the records of the runs that the experiment defines."""
    groups = {}
    for protocol in PROTOCOLS:
        group = [record for record in records if record.run.protocol == protocol]
        if group:
            seeds = sorted({record.run.seed for record in group})
            steps = group[0].run.hyperparameters["steps"]
            groups[protocol] = records_of(group, tasks(protocol, seeds, steps))
    if not any(groups.values()):
        raise IncompleteError("no run as this version makes them")
    return {protocol: group for protocol, group in groups.items() if group}


def settings(groups: ByProtocol, measures: Mapping[str, Measure]) -> list[Setting]:
    """Return the settings of a table, with the measures of each protocol."""
    return [
        Setting(PROTOCOLS[protocol], group, measures[protocol], protocol == "released")
        for protocol, group in groups.items()
    ]


def verdict_blocks(
    groups: ByProtocol,
    headlines: Mapping[str, str],
    comparison: Comparison,
    uncounted: Container[str] = (),
    other: Basis = "elsewhere",
) -> list[Block]:
    """Return the verdicts on every row, and those on means over rows as a table, not counted.

    Verdicts stand under the headline of the first word that their claim contains. Those on what
    ``uncounted`` names, no test of what the paper states, are counted for themselves, as ``other``.
    A protocol whose sweep is not finished has none.
    """
    rows: list[Finding] = []
    pooled: list[Finding] = []
    for name, group in groups.items():
        title, own = PROTOCOLS.get(name, name), BASIS.get(group[0].run.protocol, "elsewhere")
        basis = other if name in uncounted else own
        make = partial(finding, setting=title, basis=basis, digits=comparison.digits)
        try:
            pooled += [make("", verdict=verdict) for verdict in comparison.pooled(group)]
        except IncompleteError:
            continue
        for measure in comparison.measures(group[0].run.protocol):
            rows += [make("", verdict=verdict) for verdict in comparison.rows(group, measure)]
    findings = Findings(RULE, with_headlines(rows, headlines))
    return [
        *([findings] if rows else ()),
        *([findings_table(Findings("", tuple(pooled)), POOLED)] if pooled else ()),
    ]


def finding(
    headline: str, verdict: Verdict, setting: str, digits: int, basis: Basis = "elsewhere"
) -> Finding:
    """Return a verdict of the statistics as one of the report."""
    word, reason = verdict.label, verdict.reason(digits)
    return Finding(headline, setting, verdict.claim, word, reason, basis, verdict.deciding_seeds)


def with_headlines(
    findings: Iterable[Finding], headlines: Mapping[str, str]
) -> tuple[Finding, ...]:
    """Return the findings, each under the headline of the first word its claim contains.

    The headline ends with the rival: to beat descent and to beat a Gaussian are two claims. What
    the paper itself prints as worse than a rival is no claim that MPGD is better.
    """
    return tuple(replace(one, headline=_headline(one.claim, headlines)) for one in findings)


def _headline(claim: str, headlines: Mapping[str, str]) -> str:
    headline = next(text for word, text in headlines.items() if word in claim)
    if claim.endswith(AS_PRINTED):
        return f"{headline.split(':')[0]}: {WORSE}"
    _, than, rival = claim.rpartition(" than ")
    return headline + than + rival


def without_text(name: str, records: Sequence[Record]) -> tuple[Missing, ...]:
    """Return how to run protocol ``text`` with as many seeds, where it has not been run."""
    if any(record.run.protocol == "text" for record in records):
        return ()
    seeds = len({record.run.seed for record in records})
    text = f"The paper's {NOT_RUN}. To run it:"
    return (Missing(text, command(name, options=f"--protocol text --seeds {seeds}")),)
