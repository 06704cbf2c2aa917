"""Force and decay instead of sigma and mu, and phases with a longest one, in the optimizers."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import nn

import mpgd
from mpgd import MPGD, ChaoticNoise, perturb
from mpgd.noise.word import LONG
from tests.optim.descents import PATHS, core, parameters
from tests.optim.workers import run, same_bits

F, M = 0.4, 0.3
FORCED: dict[str, Any] = {"lr": 0.05, "force": F, "decay": M, "gamma": (0.6, 0.7), "beta": 0.5}


def in_one_phase(optimizer: MPGD, chi: int) -> None:
    """Put all orbits into a long phase of sign ``chi``."""
    word = LONG + 100_000 if chi > 0 else LONG + 100_000 - 2**31
    for state in optimizer.state.values():
        for name in ("multiplicative", "additive"):
            state[name].fill_(word)


@pytest.mark.parametrize("chi", [1, -1])
def test_a_phase_is_descent_on_the_tilted_and_bent_loss(chi: int) -> None:
    """For 1,000 steps, to rounding: R - chi F x + chi M x^2 / 2."""

    def loss(x: torch.Tensor) -> torch.Tensor:
        return (x.cos() + x.square() / 2).sum()

    x, y = (nn.Parameter(torch.linspace(-1.0, 1.0, 7, dtype=torch.float64)) for _ in range(2))
    optimizer, plain = MPGD([x], **FORCED), torch.optim.SGD([y], lr=0.05)
    in_one_phase(optimizer, chi)
    for _ in range(1000):
        for tensor, each, tilt in ((x, optimizer, 0.0), (y, plain, 1.0)):
            each.zero_grad()
            bent = chi * (M / 2 * tensor.square() - F * tensor).sum()
            (loss(tensor) + tilt * bent).backward()
            each.step()
    assert torch.allclose(x, y, rtol=0, atol=1e-12)
    assert float((y.detach() - torch.linspace(-1.0, 1.0, 7)).abs().max()) > 0.3  # it went somewhere


@pytest.mark.parametrize("variant", [{}, {"symmetric": True}, {"shared_multiplicative": True}])
@pytest.mark.parametrize("path", PATHS, ids=str)
def test_every_path_pushes_as_the_sizes_that_mean_the_same(
    path: dict[str, Any], variant: dict[str, Any]
) -> None:
    """At one lr force is a sigma. Paths agree in bits, the two ways of saying it to rounding."""
    shapes, rest = [(3, 4), 7], {**variant, **path}
    forced = MPGD(parameters(shapes), **FORCED, **rest)
    reference = MPGD(parameters(shapes), **FORCED, **variant, engine="torch", foreach=False)
    c0 = [ChaoticNoise(g).laminar_value for g in (0.6, 0.7)]
    mu, sigma = M * 0.05**0.4 / c0[0], F * 0.05**0.3 / c0[1]
    same = {k: v for k, v in FORCED.items() if k not in ("force", "decay")}
    sized = MPGD(parameters(shapes), **same, mu=mu, sigma=sigma, **rest)
    for optimizer in (forced, reference, sized):
        run(optimizer, 40)
    assert same_bits(core(forced), core(reference))
    for p, q in zip(forced.param_groups[0]["params"], sized.param_groups[0]["params"], strict=True):
        assert torch.allclose(p, q, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("wrap", [False, True])
def test_a_schedule_leaves_force_and_decay_as_they_are(wrap: bool) -> None:
    """The push of a laminar step divided by lr; with sigma it would grow as lr falls."""
    for settings, changes in (({"force": F, "decay": M}, False), ({"sigma": 0.2}, True)):
        p = nn.Parameter(torch.ones(5, dtype=torch.float64))
        given = {"gamma": 0.6, **settings}
        optimizer: Any = (
            perturb(torch.optim.SGD([p], lr=1.0), **given) if wrap else MPGD([p], 1.0, **given)
        )
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.1)
        found = []
        for _ in range(4):
            [size] = mpgd.perturbation_sizes(optimizer)
            found.append((size.force, size.decay))
            p.grad = torch.zeros_like(p)
            optimizer.step()
            scheduler.step()
        forces = [force for force, _ in found]
        assert (forces[-1] > 2 * forces[0]) == changes
        if not changes:
            assert found == [pytest.approx((F, M), rel=1e-12)] * 4


def test_no_step_size_no_push() -> None:
    p = nn.Parameter(torch.ones(5))
    optimizer = MPGD([p], 0.0, force=F, decay=M)
    p.grad = torch.ones(5)
    before = optimizer.state[p]["additive"].clone()
    optimizer.step()
    assert torch.equal(p.detach(), torch.ones(5))
    assert torch.equal(optimizer.state[p]["additive"], before)


def test_a_step_pushes_by_force_times_lr_and_symmetric_noise_by_up_to_twice() -> None:
    for symmetric, most in ((False, 1.0), (True, 2.0)):
        p = nn.Parameter(torch.zeros(4000, dtype=torch.float64))
        optimizer = MPGD([p], 0.1, force=-F, symmetric=symmetric, longest=4)
        noise = ChaoticNoise(0.6, longest=4)
        p.grad = torch.zeros_like(p)
        optimizer.step()
        laminar = (p.detach().abs() / (0.1 * F) - most).abs() < 1e-9
        bursts = (p.detach().abs() / (0.1 * F) + noise.burst_value / noise.laminar_value).abs()
        assert laminar.sum() > 300
        assert symmetric or bool((laminar | (bursts < 1e-9)).all())


def test_groups_say_force_where_the_default_says_sigma_and_the_other_way_round() -> None:
    a, b, c, d = parameters([3, 3, 3, 3])
    optimizer = MPGD([{"params": [a]}, {"params": [b], "force": F}], 0.1, sigma=0.2)
    sizes = [(g["sigma"], g["force"]) for g in optimizer.param_groups]
    assert sizes == [(0.2, None), (0.0, F)]
    optimizer.add_param_group({"params": [c], "decay": M})
    assert optimizer.param_groups[2]["decay"] == M
    assert optimizer.param_groups[2]["sigma"] == 0.2
    wrapped = perturb(torch.optim.SGD([{"params": [d], "perturbation.sigma": 0.1}], 0.1), force=F)
    wrapped.add_param_group({"params": parameters([2])})
    assert [s.sigma > 0 for s in wrapped._settings()] == [True, True]
    exponents = [s.exponents[1] for s in wrapped._settings()]
    assert exponents == [0.6, 1.0]
    plain = mpgd.param_groups(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)), "first", force=F)
    first, rest = mpgd.perturbation_sizes(MPGD(plain, 0.1, force=1.0))
    assert first.force == pytest.approx(F)
    assert rest.additive == 0.0


def test_a_group_changed_later_is_taken_up_and_a_contradiction_refused() -> None:
    p = parameters([3])[0]
    optimizer = MPGD([p], 0.1, force=F)
    optimizer.param_groups[0]["force"] = 2 * F
    [size] = mpgd.perturbation_sizes(optimizer)
    assert size.force == pytest.approx(2 * F)
    optimizer.param_groups[0]["sigma"] = 0.1
    p.grad = torch.zeros(3)
    with pytest.raises(ValueError, match="force is given instead of sigma"):
        optimizer.step()


@pytest.mark.parametrize("wrap", [False, True])
def test_force_and_longest_resume_in_bits(wrap: bool) -> None:
    given: dict[str, Any] = {"force": F, "decay": M, "longest": 6, "gamma": 0.7, "symmetric": True}

    def make() -> Any:
        params = parameters([(3, 4), 7])
        if wrap:
            return perturb(torch.optim.AdamW(params, lr=0.01), **given)
        return MPGD(params, 0.05, **given)

    first, second = make(), make()
    run(first, 7)
    file = io.BytesIO()
    weights = [p.detach().clone() for p in first.param_groups[0]["params"]]
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    with torch.no_grad():
        for p, saved in zip(second.param_groups[0]["params"], weights, strict=True):
            p.copy_(saved)
    for each in (first, second):
        run(each, 20)
    assert same_bits(first.state_dict(), second.state_dict())
    pairs = zip(first.param_groups[0]["params"], second.param_groups[0]["params"], strict=True)
    assert all(torch.equal(p, q) for p, q in pairs)


@pytest.mark.parametrize("longest", [None, 7, 5000])
def test_a_state_with_another_longest_phase_is_refused(longest: int | None) -> None:
    saved = MPGD(parameters([3]), 0.1, sigma=0.1, longest=6).state_dict()
    other = MPGD(parameters([3]), 0.1, sigma=0.1, longest=longest)
    before = core(other)
    text = rf"saved with longest=6, the optimizer has longest={longest}: build it with the same"
    with pytest.raises(ValueError, match=text):
        other.load_state_dict(saved)
    assert same_bits(core(other), before)
    saved["param_groups"][0]["longest"] = longest
    with pytest.raises(ValueError, match="saved with other tables"):
        other.load_state_dict(saved)


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_every_path_cuts_phases_alike(path: dict[str, Any]) -> None:
    given: dict[str, Any] = {"mu": 0.2, "sigma": 0.1, "beta": 0.3, "longest": 3}
    ends = []
    for rest in (path, {"engine": "torch", "foreach": False}):
        optimizer = MPGD(parameters([(30, 20), 7]), 0.1, **given, **rest)
        run(optimizer, 30)
        ends.append(core(optimizer))
    assert same_bits(*ends)
    words = [state["additive"] & (2**31 - 1) for state in ends[0]["state"].values()]
    assert max(int(w.max()) for w in words) == 3 << 18


def test_a_noise_says_its_longest_phase_as_the_keyword_does() -> None:
    ends = []
    for given in ({"noise": ChaoticNoise(0.6, longest=5)}, {"longest": 5}):
        optimizer = MPGD(parameters([9]), 0.1, sigma=0.1, **given)
        assert optimizer.param_groups[0]["longest"] == 5
        run(optimizer, 20)
        ends.append(core(optimizer))
    assert same_bits(*ends)
    matched = MPGD(parameters([3]), 0.1, sigma=0.1, noise="gaussian", longest=5)
    [size] = mpgd.perturbation_sizes(matched)
    assert size.additive == pytest.approx(0.1 * 0.1**0.6 * ChaoticNoise(0.6, longest=5).spread())


def test_a_checkpoint_from_before_these_keywords_loads() -> None:
    optimizer = MPGD(parameters([3]), 0.1, sigma=0.1)
    saved = optimizer.state_dict()
    for name in ("longest", "force", "decay"):
        del saved["param_groups"][0][name]
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["longest"] is None


@pytest.mark.parametrize("engine", ["torch", None])
def test_a_compiled_step_pushes_alike(engine: str | None) -> None:
    """By torch operations, and by the operator that a kernel is, where there is one."""
    ends = []
    for compiled in (False, True):
        params = parameters([(3, 4), 7])
        optimizer = MPGD(params, 0.05, force=F, decay=M, longest=5, engine=engine)
        step = torch.compile(optimizer.step, backend="aot_eager") if compiled else optimizer.step
        for k in range(4):
            for p in params:
                p.grad = torch.full_like(p, 0.1 * k)
            step()
        ends.append([p.detach().clone() for p in params])
    assert same_bits(*ends)
