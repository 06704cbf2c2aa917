"""Hostile files: archives, tables, results and pickles that must be refused, and never hang."""

from __future__ import annotations

import os
import pickle
import random
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from mpgd.maps import tables
from mpgd.maps.tables import thaler_tables
from mpgd_lab.data.cifar10 import read_pickle
from mpgd_lab.data.safe_archives import contents
from mpgd_lab.data.sources import DataError
from mpgd_lab.store import MAX_BYTES, Run, Store
from tests.maps.test_tables import CHANGES, with_checksum
from tests.mpgd_lab.data.test_safe_archives import HOSTILE, SIZES

CAUGHT = (OSError, EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError)  # by `download`
RUN = Run("noise", "paper", "fresh", {"gamma": 0.6}, seed=0)


class Command:
    """Unpickled without care, it makes a file."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("ran",)


def sparse(path: Path) -> None:
    """Make a file larger than a record may be, without using the disk."""
    path.touch()
    os.truncate(path, MAX_BYTES + 1)


PLACES: dict[str, Callable[[Path], object]] = {  # of a result or of a table
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a huge file": sparse,
    "an empty file": Path.touch,
}
PICKLES: dict[str, Callable[[], bytes]] = {
    "a command": lambda: pickle.dumps({"labels": [Command()], "data": 1}),
    "a huge array": lambda: pickle.dumps({"labels": [], "data": np.empty((0, 3072), np.uint8)}),
    "a function": lambda: pickle.dumps(os.system),
    "an endless text": lambda: b"\x80\x04\x8d" + (2**62).to_bytes(8, "little") + b"x",
    "deep lists": lambda: b"\x80\x04" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "half": lambda: pickle.dumps({"labels": [1] * 100})[:50],
}


def attack(seed: int) -> Iterator[str | None]:
    """Put each in its place and read it."""
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        folder = Path(name)
        for kind, (make, _) in HOSTILE.items():
            yield refused(kind, lambda make=make: archive(folder, make()), CAUGHT)
        for kind, change in CHANGES.items():
            path = folder / f"{dice.random()}.npz"
            with np.errstate(divide="ignore"):
                with_checksum(path, change(thaler_tables(0.6)))
            yield None if tables._load(path, 0.6) is None else f"tables, {kind}: believed"
        for kind, make in PLACES.items():
            yield unread(kind, folder / str(dice.random()), make)
        for kind, content in PICKLES.items():
            path = folder / f"{dice.random()}.pickle"
            path.write_bytes(content())
            yield refused(f"pickle, {kind}", lambda path=path: read_pickle(path, "0"), (DataError,))
        yield "a command ran" if (folder / "ran").exists() else None
        left = [path.name for path in Path("/tmp").glob("numbers.dat")]
        yield f"an archive wrote outside its place: {left}" if left else None
        os.chdir("/")


def archive(folder: Path, content: bytes) -> object:
    """Read the wanted members of an archive; none found is an error."""
    path = folder / "archive"
    path.write_bytes(content)
    found = contents(path, SIZES)
    if not found:
        raise OSError("numbers.dat is not in the archive")  # as `sources` says it
    return found


def refused(
    kind: str, read: Callable[[], object], errors: tuple[type[Exception], ...]
) -> str | None:
    """Return what went wrong: anything but one of these errors."""
    try:
        read()
    except errors:
        return None
    except BaseException as problem:
        return f"{kind}: {type(problem).__name__}: {problem}"
    return f"{kind}: was read"


def unread(kind: str, folder: Path, make: Callable[[Path], object]) -> str | None:
    """Put something in the place of a result and of a table."""
    store = Store(folder, lambda text: None)
    store.make()
    make(store.path(RUN))
    make(folder / "table.npz")
    if tables._load(folder / "table.npz", 0.6) is not None:
        return f"{kind} in the place of a table: believed"
    if list(store.records()) or store.load(RUN) is not None:
        return f"{kind} in the place of a result: believed"
    return None
