"""Parameters of all dtypes in one group; complex ones as pairs of real ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from mpgd import MPGD
from tests.optim.descents import LOUD, PATHS, VARIANTS, core, orbits, parameters
from tests.optim.workers import ORBITS, run, same_bits, set_gradients

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("variant", VARIANTS[:3], ids=str)
def test_all_dtypes_in_one_group(variant: dict[str, Any], path: dict[str, Any]) -> None:
    def mixed() -> list[nn.Parameter]:
        kinds = [*DTYPES, torch.complex64, torch.complex128]
        return [parameters([(9, 3)], dtype=kind)[0] for kind in kinds]

    optimizer, loop = (MPGD(mixed(), **{**LOUD, **variant, **p}) for p in (path, PATHS[0]))
    for k in range(5):
        half = optimizer.param_groups[0]["params"][2].detach().float()
        place = MPGD([*parameters([1, 1]), nn.Parameter(half)], **{**LOUD, **variant, **PATHS[0]})
        twin = place.param_groups[0]["params"][2]
        if k == 0:  # bfloat16 is float32 rounded once
            set_gradients(mixed(), k)
            set_gradients(optimizer.param_groups[0]["params"], k)
            twin.grad = optimizer.param_groups[0]["params"][2].grad.float()
            place.step()
        run(optimizer, 1, first=k)
        run(loop, 1, first=k)
        if k == 0:
            assert same_bits(
                optimizer.param_groups[0]["params"][2].detach(), twin.detach().bfloat16()
            )
    assert same_bits(core(optimizer), core(loop))
    for p in optimizer.param_groups[0]["params"]:
        for s in (v for name, v in optimizer.state[p].items() if name in ORBITS):
            assert s.dtype == torch.int32
            assert s.shape == ((*p.shape, 2) if p.is_complex() else p.shape)
        assert torch.isfinite(torch.view_as_real(p) if p.is_complex() else p).all()


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_complex_parameters_are_pairs_of_real_ones(path: dict[str, Any]) -> None:
    [z] = parameters([(6, 5)], torch.complex64)
    x = nn.Parameter(torch.view_as_real(z.detach()).clone())
    one, other = MPGD([z], **{**LOUD, **path}), MPGD([x], **{**LOUD, **path})
    for k in range(5):
        set_gradients([z], k)
        x.grad = torch.view_as_real(z.grad).clone()
        one.step()
        other.step()
    assert same_bits(torch.view_as_real(z.detach()), x.detach())
    assert same_bits(orbits(one), orbits(other))


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_a_conjugated_gradient_is_taken(path: dict[str, Any]) -> None:
    """Autograd hands over lazily conjugated gradients, and `torch.optim.SGD` takes them."""
    z, w = parameters([(6,), (6,)], torch.complex64)
    twin = nn.Parameter(z.detach().clone())
    (z.conj() * w.detach()).sum().real.backward()
    assert z.grad.is_conj()
    twin.grad = z.grad.resolve_conj()
    MPGD([z], **{**LOUD, **path}).step()
    MPGD([twin], **{**LOUD, **path}).step()
    assert same_bits(z.detach(), twin.detach())
