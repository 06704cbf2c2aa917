"""The CPU engine: the kernels of kernels.c, called by ctypes without the interpreter's lock.

    advance         values of one driver, written or summed, and its next words
    displace        x <- (x - m x) + n of many tensors in one call
    RoundingJob     float32 numbers to bfloat16 or float16, stochastically
    draw_bits       the hash itself, or numbers in (0, 1)

The kernels get addresses and trust them; `row_of` and the functions here check what they rely on.
Bits are those of `mpgd.noise.engines.tensor`, on any number of threads and with any instructions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mpgd.noise.driver import Driver
from mpgd.noise.engines import native
from mpgd.noise.engines.native import INSTRUCTIONS as INSTRUCTIONS
from mpgd.noise.engines.native import instructions as instructions
from mpgd.noise.engines.native import is_available as is_available
from mpgd.noise.engines.native import reason as reason
from mpgd.noise.engines.native import select as select
from mpgd.noise.engines.threads import SMALLEST_PART, run
from mpgd.noise.word import NEGATIVE

DTYPES: Final = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}


# ---- values --------------------------------------------------------------------------------------


def advance(
    driver: Driver,
    words: Tensor | None,
    out: Tensor,
    key: int,
    step: int = 0,
    steps: int = 1,
    *,
    following: Tensor | None = None,
    adds: bool = False,
    offset: int = 0,
) -> None:
    """Write the values of ``steps`` steps of one stream, and replace its words by the next ones.

    Args:
        driver: its constants; those of normal noise draw normal numbers.
        words: int32, contiguous, on the CPU. None for normal noise, which has no words.
        out: float32 or float64, contiguous: the values, (step, *shape of the words). For one step,
            and with ``adds``, the axis of steps is left out.
        key: of the stream, made from (seed, tensor, driver).
        step: how many steps were taken before.
        steps: how many to take now.
        following: write the next words there, and leave ``words`` as they are.
        adds: add the values of all steps to ``out``, step by step, instead of writing them.
        offset: the index of the first element in the whole tensor.

    Examples:
        >>> from mpgd import ChaoticNoise
        >>> noise = ChaoticNoise(0.6)
        >>> state, out = noise.init(4, seed=1), torch.empty(2, 4, dtype=torch.float64)
        >>> advance(noise.driver, state.word, out, int(state.key), steps=2)
        >>> torch.equal(out, noise.path(2, (4,), seed=1))
        True
    """
    rows = 1 if adds else steps
    count = words.numel() if words is not None and steps == 0 else out.numel() // max(1, rows)
    new = words if following is None else following
    if words is not None:
        for tensor in (words, new):
            _check_memory("words", tensor, (torch.int32,), count)
    _check_memory("out", out, (torch.float32, torch.float64), count * rows)
    stream = (_at(words), _at(new), out.data_ptr(), count, offset, key)
    _run_values(driver, [stream], out, step, steps, 0 if adds else count, adds)


def advance_tensors(
    driver: Driver,
    words: Tensor | None,
    out: Tensor,
    sizes: Sequence[int] | NDArray[np.int64],
    keys: Sequence[int] | NDArray[np.int64],
    step: int,
) -> None:
    """Write the values of one step of many tensors and advance them, in place.

    Args:
        driver: the constants of all of them.
        words: int32, contiguous: tensor after tensor. None for normal noise.
        out: float32 or float64, contiguous: their values.
        sizes: the elements of each tensor.
        keys: the stream of each.
        step: how many steps they have taken.
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    starts, total = ends - np.asarray(sizes), int(ends[-1]) if len(ends) else 0
    streams = np.zeros((len(keys), 6), dtype=np.int64)
    if words is not None:
        _check_memory("words", words, (torch.int32,), total)
        streams[:, 0] = streams[:, 1] = words.data_ptr() + 4 * starts
    _check_memory("out", out, (torch.float32, torch.float64), total)
    streams[:, 2] = out.data_ptr() + out.element_size() * starts
    streams[:, 3], streams[:, 5] = sizes, keys
    _run_values(driver, streams, out, step, 1, 0, False)


def _run_values(
    driver: Driver, streams: Any, out: Tensor, step: int, steps: int, stride: int, adds: bool
) -> None:
    table = np.array(streams, dtype=np.int64)
    job = native.Values(streams=table.ctypes.data, total=int(table[:, 3].sum()))
    job.driver = _constants(driver, 1.0)
    job.step, job.steps, job.stride, job.adds = step, steps, stride, adds
    job.wide = out.dtype == torch.float64
    run(native.kernel("values"), job, SMALLEST_PART // max(1, steps))


def visit(driver: Driver, words: Tensor, steps: Tensor, key: int) -> None:
    """Take words that are in Z through one visit each, in place, each at a step of its own.

    So orbits go from visit to visit, without the steps between, which only count down.

    Args:
        driver: the constants of all orbits.
        words: int32, contiguous; those outside Z are taken as if they were in it.
        steps: how many steps each orbit has taken, int64.
        key: of the stream.
    """
    _check_memory("words", words, (torch.int32,), words.numel())
    _check_memory("steps", steps, (torch.int64,), words.numel())
    constants = _constants(driver, 1.0)
    given = (words.data_ptr(), steps.data_ptr(), words.numel(), key % 2**64)
    native.kernel("visit")(*given, ctypes.addressof(constants))


# ---- the displacement ----------------------------------------------------------------------------


class Row(NamedTuple):
    """A tensor as the kernel sees it; addresses of tensors that are not used are 0.

    Attributes:
        x: the address of its first element.
        words_m: that of the multiplicative driver's words.
        words_n: that of the additive driver's.
        twin_m: that of the multiplicative driver's twin, in the symmetric variant.
        twin_n: that of the additive driver's.
        length: how many elements there are.
        offset: the index of the first one in the whole tensor, if this is a part.
        key: of the tensor, made from (seed, tensor); each driver derives its own from it.
        step: how many steps its drivers have taken.
    """

    x: int
    words_m: int
    words_n: int
    twin_m: int
    twin_n: int
    length: int
    offset: int
    key: int
    step: int


class Term(NamedTuple):
    """The term m or n of a displacement: the level times the values of a driver.

    Attributes:
        driver: chaotic or normal; None if one number, the level itself, serves all elements.
        level: mu eta^gamma or sigma eta^gamma.
    """

    driver: Driver | None
    level: float


def row_of(x: Tensor, words: Sequence[Tensor | None], key: int, step: int, offset: int = 0) -> Row:
    """Return a tensor as the kernel sees it, after a check of all that the kernel trusts.

    The caller keeps the tensors until `displace` has returned.

    Args:
        x: float32, float64, bfloat16 or float16, contiguous, on the CPU.
        words: of the drivers of m and n and of their twins, at most four, int32 and contiguous;
            None for one that is normal, shared or absent.
        key: of the tensor.
        step: how many steps its drivers have taken.
        offset: the index of the first element in the whole tensor.
    """
    count = x.numel()
    _check_memory("x", x, tuple(DTYPES), count)
    for tensor in words:
        if tensor is not None:
            _check_memory("words", tensor, (torch.int32,), count)
    m, n, twin_m, twin_n = [_at(tensor) for tensor in words] + [0] * (4 - len(words))
    return Row(x.data_ptr(), m, n, twin_m, twin_n, count, offset, key, step)


def displace(
    rows: Sequence[Row] | NDArray[np.int64],
    dtype: torch.dtype,
    m: Term | None = None,
    n: Term | None = None,
    *,
    twins: bool = False,
) -> None:
    """Set x <- (x - m x) + n in all tensors, in one call, and advance the words of their drivers.

    The drivers of element i have the keys of (key of the row, number), with the numbers 0 for m,
    1 for n, and 2 and 3 for their twins. Half types are computed in float32 and rounded once. Rows
    must not overlap, because threads work on several at once. Autograd is not told: call
    `torch.autograd.graph.increment_version` afterwards.

    Args:
        rows: the tensors, see `row_of`; or the same numbers as an array (row, field), which a
            caller may keep and change in the column of steps only.
        dtype: of all of them.
        m: the multiplicative term; None leaves it out.
        n: the additive term.
        twins: subtract from each term that of a second driver (the symmetric variant). The twin of
            a shared term is part of its level already.

    Examples:
        >>> from mpgd import ChaoticNoise
        >>> from mpgd.noise.counter_hash import make_key
        >>> noise, seed = ChaoticNoise(0.6), 1
        >>> tensors = [torch.zeros(3), torch.zeros(2, 2)]
        >>> rows, words = [], []  # rows hold addresses, so the words are kept beside them
        >>> for number, x in enumerate(tensors):
        ...     states = [noise.init(x.shape, seed, tensor_id=number, driver_id=k) for k in (0, 1)]
        ...     words.append([state.word for state in states])
        ...     rows.append(row_of(x, words[-1], make_key(seed, number), step=0))
        >>> both = Term(noise.driver, 0.1), Term(noise.driver, 0.2)
        >>> displace(rows, torch.float32, *both)
        >>> v, _ = noise.step(noise.init((2, 2), seed, tensor_id=1, driver_id=1))
        >>> torch.equal(tensors[1], (0.2 * v).float())
        True
    """
    table = np.ascontiguousarray(rows, dtype=np.int64)
    if len(table) == 0:
        return
    total = int(table[:, Row._fields.index("length")].sum())
    job = native.Displacement(rows=table.ctypes.data, total=total)
    job.drivers[0], job.drivers[1] = (
        native.DriverConstants() if term is None else _constants(term.driver, term.level)
        for term in (m, n)
    )
    job.dtype, job.twins = DTYPES[dtype], twins
    run(native.kernel("displace"), job)


def _constants(driver: Driver | None, level: float) -> native.DriverConstants:
    """Return a driver's constants with its values times the level."""
    if driver is None:
        return native.DriverConstants(kind=native.SHARED, c0=level)
    return native.DriverConstants(
        table=driver.returns.ascending.ctypes.data,
        kind=_kind(driver),
        threshold=driver.threshold,
        product=NEGATIVE if driver.product else 0,
        largest=driver.largest,
        c0=level * driver.laminar_value,
        c1=level * driver.burst_value,
    )


def _kind(driver: Driver) -> int:
    if driver.is_stable:
        return native.STABLE
    return native.NORMAL if driver.is_normal else native.CHAOTIC


# ---- rounding ------------------------------------------------------------------------------------


SLOTS: Final = 4  # tensors that share a hash


class Slot(NamedTuple):
    """A tensor to be rounded.

    Attributes:
        x: float32, contiguous, on the CPU.
        out: bfloat16 or float16, contiguous: the result. Autograd is not told.
        salt: of a state, from its name, below 2^32; 0 of a parameter itself.
    """

    x: Tensor
    out: Tensor
    salt: int = 0


class RoundingJob:
    """Float32 numbers that are rounded to half types, as `noise.stochastic_round.rounded` does.

    The tensors are checked now, and kept until the job is done; `run` may be called later.

    Args:
        rows: slots of one size, which share their hashes; the key of this step's random bits; the
            index of the first element in the whole tensor.

    Examples:
        >>> x, out = torch.full((4,), 1.001), torch.empty(4, dtype=torch.bfloat16)
        >>> RoundingJob([([Slot(x, out)], 7, 0)]).run()
        >>> set(out.tolist()) <= {1.0, 1.0078125}
        True
    """

    def __init__(self, rows: Sequence[tuple[Sequence[Slot], int, int]]) -> None:
        table, total = [], 0
        for every, key, offset in rows:
            count = every[0].x.numel()
            for first in range(0, len(every), SLOTS):
                slots = every[first : first + SLOTS]
                for x, out, _ in slots:
                    _check_memory("x", x, (torch.float32,), count)
                    _check_memory("out", out, (torch.bfloat16, torch.float16), count)
                fill = [0] * (SLOTS - len(slots))
                table += [*(s.x.data_ptr() for s in slots), *fill]
                table += [*(s.out.data_ptr() for s in slots), *fill]
                table += _pairs([*(s.salt for s in slots), *fill])
                table += _pairs([*(DTYPES[s.out.dtype] for s in slots), *fill])
                table += [count, offset, key % 2**64]
                total += count
        words = np.array(table, dtype=np.uint64)  # as RoundedRow of kernels.c
        self._job = native.Rounding(rows=words.ctypes.data, total=total)
        self._memory = words, rows

    def run(self) -> None:
        """Round all rows."""
        run(native.kernel("round"), self._job)


def _pairs(numbers: list[int]) -> list[int]:
    """Return numbers of 32 bits, two by two in one of 64."""
    return [a | b << 32 for a, b in zip(numbers[::2], numbers[1::2], strict=True)]


def draw_bits(out: Tensor, key: int, offset: int = 0) -> None:
    """Write the hash of every element to an int64 tensor, a number in (0, 1) to a float64 one.

    Args:
        out: contiguous, on the CPU.
        key: of the step.
        offset: the index of the first element in the whole tensor.
    """
    _check_memory("out", out, (torch.int64, torch.float64), out.numel())
    job = native.Bits(out=out.data_ptr(), total=out.numel())
    job.key, job.offset, job.uniform = key % 2**64, offset, out.dtype == torch.float64
    run(native.kernel("bits"), job)


# ---- addresses -----------------------------------------------------------------------------------


def _at(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _check_memory(
    name: str, tensor: Tensor | None, dtypes: tuple[torch.dtype, ...], count: int
) -> None:
    """Raise if a tensor is not what a kernel takes its memory for."""
    if (
        tensor is None
        or tensor.dtype not in dtypes
        or not tensor.is_cpu
        or tensor.numel() != count
        or not tensor.is_contiguous()
        or tensor.is_neg()
    ):
        kinds = " or ".join(map(str, dtypes))
        raise ValueError(
            f"{name} must be a contiguous tensor of {count} {kinds} on the CPU, got "
            f"{_described(tensor)}"
        )
    if count and tensor.data_ptr() == 0:
        raise ValueError(f"{name} of shape {tuple(tensor.shape)} has no memory any more")


def _described(tensor: Tensor | None) -> str:
    if tensor is None:
        return "None"
    shape, strides = tuple(tensor.shape), tensor.stride()
    return f"{tensor.dtype} of shape {shape} with strides {strides} on {tensor.device}"
