"""Every instruction set gives the words and values of the reference, whatever the words are."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import mpgd
from mpgd import ChaoticNoise, GaussianNoise
from mpgd.noise.counter_hash import hash_elements, make_key, step_key, upper_bits
from mpgd.noise.driver import Driver
from mpgd.noise.engines import cpu
from mpgd.noise.engines.cpu import Slot
from mpgd.noise.memoryless import integers, normal_driver
from mpgd.noise.stochastic_round import rounded
from mpgd.noise.word import LONG, MAGNITUDE, ONE
from tests.noise.integer_reference import Reference

pytestmark = pytest.mark.skipif(not cpu.is_available(), reason="needs kernels, a C compiler")

ODD = [0, 1, ONE - 1, ONE, ONE + 1, LONG - ONE, LONG - 1, LONG, LONG + 1, MAGNITUDE]
COUNTS = [0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 63, 64, 65, 500, 511, 512, 513, 1030]
Words = NDArray[np.uint32]


def instruction_sets() -> list[str]:
    """Return those that this CPU has."""
    found = []
    before = cpu.instructions()
    for name in cpu.INSTRUCTIONS if cpu.is_available() else ():
        try:
            found.append(cpu.select(name))
        except ValueError:
            continue
    if before:
        cpu.select(before)
    return found


@pytest.fixture(params=instruction_sets(), autouse=True)
def instructions(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a test once for each instruction set."""
    before = cpu.instructions()
    yield cpu.select(request.param)
    cpu.select(before)


def odd_words(count: int) -> Words:
    """Return stationary words with odd ones of both signs among them."""
    words = ChaoticNoise(0.6, 0.3).init((count,), seed=count).word.numpy().view(np.uint32).copy()
    odd = np.array([*ODD, *(n + 2**31 for n in ODD)], np.uint32)[:count]
    words[: len(odd)] = odd
    return words


def advance(
    driver: Driver, words: Words, key: int, step: int = 0, offset: int = 0, dtype: Any = np.float64
) -> NDArray[Any]:
    """Return the values of words from the index ``offset`` on, and advance them in place."""
    values = torch.from_numpy(np.zeros(len(words), dtype))
    at = words.ctypes.data
    cpu._run_values(
        driver, [(at, at, values.data_ptr(), len(words), offset, key)], values, step, 1, 0, False
    )
    return values.numpy()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("signs", ["fresh", "product"])
@pytest.mark.parametrize("count", COUNTS)
def test_words_and_values_are_those_of_the_reference(count: int, signs: str, dtype: Any) -> None:
    noise, reference = ChaoticNoise(0.6, 0.3, signs=signs), Reference(0.6, 0.3, signs)
    expected = odd_words(count)
    words = expected.copy()
    size = np.array([0, noise.laminar_value, noise.burst_value])
    for k in range(30):
        first, key = k * 512, -(2**62) + k
        unit, expected = reference.step(expected, first + np.arange(count), step_key(key, k))
        values = advance(noise.driver, words, key, k, first, dtype)
        assert np.array_equal(words, expected)
        assert np.array_equal(values, (size[np.abs(unit)] * np.sign(unit)).astype(dtype))


@pytest.mark.parametrize("longest", [1, 5, 4095, 4096])
def test_phases_are_cut_at_the_longest(longest: int) -> None:
    """From words in Z that lead to long phases; without the cut they go elsewhere."""
    start = np.linspace(1, ONE - 1, 512).astype(np.uint32)
    start[:256] = np.arange(1, 257)  # s near 1 - 2^-18, where phases are longest
    key = step_key(5, 0)
    cut = Reference(0.95, longest=longest).step(ONE - start, np.arange(512), key)[1]
    free = Reference(0.95).step(ONE - start, np.arange(512), key)[1]
    assert not np.array_equal(cut, free)
    words = (ONE - start).astype(np.uint32)
    advance(ChaoticNoise(0.95, longest=longest).driver, words, 5)
    assert np.array_equal(words, cut)


@pytest.mark.parametrize("gamma", [0.52, 0.75, 0.99])
def test_rare_cases_are_right_alone_and_among_others(gamma: float) -> None:
    """Vectors leave out unknown fractions and long phases, and do a block again that met one.

    U near 0 leads to long phases; f = 0 is an unknown fraction; both in blocks that have no other.
    """
    reference, driver = Reference(gamma), ChaoticNoise(gamma).driver
    usual = np.full(512, ONE // 2, np.uint32)
    for place, rare in ((3, 0), (77, ONE - 1), (511, 0), (0, ONE - 1), (200, 2**31), (5, ONE // 2)):
        start = usual.copy()
        start[place] = rare
        words = start.copy()
        for k in range(20):
            start = reference.step(start, np.arange(512), step_key(9, k))[1]
            advance(driver, words, 9, k)
            assert np.array_equal(words, start)


@pytest.mark.parametrize("first", [2**32 - 513, 2**32 - 512, 2**32 - 511, 2**32 - 1, 5 * 2**32])
def test_indices_may_pass_two_to_the_32(first: int) -> None:
    """A vector takes the upper half of all its indices from the first of its block."""
    words = np.linspace(1, ONE - 1, 512).astype(np.uint32)
    expected = Reference(0.7).step(words, first + np.arange(512), step_key(5, 0))[1]
    advance(ChaoticNoise(0.7).driver, words, 5, offset=first)
    assert np.array_equal(words, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("first", [0, 2**32 - 24, 2**32 - 20, 2**32])
def test_normal_numbers_are_those_of_the_reference(first: int, dtype: Any) -> None:
    driver, index = normal_driver(1.7), first + torch.arange(1029)
    values = torch.from_numpy(np.zeros(1029, dtype))
    stream = (0, 0, values.data_ptr(), 1029, first, -77)
    cpu._run_values(driver, [stream], values, 3, 1, 0, False)
    expected = integers(index, step_key(-77, 3)).to(values.dtype)
    unit = torch.tensor(driver.laminar_value, dtype=values.dtype)
    assert torch.equal(values, expected * unit)


def test_gaussian_noise_has_the_bits_of_its_draws() -> None:
    noise = GaussianNoise(2.5)
    state = noise.init((7, 80), seed=3)
    for k in range(3):
        value, state = noise.step(state)
        assert torch.equal(
            value, noise.draw(torch.arange(560).view(7, 80), step_key(make_key(3, 0, 0), k))
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("offset", [0, 5, 2**32 - 700, 2**32])
def test_numbers_are_rounded_as_by_the_reference(offset: int, dtype: torch.dtype) -> None:
    """All exponents, and the patterns of infinity, NaN, zeros and the smallest numbers."""
    bits = np.random.default_rng(1).integers(0, 2**32, 5003, dtype=np.uint32)
    special = [0, 1, 0x7F800000, 0x7F7FFFFF, 0x477FEFFF, 0x477FF000, 0x33000000, 0x32FFFFFF]
    bits[: 2 * len(special)] = [*special, *(b | 2**31 for b in special)]
    x = torch.from_numpy(bits.view(np.float32))
    x = x[~x.isnan()]
    h = hash_elements(offset + torch.arange(len(x)), 77)
    salts = (0, 1, 2**32 - 1, 77, 5)
    outs = [torch.empty(len(x), dtype=dtype) for _ in salts]
    cpu.RoundingJob(
        [([Slot(x, out, s) for out, s in zip(outs, salts, strict=True)], 77, offset)]
    ).run()
    for out, salt in zip(outs, salts, strict=True):
        expected = rounded(x, h, dtype, salt).view(torch.int16)
        assert torch.equal(out.view(torch.int16), expected)
    others = [torch.empty(len(x), dtype=d) for d in (torch.bfloat16, torch.float16)]  # in one row
    cpu.RoundingJob([([Slot(x, out, 5) for out in others], 77, offset)]).run()
    for out in others:
        expected = rounded(x, h, out.dtype, 5).view(torch.int16)
        assert torch.equal(out.view(torch.int16), expected)
    cpu.RoundingJob([([Slot(torch.full((9,), torch.nan), outs[0][:9])], 77, 0)]).run()
    assert outs[0][:9].isnan().all()
    assert int(upper_bits(h, 31).max()) > 2**30  # the random bits are there


@pytest.mark.parametrize("inside", [True, False])
def test_all_or_none_in_Z(inside: bool) -> None:
    start = np.linspace(1, ONE - 1, 512) if inside else np.linspace(ONE, 900 * ONE, 512)
    words = start.astype(np.uint32)
    expected = Reference(0.7).step(words, np.arange(512), step_key(5, 0))[1]
    advance(ChaoticNoise(0.7).driver, words, 5)
    assert np.array_equal(words, expected)


def test_many_tensors_advance_as_each_alone() -> None:
    driver, sizes, keys = ChaoticNoise(0.6).driver, [700, 1, 0, 33], [5, -6, 7, 8]
    words = odd_words(sum(sizes))
    expected, values = words.copy(), torch.zeros(sum(sizes), dtype=torch.float64)
    cpu.advance_tensors(driver, torch.from_numpy(words.view(np.int32)), values, sizes, keys, 4)
    first = 0
    for size, key in zip(sizes, keys, strict=True):
        part = slice(first, first + size)
        own = expected[part].copy()
        assert np.array_equal(values.numpy()[part], advance(driver, own, key, 4))
        assert np.array_equal(words[part], own)
        first += size


def digest() -> str:
    """Return a digest of words and values after 40 steps, both sign rules, and phases cut."""
    whole = hashlib.sha256()
    for signs, longest in (("fresh", None), ("product", None), ("fresh", 7), ("product", 4100)):
        noise = ChaoticNoise(0.6, 0.3, signs=signs, engine="cpu", longest=longest)
        state = noise.init(5003, seed=3)
        for _ in range(40):
            value, state = noise.step(state)
        whole.update(state.word.numpy().tobytes() + value.numpy().tobytes())
    return whole.hexdigest()


def in_process(code: str, wanted: str) -> subprocess.CompletedProcess[str]:
    """Run a new process with ``MPGD_CPU`` set."""
    path = os.pathsep.join([os.path.dirname(os.path.dirname(mpgd.__file__)), os.getcwd()])
    environment = os.environ | {"PYTHONPATH": path, "MPGD_CPU": wanted}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )


def test_the_environment_chooses_the_instructions(instructions: str) -> None:
    code = (
        "from tests.noise.test_kernels import digest, cpu; from mpgd import ChaoticNoise; "
        "print(cpu.instructions(), digest())"
    )
    assert in_process(code, instructions).stdout.split() == [instructions, digest()]


def test_unknown_instructions_are_refused() -> None:
    shown = in_process("import mpgd.noise", "mmx").stderr
    assert "ValueError: MPGD_CPU must be one of scalar, lanes, avx2, got 'mmx'" in shown


@pytest.mark.parametrize(
    ("words", "out", "what"),
    [
        (torch.zeros(3, dtype=torch.int64), torch.zeros(3), "words must be .* torch.int32 .* got"),
        (torch.zeros(4, dtype=torch.int32), torch.zeros(3), "words must be .* of 3 torch.int32"),
        (torch.zeros(6, dtype=torch.int32)[::2], torch.zeros(3), "words .* with strides"),
        (torch.zeros(3, dtype=torch.int32), torch.zeros(3).half(), "out must be .* torch.float32"),
    ],
)
def test_memory_that_a_kernel_would_misread_is_refused(
    words: torch.Tensor, out: torch.Tensor, what: str
) -> None:
    with pytest.raises(ValueError, match=what):
        cpu.advance(ChaoticNoise(0.6).driver, words, out, 5)
