"""Where data sets are found and how they are checked.

A file is looked for in ``--data``, then in ``MPGD_DATA``, then in the user's cache. One that lies
nowhere is downloaded into the cache from the archive's own address. Every file's SHA-256 is
known here and checked each time it is read.
"""

import hashlib
import logging
import os
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mpgd.experiments.data import archives
from mpgd.files import cache_folder, write_whole

Array = NDArray[np.float64]

TIMEOUT: Final = 30.0  # seconds without a word from the server
CHUNK: Final = 2**16
REASON: Final = 200  # letters of what went wrong


class DataError(ValueError):
    """A data file is missing, damaged or malformed."""


@dataclass(frozen=True)
class Source:
    """One data set."""

    name: str  # what it is called here
    folder: str  # where its files lie below a data folder
    files: dict[str, str]  # their names, each with its SHA-256
    sizes: dict[str, int]  # their names, each with its bytes: no archive's member may have more
    address: str  # of the zip or tar archive that holds them
    archive: str | None = None  # the archive's own SHA-256, where it is known

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def remedy(self) -> str:
        """What to do by hand where a file is missing or damaged."""
        files = "".join(f"\n    {name}  sha256 {known}" for name, known in self.files.items())
        return (
            f"by hand: get {self.address} and unpack into a folder named {self.folder}{files}\n"
            "  then pass that folder's parent as --data, or in MPGD_DATA"
        )


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test data: x is (example, feature), y is (example,)."""

    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor


def folders(data: Path | None = None) -> list[Path]:
    """Return where data sets are looked for, in order."""
    found = [data] if data is not None else []
    if named := os.environ.get("MPGD_DATA"):
        found.append(Path(named))
    return [*found, cache_folder() / "data"]


def is_available(source: Source, data: Path | None = None) -> bool:
    """Return whether every file of a data set lies in one of the folders."""
    return any(
        all((folder / source.folder / name).is_file() for name in source.files)
        for folder in folders(data)
    )


def locate(source: Source, name: str, data: Path | None = None) -> Path:
    """Return the path of a file with the right hash; one that lies nowhere is downloaded."""
    for folder in folders(data):
        path = folder / source.folder / name
        if path.is_file():
            break
    else:
        path = download(source) / name
    with path.open("rb") as file:  # a file that grows has another hash, and fits into memory
        _check(source, name, file.read(source.sizes[name] + 1), str(path))
    return path


def download(source: Source) -> Path:
    """Download a data set into the user's cache and return its folder there.

    All files are checked before the first is put in place, and each appears whole or not at all:
    a failure leaves nothing behind, and two processes may download at once.
    """
    folder = cache_folder() / "data" / source.folder
    logging.getLogger("mpgd").warning("downloading %s into %s", source.address, folder)
    try:
        with tempfile.TemporaryDirectory() as temporary:
            contents = dict(_unpack(_fetch(source, Path(temporary) / "archive"), source))
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_whole(folder / name, content)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError) as problem:
        raise DataError(
            f"no {source.name} data here, and the download failed\n"
            f"  {type(problem).__name__}: {shorten(str(problem), REASON)}\n  {source.remedy}"
        ) from problem
    return folder


def _fetch(source: Source, path: Path) -> Path:
    try:
        import pooch
    except ImportError:
        raise ImportError('downloads need pooch: pip install "mpgd[lab]"') from None
    # Read at once, a connection that fails is closed; as a stream it would be left open.
    fetch = pooch.HTTPDownloader(chunk_size=CHUNK, timeout=TIMEOUT, stream=False)
    fetch(source.address, str(path), None)
    if source.archive and _sha256(path.read_bytes()) != source.archive:
        raise OSError(f"the archive is not the one with sha256 {source.archive}")
    return path


def _unpack(path: Path, source: Source) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files a data set needs, wherever they lie in its archive."""
    found = archives.contents(path, source.sizes)
    for name in source.files:
        if name not in found:
            raise OSError(f"{name} is not in the archive")
        _check(source, name, found[name], f"{name} of the archive")
        yield name, found[name]


def _check(source: Source, name: str, content: bytes, what: str) -> None:
    found, expected = _sha256(content), source.files[name]
    if found != expected:
        raise DataError(f"{what} has sha256 {found}, expected {expected}\n  {source.remedy}")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read_numbers(path: Path, columns: int) -> Array:
    """Return a table of numbers; a malformed row is named by its line."""
    rows = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = [float(field) for field in line.split()]
        except ValueError as problem:
            raise DataError(f"{path}, line {number}: {problem}") from None
        if len(row) != columns or not np.all(np.isfinite(row)):
            raise DataError(
                f"{path}, line {number}: {columns} finite numbers expected, got {len(row)} fields"
            )
        rows.append(row)
    return np.array(rows)
