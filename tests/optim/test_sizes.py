"""What `perturbation_sizes` says, and the warning of a perturbation larger than the weights."""

from __future__ import annotations

import math
import warnings
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn

from mpgd import (
    MPGD,
    ChaoticNoise,
    GaussianNoise,
    StableNoise,
    param_groups,
    perturb,
    perturbation_sizes,
)
from mpgd.optim import PerturbationSize, PerturbationWarning
from mpgd.optim.diagnostics import WATCHED_STEPS, growth

SGD, AdamW = torch.optim.SGD, torch.optim.AdamW


def weights(*values: float) -> list[nn.Parameter]:
    return [nn.Parameter(torch.tensor(values or (1.0, -1.0, 2.0, -2.0)))]


MEASURED: list[tuple[dict[str, Any], str]] = [
    ({"gamma": 0.65, "sigma": 0.2}, "additive"),
    ({"gamma": 0.65, "mu": 0.2, "symmetric": True}, "multiplicative"),
    ({"noise": GaussianNoise(), "mu": 0.2}, "multiplicative"),
    (
        {"noise": GaussianNoise.matched(ChaoticNoise(0.6)), "sigma": 0.2, "symmetric": True},
        "additive",
    ),
]


@pytest.mark.parametrize(("given", "name"), MEASURED, ids=str)
def test_sizes_are_the_measured_root_mean_square(given: dict[str, Any], name: str) -> None:
    """Of one step from ones without a gradient: the mean of independent squares v^2.

    Its deviation is that of v^2 over the root of the number of elements; six of them.
    """
    p = nn.Parameter(torch.ones(200_000, dtype=torch.float64))
    p.grad = torch.zeros_like(p)
    optimizer = MPGD([p], lr=0.3, **given)
    [size] = perturbation_sizes(optimizer)
    optimizer.step()
    squares = (p.detach() - 1.0).square()
    slack = 6 * float(squares.std()) / math.sqrt(len(p))
    expected = getattr(size, name)
    assert abs(float(squares.mean()) - expected**2) < slack < 0.03 * expected**2
    assert size.multiplicative + size.additive == expected  # the other one is 0


@pytest.mark.parametrize("symmetric", [False, True])
def test_stable_sizes_are_the_scale_of_the_law(symmetric: bool) -> None:
    [size] = perturbation_sizes(
        MPGD(weights(), 0.3, sigma=0.2, noise=StableNoise(1 / 0.6), symmetric=symmetric)
    )
    assert size.additive == pytest.approx(0.2 * 0.3**0.6 * (2**0.6 if symmetric else 1.0))


def test_force_decay_and_burst_are_those_of_one_step() -> None:
    """Measured: the moves of a step from x = 1 and from x = 0."""
    lr, sizes = 0.25, {"mu": 0.03, "sigma": 0.2}
    for x, term in ((0.0, "sigma"), (1.0, "mu")):
        p = nn.Parameter(torch.full((3000,), x, dtype=torch.float64))
        optimizer = MPGD([p], lr, gamma=0.7, **{term: sizes[term]})
        [size] = perturbation_sizes(optimizer)
        p.grad = torch.zeros_like(p)
        optimizer.step()
        steps = (p.detach() - x).abs().unique()
        push = size.force if term == "sigma" else size.decay
        assert push == pytest.approx(float(steps.min()) / lr, rel=1e-9)
        if term == "sigma":
            assert size.burst == pytest.approx(float(steps.max()), rel=1e-9)
            assert size.decay == 0.0


# --- over many steps ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "factor"),
    [
        ({}, 400**0.6),
        ({"gamma": 0.8}, 400**0.8),
        ({"noise": ChaoticNoise(0.6, longest=100)}, 100**0.6 * 2),
        ({"noise": GaussianNoise()}, 20.0),
        ({"start": 3, "stop": 3}, 0.0),
        ({"start": 300, "stop": 350}, 50**0.6),
        ({"start": 300, "stop": 900}, 100**0.6),
    ],
    ids=str,
)
def test_pushes_add_up(given: dict[str, Any], factor: float) -> None:
    optimizer = MPGD(weights(), 0.1, mu=0.001, sigma=0.01, **given)
    [size] = perturbation_sizes(optimizer, steps=400)
    assert size.accumulated == pytest.approx(size.additive * factor)
    rms = 2.5**0.5
    assert size.relative == pytest.approx((size.additive / rms + size.multiplicative) * factor)
    [short] = perturbation_sizes(optimizer)
    assert short.accumulated is short.relative is None


def test_sums_of_values_grow_as_is_said() -> None:
    """The typical sum over 1,600 steps against 25; a cut noise grows slower than a free one."""
    for longest in (None, 20):
        noise = ChaoticNoise(0.7, longest=longest)
        medians = []
        for steps in (25, 1600):
            sums = noise.birkhoff(steps, 4000, seed=1) * steps**0.7
            medians.append(float(sums.abs().median()))
        ratio = growth(noise, 1600) / growth(noise, 25)
        assert medians[1] / medians[0] == pytest.approx(ratio, rel=0.35)
    assert growth(ChaoticNoise(0.7), 1600) > 2 * growth(ChaoticNoise(0.7, longest=20), 1600)


def test_sizes_follow_groups_and_schedules() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
    settings: dict[str, Any] = {"mu": 0.1, "sigma": 0.2, "gamma": (0.6, 0.7)}
    own, inner = (param_groups(model, "first", wrapped=w, **settings) for w in (False, True))
    for optimizer in (MPGD(own, lr=0.5), perturb(AdamW(inner, lr=0.5))):
        for lr in (0.5, torch.tensor(0.125), 0.0):
            for group in optimizer.param_groups:
                group["lr"] = lr
            first, rest = perturbation_sizes(optimizer)
            eta = float(lr)
            assert rest == PerturbationSize(0.0, 0.0, eta)
            expected = [
                size * eta**gamma * math.sqrt(ChaoticNoise(gamma).variance)
                for size, gamma in ((0.1, 0.6), (0.2, 0.7))
            ]
            assert [first.multiplicative, first.additive] == pytest.approx(expected, rel=1e-13)


def test_what_has_no_size_says_so() -> None:
    for noise in (GaussianNoise(), StableNoise(1.6)):
        [size] = perturbation_sizes(MPGD(weights(), 0.1, sigma=0.1, noise=noise), steps=100)
        assert size.force is size.decay is size.burst is size.reach is None
        assert size.accumulated is not None
        assert size.accumulated > size.additive > 0
    plain = SGD(weights(), lr=0.5)
    assert perturbation_sizes(plain, steps=10) == [PerturbationSize(0.0, 0.0, 0.5)]
    zero = MPGD(weights(0.0, 0.0), 0.1, sigma=0.1)
    assert perturbation_sizes(zero, steps=10)[0].relative is None
    with pytest.raises(ValueError, match="steps must be an integer >= 1, got 0"):
        perturbation_sizes(zero, steps=0)


# --- reach -------------------------------------------------------------------------------------


def test_reach_is_force_over_the_present_gradient() -> None:
    params = weights()
    optimizer = MPGD(params, 0.1, force=3.0)
    assert perturbation_sizes(optimizer)[0].reach is None  # no gradient yet
    for slope, reach in ((2.0, 1.5), (4.0, 0.75)):
        params[0].grad = torch.full((4,), slope)
        assert perturbation_sizes(optimizer)[0].reach == pytest.approx(reach)
        optimizer.step()
    optimizer.param_groups[0]["momentum"] = 0.9  # sums gradients to ten of them
    assert perturbation_sizes(optimizer)[0].reach == pytest.approx(0.075)
    optimizer.zero_grad()
    assert perturbation_sizes(optimizer)[0].reach is None


@pytest.mark.parametrize("decay", [None, 0.2])
def test_reach_of_another_optimizer_is_against_its_update_at_the_last_step(
    decay: float | None,
) -> None:
    """Adagrad and gradient 2: updates of 1, 1/sqrt(2), 1/sqrt(3), ... times lr."""
    params, twin_params = weights(), weights()
    optimizer, twin = (
        perturb(torch.optim.Adagrad(p, lr=0.1), force=7.0, decay=decay)
        for p in (params, twin_params)
    )

    def step() -> None:
        for p in (*params, *twin_params):
            p.grad = torch.full_like(p, 2.0)
        optimizer.step()
        twin.step()

    assert perturbation_sizes(optimizer)[0].reach is None  # asked for; the next step measures it
    for k in (1, 2, 3):
        step()
        for _ in range(2):
            [size] = perturbation_sizes(optimizer)
            assert size.reach == pytest.approx(7.0 * math.sqrt(k), rel=1e-5)
    step()
    step()  # nobody asked in between: what was measured is of an earlier step
    assert perturbation_sizes(optimizer)[0].reach is None
    step()
    assert perturbation_sizes(optimizer)[0].reach == pytest.approx(7.0 * math.sqrt(6), rel=1e-5)
    assert perturbation_sizes(deepcopy(optimizer))[0].reach is None
    assert torch.equal(params[0], twin_params[0])  # measuring changes nothing


# --- the warning -------------------------------------------------------------------------------


def warned(make: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        make()
    return [str(w.message) for w in seen if w.category is PerturbationWarning]


LARGE: list[tuple[dict[str, Any], str]] = [
    ({"sigma": 1.0}, "sigma"),  # 0.25 a step, but it adds up
    ({"mu": 1.0}, "mu"),
    ({"force": 10.0}, "force"),
    ({"decay": 5.0, "sigma": 1e-3}, "sigma and decay"),
    ({"sigma": 10.0, "stop": 1}, "sigma"),  # one burst
    ({"sigma": 3.0, "noise": GaussianNoise()}, "sigma"),
    ({"strength": 3.0, "steps": 1000}, "strength"),
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


SMALL: list[dict[str, Any]] = [
    {},
    {"sigma": 0.05, "mu": 0.02},
    {"force": 0.1},
    {"strength": 0.5, "steps": 1000},
    {"sigma": 1.0, "stop": 2},
    {"sigma": 100.0, "lr": 0.0},
]


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("given", SMALL, ids=str)
def test_a_small_perturbation_is_not_warned_of(given: dict[str, Any], wrap: bool) -> None:
    rest = {"lr": 0.1, **given}
    lr = rest.pop("lr")
    assert not warned(
        lambda: perturb(SGD(weights(), lr), **rest) if wrap else MPGD(weights(), lr, **rest)
    )


def test_the_warning_comes_once_and_not_where_there_is_nothing_to_compare_with() -> None:
    loud: dict[str, Any] = {"sigma": 100.0}
    both = [{"params": weights()}, {"params": weights()}]
    assert len(warned(lambda: MPGD(both, 0.1, **loud))) == 1
    assert not warned(lambda: MPGD(weights(0.0, 0.0), 0.1, **loud))
    meta = [nn.Parameter(torch.ones(3, device="meta"))]
    assert not warned(lambda: MPGD(meta, 0.1, **loud, engine="torch"))
    small = MPGD(weights(), 0.1, sigma=0.01)
    assert len(warned(lambda: small.add_param_group({"params": weights(), **loud}))) == 1
    layer = nn.Linear(50, 10)  # biases that start at 0 count as part of their group
    nn.init.zeros_(layer.bias)
    assert not warned(lambda: MPGD(layer.parameters(), 0.1, sigma=0.002))
    assert warned(lambda: MPGD(layer.parameters(), 0.1, sigma=0.2))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float8_e4m3fn])
@pytest.mark.parametrize("wraps", [False, True])
def test_frozen_parameters_of_a_quantized_layer_train_along(
    dtype: torch.dtype, wraps: bool
) -> None:
    frozen = nn.Parameter(torch.ones(3).to(dtype), requires_grad=False)
    [p] = weights()
    every = [frozen, p]
    small = {"sigma": 1e-4}
    optimizer = perturb(SGD(every, lr=0.1), **small) if wraps else MPGD(every, 0.1, **small)
    p.grad = torch.ones_like(p)
    optimizer.step()
    assert torch.equal(frozen.float(), torch.ones(3))
    [size] = perturbation_sizes(optimizer, steps=1)
    floats = [p.detach(), torch.ones(3)] if dtype.is_floating_point else [p.detach()]
    whole = torch.cat(floats)
    assert size.accumulated is not None
    assert size.relative == pytest.approx(size.accumulated / float(whole.square().mean().sqrt()))
