"""The CPU engine: the kernels of kernels.c, called by ctypes without the interpreter's lock.

    advance         values of one driver, written or summed, and its next words
    displace        x <- (x - m x) + n of many tensors in one call
    round_halves    float32 numbers to bfloat16 or float16, stochastically

The kernels get addresses and trust them; `row_of` and the functions here check what they rely on.
Bits are those of `mpgd.noise.engines.tensor`, on any number of threads. The environment variable
``MPGD_CPU`` names an instruction set: ``avx2``, ``lanes`` (vectors that every CPU has) or
``scalar``. By default it is the first of these that the CPU has.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mpgd.noise.driver import Driver
from mpgd.noise.engines.library import load
from mpgd.noise.engines.threads import SMALLEST_PART, run
from mpgd.noise.word import NEGATIVE

DTYPES: Final = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}
INSTRUCTIONS: Final = ("scalar", "lanes", "avx2")  # in the order of kernels.c
VARIABLE: Final = "MPGD_CPU"
_ABSENT, _CHAOTIC, _NORMAL, _SHARED = range(4)  # kinds of drivers
_u32, _u64, _i64, _address = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64, ctypes.c_void_p


class _Driver(ctypes.Structure):
    _fields_ = (
        ("table", _address),
        ("kind", _u32),
        ("threshold", _u32),
        ("product", _u32),
        ("largest", _u32),
        ("c0", ctypes.c_double),
        ("c1", ctypes.c_double),
    )


_PARTS: Final = (("total", _i64), ("part", _i64), ("next", _i64))


class _Displacement(ctypes.Structure):
    _fields_ = (
        ("rows", _address),
        ("count", _i64),
        *_PARTS,
        ("drivers", _Driver * 2),
        ("dtype", _u32),
        ("twins", _u32),
        ("rounding", _u64),
        ("start", _u64),
    )


class _Values(ctypes.Structure):
    _fields_ = (
        ("streams", _address),
        ("count", _i64),
        *_PARTS,
        ("driver", _Driver),
        ("step", _u64),
        ("steps", _i64),
        ("stride", _i64),
        ("wide", _u32),
        ("adds", _u32),
    )


class _Rounding(ctypes.Structure):
    _fields_ = (
        ("x", _address),
        ("out", _address),
        *_PARTS,
        ("offset", _u64),
        ("key", _u64),
        ("dtype", _u32),
        ("unused", _u32),
    )


# ---- the library ---------------------------------------------------------------------------------

_LOADED: Final = load(Path(__file__).with_name("kernels.c"))


def select(wanted: str | None = None) -> str:
    """Use an instruction set from now on and return its name; None takes the best there is.

    Examples:
        >>> before = instructions()
        >>> select("scalar"), instructions()  # doctest: +SKIP
        ('scalar', 'scalar')
        >>> select(before) == before  # doctest: +SKIP
        True
    """
    global _instructions
    if wanted is not None and wanted not in INSTRUCTIONS:
        names = ", ".join(INSTRUCTIONS)
        raise ValueError(f"{VARIABLE} must be one of {names}, got {wanted!r}")
    for name in (wanted,) if wanted else reversed(INSTRUCTIONS):
        if _kernel("select")(INSTRUCTIONS.index(name)) >= 0:
            _instructions = name
            return name
    raise ValueError(f"{VARIABLE}={wanted!r}: this CPU does not have these instructions")


def is_available() -> bool:
    """Return whether the library is there."""
    return _LOADED.library is not None


def reason() -> str:
    """Return why the library is not there, and the cure; empty if it is."""
    return _LOADED.reason


def instructions() -> str | None:
    """Return the name of the instruction set in use, None without the library.

    Examples:
        >>> instructions() in (None, *INSTRUCTIONS)
        True
    """
    return _instructions


def _kernel(name: str) -> Any:
    if _LOADED.library is None:
        raise ImportError(f"this needs compiled kernels, and {_LOADED.reason}")
    return getattr(_LOADED.library, f"mpgd_{name}")


_instructions: str | None = None
if is_available():
    for _name in ("displace", "values", "round"):
        _kernel(_name).argtypes, _kernel(_name).restype = [_address], None
    select(os.environ.get(VARIABLE) or None)


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

    Examples:
        >>> from mpgd import ChaoticNoise
        >>> noise = ChaoticNoise(0.6)
        >>> state, out = noise.init(4, seed=1), torch.empty(2, 4, dtype=torch.float64)
        >>> advance(noise.driver, state.word, out, int(state.key), steps=2)  # doctest: +SKIP
        >>> torch.equal(out, noise.path(2, (4,), seed=1))  # doctest: +SKIP
        True
    """
    count = out.numel() // (1 if adds else max(1, steps))
    new = words if following is None else following
    if words is not None:
        for tensor in (words, new):
            _check_memory("words", tensor, (torch.int32,), count)
    _check_memory("out", out, (torch.float32, torch.float64), count * (1 if adds else steps))
    stream = (_at(words), _at(new), out.data_ptr(), count, 0, key)
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
    job = _Values(streams=table.ctypes.data, count=len(table), total=int(table[:, 3].sum()))
    job.driver = _constants(driver, 1.0)
    job.step, job.steps, job.stride, job.adds = step, steps, stride, adds
    job.wide = out.dtype == torch.float64
    run(_kernel("values"), job, SMALLEST_PART // max(1, steps))


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
    rounding: int | None = None,
    start: int = 0,
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
        rounding: round half types stochastically, with this number in the key of the random bits;
            None rounds to nearest. `mpgd.noise.stochastic_rounding.DRIVER` is the usual number.
        start: added to the step of a row for the key of these random bits.

    Examples:
        >>> from mpgd import ChaoticNoise
        >>> from mpgd.noise.counter_hash import make_key
        >>> noise, seed = ChaoticNoise(0.6), 1
        >>> tensors = [torch.zeros(3), torch.zeros(2, 2)]
        >>> rows = []
        >>> for number, x in enumerate(tensors):
        ...     states = [noise.init(x.shape, seed, tensor_id=number, driver_id=k) for k in (0, 1)]
        ...     rows.append(row_of(x, [s.word for s in states], make_key(seed, number), step=0))
        >>> both = Term(noise.driver, 0.1), Term(noise.driver, 0.2)
        >>> displace(rows, torch.float32, *both)  # doctest: +SKIP
        >>> v, _ = noise.step(noise.init((2, 2), seed, tensor_id=1, driver_id=1))
        >>> torch.equal(tensors[1], (0.2 * v).float())  # doctest: +SKIP
        True
    """
    table = np.ascontiguousarray(rows, dtype=np.int64)
    if len(table) == 0:
        return
    total = int(table[:, Row._fields.index("length")].sum())
    job = _Displacement(rows=table.ctypes.data, count=len(table), total=total)
    job.drivers[0], job.drivers[1] = (
        _Driver() if term is None else _constants(term.driver, term.level) for term in (m, n)
    )
    job.dtype, job.twins, job.start = DTYPES[dtype], twins, start
    job.rounding = 0 if rounding is None else rounding
    run(_kernel("displace"), job)


def _constants(driver: Driver | None, level: float) -> _Driver:
    """Return a driver's constants with its values times the level."""
    if driver is None:
        return _Driver(kind=_SHARED, c0=level)
    return _Driver(
        table=driver.returns.ascending.ctypes.data,
        kind=_NORMAL if driver.is_normal else _CHAOTIC,
        threshold=driver.threshold,
        product=NEGATIVE if driver.product else 0,
        largest=driver.largest,
        c0=level * driver.laminar_value,
        c1=level * driver.burst_value,
    )


# ---- rounding ------------------------------------------------------------------------------------


def round_halves(x: Tensor, dtype: torch.dtype, key: int, offset: int = 0) -> Tensor:
    """Return float32 numbers rounded to a half type, as `mpgd.noise.stochastic_rounding.rounded`.

    Args:
        x: float32, contiguous, on the CPU.
        dtype: bfloat16 or float16.
        key: of this step's random bits.
        offset: the index of the first element in the whole tensor.
    """
    _check_memory("x", x, (torch.float32,), x.numel())
    out = torch.empty_like(x, dtype=dtype)
    job = _Rounding(x=x.data_ptr(), out=out.data_ptr(), total=x.numel())
    job.key, job.offset, job.dtype = key % 2**64, offset, DTYPES[dtype]
    run(_kernel("round"), job)
    return out


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
