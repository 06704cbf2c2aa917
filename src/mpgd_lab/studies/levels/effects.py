"""What force and decay did: paired differences to descent, how far weights were moved, predictions.

A phase of MPGD is descent on a tilted, bent loss, so predictions need no training at all:

    decay   a weight that no gradient holds is multiplied by prod (1 - m) of its own noise; harm is
            foreseen where some weight of the net grows more than tenfold so
    push    all pushes of a net come to sigma (eta N)^gamma; harm is foreseen where that exceeds its
            RMS weight
    force   along the flat floor of the valley nothing opposes a push, so the trace is that of the
            start plus all pushes, as long as it is below 2/eta, where steps across overshoot
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mpgd_lab.content.selection import matching
from mpgd_lab.content.tables import IncompleteError
from mpgd_lab.store import Record
from mpgd_lab.studies.compare.comparison_verdicts import sign_flips
from mpgd_lab.studies.levels.runs import FRESH, NETS, STUDIES, Study, weight
from mpgd_lab.verdicts import (
    Difference,
    Summary,
    by_seed,
    grouped,
    holm,
    paired_difference,
    summary,
)

TENFOLD: Final = 10.0  # growth of a weight from which on harm is foreseen
LEVEL: Final = 0.05
MIN_DISPLACEMENT: Final = 0.1  # of the spread, which a recipe must exceed


@dataclass(frozen=True)
class Effect:
    """What one setting did to one study."""

    study: Study
    records: Sequence[Record]
    score: Summary
    difference: Difference  # to descent, paired by seed
    p: float
    displacement: (
        float  # distance of final weights to descent's, in units of their spread over seeds
    )
    p_holm: float = 1.0

    @property
    def diverged(self) -> int:
        """How many runs diverged."""
        return sum(record.metrics["diverged"] for record in self.records)

    @property
    def growth(self) -> float:
        """The median over seeds of the growth that noise alone would give some weight."""
        return float(np.median([record.metrics.get("growth", np.nan) for record in self.records]))

    @property
    def push(self) -> float:
        """What all pushes of a net come to, sigma (eta N)^gamma, in units of its RMS weight."""
        h = self.records[0].run.hyperparameters
        time = h["eta"] * (h.get("stop") or h["steps"])
        return float(h["sigma"] * time ** h["gamma"] / weight(tuple(h["widths"])))

    @property
    def is_worse(self) -> bool:
        """Whether the metric is worse than descent's after the correction."""
        bad = (self.difference.mean < 0) == (self.study.better == "higher")
        return bad and self.p_holm < LEVEL

    @property
    def is_better(self) -> bool:
        """Whether the metric is better than descent's after the correction."""
        return self.p_holm < LEVEL and not self.is_worse

    @property
    def passes(self) -> bool:
        """Whether it is what a recipe must be: no run diverged, none worse, and weights moved."""
        return not self.diverged and not self.is_worse and self.displacement > MIN_DISPLACEMENT


def effects(records: Sequence[Record], name: str, fresh: bool) -> dict[str, Effect]:
    """Return the effect of every setting of a study, by scheme and level; not corrected."""
    study = STUDIES[name]
    own = [r for r in matching(records, data=name) if (r.run.seed >= FRESH) == fresh]
    groups = grouped(own, lambda run: label(run.scheme, run.hyperparameters))
    if "descent" not in groups:
        raise IncompleteError(f"no descent of {study.title}")
    plain = groups.pop("descent")
    by_setting = {}
    for key, each in groups.items():
        mine, theirs = (by_seed(part_, study.metric) for part_ in (each, plain))
        if not {*mine} & {*theirs}:
            continue  # the sweep is not finished
        d = paired_difference(mine, theirs)
        pairs = np.array([mine[s] - theirs[s] for s in sorted({*mine} & {*theirs})])
        p = sign_flips(pairs[np.isfinite(pairs)])
        held = (summary(mine.values()), d, p, distance(each, plain))
        by_setting[key] = Effect(study, each, *held)
    return by_setting


def label(scheme: str, h: object) -> str:
    """Return what tells a setting from others; sweeps have several of one scheme."""
    held = h if isinstance(h, dict) else {}
    return f"{scheme} {held[scheme]:g}" if scheme in ("force", "decay") else scheme


def distance(records: Sequence[Record], plain: Sequence[Record]) -> float:
    """Return the RMS distance of final weights, by seed, over their spread between seeds."""
    held = {r.run.seed: np.array(r.curves.get("weights", ()), dtype=float) for r in plain}
    pairs = [
        (np.array(r.curves["weights"], dtype=float), held[r.run.seed])
        for r in records
        if r.run.seed in held and "weights" in r.curves
    ]
    if len(pairs) < 2:
        return float("nan")
    with np.errstate(over="ignore", invalid="ignore"):  # of runs that diverged
        apart = np.mean([np.square(a - b).mean() for a, b in pairs])
    spread = np.var(np.stack([b for _, b in pairs]), axis=0, ddof=1).mean()
    return float(np.sqrt(apart / spread))


def holm_corrected(found: Sequence[Effect]) -> list[Effect]:
    """Return the effects with their p-values corrected for their number."""
    p = holm([one.p for one in found])
    return [replace(one, p_holm=value) for one, value in zip(found, p, strict=True)]


def over_nets(records: Sequence[Record], scheme: str, fresh: bool) -> list[Effect]:
    """Return the effects of one setting on all nets, corrected."""
    results = [effects(records, name, fresh).get(scheme) for name in NETS]
    return holm_corrected([one for one in results if one])
