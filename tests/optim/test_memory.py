"""The kernels take raw addresses: whatever happens to a tensor, they touch no other memory."""

from __future__ import annotations

import copy
import io
import time

import numpy as np
import pytest
import torch
from torch import nn

from mpgd import MPGD, perturb
from mpgd.noise.engines import threads


def made(size: int = 8, **settings: object) -> tuple[nn.Parameter, MPGD]:
    p = nn.Parameter(torch.zeros(size))
    p.grad = torch.zeros(size)
    return p, MPGD([p], lr=0.1, mu=0.01, sigma=0.01, **settings)


def test_orbits_of_another_size_are_refused() -> None:
    p, optimizer = made(engine="cpu")
    p.grad = None
    p.data = torch.zeros(64)
    p.grad = torch.zeros(64)
    with pytest.raises(RuntimeError, match=r"multiplicative of a parameter of shape \(64,\) must"):
        optimizer.step()


def test_a_gradient_of_another_size_is_refused() -> None:
    p, optimizer = made(engine="cpu")
    p.data = torch.zeros(16)
    with pytest.raises(RuntimeError, match=r"gradient of a parameter of shape \(16,\) must"):
        optimizer.step()


def test_an_orbit_of_another_dtype_is_refused() -> None:
    p, optimizer = made(engine="cpu")
    optimizer.state[p]["additive"] = optimizer.state[p]["additive"].float()
    with pytest.raises(RuntimeError, match=r"contiguous torch.int32 tensor .* got torch.float32"):
        optimizer.step()


def test_a_parameter_that_changed_its_dtype_goes_on_as_with_torch_operations() -> None:
    ends = []
    for engine in ("torch", "cpu"):
        p, optimizer = made(engine=engine)
        p.grad.fill_(1.0)
        p.data = p.data.double()  # the gradient stays float32
        optimizer.step()
        ends.append(p.detach().clone())
    assert torch.equal(*ends)


def test_a_lazily_negated_gradient_keeps_its_sign() -> None:
    for engine in ("torch", "cpu"):
        p = nn.Parameter(torch.zeros(()))
        p.grad = torch.tensor(1j).conj().imag  # -1, as a view with the negative bit
        MPGD([p], lr=0.1, sigma=1e-9, engine=engine).step()
        assert float(p.detach()) == pytest.approx(0.1)


def test_a_conjugated_parameter_is_refused() -> None:
    p = nn.Parameter(torch.ones(4, dtype=torch.complex64).conj())
    with pytest.raises(ValueError, match="must own its memory"):
        MPGD([p], lr=0.1, mu=0.1)


def test_a_state_with_unused_orbits_of_another_size_is_refused() -> None:
    _, optimizer = made(8)
    optimizer.param_groups[0].update(mu=0.0, sigma=0.0)
    saved = copy.deepcopy(optimizer.state_dict())
    _, other = made(4096)
    with pytest.raises(ValueError, match=r"'additive' of parameter 0 must have shape \(4096,\)"):
        other.load_state_dict(saved)


def test_autograd_notices_the_update() -> None:
    for wrap in (False, True):
        w = nn.Parameter(torch.ones(2))
        w.grad = torch.ones(2)
        if wrap:
            optimizer = perturb(torch.optim.SGD([w], lr=0.1), sigma=0.1, engine="cpu")
        else:
            optimizer = MPGD([w], lr=0.1, sigma=0.1, engine="cpu")
        loss = (w**2).sum()
        optimizer.step()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_parts_never_outlive_the_call() -> None:
    """After Ctrl-C in one part the caller frees memory that the others use."""
    torch.set_num_threads(4)
    done = []

    def run(first: int, last: int) -> None:
        if first == 0:
            raise KeyboardInterrupt
        time.sleep(0.1)
        done.append(first)

    with pytest.raises(KeyboardInterrupt):
        threads.in_parts(4 * threads.SMALLEST_PART, run)
    assert len(done) == 3


def test_numpy_numbers_become_plain_ones() -> None:
    _, optimizer = made(seed=np.int64(3), gamma=np.float64(0.6), start=np.int32(1))
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    assert torch.load(file, weights_only=True)["param_groups"][0]["gamma"] == 0.6


@pytest.mark.parametrize(("name", "value"), [("lr", -0.1), ("mu", -1.0), ("sigma", float("nan"))])
def test_a_setting_made_wrong_later_is_refused(name: str, value: float) -> None:
    p, optimizer = made()
    optimizer.param_groups[0][name] = value
    with pytest.raises(ValueError, match=f"{name} must lie in"):
        optimizer.step()
    assert torch.equal(p.detach(), torch.zeros(8))


def test_an_empty_group_is_allowed() -> None:
    optimizer = MPGD([{"params": []}], lr=0.1, mu=0.1, shared_multiplicative=True)
    optimizer.step()
