"""x <- (x - m x) + n by the kernels has the bits of torch operations in that order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mpgd import ChaoticNoise
from mpgd.noise.counter_hash import extend_key, make_key, step_key
from mpgd.noise.driver import Driver
from mpgd.noise.engines import cpu, tensor
from mpgd.noise.engines.cpu import Row, Term, displace, row_of
from mpgd.noise.memoryless import integers, normal_driver
from tests.noise.test_kernels import instruction_sets

pytestmark = pytest.mark.skipif(not cpu.is_available(), reason="needs kernels, a C compiler")

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
STEP = 6
CHAOTIC, OTHER = ChaoticNoise(0.6, 0.5).driver, ChaoticNoise(0.9, -0.3, signs="product").driver
NORMAL = normal_driver(1.7)
TERMS = {
    "both": (Term(CHAOTIC, 0.01), Term(OTHER, 0.02)),
    "m": (Term(CHAOTIC, 0.01), None),
    "n": (None, Term(OTHER, 0.02)),
    "shared": (Term(None, 0.0123), Term(OTHER, 0.02)),
    "shared alone": (Term(None, -0.5), None),
    "normal": (Term(NORMAL, 0.01), Term(NORMAL, 0.02)),
    "normal and chaotic": (Term(NORMAL, 0.01), Term(OTHER, 0.02)),
    "none": (None, None),
}


@pytest.fixture(params=instruction_sets(), autouse=True)
def _instructions(request: pytest.FixtureRequest) -> Iterator[None]:
    before = cpu.instructions()
    cpu.select(request.param)
    yield
    cpu.select(before)


@dataclass
class Case:
    """A tensor, its drivers' words, its key, and where it begins in the whole tensor."""

    x: Tensor
    words: list[Tensor]
    key: int
    offset: int

    def copy(self) -> Case:
        """Return the same numbers in memory of their own."""
        words = [words.clone() for words in self.words]
        return Case(self.x.clone(), words, self.key, self.offset)

    def row(self) -> Row:
        """Return the tensor as the kernel sees it."""
        return row_of(self.x, self.words, self.key, STEP, self.offset)


def make(count: int, dtype: torch.dtype, ordinal: int = 0, offset: int = 0) -> Case:
    """Return numbers of all sizes, zeros and infinities among them, and stationary words."""
    generator = torch.Generator().manual_seed(count)
    x = torch.randn(count, generator=generator, dtype=torch.float64)
    x *= 2.0 ** torch.randint(-20, 12, (count,), generator=generator)
    x[:4] = torch.tensor([0.0, -0.0, torch.inf, -torch.inf])[:count]
    noises = [ChaoticNoise(0.6, 0.5), ChaoticNoise(0.9, -0.3, signs="product")] * 2
    words = [
        noise.init(count, 7, tensor_id=ordinal, driver_id=k).word for k, noise in enumerate(noises)
    ]
    return Case(x.to(dtype), words, make_key(7, ordinal), offset)


def value(driver: Driver, case: Case, number: int, level: float, dtype: torch.dtype) -> Tensor:
    """Return level times the values of one driver, and advance its words, by torch operations."""
    key = step_key(extend_key(case.key, number), STEP)
    index = case.offset + torch.arange(len(case.x))
    c0, c1 = level * driver.laminar_value, level * driver.burst_value
    if driver.is_normal:
        return integers(index, key).to(dtype) * torch.tensor(c0, dtype=dtype)
    v, following = tensor.advance(
        driver, case.words[number], key, index, values=(c0, c1), dtype=dtype
    )
    case.words[number].copy_(following)
    return v


def expected(case: Case, m: Any, n: Any, twins: bool) -> Case:
    """Return the case after the displacement, by torch operations."""
    case = case.copy()
    wide = torch.float64 if case.x.dtype == torch.float64 else torch.float32
    y = case.x.to(wide)
    for number, term in ((0, m), (1, n)):
        if term is None:
            continue
        if term.driver is None:
            v = torch.tensor(term.level, dtype=wide)
        else:
            v = value(term.driver, case, number, term.level, wide)
            if twins:
                v = v - value(term.driver, case, number + 2, term.level, wide)
        y = y - v * y if number == 0 else y + v
    case.x = y.to(case.x.dtype)
    return case


def same(found: Case, wanted: Case) -> bool:
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[found.x.element_size()]
    numbers = ~wanted.x.isnan()  # of a NaN only that it is one
    equal = torch.equal(found.x.view(bits)[numbers], wanted.x.view(bits)[numbers])
    words = zip(found.words, wanted.words, strict=True)
    return equal and bool(found.x[~numbers].isnan().all()) and all(torch.equal(*w) for w in words)


@pytest.mark.parametrize("twins", [False, True])
@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_bits_are_those_of_torch_operations(dtype: torch.dtype, name: str, twins: bool) -> None:
    m, n = TERMS[name]
    for count, offset in ((1, 0), (517, 2**32 - 300), (1040, 3)):
        case = make(count, dtype, offset=offset)
        wanted = expected(case, m, n, twins)
        displace([case.row()], dtype, m, n, twins=twins)
        assert same(case, wanted)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_many_tensors_in_one_call_are_displaced_as_each_alone(threads: int) -> None:
    m, n = TERMS["both"]
    sizes = [700, 500, 0, 1, 70_000, 3, 40_001]
    cases = [make(size, torch.float32, ordinal) for ordinal, size in enumerate(sizes)]
    wanted = [expected(case, m, n, False) for case in cases]
    torch.set_num_threads(threads)
    displace([case.row() for case in cases], torch.float32, m, n)
    assert all(map(same, cases, wanted))


def test_parts_of_a_tensor_are_displaced_as_the_whole() -> None:
    m, n = TERMS["both"]
    whole = make(5000, torch.float32)
    parts, cuts = whole.copy(), [0, 13, 512, 3000, 5000]
    rows = []
    for first, last in pairwise(cuts):
        words = [words[first:last] for words in parts.words]
        rows.append(row_of(parts.x[first:last], words, parts.key, STEP, first))
    displace(rows, torch.float32, m, n)
    displace([whole.row()], torch.float32, m, n)
    assert same(parts, whole)


def test_a_table_of_rows_can_be_kept() -> None:
    """Only the column of steps changes."""
    m, n = TERMS["both"]
    case, other = make(600, torch.float32), make(600, torch.float32)
    table = np.array([case.row()], dtype=np.int64)
    for k in range(3):
        displace(table, torch.float32, m, n)
        displace([other.row()._replace(step=STEP + k)], torch.float32, m, n)
        table[:, Row._fields.index("step")] += 1
    assert same(case, other)


def test_nothing_to_displace() -> None:
    displace([], torch.float32, *TERMS["both"])


def test_a_changed_level_shows() -> None:
    """Twin of the comparisons: one place of the last digit of a level is enough."""
    m, n = TERMS["both"]
    case = make(3000, torch.float64)
    wanted = expected(case, m, Term(OTHER, 0.02 + 2**-58), False)
    displace([case.row()], torch.float64, m, n)
    assert not same(case, wanted)


@pytest.mark.parametrize(
    ("x", "words", "what"),
    [
        (torch.zeros(4)[::2], torch.zeros(2, dtype=torch.int32), "x must be a contiguous tensor"),
        (torch.zeros(2, dtype=torch.int32), torch.zeros(2, dtype=torch.int32), "x must be .* got"),
        (torch.zeros(2), torch.zeros(3, dtype=torch.int32), "words must be .* of 2 torch.int32"),
        (torch.zeros(2), torch.zeros(2), "words must be .* of 2 torch.int32"),
        (torch.zeros(2, device="meta"), torch.zeros(2, dtype=torch.int32), "on the CPU, got"),
    ],
)
def test_memory_that_the_kernel_would_misread_is_refused(
    x: Tensor, words: Tensor, what: str
) -> None:
    with pytest.raises(ValueError, match=what):
        row_of(x, [words], key=5, step=0)


def test_memory_that_was_given_back_is_refused() -> None:
    x = torch.zeros(5)
    x.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match=r"x of shape \(5,\) has no memory any more"):
        row_of(x, [], key=5, step=0)
