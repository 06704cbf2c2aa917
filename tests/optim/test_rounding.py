"""Stochastic rounding of half parameters: unbiased, the same bits everywhere, no step lost."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import LBFGS, SGD, Adafactor, Adam, AdamW, RMSprop

from mpgd import MPGD, GaussianNoise, perturb
from mpgd.optim import buckets, stochastic_round
from tests.optim.descents import KINDS, PATHS, drivers, ends, flat, made, parameters, resumed
from tests.optim.workers import run, same_bits, snapshot

SHAPES = [7, 1025, (4, 5), (), (0,)]
HALVES = [torch.bfloat16, torch.float16]
CHANCE = {"rounding": "stochastic"}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"mu": 0.0, "sigma": 0.0},
    {"symmetric": True, "momentum": 0.9},
    {"start": 2, "stop": 4, "noise": GaussianNoise()},
]


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_all_engines_have_the_same_bits(variant: dict[str, Any], dtype: torch.dtype) -> None:
    given = {**variant, **CHANCE}
    expected = ends(SHAPES, {**given, **PATHS[0]}, 5, dtype=dtype)
    for path in PATHS[1:]:
        assert same_bits(ends(SHAPES, {**given, **path}, 5, dtype=dtype), expected)
    nearest = ends(SHAPES, {**variant, **PATHS[0]}, 5, dtype=dtype)
    assert not same_bits(expected["parameters"], nearest["parameters"])


def test_the_optimizers_rounding_is_stochastic_round() -> None:
    """Parameter number 1 is stream 1; a step is counted though nothing is perturbed."""
    params = parameters([3, 1000], torch.bfloat16)
    optimizer = MPGD(params, lr=0.01, **CHANCE, seed=5)
    x = params[1].detach().clone()
    for k in range(3):
        run(optimizer, 1, first=k)
        wide = x.float() - params[1].grad.float() * 0.01
        x = stochastic_round(wide, torch.bfloat16, seed=5, step=k, stream=1)
        assert same_bits(x, params[1].detach())
    assert int(drivers(optimizer, 1)["step"]) == 3


@pytest.mark.parametrize("inner", [None, SGD])
def test_steps_far_below_a_place_add_up(inner: Any) -> None:
    """A thousand steps of 1e-4 move a weight of 1 by 0.1; to nearest, it stays there."""
    means = {}
    for how in ("nearest", "stochastic"):
        p = nn.Parameter(torch.ones(400, dtype=torch.bfloat16))
        given = {"rounding": how, "force": 0.0}
        optimizer = perturb(inner([p], lr=1e-4), **given) if inner else MPGD([p], 1e-4, **given)
        for _ in range(1000):
            p.grad = torch.ones_like(p)
            optimizer.step()
        means[how] = float(p.detach().float().mean())
    assert means["nearest"] == 1.0
    assert abs(means["stochastic"] - 0.9) < 0.01  # the deviation of the mean is 0.001


@pytest.mark.parametrize("kind", KINDS)
def test_the_bits_depend_neither_on_threads_nor_on_buckets(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = [150_001, 40, (), 3, (0,)]
    found = []
    for threads, bucket in ((1, 1 << 30), (2, 1), (3, 41), (1, 150_041)):
        torch.set_num_threads(threads)
        monkeypatch.setattr(buckets, "SIZE", bucket)
        optimizer = made(kind, parameters(shapes, torch.bfloat16), **CHANCE)
        run(optimizer, 3)
        found.append(snapshot(optimizer))
    assert all(same_bits(each, found[0]) for each in found)
    assert all(int(drivers(optimizer, k)["step"]) == 3 for k in range(5))


INNERS: dict[str, Any] = {
    "MPGD": lambda params, **given: MPGD(params, 0.01, momentum=0.9, **given),
    **{
        kind.__name__: lambda params, kind=kind, **given: perturb(kind(params, lr=0.01), **given)
        for kind in (AdamW, Adam, RMSprop, Adafactor)
    },
    "AdamW, fused": lambda params, **given: perturb(AdamW(params, lr=0.01, fused=True), **given),
}


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("noise", [{}, {"mu": 0.1, "sigma": 0.1}], ids=str)
@pytest.mark.parametrize("name", list(INNERS))
def test_it_resumes_in_bits(name: str, noise: dict[str, float], dtype: torch.dtype) -> None:
    """States stay in float32, also those of a parameter without axes, such as CLIP's logit_scale.

    torch casts what it loads to the parameter's dtype.
    """
    one, other = resumed(
        lambda params: INNERS[name](params, **CHANCE, **noise), parameters([(), (3, 4)], dtype)
    )
    assert same_bits(one, other)
    floats = [x for x in one["state"][0].values() if x.is_floating_point()]
    assert floats
    assert {x.dtype for x in floats} == {torch.float32}


def test_parameters_in_full_precision_are_stepped_as_ever() -> None:
    def mixed() -> list[nn.Parameter]:
        return [*parameters([5]), *parameters([5], torch.bfloat16), *parameters([3, 4])[1:]]

    one = MPGD(mixed(), lr=0.1, momentum=0.9, **CHANCE)
    other = torch.optim.SGD(mixed(), lr=0.1, momentum=0.9)
    for optimizer in (one, other):
        run(optimizer, 4)
    for k in (0, 2):
        assert same_bits(flat(one)[k].detach(), flat(other)[k].detach())
    assert list(one.state[flat(one)[0]]) == ["momentum_buffer"]


def test_a_closure_is_evaluated_once_on_the_halves() -> None:
    p = nn.Parameter(torch.ones(9, dtype=torch.bfloat16))
    optimizer, seen = perturb(AdamW([p], lr=0.1), sigma=0.01, **CHANCE), []

    def closure() -> Tensor:
        optimizer.zero_grad()
        seen.append(p.dtype)
        loss = p.float().square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 9.0
    assert seen == [torch.bfloat16]
    assert flat(optimizer) == [p]


class Around(SGD):
    """An optimizer that has another one inside."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, lr)
        self.inside = SGD(self.param_groups)


def tied() -> list[nn.Parameter]:
    base = torch.ones(8, dtype=torch.bfloat16)
    return [nn.Parameter(base), nn.Parameter(base.view(2, 4))]


NEVER: list[tuple[Any, Any, type[Exception], str]] = [
    (LBFGS, None, ValueError, "cannot serve LBFGS, which holds on to the parameters"),
    (Around, None, ValueError, "cannot serve Around, .*: round the steps of its 'inside' instead"),
    (SGD, tied, ValueError, "cannot take half parameters that share memory"),
]


@pytest.mark.parametrize(("inner", "params", "error", "text"), NEVER)
def test_what_cannot_be_served_is_refused_and_no_half_moves(
    inner: Any, params: Any, error: type[Exception], text: str
) -> None:
    halves = params() if params else parameters([8], torch.bfloat16)
    optimizer = perturb(inner(halves, lr=0.125), sigma=0.01, **CHANCE)
    before = [p.detach().clone() for p in halves]

    def closure() -> float:
        for p in halves:
            p.grad = torch.ones_like(p)
        return 0.0

    with pytest.raises(error, match=text):
        optimizer.step(closure)
    assert same_bits([p.detach() for p in halves], before)
    assert all(map(torch.equal, flat(optimizer), halves))


def test_it_may_be_switched_on_in_mid_run_but_not_off() -> None:
    params = parameters([9], torch.bfloat16)
    inner = AdamW(params, lr=0.01)
    run(inner, 2)
    optimizer = perturb(inner, sigma=0.1)
    assert optimizer.state[params[0]]["exp_avg"].dtype == torch.bfloat16
    optimizer.param_groups[0]["perturbation.rounding"] = "stochastic"
    run(optimizer, 2, first=2)
    assert optimizer.state[params[0]]["exp_avg"].dtype == torch.float32
    optimizer.param_groups[0]["perturbation.rounding"] = "nearest"
    before = [p.detach().clone() for p in params]
    text = "rounding of group 0 was 'stochastic', .* cannot become 'nearest' in mid-run: set it"
    with pytest.raises(ValueError, match=text):
        run(optimizer, 1, first=4)
    assert same_bits([p.detach() for p in params], before)
    optimizer.param_groups[0]["perturbation.rounding"] = "stochastic"
    run(optimizer, 1, first=4)


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_compiled_step_rounds_alike(kind: str) -> None:
    torch._dynamo.reset()
    plain, compiled = (made(kind, parameters([20], torch.bfloat16), **CHANCE) for _ in range(2))
    run(plain, 3)
    compiled.step = torch.compile(compiled.step, backend="eager")
    run(compiled, 3)
    assert same_bits(snapshot(compiled), snapshot(plain))
