"""The two engines agree in bits with each other, eager and compiled, and survive anything.

The long run of 4e5 orbits and the search for cycles over 1e9 steps are benchmarks; here they are
smaller.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace

import numba
import numpy as np
import pytest
import torch
from torch import Tensor

from mpgd import ChaoticNoise, NoiseState, ThalerMap
from mpgd.maps.tables import LONGEST
from mpgd.noise.counter import step_key, step_key_tensor
from mpgd.noise.driver import Driver, Table
from mpgd.noise.engines import fused, tensor

SIZES = [1, 7, 24, 1000, 1025]
GAMMAS = [0.55, 0.6, 0.75, 0.95]


def pair(
    gamma: float, beta: float = 0.0, signs: str = "fresh"
) -> tuple[ChaoticNoise, ChaoticNoise]:
    """Return the same noise on both engines."""
    return (
        ChaoticNoise(gamma, beta, signs, engine="torch"),
        ChaoticNoise(gamma, beta, signs, engine="numba"),
    )


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Return whether the bits agree: unlike `torch.equal` this tells -0.0 from 0.0."""
    return torch.equal(a.contiguous().view(torch.int64), b.contiguous().view(torch.int64))


def steps_agree(
    one: ChaoticNoise, other: ChaoticNoise, state: NoiseState, steps: int
) -> tuple[NoiseState, NoiseState]:
    a = b = state
    for _ in range(steps):
        va, a = one.step(a)
        vb, b = other.step(b)
        assert same_bits(va, vb)
        assert same_bits(a.s, b.s)
    assert int(a.step) == int(b.step) == int(state.step) + steps
    return a, b


def all_steps(noise: ChaoticNoise, state: NoiseState, steps: int) -> tuple[Tensor, Tensor]:
    """Return values and states at all times, (time, *shape)."""
    values, states = [], []
    for _ in range(steps):
        v, state = noise.step(state)
        values.append(v)
        states.append(state.s)
    return torch.stack(values), torch.stack(states)


@pytest.mark.parametrize("signs", ["fresh", "product"])
@pytest.mark.parametrize("beta", [-1.0, 0.0, 0.5, 1.0])
@pytest.mark.parametrize("gamma", GAMMAS)
def test_engines_agree_in_bits(gamma: float, beta: float, signs: str) -> None:
    one, other = pair(gamma, beta, signs)
    for size in SIZES:
        steps_agree(one, other, one.init(size, seed=size), 60)


@pytest.mark.parametrize("gamma", [0.6, 0.95])
def test_engines_agree_in_bits_at_a_million_states(gamma: float) -> None:
    one, other = pair(gamma, 0.3)
    steps_agree(one, other, one.init(1_000_000), 5)


def test_engines_agree_in_bits_over_many_steps() -> None:
    one, other = pair(0.6, -0.2, "product")
    steps_agree(one, other, one.init(70), 1500)


@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (3, 0, 2), (1, 1, 513)])
def test_engines_agree_on_every_shape(shape: tuple[int, ...]) -> None:
    one, other = pair(0.6, 0.5)
    a, b = steps_agree(one, other, one.init(shape, seed=3), 40)
    assert a.s.shape == b.s.shape == torch.Size(shape)
    assert a.s.dtype == b.s.dtype == torch.float64


def test_engines_agree_on_states_that_are_not_contiguous() -> None:
    one, other = pair(0.6)
    whole = one.init((40, 30))
    for s in (whole.s.T, whole.s[::2, 1::3], whole.s[:, :1].expand(40, 6)):
        before = s.clone()
        contiguous = NoiseState(s.contiguous(), whole.step, whole.key)
        a, _ = steps_agree(one, other, NoiseState(s, whole.step, whole.key), 30)
        assert torch.equal(s, before)  # a step never writes to its argument
        b, _ = steps_agree(one, other, contiguous, 30)
        assert same_bits(a.s, b.s)


@pytest.mark.parametrize("signs", ["fresh", "product"])
def test_path_and_birkhoff_agree_with_single_steps_and_between_engines(signs: str) -> None:
    one, other = pair(0.6, 0.5, signs)
    values, _ = all_steps(one, one.init((5, 7), seed=2), 300)
    assert same_bits(one.path(300, (5, 7), seed=2), values)
    assert same_bits(other.path(300, (5, 7), seed=2), values)
    assert other.path(0, (5, 7)).shape == (0, 5, 7)
    assert other.path(3).shape == (3,)
    sums = torch.zeros(1025, dtype=torch.float64)
    for v in all_steps(one, one.init(1025, seed=9), 300)[0]:
        sums += v
    expected = sums * 300.0**-0.6
    assert same_bits(one.birkhoff(300, 1025, seed=9), expected)
    assert same_bits(other.birkhoff(300, 1025, seed=9), expected)
    assert other.birkhoff(3, 0).shape == (0,)


@pytest.mark.parametrize("engine", ["torch", "numba"])
def test_bits_do_not_depend_on_the_number_of_threads(engine: str) -> None:
    noise = ChaoticNoise(0.6, 0.5, engine=engine)
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        state = noise.init(150_001)
        sums = noise.birkhoff(20, 70_001)
        found.append((*all_steps(noise, state, 4), noise.path(3, (100_003,)), sums))
    for other in found[1:]:
        assert all(same_bits(a, b) for a, b in zip(found[0], other, strict=True))


def test_bits_do_not_depend_on_the_chunk_size(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = ChaoticNoise(0.6, 0.5, engine="torch")
    expected = all_steps(noise, noise.init((3, 300)), 20)
    for chunk in (7, 64, 1024, 1 << 20):
        monkeypatch.setattr(tensor, "CHUNK", chunk)
        found = all_steps(noise, noise.init((3, 300)), 20)
        assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("engine", ["torch", "numba"])
def test_a_shard_is_a_slice_of_the_whole(engine: str) -> None:
    """Given the flat indices of its elements, a part starts and moves as within the whole."""
    noise = ChaoticNoise(0.6, 0.5, engine=engine)
    whole = noise.init((20, 50), seed=4)
    values, states = all_steps(noise, whole, 50)
    index = torch.arange(1000).reshape(20, 50)
    for part in ((slice(0, 7),), (slice(7, 20),), (slice(None), slice(13, 31)), (slice(1, 20, 3),)):
        where = index[part]
        shard = noise.init(tuple(where.shape), seed=4, index=where)
        assert same_bits(shard.s, whole.s[part])
        for k in range(50):
            v, shard = noise.step(shard, index=where)
            assert same_bits(v, values[k][part])
            assert same_bits(shard.s, states[k][part])
    alone = noise.init((13, 50), seed=4)
    assert not torch.equal(alone.s, whole.s[7:])  # without indices it would be the first rows


def compiled_steps(backend: str, sizes: list[int], signs: str) -> None:
    noise = ChaoticNoise(0.6, 0.5, signs, engine="torch")
    states = [noise.init(size, seed=size) for size in sizes]

    def run(s: list[Tensor], step: Tensor, keys: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
        out = []
        for orbit, key in zip(s, keys, strict=True):
            v, state = noise.step(NoiseState(orbit, step, key))
            out.append((v, state.s))
        return out

    torch._dynamo.reset()
    compiled = torch.compile(run, backend=backend, fullgraph=True, dynamic=False)
    s, step, keys = [x.s for x in states], states[0].step, [x.key for x in states]
    for _ in range(30):
        eager, fast = run(s, step, keys), compiled(s, step, keys)
        for (v, orbit), (w, other) in zip(eager, fast, strict=True):
            assert same_bits(v, w)
            assert same_bits(orbit, other)
        s, step = [orbit for _, orbit in eager], step + 1
    torch._dynamo.reset()


@pytest.mark.parametrize(("signs", "sizes"), [("fresh", SIZES), ("product", [24])])
def test_compiled_without_a_graph_break_the_bits_are_the_same(signs: str, sizes: list[int]) -> None:
    compiled_steps("aot_eager", sizes, signs)


@pytest.mark.skipif(not shutil.which("g++"), reason="inductor needs a C++ compiler")
@pytest.mark.filterwarnings("default")
def test_compiled_by_inductor_the_bits_are_the_same() -> None:
    compiled_steps("inductor", SIZES, "fresh")


def with_table(noise: ChaoticNoise, change: Callable[[np.ndarray], None]) -> ChaoticNoise:
    """Return the noise with a changed copy of its table of B."""
    rows = noise.driver.returns.rows.copy()
    change(rows)
    changed = replace(noise)
    driver: Driver = replace(noise.driver, returns=Table(rows))
    changed.__dict__["driver"] = driver  # a cached property: this is its place
    return changed


@pytest.mark.parametrize("engine", ["torch", "numba"])
def test_one_changed_coefficient_shows(engine: str) -> None:
    """Twin of all comparisons above: a last bit of one coefficient of 27,000 is enough."""
    noise = ChaoticNoise(0.6, engine=engine)

    def change(rows: np.ndarray) -> None:
        rows[-40, 0] = np.nextafter(rows[-40, 0], 0)

    state = noise.init(1025)
    _, states = all_steps(noise, state, 60)
    _, others = all_steps(with_table(noise, change), state, 60)
    assert not torch.equal(states, others)
    assert same_bits(states, all_steps(with_table(noise, lambda rows: None), state, 60)[1])


ODD = [0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, np.inf, -np.inf, np.nan, -np.nan]
ODD += [1.0, -1.0, 1 - 2.0**-53, 2.0**-53, LONGEST, -LONGEST, 2 * LONGEST, 1e300, LONGEST - 1]


@pytest.mark.parametrize("signs", ["fresh", "product"])
@pytest.mark.parametrize("gamma", GAMMAS)
def test_odd_states_become_finite_and_move_on(gamma: float, signs: str) -> None:
    one, other = pair(gamma, 0.0, signs)
    start = one.init(len(ODD))
    s = torch.tensor(ODD, dtype=torch.float64)
    s[ODD.index(np.inf) + 3] = torch.tensor(float("nan")).copysign(torch.tensor(-1.0))
    state = NoiseState(s, start.step, start.key)
    steps_agree(one, other, state, 200)
    values, states = all_steps(one, state, 200)
    assert torch.isfinite(values).all()
    assert torch.isfinite(states).all()
    assert (states.abs() <= LONGEST).all()
    everything = torch.cat([s[None], states])
    assert (everything[1:].abs() != everything[:-1].abs()).all()
    huge = ~(s.abs() < LONGEST)  # inf and NaN count down from the longest phase there is
    assert torch.equal(states[0][huge].abs(), torch.full_like(s[huge], LONGEST - 1))
    assert torch.equal(states[199][huge].abs(), torch.full_like(s[huge], LONGEST - 200))


def test_zero_is_left_for_good() -> None:
    """Where s = 0, y is 1, a fixed point of T: an orbit put there gets away before long."""
    noise = ChaoticNoise(0.6)
    start = noise.init(1000)
    state = NoiseState(torch.zeros(1000, dtype=torch.float64), start.step, start.key)
    _, states = all_steps(noise, state, 300)
    assert (states.abs().amax(dim=0) > 1).all()
    assert len(states[-1].unique()) == 1000


def advance(noise: ChaoticNoise, state: NoiseState, steps: int) -> NoiseState:
    """Return the state after many steps of the fused engine."""
    s, sums = state.s.clone(), torch.zeros_like(state.s)
    first = int(state.step)
    keys = step_key_tensor(state.key, torch.arange(first, first + steps)).numpy().view(np.uint64)
    fused.advance_sums(s.numpy(), sums.numpy(), steps, 0, keys, *fused.arguments(noise.driver))
    assert torch.isfinite(sums).all()
    return NoiseState(s, state.step + steps, state.key)


def test_many_steps_at_once_are_the_single_steps() -> None:
    noise = ChaoticNoise(0.6, 0.5)
    state = noise.init(100)
    _, states = all_steps(noise, state, 500)
    assert same_bits(advance(noise, state, 500).s, states[-1])


@pytest.mark.parametrize("gamma", GAMMAS)
def test_nothing_freezes(gamma: float) -> None:
    """2e4 orbits, 1e4 steps: all finite, all move, and long phases count down exactly."""
    noise, steps = ChaoticNoise(gamma), 10_000
    before = noise.init(20_000, seed=1)
    after = advance(noise, before, steps)
    long = before.s.abs() >= steps
    assert torch.equal(after.s[long], (before.s.abs() - steps).copysign(before.s)[long])
    assert torch.isfinite(after.s).all()
    assert (after.s.abs() <= LONGEST).all()
    _, following = noise.step(after)
    assert (following.s.abs() != after.s.abs()).all()
    short = after.s[~long].abs()
    assert len(short.unique()) == len(short)
    if gamma == 0.95:
        assert (before.s.abs() == LONGEST).sum() > 1000  # 14 % of starts are clamped, and move
        assert (after.s.abs() == LONGEST - steps).sum() > 1000


@numba.njit
def recurrences(s, keys, table, threshold, product, c0, c1):  # type: ignore[no-untyped-def]
    """Return how often an orbit comes back to the bits it had at the last power of two (Brent)."""
    values, anchor, found, power = np.empty_like(s), np.abs(s), 0, 1
    for k in range(len(keys)):
        fused.advance_values(s, values, 0, keys[k], table, threshold, product, c0, c1)
        for i in range(len(s)):
            found += abs(s[i]) == anchor[i]
        if k == power:
            anchor, power = np.abs(s), 2 * power
    return found


def count_recurrences(noise: ChaoticNoise, steps: int) -> int:
    state = noise.init(24)
    keys = step_key_tensor(state.key, torch.arange(steps)).numpy().view(np.uint64)
    return int(recurrences(state.s.numpy(), keys, *fused.arguments(noise.driver)))


def test_no_orbit_is_periodic_within_1e7_steps() -> None:
    """Without the dither 24 starts fell on cycles of 1.3e6 and more steps."""
    noise = ChaoticNoise(0.6)
    assert count_recurrences(noise, 10_000_000) == 0

    def flatten(rows: np.ndarray) -> None:  # B constant on each row: at most 6785 states
        rows[:, 1:] = 0

    assert count_recurrences(with_table(noise, flatten), 100_000) > 24  # the search finds cycles


@pytest.mark.parametrize("engine", ["torch", "numba"])
def test_equal_states_separate_within_a_few_visits(engine: str) -> None:
    noise = ChaoticNoise(0.6, engine=engine)
    start = noise.init(1000)
    state = NoiseState(torch.full_like(start.s, 0.3), start.step, start.key)
    visits, distinct = torch.zeros(1000), []
    for _ in range(60):
        visits += state.s.abs() < 1
        _, state = noise.step(state)
        distinct.append(len(state.s.abs().unique()))
    assert distinct[0] > 500  # the first visit gives each its own dither, of 12 bits
    assert distinct[-1] == 1000
    spread = torch.tensor(ThalerMap(0.6).abel_inverse(state.s.abs().numpy())).std()
    assert spread > 0.2  # and by now they are all over the interval


def test_step_keys_of_the_path_are_those_of_the_state() -> None:
    noise = ChaoticNoise(0.6)
    state = noise.init(5, seed=11)
    assert int(state.step) == 0
    for k in range(4):
        assert int(step_key_tensor(state.key, state.step)) == step_key(int(state.key), k)
        _, state = noise.step(state)
