"""Published runs trained again: a sample of each study, compared with its records.

A run is a function of its configuration, so it can be trained anywhere and compared with what was
published. The noise of a run has the same bits everywhere. Its metrics agree up to rounding, which
differs between CPUs and C libraries; a study's ``tolerance`` bounds the relative difference.

The sample is the runs of a study whose keys, SHA-256 sums, come first: nobody has chosen them.

Some runs amplify rounding until it decides the result, such as those near divergence. A run that
disagrees is therefore trained once more from parameters changed by one unit in the last place. If
that alone changes its metrics by `SHARE` of the tolerance and of the disagreement at least, and not
to the published ones, it is reported as one that depends on rounding, and otherwise as a
disagreement, by name.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from mpgd_lab.archive import DIGITS, PUBLISHED, unpack
from mpgd_lab.batched_training import Result, nudged_starts
from mpgd_lab.data.sources import is_available
from mpgd_lab.experiment import SAMPLE, Experiment
from mpgd_lab.runner import Context, SilentReporter, Train, complete
from mpgd_lab.store import Record, Run, Store

NUDGED: Final = "nudged"  # the folder of runs from changed parameters, in that of the results
PUBLISHED_DIGITS: Final = 10.0 ** (1 - DIGITS)  # relative rounding of a published curve
TIMED: Final = "_seconds"  # ends the name of a metric that is a time
SHARE: Final = 0.01  # that one nudge explains: rounding at every later step adds up to more
SHOWN: Final = 3  # disagreements that a sentence names
NO_DATA, NOT_RUN = "data not found", "not run"


@dataclass(frozen=True)
class Check:
    """What became of the published runs of a study that were to be trained again."""

    study: str
    runs: int = 0  # trained here
    disagreements: tuple[str, ...] = ()  # each a run and its numbers
    sensitive: tuple[str, ...] = ()  # runs that depend on rounding, likewise
    tolerance: float = 0.0
    reason: str = ""  # why not all of the sample was trained

    @property
    def agreeing(self) -> int:
        """How many runs agree."""
        return self.runs - len(self.disagreements) - len(self.sensitive)

    @property
    def counts(self) -> str:
        """How many runs agree, in words.

        Examples:
            >>> Check("airfoil", 24).counts, Check("airfoil", reason="data not found").counts
            ('checked here: 24 of 24 runs agree', 'not checked here: data not found')
            >>> Check("airfoil", 24, sensitive=("a run",)).counts
            'checked here: 23 of 24 runs agree, 1 depends on rounding'
        """
        if not self.runs:
            return f"not checked here: {self.reason}"
        text = f"checked here: {self.agreeing} of {self.runs} run{'s' * (self.runs > 1)} agree"
        if few := len(self.sensitive):
            text += f", {few} depend{'s' * (few == 1)} on rounding"
        return f"{text} (of others: {self.reason})" if self.reason else text

    @property
    def sentence(self) -> str:
        """The counts, with the tolerance and the runs that disagree."""
        within = f"within {self.tolerance:.0e}" if self.tolerance else "in every bit"
        text = self.counts[0].upper() + self.counts[1:]
        text += f", {within}." if self.runs else "."
        for title, each in (("Disagree", self.disagreements), ("Rounding decides", self.sensitive)):
            more = f" and {len(each) - SHOWN} more" if len(each) > SHOWN else ""
            text += f" {title}: {'; '.join(each[:SHOWN])}{more}." if each else ""
        return text


@lru_cache(maxsize=1)
def published_records() -> Mapping[str, Sequence[Record]]:
    """Return the published records of each study that the present noise could make again."""
    studies: dict[str, list[Record]] = {}
    for record in unpack(PUBLISHED):
        if record.run.is_current:
            studies.setdefault(record.run.experiment, []).append(record)
    return studies


def sample(records: Iterable[Record], size: int | None = SAMPLE) -> list[Run]:
    """Return the runs whose keys come first, all of them without a size."""
    ordered = sorted((record.run for record in records), key=lambda run: run.key)
    return list(islice(ordered, size))


def trainable(study: Experiment, runs: Iterable[Run], data: Path | None) -> list[Run]:
    """Return the runs whose data is available."""
    return [
        run for run in runs if all(is_available(source, data) for source in study.sources_of(run))
    ]


def train_again(study: Experiment, context: Context, runs: Sequence[Run]) -> None:
    """Train published runs, and those that disagree once more from changed parameters."""
    if not runs:
        return
    train: Train = partial(study.train, data=context.data)
    batch = partial(_batch, study, context, len(runs))
    own = complete(context, runs, train, batch, study.label)
    odd = [record.run for record in own if _difference(study, record)]
    if odd:
        aside = replace(context, out=context.out / NUDGED, reporter=SilentReporter())
        complete(aside, odd, partial(train_nudged, study.train, data=context.data), batch)


def check_records(
    study: Experiment, own: Iterable[Record], nudged: Iterable[Record], reason: str = ""
) -> Check:
    """Compare records with those published; ``nudged`` are of changed parameters."""
    published, changed = _published_by_key(study.name), _by_key(nudged)
    mine = {key: record for key, record in _by_key(own).items() if key in published}
    odd = {key: text for key, record in mine.items() if (text := _difference(study, record))}
    rounded = {
        key
        for key in odd
        if key in changed
        and depends_on_rounding(
            published[key], mine[key], changed[key], study.tolerance(mine[key].run)
        )
    }
    return Check(
        study.name,
        len(mine),
        tuple(text for key, text in odd.items() if key not in rounded),
        tuple(text for key, text in odd.items() if key in rounded),
        max((study.tolerance(record.run) for record in mine.values()), default=0.0),
        reason,
    )


def check_folder(folder: Path, study: Experiment, data: Path | None = None) -> Check:
    """Return the check of a study from the records in a folder of results."""
    published = published_records().get(study.name, ())
    stores = [Store(path / "runs", lambda text: None) for path in (folder, folder / NUDGED)]
    own, nudged = (
        [record for one in published if store.has(one.run) and (record := store.load(one.run))]
        for store in stores
    )
    chosen = sample(published, study.sample)
    lacking = {run.key for run in chosen} - {record.run.key for record in own}
    there = trainable(study, chosen, data)
    reason = NOT_RUN if lacking & {run.key for run in there} else NO_DATA
    return check_records(study, own, nudged, reason if lacking else "")


def _difference(study: Experiment, own: Record) -> str:
    published = _published_by_key(study.name)[own.run.key]
    return difference(published, own, study.tolerance(own.run))


@lru_cache(maxsize=32)
def _published_by_key(study: str) -> Mapping[str, Record]:
    return _by_key(published_records().get(study, ()))


def _by_key(records: Iterable[Record]) -> dict[str, Record]:
    return {record.run.key: record for record in records}


def _batch(study: Experiment, context: Context, count: int, run: Run) -> int:
    """Return how many runs are trained together: few enough to keep all workers busy."""
    return max(1, min(study.max_batch(run), -(-count // (2 * context.workers))))


def depends_on_rounding(published: Record, own: Record, nudged: Record, tolerance: float) -> bool:
    """Return whether changed last bits of the start explain that a run disagrees.

    Examples:
        >>> run = Run("valley", "text", "gd", {"steps": 9}, seed=3)
        >>> def record(x): return Record(run, {"trace": x}, {}, 1.0, {}, None)
        >>> depends_on_rounding(record(8.0), record(9.0), record(9.2), tolerance=1e-6)
        True
        >>> depends_on_rounding(record(8000.0), record(9.0), record(9.2), tolerance=1e-6)
        False
        >>> depends_on_rounding(record(8.0), record(9.0), record(8.0), tolerance=1e-6)
        False
    """
    if not difference(own, nudged, SHARE * tolerance):
        return False
    for metric, theirs in _results(published):
        ours: Any = own.metrics.get(metric)
        other: Any = nudged.metrics.get(metric)
        if not all(map(_is_number, (theirs, ours, other))):
            return False
        gap = abs(theirs - ours)
        least = min(abs(other - ours), abs(other - theirs))  # the latter is 0 if ours is damaged
        if not _agree(theirs, ours, tolerance) and least < SHARE * gap:  # false with a NaN
            return False
    return True


def _results(record: Record) -> list[tuple[str, Any]]:
    """Return the metrics of a record but for times."""
    return [(name, x) for name, x in record.metrics.items() if not name.endswith(TIMED)]


def difference(published: Record, own: Record, tolerance: float) -> str:
    """Return the first metric in which a run disagrees with its published record, or nothing.

    Curves are published rounded; they are compared where a record has no metrics. Times are no
    results.

    Examples:
        >>> run = Run("valley", "text", "gd", {"steps": 9}, seed=3)
        >>> records = [Record(run, {"trace": x}, {}, 1.0, {}, None) for x in (8.0, 9.0)]
        >>> difference(*records, tolerance=1e-6)
        'valley, text, gd, seed 3: trace published 8, here 9'
        >>> difference(*records, tolerance=0.2)
        ''
    """
    run = published.run
    name = f"{run.experiment}, {run.protocol}, {run.scheme}, seed {run.seed}"
    for metric, theirs in _results(published):
        ours = own.metrics.get(metric)
        if ours is None or not _agree(theirs, ours, tolerance):
            return f"{name}: {metric} published {_text(theirs)}, here {_text(ours)}"
    for curve, numbers in ({} if published.metrics else published.curves).items():
        if not _agree(numbers, own.curves.get(curve), max(tolerance, PUBLISHED_DIGITS)):
            return f"{name}: curve {curve}"
    return ""


def _is_number(x: Any) -> bool:
    return isinstance(x, float) or (isinstance(x, int) and abs(x) < 2**63)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.10g}"
    return "missing" if value is None else f"{value!r:.40}"


def _agree(theirs: Any, ours: Any, tolerance: float) -> bool:
    if ours is None:
        return False
    try:
        a, b = np.asarray(theirs, dtype=np.float64), np.asarray(ours, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):  # no numbers: a damaged record, or texts
        return bool(theirs == ours)
    if a.shape != b.shape:
        return False
    scale = np.maximum(np.abs(a), np.abs(b))
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= tolerance * scale
    return bool(np.all(near | (a == b) | (np.isnan(a) & np.isnan(b))))


def train_nudged(train: Train, runs: list[Run], data: Path | None) -> Iterator[Result]:
    """Yield the results of runs from parameters changed by one unit in the last place."""
    with nudged_starts():
        yield from train(runs, data=data)  # type: ignore[call-arg]
