"""The result store: one JSON file per run, named by the SHA-256 of the run's configuration.

    load(run)  ->  the record, or nothing: then compute it and
    save(run)  ->  write to a temporary name, sync, rename

So a finished run is never repeated, a killed sweep goes on where it was, a changed configuration
is another file, and two sweeps can share a folder: the last rename leaves a whole file.
"""

import errno
import hashlib
import json
import logging
import os
import platform
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, Final, Self

from mpgd import __version__
from mpgd.files import TEMPORARY, write_whole
from mpgd.maps.tables import DRIVER_VERSION
from mpgd_lab.perturbations.noise_versions import FIRST_VERSION, NOISES, versions_of

FORMAT: Final = "mpgd-run-1"  # the mark of our files
VERSIONED_PACKAGES: Final = ("torch", "numpy")  # packages whose versions a record holds
MAX_BYTES: Final = 64 * 2**20  # no result comes near


class StoreError(OSError):
    """The store's folder cannot be read or written."""


@dataclass(frozen=True)
class Run:
    """What determines a result; two runs are the same if all of this is equal.

    ``driver`` is the version of the chaotic driver. A record of another one holds other noise, so
    it has another key. Records of version 1 do not name it, and their keys are as they were.
    ``gaussian`` and ``stable`` are the versions of Gaussian and stable noise, likewise, and None
    where a run has none.

    Examples:
        >>> run = Run("noise", "paper", "fresh", {"gamma": 0.6, "steps": 1000}, seed=0)
        >>> run.key == Run("noise", "paper", "fresh", {"steps": 1000, "gamma": 0.6}, seed=0).key
        True
        >>> run.gaussian, Run("digits", "paper", "langevin", {"noise": "langevin"}, 0).gaussian
        (None, 2)
    """

    experiment: str
    protocol: str
    scheme: str
    hyperparameters: Mapping[str, Any]
    seed: int
    driver: int = DRIVER_VERSION
    gaussian: int | None = None
    stable: int | None = None

    def __post_init__(self) -> None:
        present = versions_of(self.experiment, self.scheme, self.hyperparameters)
        for name, now in present.items():
            object.__setattr__(self, name, now and (getattr(self, name) or now))

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """Return the run that a file describes; one that names no version is of the first."""
        fields: dict[str, Any] = dict.fromkeys(NOISES, FIRST_VERSION)
        fields |= {name: body[name] for name in cls.__match_args__ if name in body}
        return cls(**fields)

    @property
    def is_current(self) -> bool:
        """Whether its noise is the one that would be made today."""
        return all(getattr(self, name) in (None, now) for name, now in NOISES.items())

    @property
    def canonical(self) -> str:
        """The configuration as JSON with sorted keys, the same text for equal runs."""
        body: dict[str, Any] = {name: getattr(self, name) for name in self.__match_args__}
        for name in NOISES:
            if body[name] in (None, FIRST_VERSION):
                del body[name]
        return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @cached_property
    def key(self) -> str:
        """The SHA-256 of the canonical text."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()


@dataclass(frozen=True)
class Record:
    """A finished run.

    Attributes:
        run: its configuration.
        metrics: named numbers.
        curves: named lists of numbers.
        seconds: how long it took.
        versions: of Python and the packages that matter.
        commit: of the repository the package lies in, if it lies in one.
    """

    run: Run
    metrics: Mapping[str, Any]
    curves: Mapping[str, Any]
    seconds: float
    versions: Mapping[str, str | None]
    commit: str | None


RESULTS: Final[tuple[str, ...]] = Record.__match_args__[1:]  # its fields but for the run


TYPES: Final[Mapping[str, Any]] = {  # of the fields of a file
    **dict.fromkeys(("experiment", "protocol", "scheme"), str),
    **dict.fromkeys(("hyperparameters", "metrics", "curves", "versions"), dict),
    "seed": int,
    "driver": int,
    **dict.fromkeys(("gaussian", "stable"), int | None),
    "seconds": int | float,
    "commit": str | None,
}


class Store:
    """A folder of records.

    Args:
        folder: where the files are; made when the first one is written.
        report: receives a message about every file that cannot be used; by default it is logged.
        made: whether the folder exists already. Then a missing one is an error: its results are
            lost.

    Attributes:
        unreadable: the files that `records` or `load` could not use, with the reason.

    Examples:
        >>> store = Store(tempfile.mkdtemp())
        >>> run = Run("noise", "paper", "fresh", {"gamma": 0.6}, seed=0)
        >>> store.load(run) is None
        True
        >>> store.save(run, {"ks": 0.02}, {}, seconds=1.5).metrics["ks"]
        0.02
        >>> [record.run.scheme for record in store.records()]
        ['fresh']
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        report: Callable[[str], None] | None = None,
        made: bool = False,
    ) -> None:
        self.folder = Path(folder)
        self.made = made
        self.unreadable: dict[Path, str] = {}
        self._report = report or logging.getLogger("mpgd").warning

    def path(self, run: Run) -> Path:
        """Return the file of ``run``, whether it exists or not."""
        return self.folder / f"{run.key}.json"

    def has(self, run: Run) -> bool:
        """Return whether there is a file for a run; it is not read."""
        return self.path(run).is_file()

    def load(self, run: Run) -> Record | None:
        """Return the record of ``run``, or None; a file that is no record is set aside."""
        path = self.path(run)
        try:
            return _read(path)
        except FileNotFoundError:
            return None
        except ValueError as problem:
            self._set_aside(path, str(problem))
            return None
        except OSError as problem:
            raise self._error("read", problem) from problem

    def save(
        self, run: Run, metrics: Mapping[str, Any], curves: Mapping[str, Any], seconds: float
    ) -> Record:
        """Write the record of ``run`` and return it; arrays and tensors become lists."""
        return self.keep(Record(run, metrics, curves, seconds, versions(), commit()))

    def keep(self, record: Record) -> Record:
        """Write a record unchanged and return it as read back."""
        rest = {name: getattr(record, name) for name in RESULTS}
        body = {"format": FORMAT, **asdict(record.run), **rest}
        text = json.dumps(body, indent=1, default=_plain)
        self.make()
        try:
            write_whole(self.path(record.run), text.encode())
        except FileNotFoundError:
            raise self.missing_folder() from None
        except OSError as problem:
            raise self._error("write", problem) from problem
        return _parse(text, record.run.key)

    def records(self) -> Iterator[Record]:
        """Yield all records; `unreadable` then holds the files that are none."""
        self.unreadable.clear()
        try:
            paths = sorted(self.folder.iterdir())
        except FileNotFoundError:
            return
        except OSError as problem:
            raise self._error("read", problem) from problem
        for path in paths:
            if path.suffix == TEMPORARY:
                continue  # being written now, or its writer was killed
            try:
                yield _read(path)
            except FileNotFoundError:
                continue  # another process has just set it aside or finished it
            except (ValueError, OSError) as problem:
                self._note(path, str(problem))

    def check_writable(self) -> None:
        """Raise `StoreError` now rather than after the first hour of work."""
        self.make()
        try:
            with tempfile.TemporaryFile(dir=self.folder) as probe:
                probe.write(b"x")
        except OSError as problem:
            raise self._error("write", problem) from problem

    def make(self) -> None:
        """Make the folder the first time; later a missing one stays missing."""
        if self.made:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise self._error("write", problem) from problem
        self.made = True

    def missing_folder(self) -> StoreError:
        """Return the error for a folder that has vanished."""
        return StoreError(f"the results folder is gone: {self.folder}")

    def _set_aside(self, path: Path, reason: str) -> None:
        aside = path.with_name(path.name + ".corrupt")
        try:
            os.replace(path, aside)
        except FileNotFoundError:
            return  # another process was faster
        except OSError as problem:
            raise self._error("write", problem) from problem
        self._note(aside, f"{reason}; set aside, the run will be done again")

    def _note(self, path: Path, reason: str) -> None:
        self.unreadable[path] = reason
        self._report(f"{path}: {reason}")

    def _error(self, verb: str, problem: OSError) -> StoreError:
        reason = problem.strerror or str(problem)
        return StoreError(f"cannot {verb} results in {self.folder}: {reason}")


def _read(path: Path) -> Record:
    """Return the record in ``path``; ValueError says why it is none."""
    if path.suffix == ".corrupt":
        raise ValueError("set aside earlier as unreadable")
    if size(path) > MAX_BYTES:
        raise ValueError(f"foreign: larger than {MAX_BYTES:,} bytes")
    try:
        return _parse(path.read_bytes().decode(), path.stem)
    except UnicodeDecodeError:
        raise ValueError("corrupt: not a text file") from None
    except RecursionError:
        raise ValueError("corrupt: nested too deeply") from None


def size(path: Path) -> int:
    """Return the size of a file; ValueError if it must not be opened, or a link leads nowhere."""
    try:
        status = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise ValueError("corrupt: a link to nothing") from None
        raise
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            raise ValueError("corrupt: a link to itself") from None
        raise
    if not (S_ISREG(status.st_mode) or S_ISDIR(status.st_mode)):
        # To read it might never end.
        raise ValueError("foreign: a pipe or a device")
    return status.st_size


def _parse(text: str, key: str) -> Record:
    try:
        body = json.loads(text)
    except json.JSONDecodeError as problem:
        raise ValueError(f"corrupt: not JSON ({problem})") from None
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise ValueError(f"foreign: no result file of this package (no format {FORMAT!r})")
    record = record_of(body)
    if record.run.key != key:
        raise ValueError("corrupt: its name is not the hash of its configuration")
    return record


def record_of(body: dict[str, Any]) -> Record:
    """Return the record in what was read from a file; ValueError names what it lacks."""
    names = [name for name in Run.__match_args__ if name not in NOISES]
    if missing := [name for name in (*names, *RESULTS) if name not in body]:
        raise ValueError(f"corrupt: {', '.join(missing)} missing")
    for name, kind in TYPES.items():
        if name in body and (not isinstance(body[name], kind) or isinstance(body[name], bool)):
            raise ValueError(f"corrupt: {name} must not be {body[name]!r:.40}")
    run = Run.of(body)
    return Record(run=run, **{name: body[name] for name in RESULTS})


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a result holds numbers, texts and lists of them, got {type(value).__name__}")


@lru_cache(maxsize=1)
def versions() -> dict[str, str | None]:
    """Return the versions of Python and of the packages that shape a result."""
    ours = {"python": platform.python_version(), "mpgd": __version__}
    return ours | {name: installed(name) for name in VERSIONED_PACKAGES}


def installed(package: str) -> str | None:
    """Return the version of an installed package, or None, without importing it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@lru_cache(maxsize=1)
def commit() -> str | None:
    """Return the commit of the working copy this file lies in, or None if it lies in none."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
