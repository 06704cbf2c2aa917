"""Rows of integers against the functions they stand for, in high precision."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import mpmath as mp
import numpy as np
import pytest

from mpgd.maps.abel import abel_coordinate
from mpgd.maps.rows import LARGEST, pack
from mpgd.maps.tables import ThalerTables, thaler_tables
from tests.noise.integer_reference import evaluate

GAMMAS = [0.52, 0.6, 0.75, 0.9, 0.99]


@lru_cache(maxsize=8)
def inputs(octaves: int) -> np.ndarray:
    """Return numbers U all over the octaves, the ends of octaves among them."""
    spread = 2.0 ** (50 - np.random.default_rng(0).uniform(0, octaves, 300))
    ends = [2**k + d for k in range(50 - octaves, 51) for d in (-1, 0, 1)]
    whole = np.concatenate([spread.astype(np.int64), ends])
    return whole[(whole >= 2 ** (50 - octaves)) & (whole < 2**50) & (whole > 0)].astype(np.uint64)


def parts(rows: np.ndarray) -> list[np.ndarray]:
    """Return t1, t2 and sh."""
    shape = rows[:, 1]
    return [shape & np.uint64(2**32 - 1), (shape >> np.uint64(32)) % np.uint64(2**26), shape >> 58]


def tables_of(gamma: float) -> list[tuple[np.ndarray, int]]:
    tables = thaler_tables(gamma)
    return [(tables.returns, 7), (tables.starts, tables.start_row_bits)]


def errors(rows: np.ndarray, row_bits: int, exact: list[mp.mpf], U: np.ndarray) -> np.ndarray:
    """Return errors relative to max(1, value), where the value is not capped."""
    found = evaluate(rows, row_bits, U)
    pairs = [(mp.mpf(int(a)) / 2**32, b) for a, b in zip(found, exact, strict=True)]
    assert all(a >= 2**30 for a, b in pairs if b >= 2**30 + 2**12)
    return np.array([float((a - b) / max(1, b)) for a, b in pairs if b < 2**30])


@pytest.mark.parametrize("gamma", GAMMAS)
def test_returns_are_B(gamma: float) -> None:
    U, A = inputs(50), abel_coordinate(gamma)
    with mp.workdps(36):
        exact = [A.first_return(mp.mpf(int(x)) / 2**50) for x in U]
    found = errors(thaler_tables(gamma).returns, 7, exact, U)
    assert np.abs(found).max() < 3e-8
    if gamma == 0.6:
        shifted = errors(thaler_tables(gamma).returns, 7, exact, U + U // np.uint64(10**7))
        assert np.abs(shifted).max() > 3e-8  # the check can fail


@pytest.mark.parametrize("gamma", GAMMAS)
def test_starts_are_stationary(gamma: float) -> None:
    """In terms of the level, whose error is that of the law: 1e-6 relative, below 2^30."""
    tables = thaler_tables(gamma)
    octaves = len(tables.starts) >> tables.start_row_bits
    U, A = inputs(octaves), abel_coordinate(gamma)
    with mp.workdps(36):
        exact = [A.stationary(mp.mpf(int(x)) / 2**50) for x in U]
    steepness = gamma / (1 - gamma)
    found = errors(tables.starts, tables.start_row_bits, exact, U)
    assert np.abs(found).max() / max(1, steepness) < 1e-8


@pytest.mark.parametrize("gamma", GAMMAS)
def test_no_row_falls_below_zero_and_all_parts_fit(gamma: float) -> None:
    for rows, _ in tables_of(gamma):
        t1, t2, sh = parts(rows)
        assert sh.min() >= 1  # the torch engine relies on one shift at least
        last = np.uint64(2**32 - 1)
        bend = (last * t2) >> np.uint64(32)
        assert np.all((bend < t1) | (t1 == 0))
        fall = (last * (t1 - bend)) >> sh
        assert np.all(fall <= rows[:, 0])
        assert rows[:, 0].max() < 2**63


@pytest.mark.parametrize("gamma", GAMMAS)
def test_rows_meet(gamma: float) -> None:
    """The end of a row is the start of the next, to the error of a row; octaves come last first."""
    for rows, row_bits in tables_of(gamma):
        t1, t2, sh = parts(rows)
        X = np.uint64(2**32 - 1)
        ends = rows[:, 0] - ((X * (t1 - ((X * t2) >> np.uint64(32)))) >> sh)
        order = np.arange(len(rows)).reshape(-1, 1 << row_bits)[::-1].reshape(-1)
        end, start = ends[order][:-1] / 2.0**32, rows[order, 0][1:] / 2.0**32
        inside = end < 2**30
        steepness = max(1, gamma / (1 - gamma)) if row_bits != 7 else 1
        gap = np.abs(end - start)[inside] / np.maximum(1, end[inside])
        assert gap.max() < 5e-8 * steepness


def test_pack_rounds_once_and_caps() -> None:
    c0 = np.array([3.0, 2.0**31, 0.25])
    c1, c2 = np.array([-0.75, -1e9, -0.25]), np.array([2.0**-8, 1e6, 2.0**-20])
    rows = pack(c0, c1, c2)
    t1, t2, sh = parts(rows)
    assert (rows[0, 0], t1[0], t2[0], sh[0]) == (3 << 32, 3 << 30, 1 << 24, 32)
    assert rows[1].tolist() == [LARGEST << 32, 1 << 58]  # too high: capped, and flat
    assert evaluate(rows[2:].repeat(2, axis=0), 1, np.array([2**50 - 1], np.uint64))[0] < 2**13


def test_the_fingerprint_sees_every_bit_of_both_tables() -> None:
    whole = thaler_tables(0.6)
    seen = {whole.fingerprint}
    for name in ("returns", "starts"):
        for place in ((0, 0), (-1, 1)):
            changed = getattr(whole, name).copy()
            changed[place] ^= np.uint64(1)
            other: ThalerTables = replace(whole, **{name: changed})
            seen.add(other.fingerprint)
    assert len(seen) == 5
