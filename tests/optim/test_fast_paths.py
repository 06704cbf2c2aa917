"""Every engine gives the bits of plain torch operations, for every layout, dtype and variant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mpgd import ChaoticNoise, GaussianNoise, StableNoise
from tests.optim.descents import (
    KERNELS,
    KINDS,
    PATHS,
    VARIANTS,
    core,
    ends,
    flat,
    made,
    orbits,
    parameters,
)
from tests.optim.workers import ORBITS, bits, run, same_bits, set_gradients

SIZES = [1, 7, 24, 1000, 1025, 1_000_000]
SMALL: list[Any] = [*SIZES[:-1], (), (0,), (3, 0, 2), (4, 5, 6)]
NOISES: list[dict[str, Any]] = [
    {"noise": GaussianNoise(), "symmetric": True},
    {"noise": StableNoise(1.6, 0.5), "symmetric": True},
    {"noise": (GaussianNoise(), ChaoticNoise(0.7))},
]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("variant", VARIANTS + NOISES, ids=str)
def test_the_engines_agree(variant: dict[str, Any], dtype: torch.dtype) -> None:
    expected = ends(SMALL, {**variant, **PATHS[0]}, 5, dtype=dtype)
    for path in PATHS[1:]:
        assert same_bits(ends(SMALL, {**variant, **path}, 5, dtype=dtype), expected)


@pytest.mark.parametrize(("variant", "steps"), [({}, 2), (VARIANTS[3], 1)], ids=str)
def test_the_engines_agree_at_a_million(variant: dict[str, Any], steps: int) -> None:
    expected = ends(SIZES[-1:], {**variant, **PATHS[0]}, steps)
    assert same_bits(ends(SIZES[-1:], {**variant, **KERNELS}, steps), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_they_agree_on_parameters_of_all_dtypes_in_one_group(kind: str) -> None:
    """Orbits are words of 32 bits, one for each real number."""

    def run_mixed(path: dict[str, Any]) -> Any:
        mixed = [parameters([(9, 3)], dtype)[0] for dtype in (*DTYPES, torch.complex128)]
        optimizer = made(kind, mixed, **path)
        run(optimizer, 5)
        return optimizer

    optimizers = [run_mixed(path) for path in PATHS]
    assert all(same_bits(core(each), core(optimizers[0])) for each in optimizers)
    for k, p in enumerate(flat(optimizers[0])):
        for words in orbits(optimizers[0], k).values():
            assert words.dtype == torch.int32
            assert words.shape == ((*p.shape, 2) if p.is_complex() else p.shape)
        assert torch.isfinite(torch.view_as_real(p) if p.is_complex() else p).all()


def test_the_bits_do_not_depend_on_the_number_of_threads() -> None:
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(ends([150_001], KERNELS, 3))
    assert all(same_bits(each, found[0]) for each in found)


def test_one_changed_coefficient_shows() -> None:
    """Twin of all comparisons above: one bit of one row of the kernels' table."""
    expected = ends([1025], PATHS[0], 30)
    assert same_bits(ends([1025], KERNELS, 30), expected)
    table = ChaoticNoise(0.6, 0.5).driver.returns.ascending
    place = (-1, 40, 0)  # c0 of a row in the octave where half of all visits are
    kept = table[place]
    table[place] = kept + np.uint64(1 << 18)
    try:
        changed = ends([1025], KERNELS, 30)
    finally:
        table[place] = kept
    assert not same_bits(changed["state"], expected["state"])
    assert not same_bits(changed["parameters"], expected["parameters"])


LAYOUTS: dict[str, Any] = {
    "transposed": lambda x: x.t().contiguous().t(),
    "strided": lambda x: torch.stack([x, x], dim=-1)[..., 0],
    "part of a row": lambda x: torch.cat([x, x], dim=1)[:, : x.shape[1]],
    "expanded gradient": None,
}


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_parameters_and_gradients_need_not_be_contiguous(layout: str, path: dict[str, Any]) -> None:
    change = LAYOUTS[layout] or LAYOUTS["transposed"]
    [x] = parameters([(12, 50)])
    y = nn.Parameter(change(x.detach().clone()))
    one, other = made("mpgd", [x], **path), made("mpgd", [y], **path)
    assert not y.is_contiguous()
    for k in range(4):
        set_gradients([x], k)
        if LAYOUTS[layout] is None:
            x.grad = x.grad[:, :1].expand(12, 50)
        y.grad = change(x.grad) if k % 2 else x.grad.clone()
        one.step()
        other.step()
        assert same_bits(core(one), core(other))


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_complex_parameters_are_pairs_of_real_ones(path: dict[str, Any]) -> None:
    [z] = parameters([(6, 5)], torch.complex64)
    x = nn.Parameter(torch.view_as_real(z.detach()).clone())
    one, other = made("mpgd", [z], **path), made("mpgd", [x], **path)
    for k in range(5):
        set_gradients([z], k)
        x.grad = torch.view_as_real(z.grad).clone()
        if k == 3:  # autograd hands over gradients that are conjugated lazily
            z.grad = z.grad.conj().resolve_conj().conj()
        one.step()
        other.step()
    torch.testing.assert_close(torch.view_as_real(z.detach()), x.detach())  # torch's step rounds
    assert same_bits(orbits(one), orbits(other))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_orbits_go_on_when_the_model_is_cast(dtype: torch.dtype) -> None:
    optimizer, twin = (made("mpgd", [nn.Parameter(torch.ones(40))]) for _ in range(2))
    for each in (optimizer, twin):
        run(each, 2)
    flat(optimizer)[0].data = flat(optimizer)[0].data.to(dtype)
    for each in (optimizer, twin):
        flat(each)[0].grad = None
        run(each, 2, first=2)
    assert flat(optimizer)[0].dtype == dtype
    assert same_bits(orbits(optimizer), orbits(twin))
    assert orbits(optimizer).keys() == set(ORBITS[:2])


def test_bits_tell_minus_zero_from_zero() -> None:
    """Twin of every comparison in bits."""
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not same_bits(torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64))
    assert same_bits(torch.tensor([float("nan")]), torch.tensor([float("nan")]))
    assert len(bits(torch.zeros(3))) == 12
