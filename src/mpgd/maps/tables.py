"""What belongs to one gamma: the tables of B and of the stationary start, and A itself.

    returns:  u = 1 - s   ->  B(s)          the first s after a visit to Z
    starts:   u = H(y)    ->  A(y)          a uniform number becomes a stationary start

Both are rows of integers (`mpgd.maps.rows`). Tables are kept in a folder on disk (``MPGD_CACHE``,
else the user's cache folder) and identified by a fingerprint of their bits. Where the folder cannot
be written, each process computes them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray

from mpgd.files import open_regular, through_cache
from mpgd.maps.rows import INPUT_BITS, Rows, tabulate

Array = NDArray[np.float64]

DRIVER_VERSION: Final = 2  # 1 was the driver in float64; a new one changes every bit of the noise
RETURN_ROW_BITS: Final = 7  # 128 rows an octave
RETURN_NODES: Final = 18  # an octave's interpolant is then right to 1e-13
START_NODES: Final = 12
LARGEST: Final = 2**22  # bytes of all tables of one gamma; none comes near
ARRAYS: Final = ("returns", "starts", "panels", "series", "slope", "constants")


@dataclass(frozen=True, eq=False)
class ThalerTables:
    """All numbers that belong to one gamma, rounded once from high precision.

    Attributes:
        gamma: the exponent.
        returns: rows of B for 50 octaves of u, (row, word).
        starts: rows of the stationary start for as many octaves as it needs, (row, word).
        panels: Chebyshev coefficients of Y = A^-1 on unit intervals of s, (interval, coefficient).
        series: the expansion of A, (power of q, power of p).
        slope: Chebyshev coefficients of (Y(1 - u) - y*) / u for u in [0, 1].
        constants: y* as two doubles, then the constant of the expansion.
    """

    gamma: float
    returns: Rows
    starts: Rows
    panels: Array
    series: Array
    slope: Array
    constants: Array

    @property
    def start_row_bits(self) -> int:
        """The starts have 2^start_row_bits rows an octave."""
        return _start_layout(self.gamma)[1]

    @property
    def fingerprint(self) -> int:
        """63 bits of the SHA-256 of driver version and tables; a checkpoint holds it."""
        whole = f"driver {DRIVER_VERSION}".encode() + self.returns.tobytes() + self.starts.tobytes()
        return int.from_bytes(hashlib.sha256(whole).digest()[:8], "little") >> 1

    @property
    def checksum(self) -> bytes:
        """The SHA-256 of everything here, with shapes; a cached file holds it."""
        digest = hashlib.sha256(float(self.gamma).hex().encode())
        for name in ARRAYS:
            array = getattr(self, name)
            digest.update(f"{name}{array.shape}".encode() + array.tobytes())
        return digest.digest()


@lru_cache(maxsize=64)
def thaler_tables(gamma: float) -> ThalerTables:
    """Return the tables at ``gamma``: from memory, else from disk, else computed (2 to 3 s)."""
    name = f"thaler-{DRIVER_VERSION}-{float(gamma).hex()}.npz"
    return through_cache(
        name, lambda path: _load(path, gamma), lambda: compute_tables(gamma), _save
    )


def compute_tables(gamma: float) -> ThalerTables:
    """Compute the tables at ``gamma`` without looking at the cache."""
    import mpmath as mp  # takes a while to import and is not needed when the cache has the tables

    from mpgd.maps.abel import DIGITS, abel_coordinate

    A = abel_coordinate(gamma)
    with mp.workdps(DIGITS):
        low = A.y_star - mp.mpf(float(A.y_star))
        return ThalerTables(
            gamma=gamma,
            returns=tabulate(A.first_return, INPUT_BITS, RETURN_ROW_BITS, 1, RETURN_NODES),
            starts=tabulate(A.stationary, *_start_layout(gamma), START_NODES),
            panels=np.array(A.panels, dtype=np.float64),
            series=np.array(A.series, dtype=np.float64),
            slope=np.array(A.slope, dtype=np.float64),
            constants=np.array([A.y_star, low, A.constant], dtype=np.float64),
        )


def _start_layout(gamma: float) -> tuple[int, int, int]:
    """Return the octaves, the row bits and the panels per octave of the starts.

    s grows like u^-steepness. So it passes 2^31, where rows end, after 31 / steepness octaves, and
    a row of relative width w has an error in u of about (steepness w)^3 / (200 steepness).
    """
    steepness = gamma / (1.0 - gamma)
    row_bits = 8
    while 8 ** (row_bits - 7) < steepness**2:
        row_bits += 1
    parts = 2 if steepness < 4 else 4 if steepness < 10 else 16
    return int(32 / steepness) + 2, row_bits, parts


def _load(path: Path, gamma: float) -> ThalerTables | None:
    """Return the tables in ``path``, or None where there are none or the file is damaged."""
    try:
        with open_regular(path) as handle, np.load(handle, allow_pickle=False) as file:
            if sum(member.file_size for member in file.zip.infolist()) > LARGEST:
                return None  # compressed zeros: unpacked they would fill the memory
            fields = {name: file[name] for name in file.files}
        checksum = bytes(fields.pop("checksum"))
        tables = ThalerTables(gamma=gamma, **fields)
        return tables if tables.checksum == checksum and _fits(tables) else None
    except Exception:  # a damaged zip file raises almost anything; the tables are computed again
        return None


def _fits(tables: ThalerTables) -> bool:
    """Return whether dtypes and shapes are those of this version, and all numbers finite."""
    octaves, row_bits, _ = _start_layout(tables.gamma)
    rows = {"returns": INPUT_BITS << RETURN_ROW_BITS, "starts": octaves << row_bits}
    numbers = {"panels": 2, "series": 2, "slope": 1, "constants": 1}  # and how many axes
    arrays = {name: getattr(tables, name) for name in ARRAYS}
    return (
        all(arrays[name].dtype == np.dtype("<u8") for name in rows)
        and all(arrays[name].shape == (count, 2) for name, count in rows.items())
        and all(arrays[name].dtype == np.float64 for name in numbers)
        and all(arrays[name].ndim == axes for name, axes in numbers.items())
        and all(arrays[name].size and np.isfinite(arrays[name]).all() for name in numbers)
        and arrays["constants"].shape == (3,)
    )


def _save(file: IO[bytes], tables: ThalerTables) -> None:
    arrays = {name: getattr(tables, name) for name in ARRAYS}
    np.savez(file, **arrays, checksum=np.frombuffer(tables.checksum, np.uint8))
