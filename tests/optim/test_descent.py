"""MPGD under use and abuse: CHECKS 1, 2, 4-7 and 9-12. The plain loop is the truth."""

from __future__ import annotations

import gc
import random
import shutil
import tracemalloc
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from tests.optim.workers import (
    ORBITS,
    batch,
    bits,
    run,
    same_bits,
    set_gradients,
    small_net,
    snapshot,
    train,
)
from torch import Tensor, nn

from mpgd import MPGD, ChaoticNoise
from mpgd.noise.engines import check_device
from mpgd.optim.settings import make_settings

LOUD: dict[str, Any] = {"lr": 0.05, "mu": 0.3, "sigma": 0.2, "gamma": 0.6, "beta": 0.5}
SIZES = [1, 7, 24, 1000, 1025, 1_000_000]
VARIANTS: list[dict[str, Any]] = [
    {},
    {"symmetric": True},
    {"shared_multiplicative": True},
    {"shared_multiplicative": True, "symmetric": True, "signs": "product"},
    {"mu": 0.0},
    {"sigma": 0.0, "gamma": (0.55, 0.7), "beta": (1.0, 0.0)},
    {"start": 2, "stop": 4},
    {"maximize": True},
]
PATHS: list[dict[str, Any]] = [
    {"engine": "torch", "foreach": False},
    {"engine": "torch", "foreach": True},
    {"engine": "numba", "foreach": False},
    {},
]


def parameters(shapes: Any, dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    """Return parameters whose values depend on their place alone."""
    found = []
    for place, shape in enumerate(shapes):
        generator = torch.Generator().manual_seed(place)
        found.append(nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype)))
    return found


def orbits(optimizer: MPGD, number: int = 0) -> dict[str, Tensor]:
    """Return copies of the orbits of one parameter."""
    state = list(optimizer.state.values())[number]
    return {name: state[name].clone() for name in ORBITS if name in state}


def ends(shapes: Any, settings: dict[str, Any], steps: int, **rest: Any) -> dict[str, Any]:
    """Return state and parameters after some steps."""
    optimizer = MPGD(parameters(shapes, **rest), **{**LOUD, **settings})
    run(optimizer, steps)
    return core(optimizer)


def core(optimizer: MPGD) -> dict[str, Any]:
    """Return what must not depend on the path taken: state and parameters, not the settings."""
    found = snapshot(optimizer)
    del found["param_groups"]
    return found


# --- 1: errors ---------------------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"lr": -0.1}, ValueError, r"lr must lie in \[0, inf\), got -0.1"),
    ({"lr": float("nan")}, ValueError, r"lr must lie in \[0, inf\), got nan"),
    ({"lr": torch.tensor(-0.5)}, ValueError, r"lr must lie in \[0, inf\), got -0.5"),
    ({"lr": torch.ones(2)}, ValueError, r"lr must have one element, got .* shape \(2,\)"),
    ({"lr": "fast"}, TypeError, "lr must be a number .* got 'fast'"),
    ({"mu": -1.0}, ValueError, r"mu must lie in \[0, inf\), got -1.0"),
    ({"mu": float("nan")}, ValueError, "mu must lie .* got nan"),
    ({"mu": float("inf")}, ValueError, "mu must lie .* got inf"),
    ({"sigma": -1.0}, ValueError, r"sigma must lie in \[0, inf\), got -1.0"),
    ({"sigma": float("nan")}, ValueError, "sigma must lie .* got nan"),
    ({"sigma": True}, TypeError, "sigma must be a number .* got True"),
    ({"gamma": 0.5}, ValueError, r"gamma must lie in \(0.5, 1\), got 0.5"),
    ({"gamma": 1.0}, ValueError, r"gamma must lie in \(0.5, 1\), got 1.0"),
    ({"gamma": (0.6, 1.5)}, ValueError, r"gamma must lie in \(0.5, 1\), got 1.5"),
    ({"gamma": (0.6, 0.7, 0.8)}, ValueError, r"gamma must be a number or a pair .* got \(0.6,"),
    ({"beta": 1.5}, ValueError, r"beta must lie in \[-1, 1\], got 1.5"),
    ({"beta": (0.0, -2.0)}, ValueError, r"beta must lie in \[-1, 1\], got -2.0"),
    ({"beta": float("nan")}, ValueError, "beta must lie .* got nan"),
    ({"seed": -1}, ValueError, r"seed must be an integer in \[0, .* got -1"),
    ({"seed": 2**63}, ValueError, r"seed must be an integer .* got 9223372036854775808"),
    ({"seed": 1.5}, TypeError, "seed must be an integer .* got 1.5"),
    ({"signs": "odd"}, ValueError, "signs must be one of 'fresh', 'product', got 'odd'"),
    ({"engine": "jax"}, ValueError, "engine must be one of 'torch', 'numba', got 'jax'"),
    ({"noise": "pink"}, ValueError, "noise must be one of 'chaotic', .* got 'pink'"),
    ({"scaling": "none"}, ValueError, "scaling must be one of 'matched', .* got 'none'"),
    ({"start": -1}, ValueError, "start must be an integer >= 0, got -1"),
    ({"start": 5, "stop": 4}, ValueError, r"stop must not come before start, which is 5, got 4"),
    ({"symmetric": 1}, TypeError, "symmetric must be True or False, got 1"),
    ({"shared_multiplicative": None}, TypeError, "shared_multiplicative must be .* got None"),
    ({"maximize": "yes"}, TypeError, "maximize must be True or False, got 'yes'"),
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


def test_a_device_without_float64_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="needs float64, which device 'mps' does not have"):
        check_device(torch.device("mps"))

    def refuse(device: torch.device) -> None:
        check_device(torch.device("mps" if device.type == "meta" else device))

    monkeypatch.setattr("mpgd.optim.orbits.check_device", refuse)
    optimizer = MPGD(parameters([3]), **LOUD)
    odd = nn.Parameter(torch.empty(2, device="meta"))
    with pytest.raises(ValueError, match="needs float64"):
        MPGD([odd], **LOUD)
    before = snapshot(optimizer)
    with pytest.raises(ValueError, match="needs float64"):
        optimizer.add_param_group({"params": [odd]})
    assert len(optimizer.param_groups) == 1
    assert same_bits(snapshot(optimizer), before)
    MPGD([odd], lr=0.1)  # plain groups hold no state and need no float64


# --- 2: without perturbation it is SGD ---------------------------------------------------------


@pytest.mark.parametrize("foreach", [None, False, True])
@pytest.mark.parametrize("maximize", [False, True])
def test_without_perturbation_it_is_sgd(foreach: bool | None, maximize: bool) -> None:
    ours, theirs = small_net(), small_net()
    optimizer = MPGD(ours.parameters(), lr=0.1, foreach=foreach, maximize=maximize)
    other = torch.optim.SGD(theirs.parameters(), lr=0.1, foreach=foreach, maximize=maximize)
    for k in range(200):
        train(ours, optimizer, range(k, k + 1))
        train(theirs, other, range(k, k + 1))
        assert same_bits(list(ours.parameters()), list(theirs.parameters()))
    assert not optimizer.state
    assert not optimizer.state_dict()["state"]


BOTH = ("multiplicative", "additive")
RAISED: list[tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = [
    ({"mu": 0.0, "sigma": 0.0}, {"mu": 0.3}, BOTH[:1]),
    ({"mu": 0.0, "sigma": 0.0}, {"sigma": 0.2}, BOTH[1:]),
    ({"mu": 0.0, "sigma": 0.0}, {"mu": 0.3, "sigma": 0.2}, BOTH),
    ({"mu": 0.0}, {"mu": 0.3}, BOTH),
    ({"sigma": 0.0}, {"sigma": 0.2}, BOTH),
    ({}, {"symmetric": True}, ORBITS),
    ({}, {"shared_multiplicative": True}, (*BOTH, "shared")),
    ({"mu": 0.0, "shared_multiplicative": True}, {"mu": 0.3}, ("additive", "shared")),
]


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize(("first", "change", "names"), RAISED, ids=str)
def test_raising_mu_or_sigma_later_creates_the_state_then(
    first: dict[str, Any], change: dict[str, Any], names: tuple[str, ...], path: dict[str, Any]
) -> None:
    """And the new driver acts at once: its orbit moves and so does the parameter."""
    optimizer = MPGD(parameters([(50,)]), **{**LOUD, **first, **path})
    twin = MPGD(parameters([(50,)]), **{**LOUD, **first, **path})
    run(optimizer, 3)
    run(twin, 3)
    before = orbits(optimizer) if optimizer.state else {}
    optimizer.param_groups[0].update(change)
    run(optimizer, 1, first=3)
    run(twin, 1, first=3)
    p = optimizer.param_groups[0]["params"][0]
    state = optimizer.state[p]
    assert set(names) <= state.keys()
    assert not same_bits(p, twin.param_groups[0]["params"][0])
    fresh = MPGD(parameters([(50,)]), **{**LOUD, **first, **change})
    for name in set(names) - before.keys() - {"shared"}:
        start = orbits(fresh)[name]
        assert not same_bits(state[name], start)  # it has moved on from the stationary start
        long = start.abs() > 2
        assert same_bits(state[name][long].abs(), start[long].abs() - 1)
    run(optimizer, 5, first=4)


# --- 4: use ------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["chaotic", "gaussian", "stable"])
def test_the_loss_of_a_regression_falls(noise: str) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(64, 5, generator=generator)
    targets = inputs @ torch.randn(5, 3, generator=generator)
    model = small_net()
    optimizer = MPGD(model.parameters(), lr=0.1, mu=0.01, sigma=0.01, noise=noise)
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert np.mean(losses[-10:]) < 0.3 * losses[0]


def test_a_closure_is_called_once_with_gradients_on_and_its_loss_returned() -> None:
    model, calls = small_net(), []
    optimizer = MPGD(model.parameters(), **LOUD)

    def closure() -> Tensor:
        optimizer.zero_grad()
        inputs, targets = batch(len(calls))
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        calls.append(loss)
        return loss

    with torch.no_grad():
        assert optimizer.step(closure) is calls[0]
    assert len(calls) == 1
    other = small_net()
    train(other, MPGD(other.parameters(), **LOUD), range(1))
    assert same_bits(list(model.parameters()), list(other.parameters()))
    assert optimizer.step() is None


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_maximize_is_the_negative_gradient(path: dict[str, Any]) -> None:
    up = MPGD(parameters([(30,)]), **LOUD, **path, maximize=True)
    down = MPGD(parameters([(30,)]), **LOUD, **path)
    for k in range(5):
        for optimizer, sign in ((up, 1), (down, -1)):
            [p] = optimizer.param_groups[0]["params"]
            set_gradients([p], k)
            p.grad *= sign
            optimizer.step()
    assert same_bits(core(up), core(down))


SCHEDULES: dict[str, Any] = {
    "step": lambda opt: torch.optim.lr_scheduler.StepLR(opt, 3, gamma=0.3),
    "cosine": lambda opt: torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=10),
    "plateau": lambda opt: torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.3, patience=1),
}


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("name", list(SCHEDULES))
def test_the_perturbation_follows_the_schedule_as_lr_to_the_gamma(
    name: str, path: dict[str, Any]
) -> None:
    p = nn.Parameter(torch.zeros(40, dtype=torch.float64))
    optimizer = MPGD([p], lr=0.5, sigma=0.2, gamma=0.7, seed=3, **path)
    scheduler = SCHEDULES[name](optimizer)
    noise = ChaoticNoise(0.7, engine="torch")
    state, rates = noise.init(40, 3, driver_id=1), []
    for _ in range(12):
        rates.append(optimizer.param_groups[0]["lr"])
        before, p.grad = p.detach().clone(), torch.zeros_like(p)
        optimizer.step()
        if rates[-1] > 0:
            v, state = noise.step(state)
            expected = before + 0.2 * rates[-1] ** 0.7 * v
            torch.testing.assert_close(p.detach(), expected, rtol=1e-12, atol=1e-14)
        else:
            assert same_bits(p.detach(), before)
        scheduler.step(*([1.0] if name == "plateau" else []))
    assert len(set(rates)) > 2


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("path", PATHS, ids=str)
def test_at_lr_zero_nothing_changes(path: dict[str, Any], variant: dict[str, Any]) -> None:
    optimizer = MPGD(parameters([(30,), ()]), **{**LOUD, **variant, **path})
    twin = MPGD(parameters([(30,), ()]), **{**LOUD, **variant, **path})
    run(optimizer, 3)
    run(twin, 3)
    [group] = optimizer.param_groups
    for zero in (0.0, torch.tensor(0.0)):
        group["lr"] = zero
        before = snapshot(optimizer)
        run(optimizer, 2)
        assert same_bits(snapshot(optimizer), before)
    group["lr"] = LOUD["lr"]
    run(optimizer, 3, first=3)
    run(twin, 3, first=3)
    assert same_bits(snapshot(optimizer), snapshot(twin))


@pytest.mark.parametrize("noise", ["chaotic", "gaussian", "stable"])
@pytest.mark.parametrize("path", PATHS, ids=str)
def test_a_tensor_lr_equals_the_number(path: dict[str, Any], noise: str) -> None:
    rest = {"noise": noise, **path}
    number = ends([(30,), ()], rest, 10)
    lr = torch.tensor(LOUD["lr"], dtype=torch.float64)
    assert same_bits(ends([(30,), ()], {**rest, "lr": lr}, 10), number)
    assert same_bits(ends([(30,), ()], {**rest, "lr": lr[None]}, 10), number)


def test_construction_and_steps_leave_the_global_generators_alone() -> None:
    np.random.seed(1)
    torch.manual_seed(1)
    random.seed(1)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    for noise in ("chaotic", "gaussian", "stable"):
        run(MPGD(parameters([(30,)]), **LOUD, noise=noise, symmetric=True), 3)
    after = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    assert same_bits(before, after)


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("shared", [False, True])
def test_before_start_and_from_stop_on_it_is_plain_and_orbits_wait(
    path: dict[str, Any], shared: bool
) -> None:
    settings = {**LOUD, **path, "start": 3, "stop": 7, "shared_multiplicative": shared}
    [p] = parameters([(30,)])
    optimizer = MPGD([p], **settings)
    start, seen = orbits(optimizer), []
    for k in range(10):
        seen.append(orbits(optimizer))
        set_gradients([p], k)
        plain = p.detach() - p.grad * LOUD["lr"]
        optimizer.step()
        assert same_bits(p.detach(), plain) == (k not in range(3, 7))
        assert int(optimizer.state[p]["step"]) == k + 1
    assert all(same_bits(seen[k], start) for k in range(4))
    assert all(not same_bits(seen[k], seen[k + 1]) for k in range(3, 7))
    assert all(same_bits(seen[k], seen[7]) for k in range(7, 10))
    # the perturbation begins as it would have at step 0
    early = MPGD(parameters([(30,)]), **{**settings, "start": 0, "stop": 4})
    run(early, 5)
    assert same_bits(orbits(early), seen[-1])


# --- 5: every fast path is the loop ------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_foreach_and_numba_equal_the_loop(variant: dict[str, Any], dtype: torch.dtype) -> None:
    shapes = [*SIZES[:-1], (), (0,), (3, 0, 2), (4, 5, 6)]
    expected = ends(shapes, {**variant, **PATHS[0]}, 6, dtype=dtype)
    for path in PATHS[1:]:
        assert same_bits(ends(shapes, {**variant, **path}, 6, dtype=dtype), expected)


@pytest.mark.parametrize(("variant", "steps"), [({}, 2), (VARIANTS[3], 1)], ids=str)
def test_foreach_and_numba_equal_the_loop_at_a_million(variant: dict[str, Any], steps: int) -> None:
    expected = ends(SIZES[-1:], {**variant, **PATHS[0]}, steps)
    for path in PATHS[1:3]:
        assert same_bits(ends(SIZES[-1:], {**variant, **path}, steps), expected)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("noise", ["gaussian", "stable"])
def test_independent_noises_are_the_same_on_every_path(noise: str, symmetric: bool) -> None:
    settings = {"noise": noise, "symmetric": symmetric}
    expected = ends([7, (), (0,), 1025], {**settings, **PATHS[0]}, 5)
    assert not any(name in s for s in expected["state"].values() for name in ORBITS)
    for path in PATHS[1:]:
        assert same_bits(ends([7, (), (0,), 1025], {**settings, **path}, 5), expected)


def test_the_bits_do_not_depend_on_the_number_of_threads() -> None:
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(ends([150_001], {"engine": "numba"}, 3))
    assert all(same_bits(each, found[0]) for each in found)


def test_one_changed_coefficient_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twin of all comparisons above: the last bit of one coefficient of numba's table."""
    expected = ends([1025], PATHS[0], 30)
    assert same_bits(ends([1025], PATHS[2], 30), expected)
    group = MPGD(parameters([1]), **LOUD, engine="numba").param_groups[0]
    table = make_settings(group).drivers[0].returns  # type: ignore[union-attr]
    rows = table.rows.copy()
    rows[-40, 0] = np.nextafter(rows[-40, 0], 0)
    monkeypatch.setattr(table, "rows", rows)
    found = ends([1025], PATHS[2], 30)
    assert not same_bits(found["state"], expected["state"])
    assert not same_bits(found["parameters"], expected["parameters"])


@pytest.fixture
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


# what torch.compile imports uses torch's own deprecated functions
COMPILER = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")


def compiled_ends(
    shapes: Any, settings: dict[str, Any], steps: int, backend: str, **rest: Any
) -> dict[str, Any]:
    """The same as `ends` with the step compiled; a graph break is an error."""
    optimizer = MPGD(parameters(shapes, **rest), **{**LOUD, **settings})
    step = torch.compile(optimizer.step, backend=backend, fullgraph=True)
    for k in range(steps):
        set_gradients(optimizer.param_groups[0]["params"], k)
        step()
    return core(optimizer)


COMPILED: list[tuple[list[Any], dict[str, Any]]] = [
    ([1, 24, 1025, (), (0,)], {}),
    ([24], {"symmetric": True, "gamma": (0.55, 0.7)}),
    ([()], {"shared_multiplicative": True, "symmetric": True, "signs": "product"}),
    ([24], {"start": 2, "stop": 4}),
    ([24], {"shared_multiplicative": True, "start": 2, "stop": 4}),
    ([24], {"foreach": True, "maximize": True, "start": 2, "stop": 4}),
    ([24, 7], {"noise": "gaussian"}),
    ([7], {"noise": "stable"}),
    ([24], {"mu": 0.0, "sigma": 0.0}),
]


@COMPILER
@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize(("shapes", "variant"), COMPILED, ids=str)
def test_compiled_without_a_graph_break_the_bits_are_the_same(
    shapes: list[Any], variant: dict[str, Any]
) -> None:
    settings = {"engine": "torch", **variant}
    expected = ends(shapes, settings, 6)
    assert same_bits(compiled_ends(shapes, settings, 6, "aot_eager"), expected)


@COMPILER
@pytest.mark.usefixtures("_fresh_compiler")
def test_compiled_a_float64_scalar_moves() -> None:
    """Torch 2.13 compiles `copy_` onto a float64 tensor without axes to nothing."""
    settings = {"engine": "torch", "mu": 0.0}
    expected = ends([()], settings, 4, dtype=torch.float64)
    found = compiled_ends([()], settings, 4, "aot_eager", dtype=torch.float64)
    assert same_bits(found, expected)


@COMPILER
@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("variant", [{}, {"shared_multiplicative": True}], ids=str)
def test_compiled_with_a_tensor_lr_the_orbits_are_the_same(variant: dict[str, Any]) -> None:
    """Powers of a tensor may differ from Python's in the last bit; the orbits do not use them."""
    lr = torch.tensor(LOUD["lr"], dtype=torch.float64)
    settings = {"engine": "torch", **variant}
    expected = ends([24, ()], settings, 6)
    found = compiled_ends([24, ()], {**settings, "lr": lr}, 6, "aot_eager")
    assert same_bits(found["state"], expected["state"])
    for a, b in zip(found["parameters"], expected["parameters"], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.skipif(not shutil.which("g++"), reason="inductor needs a C++ compiler")
@pytest.mark.filterwarnings("default")  # inductor's own
@pytest.mark.usefixtures("_fresh_compiler")
def test_compiled_by_inductor_the_bits_are_the_same() -> None:
    settings = {"engine": "torch"}
    expected = ends([24], settings, 6)
    assert same_bits(compiled_ends([24], settings, 6, "inductor"), expected)


LAYOUTS = {
    "transposed": lambda x: x.t().contiguous().t(),
    "strided": lambda x: torch.stack([x, x], dim=-1)[..., 0],
    "part of a row": lambda x: torch.cat([x, x], dim=1)[:, : x.shape[1]],
}


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_parameters_and_gradients_need_not_be_contiguous(layout: str, path: dict[str, Any]) -> None:
    change = LAYOUTS[layout]
    for odd_parameter, odd_gradient in ((True, False), (False, True), (True, True)):
        [x] = parameters([(12, 50)])
        y = nn.Parameter(change(x.detach().clone()) if odd_parameter else x.detach().clone())
        one, other = MPGD([x], **{**LOUD, **path}), MPGD([y], **{**LOUD, **path})
        assert y.is_contiguous() != odd_parameter
        for k in range(4):
            set_gradients([x], k)
            y.grad = change(x.grad) if odd_gradient else x.grad.clone()
            one.step()
            other.step()
            assert same_bits(core(one), core(other))


def test_a_gradient_may_be_expanded_and_a_weight_channels_last() -> None:
    for path in PATHS:
        x, y = (nn.Parameter(torch.ones(4, 3, 2, 2)) for _ in range(2))
        y.data = y.data.to(memory_format=torch.channels_last)
        one, other = MPGD([x], **{**LOUD, **path}), MPGD([y], **{**LOUD, **path})
        for _ in range(3):
            x.grad = torch.full((4, 3, 2, 2), 0.5)
            y.grad = torch.tensor(0.5).expand(4, 3, 2, 2)
            one.step()
            other.step()
        assert same_bits(core(one), core(other))


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("shared", [False, True])
def test_a_parameter_without_a_gradient_waits(path: dict[str, Any], shared: bool) -> None:
    """Once, or for good as in a frozen layer; the others do not notice."""
    settings = {**LOUD, **path, "shared_multiplicative": shared}
    optimizer, twin = (MPGD(parameters([(30,), (20,)]), **settings) for _ in range(2))
    alone = MPGD(parameters([(30,)]), **settings)
    p, q = optimizer.param_groups[0]["params"]
    for k in range(6):
        set_gradients([p, q], k)
        if k >= 2:
            q.grad = None
        before = deepcopy(optimizer.state[q])
        optimizer.step()
        if k >= 2:
            assert same_bits(optimizer.state[q], before)
    run(twin, 2)
    run(alone, 6)
    assert int(optimizer.state[q]["step"]) == 2
    assert same_bits(orbits(optimizer, 1), orbits(twin, 1))
    assert same_bits(q.detach(), twin.param_groups[0]["params"][1].detach())
    assert same_bits(p.detach(), alone.param_groups[0]["params"][0].detach())
    set_gradients([p, q], 6)
    optimizer.step()
    assert int(optimizer.state[q]["step"]) == 3
    assert not same_bits(orbits(optimizer, 1), orbits(twin, 1))


# --- 6: groups ---------------------------------------------------------------------------------


def test_every_group_has_its_own_settings() -> None:
    """Each group moves as it would alone, given the ordinals of its parameters."""
    own: list[dict[str, Any]] = [
        {"mu": 0.1, "sigma": 0.0, "gamma": 0.55},
        {"mu": 0.0, "sigma": 0.3, "beta": -1.0, "start": 2},
        {"mu": 0.0, "sigma": 0.0},
        {"gamma": (0.6, 0.8), "beta": (0.0, 1.0), "stop": 3, "symmetric": True, "lr": 0.2},
        {"noise": "gaussian", "seed": 9, "engine": "torch"},
    ]
    optimizer = MPGD(
        [{"params": [p], **g} for p, g in zip(parameters([20] * 5), own, strict=True)], **LOUD
    )
    run(optimizer, 6)
    for number, settings in enumerate(own):
        plain = {**LOUD, "mu": 0.0, "sigma": 0.0}
        groups = [
            {"params": [p], **(settings if n == number else plain)}
            for n, p in enumerate(parameters([20] * 5))
        ]
        alone = MPGD(groups, **LOUD)
        run(alone, 6)
        one, other = (o.param_groups[number]["params"][0] for o in (optimizer, alone))
        assert same_bits(one.detach(), other.detach())
        assert same_bits(dict(optimizer.state.get(one, {})), dict(alone.state.get(other, {})))
    assert optimizer.param_groups[2]["params"][0] not in optimizer.state


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_a_group_added_later_leaves_the_others_alone(path: dict[str, Any]) -> None:
    settings = {**LOUD, **path}
    optimizer, twin = (MPGD(parameters([(400,)]), **settings) for _ in range(2))
    run(optimizer, 3)
    run(twin, 3)
    before = snapshot(optimizer)
    late = nn.Parameter(torch.ones(400))
    optimizer.add_param_group({"params": [late], "sigma": 0.5})
    assert same_bits(snapshot(optimizer)["state"][0], before["state"][0])
    assert int(optimizer.state[late]["step"]) == 0
    run(optimizer, 5, first=3)
    run(twin, 5, first=3)
    assert same_bits(orbits(optimizer), orbits(twin))
    assert same_bits(
        optimizer.param_groups[0]["params"][0].detach(), twin.param_groups[0]["params"][0].detach()
    )
    starts = [orbits(MPGD(parameters([(400,), (400,)]), **settings), n) for n in (0, 1)]
    flat = [s.abs() for each in starts for s in each.values()]
    for i, a in enumerate(flat):  # four drivers, no two of them with an element in common
        assert not any((a == b).any() for b in flat[:i])


def test_a_group_added_later_shares_the_scalar_driver() -> None:
    settings = {**LOUD, "shared_multiplicative": True, "sigma": 0.0}
    optimizer = MPGD(parameters([()], torch.float64), **settings)
    run(optimizer, 3)
    late = nn.Parameter(torch.ones((), dtype=torch.float64))
    optimizer.add_param_group({"params": [late]})
    first = optimizer.param_groups[0]["params"][0]
    for _ in range(5):
        before = first.detach().clone(), late.detach().clone()
        first.grad, late.grad = torch.zeros_like(first), torch.zeros_like(late)
        optimizer.step()
        ratios = [float(x.detach() / y) for x, y in zip((first, late), before, strict=True)]
        assert ratios[0] == pytest.approx(ratios[1], rel=1e-14)
        assert ratios[0] != 1.0


# --- 7: dtypes ---------------------------------------------------------------------------------

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
            assert s.dtype == torch.float64
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


# --- 10, 11: mixed precision, bad gradients ----------------------------------------------------


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_a_grad_scaler_skips_a_step_with_an_inf_gradient(path: dict[str, Any]) -> None:
    model = small_net()
    optimizer = MPGD(model.parameters(), **{**LOUD, **path})
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for k in range(4):
        inputs, targets = batch(k)
        optimizer.zero_grad()
        scaler.scale(nn.functional.mse_loss(model(inputs), targets)).backward()
        if k == 2:
            next(model.parameters()).grad[0, 0] = float("inf")
        before = snapshot(optimizer)
        scaler.step(optimizer)
        scaler.update()
        assert same_bits(snapshot(optimizer), before) == (k == 2)
    assert scaler.get_scale() == 4.0
    twin = small_net()
    other = MPGD(twin.parameters(), **{**LOUD, **path})
    for k in (0, 1, 3):  # a power of two scales exactly
        train(twin, other, range(k, k + 1))
    assert same_bits(snapshot(optimizer), snapshot(other))


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_nan_and_inf_gradients_leave_the_orbit_alone(path: dict[str, Any]) -> None:
    """And the parameters end as those of SGD do, NaN or inf in the same places."""
    optimizer, twin = (MPGD(parameters([(40,)]), **{**LOUD, **path}) for _ in range(2))
    sgd = torch.optim.SGD(parameters([(40,)]), lr=LOUD["lr"])
    p, q, r = (o.param_groups[0]["params"][0] for o in (optimizer, twin, sgd))
    for k in range(6):
        set_gradients([p, q, r], k)
        for x in (p, q, r):
            x.grad = p.grad.clone()
        if k == 1:
            for x in (p, r):
                x.grad[:3] = torch.tensor([float("nan"), float("inf"), -float("inf")])
        for each in (optimizer, twin, sgd):
            each.step()
        if k == 1:
            assert same_bits(p[:3].isnan(), r[:3].isnan())
            assert same_bits(p[1:3].detach(), r[1:3].detach())
    assert same_bits(orbits(optimizer), orbits(twin))
    assert all(torch.isfinite(s).all() for s in orbits(optimizer).values())
    assert same_bits(p[3:].detach(), q[3:].detach())
    assert not torch.isfinite(p[:3]).any()


# --- 12: as any torch optimizer ----------------------------------------------------------------


def test_hooks_run_and_can_be_removed() -> None:
    optimizer, seen = MPGD(parameters([3]), **LOUD), []
    handles = [
        optimizer.register_step_pre_hook(lambda *_: seen.append("before step")),
        optimizer.register_step_post_hook(lambda *_: seen.append("after step")),
        optimizer.register_state_dict_pre_hook(lambda _: seen.append("before state")),
        optimizer.register_state_dict_post_hook(lambda _, s: {**s, "extra": 1}),
        optimizer.register_load_state_dict_pre_hook(lambda _, s: seen.append("before load")),
        optimizer.register_load_state_dict_post_hook(lambda _: seen.append("after load")),
    ]
    run(optimizer, 1)
    saved = optimizer.state_dict()
    assert saved.pop("extra") == 1
    optimizer.load_state_dict(saved)
    names = ["before step", "after step", "before state", "before load", "after load"]
    assert seen == names
    for handle in handles:
        handle.remove()
    run(optimizer, 1)
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == names
    assert not optimizer._optimizer_load_state_dict_pre_hooks  # ours do not pile up either
    assert not optimizer._optimizer_load_state_dict_post_hooks


def test_a_load_hook_may_replace_the_state_and_sees_the_loaded_one() -> None:
    source, optimizer = MPGD(parameters([30]), **LOUD), MPGD(parameters([30]), **LOUD)
    run(source, 4)
    wanted, seen = source.state_dict(), []
    optimizer.register_load_state_dict_pre_hook(lambda _, s: wanted)
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append(orbits(o)))
    optimizer.load_state_dict(MPGD(parameters([30]), **LOUD).state_dict())
    assert same_bits(orbits(optimizer), orbits(source))
    assert same_bits(seen[0], orbits(source))


def test_repr_shows_the_settings_and_zero_grad_zeroes() -> None:
    optimizer = MPGD(parameters([3]), **LOUD)
    text = repr(optimizer)
    assert text.startswith("MPGD (")
    for part in ("mu: 0.3", "sigma: 0.2", "gamma: 0.6", "beta: 0.5", "lr: 0.05", "seed: 0"):
        assert part in text
    run(optimizer, 1)
    [p] = optimizer.param_groups[0]["params"]
    optimizer.zero_grad(set_to_none=False)
    assert same_bits(p.grad, torch.zeros(3))
    optimizer.zero_grad()
    assert p.grad is None


# --- memory ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "drivers"),
    [
        ({}, 2),
        ({"mu": 0.0}, 1),
        ({"symmetric": True}, 4),
        ({"shared_multiplicative": True}, 1),
        ({"noise": "gaussian"}, 0),
        ({"noise": "stable", "symmetric": True}, 0),
    ],
    ids=str,
)
def test_the_state_is_8_bytes_per_driver_and_element(
    settings: dict[str, Any], drivers: int
) -> None:
    optimizer = MPGD(parameters([10_000]), **{**LOUD, **settings})
    run(optimizer, 2)
    large, small = 0, 0
    for value in next(iter(optimizer.state.values())).values():
        memory = value.untyped_storage().nbytes()
        large, small = (large + memory, small) if memory > 8 else (large, small + memory)
    assert large == 8 * drivers * 10_000
    assert small <= 64


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_nothing_else_that_grows_with_the_model_survives_a_step(path: dict[str, Any]) -> None:
    size = 100_000
    optimizer = MPGD(parameters([size]), **LOUD, **path, symmetric=True)
    run(optimizer, 2)
    held = all_tensor_bytes()
    tracemalloc.start()
    run(optimizer, 2, first=2)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < size  # numpy's memory is traced; one byte per parameter would show
    assert all_tensor_bytes() == held


def all_tensor_bytes() -> int:
    """Return the memory of all living tensors of some size, the compiler's own left out."""
    gc.collect()
    found = {}
    for each in gc.get_objects():
        if type(each) in (Tensor, nn.Parameter) and each.layout is torch.strided:
            for x in (each, each.grad if each.is_leaf else None):
                if x is not None and x.device.type == "cpu":
                    found[x.untyped_storage()._cdata] = x.untyped_storage().nbytes()
    return sum(size for size in found.values() if size > 10_000)


def test_bits_tell_minus_zero_from_zero() -> None:
    """Twin of every comparison in bits."""
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not same_bits(torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64))
    assert same_bits(torch.tensor([float("nan")]), torch.tensor([float("nan")]))
    assert len(bits(torch.zeros(3))) == 12
