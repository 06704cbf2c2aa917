"""B and the stationary start as tables of polynomials, the same bits on every CPU.

A double u in (0, 1) lies in a row given by its exponent and its seven leading mantissa bits; the
other 45 bits, read as an integer, are the position x in [0, 2^45) in that row. A row holds the
coefficients of one polynomial in x:

    returns:  u = 1 - s   ->  B(s)          cubic, right to about 4e-11
    starts:   u = H(y)    ->  A(y)          quintic, clamped at 2^52

Nodes are computed in high precision and rounded once; everything after that is additions and
multiplications of doubles, which every CPU rounds alike. Tables are kept in a folder on disk
(``MPGD_CACHE``, else the user's cache folder) and identified by a fingerprint of their bits.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpgd.files import write_whole

Array = NDArray[np.float64]

OCTAVES: Final = 53  # u = 2^-53 is the smallest 1 - s
PIECES: Final = 128  # rows of one octave
RETURN_DEGREE: Final = 3
START_DEGREE: Final = 5
RETURN_NODES: Final = 22
START_NODES: Final = 12
ROW_SHIFT: Final = 45  # the 52 mantissa bits less log2(PIECES)
OFFSET_MASK: Final = (1 << ROW_SHIFT) - 1
SMALLEST_BITS: Final = (1023 - OCTAVES) << 52  # the bits of 2^-53
ONE_BITS: Final = 1023 << 52  # the bits of 1.0
FIRST_ROW: Final = SMALLEST_BITS >> ROW_SHIFT
RESTART: Final = 2.0**-40  # where s = 0, the fixed point y = 1, is sent
LONGEST: Final = 2.0**52  # s - 1 is exact up to here; a phase longer than any run
ARRAYS: Final = ("returns", "starts", "panels", "series", "constants")
VERSION: Final = 1  # part of every cached file's name; a new one changes the golden values


@dataclass(frozen=True, eq=False)
class ThalerTables:
    """All numbers that belong to one gamma, rounded once from high precision.

    Attributes:
        gamma: the exponent.
        returns: cubics for B, (row, coefficient).
        starts: quintics for the stationary start, (row, coefficient).
        panels: Chebyshev coefficients of Y = A^-1 on unit intervals of s, (interval, coefficient).
        series: the expansion of A, (power of q, power of p).
        constants: y* as two doubles, then the constant of the expansion.
    """

    gamma: float
    returns: Array
    starts: Array
    panels: Array
    series: Array
    constants: Array

    @property
    def fingerprint(self) -> int:
        """63 bits of the SHA-256 of the two tables; a checkpoint holds it."""
        digest = hashlib.sha256(self.returns.tobytes() + self.starts.tobytes()).digest()
        return int.from_bytes(digest[:8], "little") >> 1

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
    """Return the tables at ``gamma``: from memory, else from disk, else computed (1 to 2 s)."""
    path = cache_folder() / f"thaler-{VERSION}-{float(gamma).hex()}.npz"
    tables = _load(path, gamma)
    if tables is None:
        tables = compute_tables(gamma)
        _save(path, tables)
    return tables


def cache_folder() -> Path:
    """Return the folder of cached tables: ``MPGD_CACHE``, else below the user's cache folder."""
    if folder := os.environ.get("MPGD_CACHE"):
        return Path(folder)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "mpgd"


def compute_tables(gamma: float) -> ThalerTables:
    """Compute the tables at ``gamma`` without looking at the cache."""
    import mpmath as mp  # takes a while to import and is not needed when the cache has the tables

    from mpgd.maps.abel import DIGITS, abel_coordinate

    A = abel_coordinate(gamma)
    with mp.workdps(DIGITS):
        low = A.y_star - mp.mpf(float(A.y_star))
        return ThalerTables(
            gamma=gamma,
            returns=_tabulate_returns(A.first_return),
            starts=_tabulate_starts(A.stationary, gamma),
            panels=np.array(A.panels, dtype=np.float64),
            series=np.array(A.series, dtype=np.float64),
            constants=np.array([A.y_star, low, A.constant], dtype=np.float64),
        )


def _tabulate_returns(first_return: Callable[..., object]) -> Array:
    rows = _tabulate(first_return, OCTAVES, 1, RETURN_NODES, RETURN_DEGREE)
    restart = np.zeros((1, RETURN_DEGREE + 1))
    restart[0, 0] = RESTART  # u = 1 has a row of its own
    return np.concatenate([rows, restart])


def _tabulate_starts(stationary: Callable[..., object], gamma: float) -> Array:
    # s grows like u^-steepness, so it passes LONGEST after 52/steepness octaves.
    steepness = gamma / (1.0 - gamma)
    octaves = min(OCTAVES, int(54 / steepness) + 2)
    parts = 2 if steepness < 4 else 4 if steepness < 10 else 16
    rows = _tabulate(stationary, octaves, parts, START_NODES, START_DEGREE)
    table = np.zeros((OCTAVES * PIECES, START_DEGREE + 1))
    table[:, 0] = 2 * LONGEST
    table[-len(rows) :] = rows
    return table


def _tabulate(
    function: Callable[..., object], octaves: int, parts: int, nodes: int, degree: int
) -> Array:
    """Return the rows of ``function`` on (2^-octaves, 1), smallest u first.

    Each octave is cut into ``parts`` panels; on each the function is interpolated at Chebyshev
    nodes, and the interpolant is cut into pieces.
    """
    import mpmath as mp

    from mpgd.maps.abel import unit_nodes

    values = [
        [
            float(function((1 + (part + x) / parts) * mp.mpf(2) ** (-octave - 1)))  # type: ignore[arg-type]
            for x in unit_nodes(nodes)
        ]
        for octave in reversed(range(octaves))
        for part in range(parts)
    ]
    return _cut(np.array(values), PIECES // parts, degree)


def _cut(values: Array, pieces: int, degree: int) -> Array:
    """Cut the interpolant of each row of ``values`` into polynomials of ``degree``.

    ``values`` is (panel, node); the result is (panel * piece, coefficient), lowest power first,
    in the variable x in [0, 2^45).
    """
    cosines, local_nodes, to_powers = _constants(values.shape[1], degree)
    coefficients = [sum(values[:, k] * row[k] for k in range(len(row))) for row in cosines]
    samples = [
        _clenshaw(coefficients, (np.arange(pieces) + node) * (1.0 / pieces)) for node in local_nodes
    ]
    rows = [
        sum(weight * sample for weight, sample in zip(w, samples, strict=True)) for w in to_powers
    ]
    scaled = [row * 2.0 ** (-ROW_SHIFT * power) for power, row in enumerate(rows)]
    return np.stack([row.reshape(-1) for row in scaled], axis=1)


def _clenshaw(coefficients: list[Array], x: Array) -> Array:
    """Return Chebyshev sums on [0, 1]; ``coefficients`` are per panel, result (panel, x)."""
    t = 4.0 * x - 2.0
    b1 = b2 = np.zeros((len(coefficients[0]), len(x)))
    for c in reversed(coefficients[1:]):
        b1, b2 = c[:, None] + t * b1 - b2, b1
    return coefficients[0][:, None] + 0.5 * t * b1 - b2


def _constants(nodes: int, degree: int) -> tuple[Array, Array, Array]:
    """Return the cosine matrix, the local nodes and the matrix from samples to powers."""
    import mpmath as mp

    from mpgd.maps.abel import chebyshev_coefficients, unit_nodes

    identity = [[mp.mpf(i == k) for k in range(nodes)] for i in range(nodes)]
    columns = [chebyshev_coefficients(row) for row in identity]
    local = unit_nodes(degree + 1)
    vandermonde = mp.matrix([[x**power for power in range(degree + 1)] for x in local])
    inverse = vandermonde**-1
    return (
        np.array(columns, dtype=np.float64).T,
        np.array(local, dtype=np.float64),
        np.array(inverse.tolist(), dtype=np.float64),
    )


def _load(path: Path, gamma: float) -> ThalerTables | None:
    """Return the tables in ``path``, or None where there are none or the file is damaged."""
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            fields = {name: file[name] for name in file.files}
        checksum = bytes(fields.pop("checksum"))
        tables = ThalerTables(gamma=gamma, **fields)
        return tables if tables.checksum == checksum else None
    except Exception:  # a damaged zip file raises almost anything; the tables are computed again
        return None


def _save(path: Path, tables: ThalerTables) -> None:
    """Keep the tables; a folder that is not writable is no error."""
    arrays = {name: getattr(tables, name) for name in ARRAYS}
    arrays["checksum"] = np.frombuffer(tables.checksum, np.uint8)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, partial(np.savez, **arrays))
