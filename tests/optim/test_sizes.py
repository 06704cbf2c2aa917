"""What `perturbation_sizes` says, and the warning of a perturbation larger than the weights."""

from __future__ import annotations

import warnings
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn

import mpgd
from mpgd import MPGD, ChaoticNoise, perturb, perturbation_sizes
from mpgd.optim import PerturbationWarning
from mpgd.optim.sizes import WATCHED_STEPS, growth

SGD = torch.optim.SGD


def weights(*values: float) -> list[nn.Parameter]:
    return [nn.Parameter(torch.tensor(values or (1.0, -1.0, 2.0, -2.0)))]


def test_force_decay_and_burst_are_those_of_one_step() -> None:
    """Measured: the moves of a step from x = 1 and from x = 0, and their sizes by the noise."""
    lr, mu, sigma, noise = 0.25, 0.03, 0.2, ChaoticNoise(0.7)
    for x, term in ((0.0, "sigma"), (1.0, "mu")):
        p = nn.Parameter(torch.full((3000,), x, dtype=torch.float64))
        optimizer = MPGD([p], lr, gamma=0.7, **{term: {"mu": mu, "sigma": sigma}[term]})
        [size] = perturbation_sizes(optimizer)
        p.grad = torch.zeros_like(p)
        optimizer.step()
        moves = (p.detach() - x).abs().unique()
        small, large = float(moves.min()), float(moves.max())
        push = size.force if term == "sigma" else size.decay
        assert push == pytest.approx(small / lr, rel=1e-9)
        if term == "sigma":
            assert size.burst == pytest.approx(large, rel=1e-9)
            assert size.force == pytest.approx(sigma * noise.laminar_value * lr**-0.3)
            assert size.decay == 0.0


def test_noises_without_phases_have_no_force() -> None:
    for noise in ("gaussian", "stable", mpgd.GaussianNoise()):
        [size] = perturbation_sizes(MPGD(weights(), 0.1, sigma=0.1, noise=noise), steps=100)
        assert size.force is size.decay is size.burst is size.reach is None
        assert size.accumulated is not None
        assert size.accumulated > size.additive > 0


@pytest.mark.parametrize(
    ("given", "factor"),
    [
        ({}, 400**0.6),
        ({"gamma": 0.8}, 400**0.8),
        ({"longest": 100}, 100**0.6 * 2),
        ({"longest": 500}, 400**0.6),
        ({"noise": "gaussian"}, 20.0),
        ({"stop": 100}, 100**0.6),
        ({"start": 3, "stop": 3}, 0.0),
        ({"start": 300}, 100**0.6),
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
    """The typical sum over 400 steps against 4; a cut noise grows slower than a free one."""
    for longest in (None, 20):
        noise = ChaoticNoise(0.7, longest=longest)
        medians = []
        for steps in (25, 1600):
            sums = noise.birkhoff(steps, 4000, seed=1) * steps**0.7
            medians.append(float(sums.abs().median()))
        assert medians[1] / medians[0] == pytest.approx(
            growth(noise, 1600) / growth(noise, 25), rel=0.35
        )
    assert growth(ChaoticNoise(0.7), 1600) > 2 * growth(ChaoticNoise(0.7, longest=20), 1600)


def test_reach_is_force_over_the_gradient() -> None:
    params = weights()
    optimizer = MPGD(params, 0.1, force=3.0)
    assert perturbation_sizes(optimizer)[0].reach is None  # no gradient yet
    params[0].grad = torch.tensor([2.0, -2.0, 2.0, 2.0])
    assert perturbation_sizes(optimizer)[0].reach == pytest.approx(1.5)
    optimizer.param_groups[0]["momentum"] = 0.9  # sums gradients to ten of them
    assert perturbation_sizes(optimizer)[0].reach == pytest.approx(0.15)
    optimizer.zero_grad()
    assert perturbation_sizes(optimizer)[0].reach is None


@pytest.mark.parametrize("decay", [None, 0.2])
def test_reach_of_a_wrapped_optimizer_is_against_its_own_update(decay: float | None) -> None:
    """SGD with momentum 0.5 and gradient 2: updates of 2, 3, 3.5, ... times lr."""
    params = weights()
    inner = SGD(params, lr=0.1, momentum=0.5)
    optimizer = perturb(inner, force=7.0, decay=decay)
    twin_params = weights()
    twin = perturb(SGD(twin_params, lr=0.1, momentum=0.5), force=7.0, decay=decay)
    assert perturbation_sizes(optimizer)[0].reach is None  # asked for; the next step measures it
    for expected in (2.0, 3.0, 3.5):
        for p in (*params, *twin_params):
            p.grad = torch.full_like(p, 2.0)
        optimizer.step()
        twin.step()
        assert perturbation_sizes(optimizer)[0].reach == pytest.approx(7.0 / expected, rel=1e-5)
    optimizer.step()
    optimizer.step()  # nobody asked after the step before: what is known is from then
    twin.step()
    twin.step()
    assert perturbation_sizes(optimizer)[0].reach == pytest.approx(7.0 / 3.75, rel=1e-5)
    assert torch.equal(params[0], twin_params[0])  # measuring changes nothing
    again = deepcopy(optimizer)
    assert perturbation_sizes(again)[0].reach is None


def test_groups_and_other_optimizers_have_sizes_too() -> None:
    plain = SGD(weights(), lr=0.5)
    assert perturbation_sizes(plain, steps=10) == [mpgd.optim.PerturbationSize(0.0, 0.0, 0.5)]
    zero = MPGD(weights(0.0, 0.0), 0.1, sigma=0.1)
    assert perturbation_sizes(zero, steps=10)[0].relative is None
    with pytest.raises(ValueError, match="steps must be an integer >= 1, got 0"):
        perturbation_sizes(zero, steps=0)


def said(make: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        make()
    return [str(w.message) for w in found if w.category is PerturbationWarning]


LARGE: list[dict[str, Any]] = [
    {"sigma": 100.0},
    {"sigma": 1.0},  # 0.25 a step, but it adds up
    {"mu": 1.0},
    {"force": 10.0},
    {"decay": 5.0},
    {"sigma": 10.0, "stop": 1},  # one burst
    {"sigma": 3.0, "noise": "gaussian"},
]
SMALL: list[dict[str, Any]] = [
    {},
    {"sigma": 0.05},
    {"mu": 0.02},
    {"force": 0.1},
    {"sigma": 1.0, "stop": 2},
    {"sigma": 1.0, "longest": 1, "stop": 5},
    {"sigma": 100.0, "lr": 0.0},
]


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("given", LARGE, ids=str)
def test_a_perturbation_larger_than_the_weights_is_warned_of(
    given: dict[str, Any], wrap: bool
) -> None:
    text = (
        rf"group 0 is larger than its weights, whose root mean square is 1.6: over "
        rf"{WATCHED_STEPS} steps it comes to about .* times that, one burst to .* times; lower"
    )
    with pytest.warns(PerturbationWarning, match=text) as found:
        perturb(SGD(weights(), 0.1), **given) if wrap else MPGD(weights(), 0.1, **given)
    assert [w.filename for w in found] == [__file__]  # where the optimizer was made


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("given", SMALL, ids=str)
def test_a_small_perturbation_is_not_warned_of(given: dict[str, Any], wrap: bool) -> None:
    rest = {"lr": 0.1, **given}
    lr = rest.pop("lr")
    assert not said(
        lambda: perturb(SGD(weights(), lr), **rest) if wrap else MPGD(weights(), lr, **rest)
    )


def test_the_warning_comes_once_and_not_for_zeros() -> None:
    both = [{"params": weights()}, {"params": weights()}]
    loud: dict[str, Any] = {"sigma": 100.0}
    assert len(said(lambda: MPGD(both, 0.1, **loud))) == 1
    again = [{"params": weights()}, {"params": weights()}]
    assert len(said(lambda: perturb(SGD(again, 0.1), **loud))) == 1
    assert not said(lambda: MPGD(weights(0.0, 0.0), 0.1, **loud))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerturbationWarning)
        optimizer = MPGD(weights(), 0.1, **loud)
    assert not said(lambda: optimizer.add_param_group({"params": weights()}))
    small = MPGD(weights(), 0.1, sigma=0.01)
    assert len(said(lambda: small.add_param_group({"params": weights(), **loud}))) == 1


def test_biases_that_start_at_zero_count_as_part_of_their_group() -> None:
    layer = nn.Linear(50, 10)
    nn.init.zeros_(layer.bias)
    quiet = {"sigma": 0.002, "gamma": 0.6}
    assert not said(lambda: MPGD(layer.parameters(), 0.1, **quiet))
    assert said(lambda: MPGD(layer.parameters(), 0.1, sigma=0.2))


def test_no_numbers_are_asked_of_parameters_that_have_none() -> None:
    meta = [nn.Parameter(torch.ones(3, device="meta"))]
    found = said(lambda: MPGD(meta, 0.1, sigma=100.0, engine="torch"))
    assert not found


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
