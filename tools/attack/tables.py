"""Files of tables, damaged: none is believed unless it holds the very bits."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from mpgd.maps import tables
from mpgd.maps.tables import ARRAYS, ThalerTables, thaler_tables

COUNT = 1350
GAMMAS = (0.55, 0.6, 0.7)


def flip(raw: bytearray, dice: random.Random) -> None:
    """Change one byte."""
    raw[dice.randrange(len(raw))] ^= dice.randrange(1, 256)


def flip_near_an_end(raw: bytearray, dice: random.Random) -> None:
    """Change one byte of the headers at either end."""
    place = dice.randrange(460)
    raw[place if dice.random() < 0.5 else -1 - place] ^= dice.randrange(1, 256)


def truncate(raw: bytearray, dice: random.Random) -> None:
    """Cut the end off."""
    del raw[dice.randrange(len(raw)) :]


def blank(raw: bytearray, dice: random.Random) -> None:
    """Set 512 bytes to zero."""
    start = dice.randrange(len(raw))
    raw[start : start + 512] = bytes(len(raw[start : start + 512]))


def insert(raw: bytearray, dice: random.Random) -> None:
    """Insert random bytes."""
    raw[(place := dice.randrange(len(raw))) : place] = dice.randbytes(dice.randrange(1, 64))


def repeat(raw: bytearray, dice: random.Random) -> None:
    """Copy the beginning to another place."""
    start, size = dice.randrange(len(raw)), dice.randrange(1, 4096)
    raw[start : start + size] = raw[:size][: len(raw[start : start + size])]


def noise(raw: bytearray, dice: random.Random) -> None:
    """Replace everything by random bytes."""
    raw[:] = dice.randbytes(dice.randrange(4096))


DAMAGES: list[Callable[[bytearray, random.Random], None]] = [
    flip,
    flip_near_an_end,
    truncate,
    blank,
    insert,
    repeat,
    noise,
]


def attack(seed: int) -> Iterator[str | None]:
    """Damage copies of three files and read each."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.npz"
        whole: dict[float, bytes] = {}
        for gamma in GAMMAS:
            tables._save(path, thaler_tables(gamma))
            whole[gamma] = path.read_bytes()
        for number in range(COUNT):
            dice = random.Random(f"{seed} {number}")
            gamma, damage = dice.choice(GAMMAS), dice.choice(DAMAGES)
            raw = bytearray(whole[gamma])
            damage(raw, dice)
            path.write_bytes(bytes(raw))
            found = tables._load(path, gamma)
            good = found is None or same(found, thaler_tables(gamma))
            yield None if good else f"number {number}, {damage.__name__}: was believed"


def same(one: ThalerTables, other: ThalerTables) -> bool:
    """Return whether two tables are equal in every entry."""
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ARRAYS)
