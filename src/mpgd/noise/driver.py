"""What one driver of phases is made of: the numbers all engines read.

    s >= 1:  s -> s - 1              the laminar phase, value chi c0
    s <  1:  s -> B(s)               the visit to Z, value chi c1; then a new sign chi

s is the position in the Abel coordinate; `mpgd.noise.word` says how s and chi are kept. The values
are

    c0 = (d_alpha P(Z))^(-gamma),   c1 = c0 / (1 - 2^e),   e = 1 - gamma,  P(Z) = 1 - 2^(-e)
    d_alpha = alpha^alpha e Gamma(1 - alpha) cos(pi alpha / 2) / (2^e - 1)

Where the phase length is capped, P(Z), c1 and the start change; c0 does not
(`mpgd.noise.capped`).

Phases of another law (`mpgd.noise.phase_noise`) have another table in the place of B, and c1 = c0.

Reference: Lim, Wan & Simsekli (2022), Section 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch._guards import active_fake_mode

from mpgd.maps.rows import Rows
from mpgd.maps.tables import RETURN_ROW_BITS, thaler_tables
from mpgd.maps.thaler import ThalerMap
from mpgd.noise.capped import CappedLaw, capped_law
from mpgd.noise.counter_hash import make_key
from mpgd.noise.word import FAR, FRACTION_BITS, LONG, LONGEST, SIGN_BITS


@contextmanager
def outside_modes() -> Iterator[None]:
    """Make tensors that have memory and may be changed, whatever mode torch is in.

    Inside `FakeTensorMode` and `torch.inference_mode` it makes others, which must not be kept for
    later. A default device stays in force: name the device.

    Examples:
        >>> with torch.inference_mode(), outside_modes():
        ...     torch.zeros(2, device="cpu").is_inference()
        False
    """
    with torch.inference_mode(False), torch._C._DisableTorchDispatch():
        yield


class Constant:
    """An array of int64 and its copies on devices.

    Args:
        array: the numbers; they share the memory of the CPU's tensor.

    Examples:
        >>> Constant(np.arange(3)).on(torch.device("cpu"))
        tensor([0, 1, 2])
    """

    def __init__(self, array: NDArray[np.int64]) -> None:
        self._array = np.ascontiguousarray(array)
        with outside_modes():
            self._copies = {torch.device("cpu"): torch.from_numpy(self._array)}

    def on(self, device: torch.device) -> Tensor:
        """Return the numbers on ``device``; a fake tensor, which nobody keeps, among fake ones."""
        if not torch.compiler.is_compiling() and active_fake_mode() is not None:
            return torch.from_numpy(self._array).to(device)
        if device not in self._copies:
            with outside_modes():
                self._copies[device] = self._copies[torch.device("cpu")].to(device)
        return self._copies[device]


class Table:
    """A table of `mpgd.maps.rows`, (row, word), and its copies on devices.

    Attributes:
        rows: the table, octave 0 (u in [1/2, 1)) first.
        row_bits: an octave has 2^row_bits rows.
    """

    def __init__(self, rows: Rows, row_bits: int) -> None:
        self.rows, self.row_bits = rows, row_bits
        self._columns = Constant(rows.view(np.int64).T)
        self._pairs = Constant(rows.view(np.int64))

    @cached_property
    def ascending(self) -> Rows:
        """The table for the CPU's kernels, its octaves in the order of rising u.

        The exponent of u as a double then numbers them.
        """
        return np.ascontiguousarray(self.rows.reshape(self.octaves, -1, 2)[::-1])

    @property
    def octaves(self) -> int:
        """How many octaves of u the table covers."""
        return len(self.rows) >> self.row_bits

    def on(self, device: torch.device) -> Tensor:
        """Return the table on ``device`` as an int64 tensor (word, row)."""
        return self._columns.on(device)

    def pairs_on(self, device: torch.device) -> Tensor:
        """Return the table on ``device`` as an int64 tensor (row, word), for a GPU's kernels."""
        return self._pairs.on(device)


@dataclass(frozen=True, eq=False)
class Driver:
    """The constants of one driver.

    Attributes:
        laminar_value: c0.
        burst_value: c1.
        burst_probability: P(Z).
        threshold: a sign is +1 if the upper 31 bits of the hash lie below it.
        product: whether a new sign multiplies the old one.
        returns: the table of B.
        starts: the table of the stationary start.
        law: of the capped orbit; None if the phase length is not capped.
        largest: the largest magnitude of a word.
        fingerprint: identifies the tables; checkpoints hold it.
        is_normal: not chaotic but normal noise without orbits, see `mpgd.noise.memoryless`; its
            table is then that of the normal law, and c0 what the integer 1 stands for.
        is_stable: stable noise without orbits; its table is that of `mpgd.stable.sampling`.
    """

    laminar_value: float
    burst_value: float
    burst_probability: float
    threshold: int
    product: bool
    returns: Table
    starts: Table
    law: CappedLaw | None
    largest: int
    fingerprint: int
    is_normal: bool = False
    is_stable: bool = False

    @property
    def has_phases(self) -> bool:
        """Whether its values last; normal and stable ones are independent."""
        return not (self.is_normal or self.is_stable)

    @property
    def is_cut(self) -> bool:
        """Whether the phase length is capped."""
        return self.has_phases and self.largest < magnitude(None)


@lru_cache(maxsize=128)
def make_driver(
    gamma: float, beta: float, signs: str, longest: int | None = None, burst: bool = True
) -> Driver:
    """Return the driver's constants; equal arguments give the same object."""
    tables = thaler_tables(gamma)
    law = None if longest is None else capped_law(gamma, longest)
    starts = Table(tables.starts, tables.start_row_bits)
    if law is not None and law.landings is not None:
        starts = Table(law.landings, RETURN_ROW_BITS)
    c0, c1 = values(gamma, longest, burst)
    largest = magnitude(longest)
    threshold, product = round((1.0 + beta) / 2.0 * 2**SIGN_BITS), signs == "product"
    return Driver(
        laminar_value=c0,
        burst_value=c1,
        burst_probability=(law or ThalerMap(gamma)).burst_probability,
        threshold=threshold,
        product=product,
        returns=Table(tables.returns, RETURN_ROW_BITS),
        starts=starts,
        law=law,
        largest=largest,
        fingerprint=tables.fingerprint if law is None else make_key(tables.fingerprint, largest),
    )


def magnitude(longest: int | None) -> int:
    """Return the largest magnitude of a word: a phase of ``longest`` steps, its fraction unknown.

    Examples:
        >>> magnitude(3) == 3 << 18, magnitude(None) == 2**31 - 1
        (True, True)
    """
    n = LONGEST if longest is None else longest
    return n << FRACTION_BITS if n < FAR else n + (LONG - FAR)


@lru_cache(maxsize=128)
def values(gamma: float, longest: int | None = None, burst: bool = True) -> tuple[float, float]:
    """Return c0 and c1, computed in high precision and rounded once; c1 = c0 without bursts."""
    import mpmath as mp

    if not burst:
        c0 = values(gamma)[0]
        return c0, c0
    if longest is not None:
        p = capped_law(gamma, longest).burst_probability
        c0 = values(gamma)[0]
        return c0, -c0 * (1.0 - p) / p

    with mp.workdps(30):
        g = mp.mpf(gamma)
        alpha, e = 1 / g, 1 - g
        d_alpha = alpha**alpha * e * mp.gamma(1 - alpha) * mp.cos(mp.pi * alpha / 2) / (2**e - 1)
        c0 = (d_alpha * (1 - 2**-e)) ** -g
        return float(c0), float(c0 / (1 - 2**e))
