"""The records of a store, sorted by experiment, and the files that are none."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mpgd.files import TEMPORARY
from mpgd_lab.experiment import Experiment
from mpgd_lab.schema import content_problem, form_problem
from mpgd_lab.store import Record, Run, Store, size
from mpgd_lab.studies.cifar10.checkpoint import run_in


@dataclass(frozen=True)
class StoreContents:
    """What a store holds."""

    experiments: Mapping[str, Sequence[Record]]  # the usable records of each experiment
    unusable: Mapping[str, str]  # names of files that are no usable record, with the reason
    unfinished: Sequence[Run] = ()  # the runs that go on from a checkpoint
    earlier: Sequence[Record] = ()  # with earlier noise: only listed

    def __getitem__(self, experiment: str) -> list[Record]:
        """Return the records of an experiment, none if it was not run."""
        return list(self.experiments.get(experiment, ()))

    @property
    def records(self) -> list[Record]:
        """All records."""
        return [record for each in self.experiments.values() for record in each]


def read(folder: Path, studies: Sequence[Experiment]) -> StoreContents:
    """Return the records in ``folder/runs``, those of ``studies`` with what their study needs."""
    if not (folder / "runs").is_dir():
        raise FileNotFoundError(
            f"no results in {folder}: it has no folder 'runs'; `mpgd reproduce --out {folder}` "
            "makes one"
        )
    store = Store(folder / "runs", report=lambda text: None)  # the page names them
    contents = sort(store.records(), studies)
    unusable = {**contents.unusable, **{path.name: why for path, why in store.unreadable.items()}}
    unfinished, broken = _checkpoints(folder / "checkpoints")
    return replace(
        contents, unusable=dict(sorted((unusable | broken).items())), unfinished=unfinished
    )


def together(published: StoreContents, own: StoreContents) -> StoreContents:
    """Return published records and those that they lack; a run that both have is shown once."""
    known = {record.run.key for record in published.records}
    names = {*published.experiments, *own.experiments}
    experiments = {
        name: [*published[name], *(one for one in own[name] if one.run.key not in known)]
        for name in sorted(names)
    }
    for each in experiments.values():
        each.sort(key=lambda record: (record.run.protocol, record.run.seed))
    return replace(own, experiments=experiments)


def sort(records: Iterable[Record], studies: Sequence[Experiment]) -> StoreContents:
    """Return records by experiment, those of ``studies`` with what their study needs."""
    known = {study.name: study for study in studies}
    experiments: dict[str, list[Record]] = defaultdict(list)
    unusable, earlier = {}, []
    for record in records:
        if why := form_problem(record):
            unusable[f"{record.run.key}.json"] = why
        elif not record.run.is_current:
            earlier.append(record)
        elif why := _problem(record, known):
            unusable[f"{record.run.key}.json"] = why
        else:
            experiments[record.run.experiment].append(record)
    for each in experiments.values():
        each.sort(key=lambda record: (record.run.protocol, record.run.seed))
    return StoreContents(experiments, unusable, earlier=earlier)


def _problem(record: Record, known: Mapping[str, Experiment]) -> str | None:
    """Return what a record lacks of what its study needs; a strange experiment needs nothing."""
    study = known.get(record.run.experiment)
    return content_problem(record, study.needs(record.run)) if study else None


def _checkpoints(folder: Path) -> tuple[list[Run], dict[str, str]]:
    """Return the runs that go on, and the files from which none can."""
    unfinished, broken = [], {}
    for path in sorted(folder.glob("*")):
        if path.suffix == TEMPORARY:
            continue  # being written now, or its writer was killed
        try:
            size(path)
            unfinished.append(run_in(path))
        except FileNotFoundError:
            continue  # its run has just been finished
        except (ValueError, OSError) as why:
            broken[f"checkpoints/{path.name}"] = str(why)
    return unfinished, broken
