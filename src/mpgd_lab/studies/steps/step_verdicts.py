"""What the runs say of the two remarks, by the rule of `mpgd_lab.verdicts`.

    small steps   below the paper's own: MPGD is claimed to be better, at each step size
    large steps   above it: both are claimed to be alike. A test can show that they differ, not
                  that they are alike, so this is contradicted or undecided, never supported
    levels        below the paper's: MPGD is claimed to be worse than at the paper's own level, but
                  better than descent and than the Gaussian of the same level

The paper's own step size is in the tables; the remark is not about it. All step sizes of a study,
protocol and kind of comparison are judged together, so are all levels of a protocol.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from mpgd_lab.content.tables import IncompleteError
from mpgd_lab.schemes import Scheme
from mpgd_lab.store import Record
from mpgd_lab.studies.levels.runs import Study
from mpgd_lab.studies.steps.runs import LOWER, RELEASED, SHARED, STEPS, STUDIES, TIME
from mpgd_lab.verdicts import (
    BySeed,
    Direction,
    Verdict,
    by_seed,
    holm_corrected,
    paired_difference,
    worst_of,
)

Where = tuple[str, float, int, str, str, float]  # study, eta, steps, protocol, kind, level
RecordGroups = Mapping[Where, BySeed]


@dataclass(frozen=True)
class Row:
    """One comparison of a table: where it is made, both outcomes, and the verdict."""

    study: Study
    protocol: str
    kind: str  # `TIME`, `STEPS` or what a level is compared with
    at: float  # the step size, or the level
    ours: BySeed
    theirs: BySeed
    verdict: Verdict
    word: str  # of the claim that belongs to this place


def gathered(records: Sequence[Record]) -> dict[Where, BySeed]:
    """Return the metric of each seed, by what a run is."""
    groups: dict[Where, list[Record]] = {}
    for record in records:
        h, scheme = record.run.hyperparameters, Scheme.of(record.run)
        level = scheme.sigma or 0.0
        place = (h["data"], h["eta"], h["steps"], record.run.protocol, scheme.kind, level)
        groups.setdefault(place, []).append(record)
    return {place: by_seed(own, STUDIES[place[0]].metric) for place, own in groups.items()}


def swept(
    held: RecordGroups, name: str, protocol: str, kind: str, sizes: Mapping[tuple[str, float], int]
) -> list[Row]:
    """Return MPGD against descent at every step size, judged together."""
    study, own = STUDIES[name], STUDIES[name].fixed["eta"]
    sigma = (RELEASED[name] if protocol == "released" else study.levels)[1]
    places = [(eta, steps) for (each, eta), steps in sizes.items() if each == kind]
    pairs = []
    for eta, steps in places:
        ours = _found(held, (name, eta, steps, protocol, "mpgd", sigma))
        pairs.append((ours, _found(held, (name, eta, steps, SHARED, "gd", 0.0))))
    claims = (f"MPGD is better than descent at step size {eta:g}" for eta, _ in places)
    judged = _judged(claims, study.better, pairs)
    return [
        Row(study, protocol, kind, eta, *pair, verdict, step_word(verdict, eta, own))
        for (eta, _), pair, verdict in zip(places, pairs, judged, strict=True)
    ]


def step_word(verdict: Verdict, eta: float, own: float) -> str:
    """Return what the remark's verdict is at a step size, where the paper used ``own``."""
    if eta <= own or verdict.word in ("undecided", "mixed"):
        return verdict.word
    return "contradicted"  # they are not alike


def lowered(held: RecordGroups, protocol: str, shorter: int = 1) -> list[Row]:
    """Return MPGD on ECG5000 at every level against descent, Gaussian and its own at 0.2."""
    study = STUDIES["ecg"]
    eta, steps = study.fixed["eta"], study.fixed["steps"] // shorter
    whose = protocol if protocol == "released" else SHARED

    def at(kind: str, level: float) -> BySeed:
        owner = {"gd": SHARED, "gaussian": whose, "mpgd": protocol}[kind]
        return _found(held, ("ecg", eta, steps, owner, kind, level))

    rows: list[tuple[str, float, BySeed, BySeed]] = []
    for level in LOWER:
        ours = at("mpgd", level)
        rows.append(("descent", level, ours, at("gd", 0.0)))
        rows.append(("the Gaussian", level, ours, at("gaussian", level)))
        if level < LOWER[-1]:
            # The claim is that the paper's level is better, so its runs come first.
            rows.append((f"level {level:g}", LOWER[-1], at("mpgd", LOWER[-1]), ours))
    claims = (f"MPGD at level {level:g} is better than {kind}" for kind, level, *_ in rows)
    judged = _judged(claims, study.better, [(ours, theirs) for *_, ours, theirs in rows])
    return [
        Row(study, protocol, kind, level, ours, theirs, verdict, verdict.word)
        for (kind, level, ours, theirs), verdict in zip(rows, judged, strict=True)
    ]


def all_sweeps(
    held: RecordGroups,
    protocols: Sequence[str],
    sizes: Mapping[str, Mapping[tuple[str, float], int]],
) -> dict[tuple[str, str, str], list[Row]]:
    """Return the rows of every study, protocol and kind of comparison that is complete."""
    results = {}
    for place in product(STUDIES, protocols, (TIME, STEPS)):
        try:
            results[place] = swept(held, *place, sizes[place[0]])
        except IncompleteError:
            continue
    return results


def _found(held: RecordGroups, place: Where) -> BySeed:
    if place not in held:
        raise IncompleteError(f"no run of {', '.join(map(str, place))}")
    return held[place]


def _judged(
    claims: Iterable[str], better: Direction, pairs: Sequence[tuple[BySeed, BySeed]]
) -> list[Verdict]:
    """Return the verdicts of one table; a run that diverged counts as its worst."""
    worst = worst_of([values for pair in pairs for values in pair], better)
    if not all(set(a) & set(b) for a, b in pairs):
        raise IncompleteError("no seed is in both schemes")
    return holm_corrected(
        Verdict(claim, better, paired_difference(a, b, worst))
        for claim, (a, b) in zip(claims, pairs, strict=True)
    )
