"""The 32 bits that one driver keeps for one coordinate: its place on the orbit and its sign.

Bit 31 is chi, set where chi = -1. The 31 bits below it are the magnitude q:

    q <  2^30    s = q / 2^18: the laminar steps still to come, n, and 18 bits of fraction f
    q >= 2^30    a long phase, n = 2^12 + (q - 2^30); the fraction is not kept

A step counts n down: q loses 2^18, or 1 while q > 2^30. In Z means q < 2^18, so that n = 0. The
orbit below leaves a long phase and visits Z 4097 steps later:

    q = 2^30 + 1        n = 2^12 + 1                             then q - 1
    q = 2^30            n = 2^12                                 then q - 2^18
    q = 2^30 - 2^18     n = 2^12 - 1, f = 0                      then q - 2^18, 4095 times
    q = 0               n = 0, f = 0: a visit to Z

f = 0 therefore means "the fraction is not known", and a visit draws all of it from the hash. No
other state may have f = 0: where a visit would lead to one, f becomes 1.

At a visit u = 1 - s is a number U of 50 bits, the 18 of the fraction of u and 32 of the hash
(the dither, without which phases beyond 10^5 come out wrong). The lowest bit of U is always set.
Then U is never 0, and it is the middle of the pair of inputs that differ in this bit. The table
of B (`mpgd.maps.rows`) sends U to n and 32 bits of fraction, of which a word keeps 18 or none.

    hash h       64 bits of (index, key of the step, f 2^46), see `mpgd.noise.counter_hash`
    U            upper 18: 2^18 - 1 - f, or bits 12 to 29 of h where f = 0
                 lower 32: those of h ^ (h >> 32), with the last one set
    new chi      -1 where the upper 31 bits of h are at least (1 + beta)/2 2^31
"""

from __future__ import annotations

from typing import Any, Final

from mpgd.maps.rows import LARGEST

FRACTION_BITS: Final = 18
DITHER_BITS: Final = 32
SIGN_BITS: Final = 31  # of the hash, which decide a sign
ONE: Final = 1 << FRACTION_BITS  # the magnitude of s = 1; below it lies Z
FRACTION: Final = ONE - 1  # the bits of f
LONG: Final = 1 << 30  # the smallest magnitude of a long phase
FAR: Final = LONG >> FRACTION_BITS  # and its n
LONGEST: Final = LARGEST  # the largest n; a phase longer than any run
NEGATIVE: Final = 1 << 31  # the bit of chi
MAGNITUDE: Final = NEGATIVE - 1
SALT_SHIFT: Final = 64 - FRACTION_BITS  # where the hash takes f in
DRAWN_SHIFT: Final = 12  # where the hash has an unknown fraction; bits below are not as good


def steps_to_go(word: Any) -> Any:
    """Return n of words, an integer, a numpy array or a tensor of int32.

    Examples:
        >>> steps_to_go(5 << 18), steps_to_go((1 << 30) + 1), steps_to_go(7)
        (5, 4097, 0)
    """
    q = word & MAGNITUDE
    is_long = q >> 30
    return (1 - is_long) * (q >> FRACTION_BITS) + is_long * (FAR + (q & (LONG - 1)))
