"""Any law of whole numbers as a table of `mpgd.maps.rows`, to 5e-5 or much better.

A row of octave k has the probability 2^-(8+k), k = 0, 1, ..., and there are 128 of each. A row that
falls linearly from b + 1 to a gives each of the numbers a, ..., b the same probability, and behind
each of them a fraction that is uniform and independent. So the map with such rows keeps the
uniform law, and the numbers that it visits are independent: a Markov map with full branches.

Rows are chosen octave by octave. With r_n the probability that is still to be given out, in units
of a row, all of it is 256 and an octave takes 128. About half of each r_n goes to the rows,

    r_n >= 2             floor(r_n / 2) rows for n alone
    r_n < 2              one row for the numbers a, ..., b with (r_a + ... + r_b) / 2 >= 1

and never more than r_n. The rest, doubled, is r_n of the next octave. A law of up to 128 numbers is
exact to 2^-42 that way. With more the rest becomes too scattered in some octave. From there on the
rows follow the quantiles of the rest, which falls from row to row, and their fractions are uniform
only nearly. Where numbers are many, cells of neighbours stand for them, and r is that of a cell.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpgd.maps.rows import INPUT_BITS, POINT_BITS, Rows, pack
from mpgd.maps.tables import RETURN_ROW_BITS

Array = NDArray[np.float64]
Block = tuple[int, int]  # the first and the last cell of a row

ROWS: Final = 1 << RETURN_ROW_BITS  # of an octave
OCTAVES: Final = 42  # in which every row has an input of its own; deeper lies 2^-42 of all
TOLERANCE: Final = 5e-5  # of a probability P(N >= n): a standard error of 10^8 counts
MOST_CELLS: Final = 128  # of a block that completes an octave
_SLACK: Final = 1.0 - 1e-12  # of a comparison of two numbers that are equal but for rounding


def block_rows(edges: NDArray[np.int64], masses: Array) -> Rows:
    """Return rows under which the numbers of cell i have probability ``masses[i]`` together.

    Args:
        edges: of the cells; cell i has the numbers edges[i], ..., edges[i + 1] - 1, equally likely.
        masses: their probabilities; the sum is 1.

    Raises:
        ValueError: a law of many numbers that is too rough for the rows.

    Examples:
        >>> from mpgd.maps.rows import read
        >>> rows = block_rows(np.array([3, 4, 6]), np.array([0.25, 0.75]))
        >>> n = np.floor(read(rows, 7, (np.arange(4096) + 0.5) / 4096))
        >>> [float((n == k).mean()) for k in (3, 4, 5)]
        [0.25, 0.375, 0.375]
    """
    widths, rest = np.diff(edges).tolist(), (masses * (2.0 * ROWS)).tolist()
    octaves: list[Rows] = []
    for octave in range(OCTAVES):
        before = list(rest)
        blocks = _half(rest, widths)
        _complete(blocks, rest, widths)
        if len(blocks) < ROWS:
            return np.concatenate([*octaves, _quantiles(edges, np.array(before), octave)])
        octaves.append(_linear(edges, np.array(blocks)))
        rest = [2.0 * r for r in rest]
    return np.concatenate(octaves + [octaves[-1]] * (INPUT_BITS - OCTAVES))


def _half(rest: list[float], widths: list[int]) -> list[Block]:
    """Return blocks that take about half of every rest, and take it."""
    blocks: list[Block] = []
    i = 0
    while i < len(rest):
        if rest[i] >= 2.0:
            blocks += _take(rest, widths, (i, i), int(rest[i] / 2.0))
            i += 1
            continue
        total, width, lowest, j, least = 0.0, 0, np.inf, i - 1, i
        while total < 1.0 and j + 1 < len(rest) and rest[j + 1] < 2.0:
            j += 1
            total, width = total + rest[j] / 2.0, width + widths[j]
            if rest[j] / widths[j] < lowest:
                lowest, least = rest[j] / widths[j], j
        if total >= 1.0 and lowest * width >= 1.0:
            blocks += _take(rest, widths, (i, j), 1)
            i = j + 1
        else:  # no block may have the least likely number, or the last one
            i = (least if total >= 1.0 else max(i, j)) + 1
    return blocks


def _complete(blocks: list[Block], rest: list[float], widths: list[int]) -> None:
    """Add blocks of what is left, the likeliest numbers first, until the octave has its rows."""
    for i in sorted(range(len(rest)), key=lambda i: -rest[i]):
        if len(blocks) == ROWS or rest[i] < 1.0:
            break
        blocks += _take(rest, widths, (i, i), min(int(rest[i]), ROWS - len(blocks)))
    i = 0
    while i < len(rest) and len(blocks) < ROWS:
        width, lowest, j = widths[i], rest[i] / widths[i], i
        end = min(i + MOST_CELLS, len(rest))
        while lowest * width < _SLACK and lowest > 0.0 and j + 1 < end:
            j += 1
            width, lowest = width + widths[j], min(lowest, rest[j] / widths[j])
        if lowest * width >= _SLACK:
            blocks += _take(rest, widths, (i, j), 1)
        else:
            i += 1


def _take(rest: list[float], widths: list[int], block: Block, count: int) -> list[Block]:
    first, last = block
    width = sum(widths[first : last + 1])
    for k in range(first, last + 1):
        rest[k] -= count * widths[k] / width
    return [block] * count


def _linear(edges: NDArray[np.int64], blocks: NDArray[np.int64]) -> Rows:
    """Return a row c0 - X length for each block, which ends where its first number begins."""
    first, end = edges[blocks[:, 0]], edges[blocks[:, 1] + 1]
    top = (end.astype(np.uint64) << np.uint64(POINT_BITS)) - np.uint64(1)
    slope = (2 * (end - first)).astype(np.uint64) | np.uint64(1 << 58)  # and one shift
    return np.stack([top, slope], axis=1).astype("<u8")


def _quantiles(edges: NDArray[np.int64], rest: Array, octave: int) -> Rows:
    """Return the rows of this octave and all that follow, the quantiles of the rest."""
    levels = np.append(np.cumsum(rest[::-1])[::-1], 0.0) / np.cumsum(rest[::-1])[-1]
    k = np.arange(INPUT_BITS - octave)[:, None]
    start = np.ldexp(1.0 + np.arange(ROWS) / ROWS, -1 - k).reshape(-1)
    width = np.repeat(np.ldexp(1.0 / ROWS, -1 - k[:, 0]), ROWS)

    def quantile(level: Array) -> Array:
        return np.interp(level, levels[::-1], edges[::-1].astype(np.float64))

    c0, middle, end = (quantile(start + width * x) for x in (0.0, 0.5, 1.0))
    bend = np.clip(2.0 * (c0 + end - 2.0 * middle), 0.0, c0 - end)
    slope = c0 - end + bend
    _check_levels(edges, levels, (start, width, c0, slope, bend), 0.5**octave)
    return pack(c0, -np.maximum(slope, 2.0**-31), bend)


def _check_levels(
    edges: NDArray[np.int64], levels: Array, rows: tuple[Array, ...], weight: float
) -> None:
    """Raise if rows, which have ``weight`` of all, give P(N >= n) another value than ``levels``."""
    start, width, c0, slope, bend = rows
    order = np.argsort(start)
    row = order[np.maximum(np.searchsorted(start[order], levels, side="right") - 1, 0)]
    fall = np.clip(c0[row] - edges, 0.0, slope[row] - bend[row])
    root = np.sqrt(np.maximum(slope[row] ** 2 - 4.0 * bend[row] * fall, 0.0))
    x = 2.0 * fall / np.maximum(slope[row] + root, 2.0**-52)
    error = weight * float(np.max(np.abs(start[row] + width[row] * x - levels)[1:-1], initial=0.0))
    if error > TOLERANCE:
        raise ValueError(
            f"a table cannot hold this law of lengths: P(N >= n) would be wrong by {error:.1g}; "
            f"lengths without likely neighbours are exact up to {ROWS} of them"
        )
