"""What `perturbation_sizes` says, and the warning of a perturbation larger than the weights."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adagrad, AdamW

from mpgd import MPGD, ChaoticNoise, GaussianNoise, StableNoise, param_groups, perturb
from mpgd import perturbation_sizes as sizes_of
from mpgd.optim import PerturbationSize, PerturbationWarning
from mpgd.optim.diagnostics import WATCHED_STEPS, growth


def weights(*values: float) -> list[nn.Parameter]:
    return [nn.Parameter(torch.tensor(values or (1.0, -1.0, 2.0, -2.0)))]


MEASURED: list[tuple[dict[str, Any], str]] = [
    ({"gamma": 0.65, "sigma": 0.2}, "additive"),
    ({"gamma": 0.65, "mu": 0.2, "symmetric": True}, "multiplicative"),
    ({"noise": GaussianNoise(), "mu": 0.2}, "multiplicative"),
    ({"noise": GaussianNoise(2.0, 0.6), "sigma": 0.2, "symmetric": True}, "additive"),
]


@pytest.mark.parametrize(("given", "name"), MEASURED, ids=str)
def test_sizes_are_those_of_one_step(given: dict[str, Any], name: str) -> None:
    """From ones, without a gradient: the mean of squares to six of its deviations."""
    p = nn.Parameter(torch.ones(200_000, dtype=torch.float64))
    p.grad = torch.zeros_like(p)
    optimizer = MPGD([p], lr=0.3, **given)
    [size] = sizes_of(optimizer)
    optimizer.step()
    moves = (p.detach() - 1.0).abs()
    slack = 6 * float(moves.square().std()) / math.sqrt(len(p))
    expected = getattr(size, name)
    assert abs(float(moves.square().mean()) - expected**2) < slack < 0.04 * expected**2
    assert size.multiplicative + size.additive == expected  # the other one is 0
    if "noise" in given:
        assert size.force is size.decay is size.burst is size.reach is None
    elif name == "additive":
        assert size.force == pytest.approx(float(moves.min()) / 0.3)
        assert size.burst == pytest.approx(float(moves.max()))


@pytest.mark.parametrize(
    ("given", "factor"),
    [
        ({}, 400**0.6),
        ({"noise": ChaoticNoise(0.6, longest=100)}, 100**0.6 * 2),
        ({"noise": GaussianNoise()}, 20.0),
        ({"noise": StableNoise(1.25), "symmetric": True}, 400**0.8),
        ({"start": 3, "stop": 3}, 0.0),
        ({"start": 300, "stop": 350}, 50**0.6),
        ({"start": 300, "stop": 900}, 100**0.6),
    ],
    ids=str,
)
def test_pushes_add_up(given: dict[str, Any], factor: float) -> None:
    optimizer = MPGD(weights(), 0.1, mu=0.001, sigma=0.01, **given)
    [size] = sizes_of(optimizer, steps=400)
    assert size.accumulated == pytest.approx(size.additive * factor)
    rms = 2.5**0.5
    assert size.relative == pytest.approx((size.additive / rms + size.multiplicative) * factor)
    [short] = sizes_of(optimizer)
    assert short.accumulated is short.relative is None


def test_sums_of_values_grow_as_is_said() -> None:
    """The median sum over 1,600 steps against 25; a cut noise grows slower than a free one."""
    for longest in (None, 20):
        noise = ChaoticNoise(0.7, longest=longest)
        sums = [noise.birkhoff(n, 4000, seed=1).abs().median() * n**0.7 for n in (25, 1600)]
        expected = growth(noise, 1600) / growth(noise, 25)
        assert float(sums[1] / sums[0]) == pytest.approx(expected, rel=0.35)
    assert growth(ChaoticNoise(0.7), 1600) > 2 * growth(ChaoticNoise(0.7, longest=20), 1600)


def test_sizes_follow_groups_and_schedules() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
    given: dict[str, Any] = {"mu": 0.1, "sigma": 0.2, "gamma": (0.6, 0.7)}
    own, inner = (param_groups(model, "first", wrapped=w, **given) for w in (False, True))
    for optimizer in (MPGD(own, lr=0.5), perturb(AdamW(inner, lr=0.5))):
        for lr in (0.5, torch.tensor(0.125), 0.0):
            for group in optimizer.param_groups:
                group["lr"] = lr
            first, rest = sizes_of(optimizer)
            assert rest == PerturbationSize(0.0, 0.0, float(lr))
            spreads = [float(lr) ** gamma * ChaoticNoise(gamma).spread() for gamma in (0.6, 0.7)]
            assert first.multiplicative == pytest.approx(0.1 * spreads[0], rel=1e-13)
            assert first.additive == pytest.approx(0.2 * spreads[1], rel=1e-13)
    assert sizes_of(SGD(weights(), lr=0.5), steps=10) == [PerturbationSize(0.0, 0.0, 0.5)]
    zero = MPGD(weights(0.0, 0.0), 0.1, sigma=0.1)
    assert sizes_of(zero, steps=10)[0].relative is None
    with pytest.raises(ValueError, match="steps must be an integer >= 1, got 0"):
        sizes_of(zero, steps=0)


# --- reach -------------------------------------------------------------------------------------


def test_reach_is_force_over_the_present_gradient() -> None:
    params = weights()
    optimizer = MPGD(params, 0.1, force=3.0)
    assert sizes_of(optimizer)[0].reach is None  # no gradient yet
    for slope, reach in ((2.0, 1.5), (4.0, 0.75)):
        params[0].grad = torch.full((4,), slope)
        assert sizes_of(optimizer)[0].reach == pytest.approx(reach)
        optimizer.step()
    optimizer.param_groups[0]["momentum"] = 0.9  # sums gradients to ten of them
    assert sizes_of(optimizer)[0].reach == pytest.approx(0.075)
    optimizer.zero_grad()
    assert sizes_of(optimizer)[0].reach is None


def test_an_optimizer_other_than_sgd_has_no_reach() -> None:
    params = weights()
    optimizer = perturb(Adagrad(params, 0.1), force=7.0)
    params[0].grad = torch.full_like(params[0], 2.0)
    assert sizes_of(optimizer)[0].reach is None
    assert sizes_of(perturb(torch.optim.SGD(params, 0.1), force=7.0))[0].reach == pytest.approx(3.5)


# --- the warning -------------------------------------------------------------------------------

LARGE: list[tuple[dict[str, Any], str]] = [
    ({"sigma": 1.0}, "sigma"),  # 0.25 a step, but it adds up
    ({"force": 10.0}, "force"),
    ({"decay": 5.0, "sigma": 1e-3}, "sigma and decay"),
    ({"sigma": 10.0, "stop": 1}, "sigma"),  # one burst
    ({"mu": 3.0, "noise": GaussianNoise()}, "mu"),
    ({"strength": 3.0, "steps": 1000}, "strength"),
]
SMALL: list[dict[str, Any]] = [
    {"sigma": 0.05, "mu": 0.02},
    {"force": 0.1},
    {"strength": 0.5, "steps": 1000},
    {"sigma": 1.0, "stop": 2},
]


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize(("given", "name"), LARGE, ids=str)
def test_a_perturbation_larger_than_the_weights_is_warned_of_by_what_the_user_gave(
    given: dict[str, Any], name: str, wrap: bool
) -> None:
    text = (
        rf"group 0 is larger than its weights, whose root mean square is 1.6: over "
        rf"{WATCHED_STEPS} steps it comes to about .* times that, one burst to .* times; "
        rf"lower {name}, see mpgd.perturbation_sizes"
    )
    with pytest.warns(PerturbationWarning, match=text) as seen:
        perturb(SGD(weights(), 0.1), **given) if wrap else MPGD(weights(), 0.1, **given)
    assert [w.filename for w in seen] == [__file__]  # where the optimizer was made


def warnings_of(make: Any) -> int:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        make()
    return sum(w.category is PerturbationWarning for w in seen)


def test_it_comes_once_and_not_where_there_is_nothing_to_warn_of() -> None:
    for given in SMALL:
        assert not warnings_of(lambda given=given: MPGD(weights(), 0.1, **given))
    loud: dict[str, Any] = {"sigma": 100.0}
    both = [{"params": weights()}, {"params": weights()}]
    assert warnings_of(lambda: MPGD(both, 0.1, **loud)) == 1
    assert not warnings_of(lambda: MPGD(weights(), 0.0, **loud))
    assert not warnings_of(lambda: MPGD(weights(0.0, 0.0), 0.1, **loud))
    meta = [nn.Parameter(torch.ones(3, device="meta"))]
    assert not warnings_of(lambda: MPGD(meta, 0.1, **loud, engine="torch"))
    small = MPGD(weights(), 0.1, sigma=0.01)
    assert warnings_of(lambda: small.add_param_group({"params": weights(), **loud})) == 1
    layer = nn.Linear(50, 10)  # biases that start at 0 count as part of their group
    nn.init.zeros_(layer.bias)
    assert not warnings_of(lambda: MPGD(layer.parameters(), 0.1, sigma=0.002))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float8_e4m3fn])
def test_frozen_parameters_of_a_quantized_layer_train_along(dtype: torch.dtype) -> None:
    frozen, [p] = nn.Parameter(torch.ones(3).to(dtype), requires_grad=False), weights()
    optimizer = perturb(AdamW([frozen, p], lr=0.1), sigma=1e-4)
    p.grad = torch.ones_like(p)
    optimizer.step()
    assert torch.equal(frozen.float(), torch.ones(3))
    [size] = sizes_of(optimizer, steps=1)
    whole = torch.cat([p.detach(), *([torch.ones(3)] if dtype.is_floating_point else [])])
    assert size.relative == pytest.approx(size.additive / float(whole.square().mean().sqrt()))
