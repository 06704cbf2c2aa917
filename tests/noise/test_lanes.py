"""Eight states at a time give the bits of one at a time, on any CPU."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from mpgd import ChaoticNoise
from mpgd.maps.tables import LONGEST
from mpgd.noise.engines import fused, intrinsics

ODD = [0.0, 1.0, 0.5, 2.0**-60, 1 - 2.0**-53, 1 + 2.0**-52, LONGEST, 2 * LONGEST, 7.0]
ODD += [float("inf"), float("nan")]


def kernel(advance_block: Any) -> Any:
    """Return a compiled call of one way to advance a block."""

    @numba.njit
    def run(s: Any, out: Any, first: Any, key: Any, table: Any, rule: Any, values: Any) -> None:
        advance_block(s, out, fused.make_room(), first, key, table, rule, values)

    return run


ONE_BY_ONE, BY_LANES = kernel(fused.advance_one_by_one), kernel(fused.advance_by_lanes)


def states(count: int) -> Any:
    """Return stationary states with odd ones of both signs among them."""
    s = ChaoticNoise(0.6, 0.3).init((count,), seed=count).s.numpy()
    odd = np.array(ODD + [-x for x in ODD])[:count]
    s[: len(odd)] = odd
    return s


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("signs", ["fresh", "product"])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 63, 64, 65, 505, 511, 512])
def test_both_ways_have_the_same_bits(count: int, signs: str, dtype: Any) -> None:
    table, threshold, product, c0, c1 = fused.arguments(ChaoticNoise(0.6, 0.3, signs).driver)
    one, eight = states(count), states(count)
    values = [np.zeros(count, dtype) for _ in range(2)]
    for k in range(50):
        rest = (np.uint64(k * 512), np.uint64(2**63 + k), table, (threshold, product), (c0, c1))
        ONE_BY_ONE(one, values[0], *rest)
        BY_LANES(eight, values[1], *rest)
        assert np.array_equal(one.view(np.int64), eight.view(np.int64))
        assert np.array_equal(values[0].view(np.uint8), values[1].view(np.uint8))


def test_all_or_none_in_z() -> None:
    table, threshold, product, c0, c1 = fused.arguments(ChaoticNoise(0.7).driver)
    for s in (np.linspace(0.001, 0.999, 512), np.linspace(1.0, 900.0, 512)):
        one, eight, values = s.copy(), s.copy(), np.empty(512)
        rest = (np.uint64(0), np.uint64(5), table, (threshold, product), (c0, c1))
        ONE_BY_ONE(one, values, *rest)
        BY_LANES(eight, values, *rest)
        assert np.array_equal(one, eight)


@pytest.mark.parametrize(
    ("features", "expected"),
    [("", False), ("+avx2,+fma", False), ("+avx512f,+avx512dq,+avx512vl,+avx2", True)],
)
def test_the_way_follows_the_cpu(
    monkeypatch: pytest.MonkeyPatch, features: str, expected: bool
) -> None:
    monkeypatch.setattr(numba.config, "CPU_FEATURES", features)
    assert intrinsics.can_pack() is expected
