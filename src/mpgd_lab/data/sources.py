"""Data sets: where their files are found, how they are checked, and three small ones as splits.

A file is looked for in ``--data``, then in ``MPGD_DATA``, then in the user's cache. One that lies
nowhere is downloaded into the cache from the archive's own address, or from a mirror if that
fails. Every file's SHA-256 is known here and checked each time it is read.
"""

import hashlib
import logging
import os
import re
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from textwrap import shorten
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mpgd.files import cache_folder, check_place, write_whole
from mpgd_lab.data import safe_archives

Array = NDArray[np.float64]

TIMEOUT: Final = 15.0  # seconds without a word from the server
CHUNK: Final = 2**16
REASON: Final = 200  # letters of what went wrong
BROKEN: Final = (OSError, EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError)


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
    mirror: str | None = None  # the address of a folder with the files themselves

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


AIRFOIL: Final = Source(
    "airfoil",
    "airfoil",
    {
        "airfoil_self_noise.dat": (
            "74c75fd71783f1e6b71f8a622b993dc592897a97cd689c5090a07147a1b097b3"
        )
    },
    {"airfoil_self_noise.dat": 59_984},
    "https://archive.ics.uci.edu/static/public/291/airfoil+self+noise.zip",
    mirror="https://raw.githubusercontent.com/d2l-ai/d2l-zh/"
    "275424e773b849a94a9d0902144390dad8776d1e/data/",
)
ECG5000: Final = Source(
    "ecg5000",
    "ecg5000",
    {
        "ECG5000_TRAIN.txt": "0d96aff193311a6dc6111bf0dbd2f7d2313987fbf7a1da4a383d92563876057b",
        "ECG5000_TEST.txt": "baf4ad57d28daa5e79050edd4185968181762bc83d45a757753015b4ba8ab295",
    },
    {"ECG5000_TRAIN.txt": 1_128_500, "ECG5000_TEST.txt": 10_156_500},
    "https://www.timeseriesclassification.com/aeon-toolkit/ECG5000.zip",
    mirror="https://raw.githubusercontent.com/shoelim/mpgd/HEAD/ecg5000_classification/",
)
AUTHORS: Final = 0  # the seed of the split that the authors used


@lru_cache(maxsize=128)
def airfoil(data: Path | None = None, split: int = AUTHORS) -> Split:
    """Return the airfoil data, standardised by the training part; 301 of 1503 rows are test.

    ``split`` seeds the choice of the test rows; by default it is the authors' own.
    """
    table = read_numbers(locate(AIRFOIL, "airfoil_self_noise.dat", data), 6)
    order = np.random.RandomState(split).permutation(len(table))
    test, train = table[order[:301]], table[order[301:]]
    mean, std = train.mean(axis=0), train.std(axis=0)
    a, b = (torch.from_numpy((part - mean) / std) for part in (train, test))
    return Split(a[:, :5], a[:, 5], b[:, :5], b[:, 5])


@lru_cache(maxsize=4)
def ecg5000(data: Path | None = None) -> Split:
    """Return ECG5000 as normal (0) or not (1), scaled by one global range of the training part.

    The paper's text says 4000 test series; the authors' split has 4500.
    """
    parts = [read_numbers(locate(ECG5000, name, data), 141) for name in ECG5000.files]
    table = np.concatenate(parts)
    order = np.arange(len(table))
    np.random.RandomState(22).shuffle(order)
    order = order[np.random.RandomState(22).permutation(len(table))]
    test, train = table[order[:4500]], table[order[4500:]]
    low, high = train[:, 1:].min(), train[:, 1:].max()
    x_train, x_test = (torch.from_numpy((p[:, 1:] - low) / (high - low)) for p in (train, test))
    y_train, y_test = (torch.from_numpy((p[:, 0] != 1).astype(float)) for p in (train, test))
    return Split(x_train, y_train, x_test, y_test)


@lru_cache(maxsize=1)
def digits() -> Split:
    """Return scikit-learn's 1797 digits, scaled to [0, 1]; 300 are training data, the rest test."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ImportError('digits need scikit-learn: pip install "mpgd[lab]"') from None
    bunch = load_digits()
    x, y = torch.from_numpy(bunch.data / 16.0), torch.from_numpy(bunch.target).long()
    order = torch.from_numpy(np.random.RandomState(0).permutation(len(x)))
    train, test = order[:300], order[300:]
    return Split(x[train], y[train], x[test], y[test])


def folders(data: Path | None = None) -> list[Path]:
    """Return where data sets are looked for, in order."""
    places = [data] if data is not None else []
    if named := os.environ.get("MPGD_DATA"):
        places.append(Path(named))
    if cache := cache_folder():
        places.append(cache / "data")
    return places


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


def obtain(sources: Iterable[Source], data: Path | None = None) -> None:
    """Locate all files, so that a missing one is an error before any work."""
    for source in sources:
        for name in source.files:
            locate(source, name, data)


def download(source: Source) -> Path:
    """Download a data set into the user's cache and return its folder there.

    All files are checked before the first is put in place, and each appears whole or not at all:
    a failure leaves nothing behind, and two processes may download at once.
    """
    folder = _place(source)
    size = sum(source.sizes.values()) / 1e6
    text = "downloading %s (%.2g MB): %s into %s"
    logging.getLogger("mpgd").warning(text, source.name, size, source.address, folder)
    try:
        for name, content in _contents(source).items():
            write_whole(folder / name, content)
    except BROKEN as problem:
        raise DataError(
            f"no {source.name} data here, and the download failed\n"
            f"  {type(problem).__name__}: {_reason(problem)}\n  {source.remedy}"
        ) from problem
    return folder


def _reason(problem: Exception) -> str:
    """Return what went wrong; of a connection that was never made, to which host."""
    host = re.search(r"host='([^']*)'.*Max retries exceeded", str(problem))
    return f"no connection to {host[1]}" if host else shorten(str(problem), REASON)


def _contents(source: Source) -> dict[str, bytes]:
    """Return the files of a data set from its archive, or from its mirror if that fails."""
    with tempfile.TemporaryDirectory() as temporary:
        try:
            return dict(_unpack(_fetch(source, Path(temporary) / "archive"), source))
        except (*BROKEN, DataError):
            if source.mirror is None:
                raise
            return dict(_mirrored(source, source.mirror, Path(temporary)))


def _mirrored(source: Source, mirror: str, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files in a mirror."""
    for name in source.files:
        path = _download(f"{mirror}{name}", folder / name)
        content = path.read_bytes()
        _check(source, name, content, f"{name} of {mirror}")
        yield name, content


def _place(source: Source) -> Path:
    """Return the folder of a download, after making sure that it can be written."""
    cache = cache_folder()
    try:
        if cache is None:
            raise OSError("this user has no home folder")
        folder = cache / "data" / source.folder
        folder.mkdir(parents=True, exist_ok=True)
        check_place(folder / "archive")
    except OSError as problem:
        raise DataError(
            f"no {source.name} data here, and no folder to download it into: {problem}; set "
            f"MPGD_CACHE to a folder that can be written\n  {source.remedy}"
        ) from problem
    return folder


def _fetch(source: Source, path: Path) -> Path:
    _download(source.address, path)
    if source.archive and _sha256(path.read_bytes()) != source.archive:
        raise OSError(f"the archive is not the one with sha256 {source.archive}")
    return path


def _download(address: str, path: Path) -> Path:
    try:
        import pooch
    except ImportError:
        raise ImportError('downloads need pooch: pip install "mpgd[lab]"') from None
    # Read at once, a connection that fails is closed; as a stream it would be left open.
    fetch = pooch.HTTPDownloader(chunk_size=CHUNK, timeout=TIMEOUT, stream=False)
    fetch(address, str(path), None)
    return path


def _unpack(path: Path, source: Source) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files a data set needs, wherever they lie in its archive."""
    members = safe_archives.contents(path, source.sizes)
    for name in source.files:
        if name not in members:
            raise OSError(f"{name} is not in the archive")
        _check(source, name, members[name], f"{name} of the archive")
        yield name, members[name]


def _check(source: Source, name: str, content: bytes, what: str) -> None:
    result, expected = _sha256(content), source.files[name]
    if result != expected:
        raise DataError(f"{what} has sha256 {result}, expected {expected}\n  {source.remedy}")


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
