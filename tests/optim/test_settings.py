"""Wrong settings, parameters, gradients and devices are refused, and nothing is changed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from mpgd import MPGD, ChaoticNoise, GaussianNoise
from tests.optim.descents import LOUD, parameters
from tests.optim.workers import same_bits, snapshot

BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"lr": -0.1}, ValueError, r"lr must lie in \[0, inf\), got -0.1"),
    ({"lr": float("nan")}, ValueError, r"lr must lie in \[0, inf\), got nan"),
    ({"lr": torch.tensor(-0.5)}, ValueError, r"lr must lie in \[0, inf\), got -0.5"),
    ({"lr": torch.ones(2)}, ValueError, r"lr must have one element, got .* shape \(2,\)"),
    ({"lr": "fast"}, TypeError, "lr must be a number .* got 'fast'"),
    ({"mu": -1.0}, ValueError, r"mu must lie in \[0, inf\), got -1.0"),
    ({"mu": float("nan")}, ValueError, "mu must lie .* got nan"),
    ({"mu": float("inf")}, ValueError, "mu must lie .* got inf"),
    ({"sigma": -float("inf")}, ValueError, r"sigma must lie in \(-inf, inf\), got -inf"),
    ({"sigma": float("nan")}, ValueError, "sigma must lie .* got nan"),
    ({"sigma": True}, TypeError, "sigma must be a number .* got True"),
    ({"gamma": 0.5}, ValueError, r"gamma must lie in \(0.5, 1\), got 0.5"),
    ({"gamma": 1.0}, ValueError, r"gamma must lie in \(0.5, 1\), got 1.0"),
    ({"gamma": (0.6, 1.5)}, ValueError, r"gamma must lie in \(0.5, 1\), got 1.5"),
    ({"gamma": (0.6, 0.7, 0.8)}, ValueError, r"gamma must be one value or a pair .* got \(0.6,"),
    ({"beta": 1.5}, ValueError, r"beta must lie in \[-1, 1\], got 1.5"),
    ({"beta": (0.0, -2.0)}, ValueError, r"beta must lie in \[-1, 1\], got -2.0"),
    ({"beta": float("nan")}, ValueError, "beta must lie .* got nan"),
    ({"seed": -1}, ValueError, r"seed must be an integer in \[0, .* got -1"),
    ({"seed": 2**63}, ValueError, r"seed must be an integer .* got 9223372036854775808"),
    ({"seed": 1.5}, TypeError, "seed must be an integer .* got 1.5"),
    ({"signs": "odd"}, ValueError, "signs must be one of 'fresh', 'product', got 'odd'"),
    ({"engine": "jax"}, ValueError, "engine must be one of 'torch', .*, got 'jax'"),
    ({"noise": "pink"}, ValueError, "noise must be one of 'chaotic', .* got 'pink'"),
    ({"noise": 3}, TypeError, "noise must be one of 'chaotic', .* a noise such as .* got 3"),
    ({"noise": ChaoticNoise}, TypeError, "noise must be one of .* got <class"),
    ({"noise": (ChaoticNoise(0.6),)}, ValueError, "noise must be one value or a pair"),
    (
        {"noise": ChaoticNoise(0.6), "gamma": 0.7},
        ValueError,
        "noise says gamma=0.6, but gamma=0.7 was given too",
    ),
    ({"first_sign": "minus"}, ValueError, "first_sign must be one of 'drawn', .* got 'minus'"),
    ({"scaling": "none"}, ValueError, "scaling must be one of 'matched', .* got 'none'"),
    ({"start": -1}, ValueError, "start must be an integer >= 0, got -1"),
    ({"start": 5, "stop": 4}, ValueError, r"stop must not come before start, which is 5, got 4"),
    ({"symmetric": 1}, TypeError, "symmetric must be True or False, got 1"),
    ({"shared_multiplicative": None}, TypeError, "shared_multiplicative must be .* got None"),
    ({"fused": "yes"}, TypeError, "fused must be True or False, got 'yes'"),
    ({"fused": True, "engine": "torch"}, ValueError, "fused=True and engine='torch' contradict"),
    ({"fused": False, "engine": "numba"}, ValueError, "fused=False and engine='numba' contradict"),
    ({"fused": True, "foreach": True}, ValueError, "foreach and fused must not both be True"),
    ({"fused": True, "noise": "stable"}, ValueError, "kernels know chaotic and normal noise, got"),
    ({"maximize": "yes"}, TypeError, "maximize must be True or False, got 'yes'"),
    ({"longest": 0}, ValueError, r"longest must be an integer in \[1, 1073745919\], got 0"),
    ({"longest": 2**31}, ValueError, r"longest must be an integer in \[1, .* got 2147483648"),
    ({"longest": 1.5}, TypeError, "longest must be an integer .* got 1.5"),
    ({"longest": True}, TypeError, "longest must be an integer .* got True"),
    ({"longest": 9, "noise": "stable"}, ValueError, "longest cuts the phases .* noise='stable'"),
    (
        {"longest": 9, "noise": ChaoticNoise(0.6, longest=8)},
        ValueError,
        "noise says longest=8, but longest=9 was given too",
    ),
    (
        {"force": 0.5, "sigma": 0.1},
        ValueError,
        "force is given instead of sigma, got force=0.5 and sigma=0.1; leave one of them out",
    ),
    (
        {"decay": 0.5, "mu": 0.1},
        ValueError,
        "decay is given instead of mu, got decay=0.5 and mu=0.1; leave one of them out",
    ),
    ({"decay": -0.5}, ValueError, r"decay must lie in \[0, inf\), got -0.5"),
    ({"decay": float("nan")}, ValueError, "decay must lie .* got nan"),
    ({"force": float("inf")}, ValueError, r"force must lie in \(-inf, inf\), got inf"),
    ({"force": True}, TypeError, "force must be a number .* got True"),
    ({"force": 0.5, "noise": "gaussian"}, ValueError, "chaotic noise alone .* noise='gaussian'"),
    ({"decay": 0.5, "noise": "stable"}, ValueError, "chaotic noise alone .* noise='stable'"),
    (
        {"force": 0.5, "noise": (ChaoticNoise(0.6), GaussianNoise())},
        ValueError,
        "chaotic noise alone .*; give sigma instead",
    ),
]


@pytest.mark.parametrize(("change", "error", "text"), BAD, ids=[str(b[0]) for b in BAD])
def test_bad_settings_are_refused(
    change: dict[str, Any], error: type[Exception], text: str
) -> None:
    """At construction, in a group, and in a group added later, which then is not added."""
    settings = {**LOUD, **change}
    with pytest.raises(error, match=text):
        MPGD(parameters([3]), **settings)
    with pytest.raises(error, match=text):
        MPGD([{"params": parameters([3]), **change}], **LOUD)
    optimizer = MPGD(parameters([3]), **LOUD)
    before = snapshot(optimizer)
    with pytest.raises(error, match=text):
        optimizer.add_param_group({"params": parameters([2]), **change})
    assert same_bits(snapshot(optimizer), before)


def test_bad_parameters_are_refused() -> None:
    p, q = parameters([3, 2])
    with pytest.raises(TypeError, match=r"should be an iterable of Tensors .*FloatTensor"):
        MPGD(p, **LOUD)
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        MPGD([{"params": [p, q]}, {"params": [q]}], **LOUD)
    with pytest.raises(ValueError, match="empty parameter list"):
        MPGD([], **LOUD)
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        MPGD([p * 2], **LOUD)


def sparse(values: Tensor) -> Tensor:
    # torch 2.13 warns when a sparse tensor is made without saying whether to check it
    with torch.sparse.check_sparse_tensor_invariants():
        return values.to_sparse()


def test_sparse_gradients_are_refused_before_anything_changes() -> None:
    p, q = parameters([(3,), (2,)])
    optimizer = MPGD([p, q], **LOUD)
    p.grad, q.grad = torch.ones(3), sparse(torch.ones(2))
    before = snapshot(optimizer)
    with pytest.raises(RuntimeError, match=r"must be dense .* torch.sparse_coo .* shape \(2,\)"):
        optimizer.step()
    assert same_bits(snapshot(optimizer), before)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [("noise", "chaotik", ValueError), ("start", 1.5, TypeError), ("symmetric", "x", TypeError)],
)
def test_a_setting_changed_later_is_checked_at_the_next_step(
    name: str, value: object, error: type[Exception]
) -> None:
    optimizer = MPGD(parameters([3]), **LOUD)
    optimizer.param_groups[0]["params"][0].grad = torch.ones(3)
    optimizer.step()
    optimizer.param_groups[0][name] = value
    before = [p.detach().clone() for p in optimizer.param_groups[0]["params"]]
    with pytest.raises(error, match=f"{name} must be"):
        optimizer.step()
    assert same_bits([p.detach() for p in optimizer.param_groups[0]["params"]], before)


def test_a_list_of_settings_that_is_changed_in_place_is_seen() -> None:
    optimizer = MPGD(parameters([5]), **LOUD)
    group = optimizer.param_groups[0]
    group["beta"] = [0.5, 0.0]
    group["params"][0].grad = torch.ones(5)
    optimizer.step()
    group["beta"][1] = 7.0
    with pytest.raises(ValueError, match=r"beta must lie in \[-1, 1\], got 7.0"):
        optimizer.step()
