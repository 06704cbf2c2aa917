"""The data sets: where they are found, how they are checked, and the paper's exact splits.

A file is looked for in ``--data``, else ``MPGD_DATA``, else the user's cache; what is missing can
be downloaded from the archive's own address. Every file's SHA-256 is known here.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mpgd.maps.tables import cache_folder

Array = NDArray[np.float64]


class DataError(ValueError):
    """A data file is missing, damaged or malformed."""


@dataclass(frozen=True)
class Source:
    """One data set: its files with their SHA-256, and where the archive keeps it."""

    name: str
    folder: str
    files: dict[str, str]
    address: str

    def __hash__(self) -> int:
        return hash(self.name)


AIRFOIL: Final = Source(
    "airfoil",
    "airfoil",
    {
        "airfoil_self_noise.dat": (
            "74c75fd71783f1e6b71f8a622b993dc592897a97cd689c5090a07147a1b097b3"
        ),
    },
    "https://archive.ics.uci.edu/static/public/291/airfoil+self+noise.zip",
)
ECG5000: Final = Source(
    "ecg5000",
    "ecg5000",
    {
        "ECG5000_TRAIN.txt": "0d96aff193311a6dc6111bf0dbd2f7d2313987fbf7a1da4a383d92563876057b",
        "ECG5000_TEST.txt": "baf4ad57d28daa5e79050edd4185968181762bc83d45a757753015b4ba8ab295",
    },
    "https://www.timeseriesclassification.com/aeon-toolkit/ECG5000.zip",
)
SOURCES: Final = {source.name: source for source in (AIRFOIL, ECG5000)}


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
    """Return the path of a file after checking its hash; errors say how to get it."""
    for folder in folders(data):
        path = folder / source.folder / name
        if path.is_file():
            _check(path, source.files[name], source.address)
            return path
    looked = ", ".join(str(folder / source.folder) for folder in folders(data))
    raise DataError(
        f"{name} was not found (looked in {looked}); get it from {source.address} and pass its "
        f"folder's parent as --data, expected sha256 {source.files[name]}"
    )


def _check(path: Path, expected: str, address: str) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != expected:
        raise DataError(
            f"{path} has sha256 {found}, expected {expected}; get it again from {address} "
            "or pass another folder as --data"
        )


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


@lru_cache(maxsize=4)
def airfoil(data: Path | None = None) -> Split:
    """Return the airfoil data, standardised by the training part; 301 of 1503 rows are test."""
    table = read_numbers(locate(AIRFOIL, "airfoil_self_noise.dat", data), 6)
    order = np.random.RandomState(0).permutation(len(table))
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


@lru_cache(maxsize=4)
def digits() -> Split:
    """Return scikit-learn's digits, scaled to [0, 1]; every fifth image is test."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x, y = torch.from_numpy(bunch.data / 16.0), torch.from_numpy(bunch.target).long()
    order = torch.from_numpy(np.random.RandomState(0).permutation(len(x)))
    test, train = order[: len(x) // 5], order[len(x) // 5 :]
    return Split(x[train], y[train], x[test], y[test])
