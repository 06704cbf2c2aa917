"""What the sections of the paper's tables share: protocols, settings and verdicts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from mpgd.experiments import EXPERIMENTS, load
from mpgd.experiments.comparison import Comparison, IncompleteError
from mpgd.experiments.content.blocks import Basis, Finding, Findings, Missing
from mpgd.experiments.content.choose import chosen
from mpgd.experiments.content.tables import Setting
from mpgd.experiments.statistics import RULE, Columns, Verdict, by_scheme
from mpgd.experiments.store import Record, Run

PROTOCOLS: Final = {"paper": "as the text says", "released": "as the scripts ran"}
BASES: Final[dict[str, Basis]] = {"product": "stated", "fresh": "corrected"}  # sign rules
ByProtocol = Mapping[str, Sequence[Record]]


def command(*names: str, options: str = "") -> str:
    """Return the command that runs these experiments.

    Examples:
        >>> command("valley", "ecg", options="--seeds 20")
        'mpgd reproduce valley ecg --seeds 20 --data DIR'
    """
    ours = [load(name) for name in names if name in EXPERIMENTS]
    data = "--data DIR" if any(one.data or one.also for one in ours) else ""
    written = [name if name in EXPERIMENTS else f"{name}.py" for name in names]
    return " ".join(filter(None, ("mpgd reproduce", *written, options, data)))


def unfinished(
    name: str, held: ByProtocol, tasks: Callable[[str, Sequence[int]], list[Run]]
) -> tuple[Missing, ...]:
    """Return how to finish an experiment in which some schemes have fewer seeds than others."""
    uneven, most = [], 0
    for title, own in held.items():
        schemes = by_scheme(own)
        counts = [len(schemes.get(task.scheme, ())) for task in tasks(own[0].run.protocol, [1])]
        if min(counts) < max(counts):
            uneven.append(f"{PROTOCOLS.get(title, title)}, {min(counts)} to {max(counts)} seeds")
            most = max(most, *counts)
    text = f"Unfinished: {'; '.join(uneven)}. To finish it, run again:"
    return (Missing(text, command(name, options=f"--seeds {most}"), begun=True),) * bool(uneven)


def finished(
    records: Sequence[Record], tasks: Callable[[str, Sequence[int], int], list[Run]]
) -> dict[str, list[Record]]:
    """Return for each protocol the records of an experiment's runs, as it now defines them."""
    held = {}
    for protocol in PROTOCOLS:
        own = [record for record in records if record.run.protocol == protocol]
        if own:
            seeds = sorted({record.run.seed for record in own})
            steps = own[0].run.hyperparameters["steps"]
            held[protocol] = chosen(own, tasks(protocol, seeds, steps))
    if not any(held.values()):
        raise IncompleteError("no run as this version makes them")
    return {protocol: own for protocol, own in held.items() if own}


def settings(held: ByProtocol, columns: Mapping[str, Columns]) -> list[Setting]:
    """Return the settings of a table, with the columns of each protocol."""
    return [
        Setting(PROTOCOLS[protocol], own, columns[protocol], protocol == "released")
        for protocol, own in held.items()
    ]


def findings(
    held: ByProtocol, headline: str, comparison: Comparison, titles: Mapping[str, str] = PROTOCOLS
) -> tuple[Finding, ...]:
    """Return the verdicts under each protocol; one whose sweep is not finished has none."""
    found: list[Finding] = []
    for name, own in held.items():
        try:
            judged = comparison.verdicts(own)
        except IncompleteError:
            continue
        digits = comparison.digits
        found += [finding(headline, titles.get(name, name), verdict, digits) for verdict in judged]
    return tuple(found)


def judged(held: ByProtocol, headlines: Mapping[str, str], comparison: Comparison) -> Findings:
    """Return these verdicts, each under the headline of the first word that its claim contains."""
    return Findings(RULE, under(findings(held, "", comparison), headlines))


def finding(headline: str, setting: str, verdict: Verdict, digits: int) -> Finding:
    """Return a verdict of the statistics as one of the report."""
    basis: Basis = "stated" if setting.startswith(PROTOCOLS["paper"]) else "scripts"
    said = verdict.reason(digits)
    if verdict.shown != verdict.word:
        said = f"{verdict.word} so far: {said}"
    return Finding(headline, setting, verdict.claim, verdict.shown, said, basis)


def under(found: Iterable[Finding], headlines: Mapping[str, str]) -> tuple[Finding, ...]:
    """Return the findings, each under the headline of the first word its claim contains."""
    return tuple(
        replace(one, headline=next(h for word, h in headlines.items() if word in one.claim))
        for one in found
    )
