"""Every way through a block gives the words of the reference, on any CPU."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

import mpgd
from mpgd import ChaoticNoise
from mpgd.noise.counter_hash import hash_elements, signed, upper_bits
from mpgd.noise.memoryless import integers, normal_driver
from mpgd.noise.stochastic_rounding import RANDOM_BITS
from mpgd.noise.word import LONG, MAGNITUDE, ONE
from tests.noise.integer_reference import Reference

numba = pytest.importorskip("numba", reason="these need numba: pip install 'mpgd[fast]'")
fused = pytest.importorskip("mpgd.noise.engines.fused")
normals = pytest.importorskip("mpgd.noise.engines.normals")
packing = pytest.importorskip("mpgd.noise.engines.packing")
vectors = pytest.importorskip("mpgd.noise.engines.vectors")

ODD = [0, 1, ONE - 1, ONE, ONE + 1, LONG - ONE, LONG - 1, LONG, LONG + 1, MAGNITUDE]
HASWELL = "+avx2,+bmi,+bmi2,+fma,+lzcnt,+popcnt,+avx,+sse4.2,+sse4.1,+ssse3,+sse3"
AVX512 = HASWELL + ",+avx512f,+avx512dq,+avx512vl,+avx512cd,+avx512bw"


def kernel(advance_block: Any) -> Any:
    """Return a compiled call of one way to advance a block."""

    @numba.njit
    def run(words: Any, out: Any, first: Any, key: Any, table: Any, rule: Any, values: Any) -> None:
        advance_block(words, out, first, key, table, rule, values)

    return run


@fused.inlined
def one_by_one(words, out, first, key, table, rule, values):  # type: ignore[no-untyped-def]
    fused.advance_rest(words, out, 0, first, key, table, rule, values)


@pytest.fixture(scope="module")
def ways() -> dict[str, Any]:
    """Return all ways this CPU can go; packing by AVX-512 is compiled lane by lane elsewhere."""
    found = {"one by one": kernel(one_by_one), "listed": kernel(fused.advance_listed)}
    words, out = np.zeros(3, np.uint32), np.zeros(3, np.float32)
    arguments = (np.uint64(0), np.uint64(5), *split(ChaoticNoise(0.6)))
    with pytest.MonkeyPatch.context() as patch:
        for name, in_one in (("permuted", False), ("compressed", True)):
            if in_one or vectors.has_features("avx2"):
                patch.setattr(vectors, "PACKS_IN_ONE", in_one)
                found[name] = kernel(fused.advance_packed)
                for dtype in (np.float32, np.float64):
                    found[name](words, out.astype(dtype), *arguments)  # compiled under the patch
    return found


def split(noise: ChaoticNoise) -> tuple[Any, Any, Any]:
    """Return the table, the rule and the values of a noise."""
    table, *rule, c0, c1 = fused.arguments(noise.driver)
    return table, tuple(rule), (c0, c1)


def odd_words(count: int) -> Any:
    """Return stationary words with odd ones of both signs among them."""
    words = fused.flat(ChaoticNoise(0.6, 0.3).init((count,), seed=count).word).copy()
    odd = np.array([*ODD, *(n + 2**31 for n in ODD)], np.uint32)[:count]
    words[: len(odd)] = odd
    return words


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("signs", ["fresh", "product"])
@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 63, 64, 65, 500, 511, 512])
def test_all_ways_have_the_words_of_the_reference(
    count: int, signs: str, dtype: Any, ways: dict[str, Any]
) -> None:
    noise, reference = ChaoticNoise(0.6, 0.3, signs=signs), Reference(0.6, 0.3, signs)
    expected = odd_words(count)
    found = {name: (expected.copy(), np.zeros(count, dtype)) for name in ways}
    size = np.array([0, noise.laminar_value, noise.burst_value])
    for k in range(30):
        first, key = k * 512, 2**63 + k
        unit, expected = reference.step(expected, first + np.arange(count), key)
        for name, (words, values) in found.items():
            ways[name](words, values, np.uint64(first), np.uint64(key), *split(noise))
            assert np.array_equal(words, expected), name
            assert np.array_equal(values, (size[np.abs(unit)] * np.sign(unit)).astype(dtype)), name


@pytest.mark.parametrize("longest", [1, 5, 4095, 4096])
def test_all_ways_cut_phases_alike(longest: int, ways: dict[str, Any]) -> None:
    """From words in Z that lead to long phases; without the cut they go elsewhere."""
    start = np.linspace(1, ONE - 1, 512).astype(np.uint32)
    start[:256] = np.arange(1, 257)  # s near 1 - 2^-18, where phases are longest
    cut = Reference(0.95, longest=longest).step(ONE - start, np.arange(512), 5)[1]
    free = Reference(0.95).step(ONE - start, np.arange(512), 5)[1]
    assert not np.array_equal(cut, free)
    for name, way in ways.items():
        words = (ONE - start).astype(np.uint32)
        noise = ChaoticNoise(0.95, longest=longest)
        way(words, np.empty(512), np.uint64(0), np.uint64(5), *split(noise))
        assert np.array_equal(words, cut), name


@pytest.mark.parametrize("first", [2**32 - 513, 2**32 - 512, 2**32 - 511, 2**32 - 1, 5 * 2**32])
def test_indices_may_pass_two_to_the_32(first: int, ways: dict[str, Any]) -> None:
    """A vector takes the upper half of all its indices from the first of its block."""
    start = np.linspace(1, ONE - 1, 512).astype(np.uint32)
    expected = Reference(0.7).step(start, first + np.arange(512), 5)[1]
    for name, way in ways.items():
        words = start.copy()
        way(words, np.empty(512), np.uint64(first), np.uint64(5), *split(ChaoticNoise(0.7)))
        assert np.array_equal(words, expected), name


@pytest.mark.parametrize("first", [2**32 - 24, 2**32 - 20, 2**32])
def test_normal_numbers_and_bits_do_so_too(first: int) -> None:
    driver, key, index = normal_driver(1.0), 2**63 + 11, first + torch.arange(29)

    @numba.njit
    def run(out: Any, random: Any, first: Any, key: Any, table: Any, unit: float) -> None:
        normals.write_normals(out, first, key, table, unit)
        packing.draw_bits(random, first, key)

    out, random = np.empty(29), np.empty(29, np.uint32)
    run(out, random, np.uint64(first), np.uint64(key), driver.table, 1.0)
    assert np.array_equal(out, integers(index, signed(key)).numpy())
    expected = upper_bits(hash_elements(index, signed(key)), RANDOM_BITS)
    assert np.array_equal(random, expected.numpy())


@pytest.mark.parametrize("inside", [True, False])
def test_all_or_none_in_Z(inside: bool, ways: dict[str, Any]) -> None:
    start = np.linspace(1, ONE - 1, 512) if inside else np.linspace(ONE, 900 * ONE, 512)
    expected = Reference(0.7).step(start.astype(np.uint32), np.arange(512), 5)[1]
    for name, way in ways.items():
        words = start.astype(np.uint32)
        way(words, np.empty(512), np.uint64(0), np.uint64(5), *split(ChaoticNoise(0.7)))
        assert np.array_equal(words, expected), name


@pytest.mark.parametrize(
    ("features", "expected"), [("", False), ("+avx,+fma", False), ("+avx2", True), (AVX512, True)]
)
def test_the_way_follows_the_cpu(
    monkeypatch: pytest.MonkeyPatch, features: str, expected: bool
) -> None:
    monkeypatch.setattr(numba.config, "CPU_FEATURES", features)
    assert vectors.has_features("avx2") is expected
    assert vectors.has_features("avx512f", "avx512vl") is (features == AVX512)


def test_a_lane_order_lists_the_lanes_of_its_mask() -> None:
    assert vectors.order(0b1010_0001) == 0x07_05_00
    assert vectors.order(0) == 0
    assert vectors.order(255) == 0x07_06_05_04_03_02_01_00


def in_process(code: str, cpu: str, features: str, folder: Any) -> str:
    """Return what a new process prints whose numba compiles for another CPU."""
    own = {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": str(folder)}
    path = os.pathsep.join([os.path.dirname(os.path.dirname(mpgd.__file__)), os.getcwd()])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | own | {"PYTHONPATH": path},
    )
    return done.stdout.strip()


def digest() -> str:
    """Return a digest of words and values after 40 steps, both sign rules, and phases cut."""
    whole = hashlib.sha256()
    for signs, longest in (("fresh", None), ("product", None), ("fresh", 7), ("product", 4100)):
        noise = ChaoticNoise(0.6, 0.3, signs, engine="numba", longest=longest)
        state = noise.init(5003, seed=3)
        for _ in range(40):
            value, state = noise.step(state)
        whole.update(state.word.numpy().tobytes() + value.numpy().tobytes())
    return whole.hexdigest()


@pytest.mark.parametrize(
    ("cpu", "features", "way"),
    [("haswell", HASWELL, "advance_packed"), ("generic", "", "advance_listed")],
)
def test_another_cpu_gives_the_same_words(cpu: str, features: str, way: str, tmp_path: Any) -> None:
    if not vectors.has_features(*features.replace("+", "").split(",")) and features:
        pytest.skip(f"this CPU cannot run code for {cpu}")
    code = (
        "from tests.noise.test_lanes import digest, fused; "
        "print(fused.advance_block.py_func.__name__, digest())"
    )
    assert in_process(code, cpu, features, tmp_path).split() == [way, digest()]


def test_avx512_packs_in_one_instruction(tmp_path: Any) -> None:
    """Compiled, not run: this CPU may not have it. Elsewhere the instruction does not appear."""
    code = (
        "from mpgd.noise.engines import fused; from numba import types as t; "
        "u32, f32, u64 = t.uint32[::1], t.float32[::1], t.uint64; "
        "a = (u32, f32, t.int64, u64, u64[::1], u64, u64, u64, t.float64, t.float64); "
        "fused.advance_values.compile(a); "
        "text, = fused.advance_values.inspect_asm().values(); "
        "print(text.count('vpcompressd'), text.count('vpermd'))"
    )
    packed, permuted = in_process(code, "skylake-avx512", AVX512, tmp_path / "a").split()
    assert int(packed) > 0
    packed, permuted = in_process(code, "haswell", HASWELL, tmp_path / "b").split()
    assert int(packed) == 0 < int(permuted)
