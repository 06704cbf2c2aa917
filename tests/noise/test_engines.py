"""All engines give the words of the reference, eager and compiled, whatever the words are.

The comparison over 10^5 elements x 1,000 steps is a benchmark (`benchmarks.words`); here it is
smaller.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from mpgd import ChaoticNoise, ThalerMap
from mpgd.noise import NoiseState, position, sign
from mpgd.noise.counter_hash import make_key, step_key, step_key_tensor
from mpgd.noise.driver import Driver, Table
from mpgd.noise.engines import tensor
from mpgd.noise.word import FAR, FRACTION, LONG, MAGNITUDE, ONE
from tests.noise.integer_reference import Reference

SIZES = [1, 7, 24, 1000, 1025]
GAMMAS = [0.55, 0.6, 0.75, 0.95]


def pair(
    gamma: float, beta: float = 0.0, signs: str = "fresh"
) -> tuple[ChaoticNoise, ChaoticNoise]:
    """Return the same noise on both engines."""
    return (
        ChaoticNoise(gamma, beta, signs=signs, engine="torch"),
        ChaoticNoise(gamma, beta, signs=signs, engine="cpu"),
    )


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Return whether the bits agree: unlike `torch.equal` this tells -0.0 from 0.0."""
    a, b = a.contiguous(), b.contiguous()
    return a.dtype == b.dtype and torch.equal(a.view(torch.int32), b.view(torch.int32))


def steps_agree(
    one: ChaoticNoise, other: ChaoticNoise, state: NoiseState, steps: int
) -> tuple[NoiseState, NoiseState]:
    a = b = state
    for _ in range(steps):
        va, a = one.step(a)
        vb, b = other.step(b)
        assert va.shape == vb.shape == state.word.shape
        assert same_bits(va.reshape(-1), vb.reshape(-1))
        assert torch.equal(a.word, b.word)
    assert int(a.step) == int(b.step) == int(state.step) + steps
    return a, b


def all_steps(
    noise: ChaoticNoise, state: NoiseState, steps: int, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor]:
    """Return values and words at all times, (time, *shape)."""
    values, words = [], []
    for _ in range(steps):
        v, state = noise.step(state, dtype=dtype)
        values.append(v)
        words.append(state.word)
    return torch.stack(values), torch.stack(words)


def words_of(state: NoiseState, *numbers: int) -> NoiseState:
    """Return the state with these words in place of its own."""
    bits = torch.tensor([n - 2**32 if n >= 2**31 else n for n in numbers], dtype=torch.int32)
    return replace(state, word=bits)


@pytest.mark.parametrize("signs", ["fresh", "product"])
@pytest.mark.parametrize("gamma", [0.52, 0.6, 0.75, 0.9, 0.99])
def test_both_engines_give_the_words_and_values_of_the_reference(gamma: float, signs: str) -> None:
    count, beta = 3000, 0.3
    ours, other = Reference(gamma, beta, signs), Reference(gamma, -beta, signs)
    engines = pair(gamma, beta, signs)
    states = [noise.init(count, seed=7) for noise in engines]
    key, index = int(states[0].key), np.arange(count)
    words = ours.start(index, make_key(key, 0), make_key(key, 1))
    for noise in engines:
        assert np.array_equal(noise.init(count, seed=7).word.numpy().view(np.uint32), words)
    values = np.array([0, engines[0].laminar_value, engines[0].burst_value])
    differ = 0
    for k in range(200):
        unit, following = ours.step(words, index, step_key(key, k))
        for n, noise in enumerate(engines):
            v, states[n] = noise.step(states[n])
            assert np.array_equal(states[n].word.numpy().view(np.uint32), following)
            assert np.array_equal(v.numpy(), values[np.abs(unit)] * np.sign(unit))
        differ += int((other.step(words, index, step_key(key, k))[1] != following).sum())
        words = following
    assert differ > 100  # the check can fail


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
    assert a.word.shape == b.word.shape == torch.Size(shape)
    assert a.word.dtype == b.word.dtype == torch.int32


def test_engines_agree_on_states_that_are_not_contiguous() -> None:
    one, other = pair(0.6)
    whole = one.init((40, 30))
    word = whole.word
    for words in (word.T, word[::2, 1::3], word[:, :1].expand(40, 6)):
        before = words.clone()
        a, _ = steps_agree(one, other, replace(whole, word=words), 30)
        assert torch.equal(words, before)  # a step never writes to its argument
        b, _ = steps_agree(one, other, replace(whole, word=words.contiguous()), 30)
        assert torch.equal(a.word, b.word)


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


@pytest.mark.parametrize("engine", ["torch", "cpu"])
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


@pytest.mark.parametrize("engine", ["torch", "cpu"])
def test_a_shard_is_a_slice_of_the_whole(engine: str) -> None:
    """Given the flat indices of its elements, a part starts and moves as within the whole."""
    noise = ChaoticNoise(0.6, 0.5, engine=engine)
    whole = noise.init((20, 50), seed=4)
    values, states = all_steps(noise, whole, 50)
    index = torch.arange(1000).reshape(20, 50)
    for part in ((slice(0, 7),), (slice(7, 20),), (slice(None), slice(13, 31)), (slice(1, 20, 3),)):
        where = index[part]
        shard = noise.init(tuple(where.shape), seed=4, index=where)
        assert same_bits(shard.word, whole.word[part])
        for k in range(50):
            v, shard = noise.step(shard, index=where)
            assert same_bits(v, values[k][part])
            assert same_bits(shard.word, states[k][part])
    alone = noise.init((13, 50), seed=4)
    assert not torch.equal(alone.word, whole.word[7:])  # without indices it would be the first rows


def compiled_steps(backend: str, sizes: list[int], signs: str) -> None:
    noise = ChaoticNoise(0.6, 0.5, signs=signs, engine="torch")
    states = [noise.init(size, seed=size) for size in sizes]

    def run(s: list[Tensor], step: Tensor, keys: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
        out = []
        for orbit, key in zip(s, keys, strict=True):
            v, state = noise.step(NoiseState(orbit, step, key))
            out.append((v, state.word))
        return out

    torch._dynamo.reset()
    compiled = torch.compile(run, backend=backend, fullgraph=True, dynamic=False)
    s, step, keys = [x.word for x in states], states[0].step, [x.key for x in states]
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


class Dtypes(TorchDispatchMode):
    """Notes the dtypes of all tensors that go into or come out of an operation."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[torch.dtype] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        leaves = torch.utils._pytree.tree_leaves((args, kwargs, result))
        self.seen |= {x.dtype for x in leaves if isinstance(x, Tensor)}
        return result


@pytest.mark.parametrize("signs", ["fresh", "product"])
def test_a_step_in_float32_needs_no_float64_and_no_unsigned_integers(signs: str) -> None:
    noise = ChaoticNoise(0.6, 0.3, signs=signs, engine="torch")
    with Dtypes() as found:
        state = noise.init((3, 400), seed=1)
        noise.step(state, dtype=torch.float32)
        noise.path(3, (5,), dtype=torch.float32)
        noise.birkhoff(3, 5, dtype=torch.float32)
        tensor._everywhere(noise.driver, state.word, 5, torch.arange(1200).view(3, 400))
        sign(state)
    assert found.seen == {torch.int32, torch.int64, torch.float32, torch.bool}
    with Dtypes() as found:
        noise.step(state)
    assert torch.float64 in found.seen  # the check can fail


@pytest.mark.parametrize("engine", ["torch", "cpu"])
def test_float32_values_are_the_rounded_ones(engine: str) -> None:
    noise = ChaoticNoise(0.6, 0.3, engine=engine)
    state = noise.init(1025)
    values, words = all_steps(noise, state, 20)
    rounded, same = all_steps(noise, state, 20, torch.float32)
    assert torch.equal(words, same)
    assert same_bits(rounded, values.to(torch.float32))
    assert same_bits(noise.path(20, (1025,), dtype=torch.float32), rounded)
    sums = noise.birkhoff(20, 1025, dtype=torch.float32)
    assert sums.dtype == torch.float32
    torch.testing.assert_close(sums.double(), noise.birkhoff(20, 1025), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device_like", [False, True])
def test_other_values_than_c0_and_c1(device_like: bool) -> None:
    """The optimizer asks for scaled values, as numbers or, with a tensor lr, as tensors."""
    noise = ChaoticNoise(0.6, engine="torch")
    state = noise.init(500)
    values = (torch.tensor(0.1), torch.tensor(-0.7)) if device_like else (0.1, -0.7)
    v, _ = tensor.advance(noise.driver, state.word, 5, values=values, dtype=torch.float32)
    in_Z = position(state) < 1
    expected = torch.where(in_Z, torch.tensor(-0.7), torch.tensor(0.1)) * sign(state)
    assert same_bits(v, expected)


def test_every_way_through_the_torch_engine_gives_the_same_words() -> None:
    """Other devices compute a visit for everybody; a key per element is the foreach path's."""
    noise = ChaoticNoise(0.6, 0.5, signs="product", engine="torch")
    state = noise.init(3000)
    index = torch.arange(3000)
    keys = torch.where(index < 1000, 5, 6)
    whole = torch.cat(
        [
            tensor.advance(noise.driver, state.word[part], key, index[part])[1]
            for part, key in ((slice(0, 1000), 5), (slice(1000, 3000), 6))
        ]
    )
    assert torch.equal(tensor.advance(noise.driver, state.word, keys, index)[1], whole)
    assert torch.equal(tensor._everywhere(noise.driver, state.word, keys, index), whole)
    words, out = state.word.clone(), torch.empty(3000)
    tensor.advance_into(noise.driver, words, out, keys, index)
    assert torch.equal(words, whole)


def test_the_leading_one_is_found_in_integers_of_50_bits() -> None:
    numbers = torch.tensor([(1 << k) + d for k in range(50) for d in (-1, 0, 1)])
    numbers = numbers[numbers > 0]
    expected = [int(x).bit_length() - 1 for x in numbers]
    assert tensor.leading_one(numbers).tolist() == expected
    naive = (numbers.to(torch.float32).view(torch.int32) >> 23) - 127
    assert naive.tolist() != expected  # 2^k - 1 rounds up to 2^k


def with_table(noise: ChaoticNoise, change: Callable[[np.ndarray], None]) -> ChaoticNoise:
    """Return the noise with a changed copy of its table of B."""
    rows = noise.driver.returns.rows.copy()
    change(rows)
    changed = replace(noise)
    driver: Driver = replace(noise.driver, returns=Table(rows, 7))
    changed.__dict__["driver"] = driver  # a cached property: this is its place
    return changed


@pytest.mark.parametrize("engine", ["torch", "cpu"])
def test_one_changed_row_shows(engine: str) -> None:
    """Twin of all comparisons above: a bit of one of 6,400 rows is enough."""
    noise = ChaoticNoise(0.6, engine=engine)

    def change(rows: np.ndarray) -> None:
        rows[40, 0] ^= np.uint64(1 << 14)  # the last bit that a word keeps

    state = noise.init(1025)
    _, words = all_steps(noise, state, 60)
    _, others = all_steps(with_table(noise, change), state, 60)
    assert not torch.equal(words, others)
    assert torch.equal(words, all_steps(with_table(noise, lambda rows: None), state, 60)[1])


ODD = [0, 1, FRACTION, ONE - 1, ONE, ONE + 1, LONG - ONE, LONG - 1, LONG, LONG + 1, MAGNITUDE]


@pytest.mark.parametrize("signs", ["fresh", "product"])
@pytest.mark.parametrize("gamma", GAMMAS)
def test_every_word_means_something_and_moves_on(gamma: float, signs: str) -> None:
    """No pattern of 32 bits is forbidden."""
    one, other = pair(gamma, 0.0, signs)
    words = [*ODD, *(n + 2**31 for n in ODD)]
    words += np.random.default_rng(0).integers(2**32, size=1000).tolist()
    state = words_of(one.init(len(words)), *words)
    steps_agree(one, other, state, 200)
    values, following = all_steps(one, state, 200)
    assert torch.isfinite(values).all()
    everything = torch.cat([state.word[None], following])
    magnitude = everything & MAGNITUDE
    in_Z = magnitude[:-1] < ONE
    assert (magnitude[1:] != magnitude[:-1])[~in_Z].all()
    assert (magnitude[1:][in_Z] & FRACTION != 0)[magnitude[1:][in_Z] < LONG].all()


def test_a_long_phase_is_counted_down_step_by_step() -> None:
    """From n = 4098 to the visit, by both engines: 4098 steps of value c0, then one of c1."""
    for noise in pair(0.6):
        state = words_of(noise.init(2), LONG + 2, LONG + 2 + 2**31)
        assert position(state).tolist() == [FAR + 2.5] * 2
        values, words = all_steps(noise, state, FAR + 3)
        seen = [position(replace(state, word=w))[0].item() for w in words]
        assert seen[: FAR + 2] == [n + 0.5 for n in range(FAR + 1, -1, -1)]
        assert words[FAR - 1 : FAR + 2, 0].tolist() == [2 * ONE, ONE, 0]  # fraction 0: not known
        c0, c1 = noise.laminar_value, noise.burst_value
        assert values[:, 0].tolist() == [c0] * (FAR + 2) + [c1]
        assert values[:, 1].tolist() == [-c0] * (FAR + 2) + [-c1]


@pytest.mark.parametrize("engine", ["torch", "cpu"])
def test_an_unknown_fraction_is_drawn_whole(engine: str) -> None:
    """From f = 0 in Z all of (0, 1) is reached: phases as after a uniform fraction."""
    noise = ChaoticNoise(0.6, engine=engine)
    start = noise.init(200_000)
    _, state = noise.step(replace(start, word=torch.zeros_like(start.word)))
    s = np.sort(position(state).numpy())
    T = ThalerMap(0.6)
    u = (np.arange(len(s)) + 0.5) / len(s)  # s falls in u
    middle = T.abel_return(1 - u)[::-1][[1000, 50_000, 100_000, 150_000, 199_000]]
    found = s[[1000, 50_000, 100_000, 150_000, 199_000]]
    np.testing.assert_allclose(found, middle, rtol=0.1)


def test_equal_words_separate_whether_the_element_or_the_step_differs() -> None:
    noise = ChaoticNoise(0.6)
    start = noise.init(1000)
    same = replace(start, word=torch.full_like(start.word, 3 << 16))
    later = replace(same, step=same.step + 1000)
    paths = [all_steps(noise, state, 60)[1] for state in (same, later, same)]
    assert len({tuple(path) for path in paths[0].T.tolist()}) == 1000  # elements
    assert not (paths[0] == paths[1]).all(dim=0).any()  # steps
    assert torch.equal(paths[0], paths[2])  # and nothing else
    spread = torch.tensor(ThalerMap(0.6).abel_inverse(position(replace(same, word=paths[0][-1]))))
    assert spread.std() > 0.2  # by now they are all over the interval


def test_step_keys_of_the_path_are_those_of_the_state() -> None:
    noise = ChaoticNoise(0.6)
    state = noise.init(5, seed=11)
    assert int(state.step) == 0
    for k in range(4):
        assert int(step_key_tensor(state.key, state.step)) == step_key(int(state.key), k)
        _, state = noise.step(state)
