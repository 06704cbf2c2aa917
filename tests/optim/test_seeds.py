"""No two tensors of one training get the same noise, or it is said."""

from __future__ import annotations

import copy
import gc
import sys
import threading
from hashlib import blake2b
from typing import Any

import pytest
import torch
from torch import nn

import mpgd
from mpgd import MPGD, ChaoticNoise, perturb
from mpgd.noise.counter_hash import make_key, seed_of
from mpgd.optim import number_parameters, operator, streams
from tests.optim.descents import parameters
from tests.optim.workers import run, same_bits

LOUD: dict[str, Any] = {"lr": 0.05, "sigma": 0.2, "engine": "torch"}


# Other tests compare optimizers that have the same noise, step by step; see pyproject.toml.
pytestmark = pytest.mark.filterwarnings("error:two optimizers that train at the same time")


@pytest.fixture(autouse=True)
def _nobody_stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()  # optimizers of other tests
    for name, value in vars(type(streams.TURN)()).items():
        monkeypatch.setattr(streams.TURN, name, value)


def words(optimizer: Any, number: int = 0) -> torch.Tensor:
    return list(optimizer.state_dict()["state"].values())[number]["additive"]


def test_a_stream_is_a_seed_of_its_own() -> None:
    digest = int.from_bytes(blake2b(b"critic", digest_size=8).digest(), "little")
    seed = make_key(3, digest) % 2**63
    assert seed_of(3, "critic") == seed_of(3, digest) == seed
    assert seed_of(3, None) == 3
    assert seed_of(3, "\ud800") != seed_of(3, "\ud801")  # any text is a name
    named = MPGD(parameters([40]), **LOUD, seed=3, stream="critic")
    numbered = MPGD(parameters([40]), **LOUD, seed=3, stream=digest)
    plain = MPGD(parameters([40]), **LOUD, seed=3)
    start = ChaoticNoise(0.6).init(40, seed, tensor_id=0, driver_id=1).word
    assert same_bits(ChaoticNoise(0.6).init(40, 3, driver_id=1, stream="critic").word, start)
    assert same_bits(words(named), start)
    assert same_bits(words(numbered), start)
    assert same_bits(words(plain), ChaoticNoise(0.6).init(40, 3, driver_id=1).word)
    assert (words(named) != words(plain)).float().mean() > 0.5


def test_the_shared_driver_is_the_streams_too() -> None:
    settings = {**LOUD, "mu": 0.1, "shared_multiplicative": True}
    one, other = (MPGD(parameters([4]), **settings, stream=s) for s in (1, 2))
    state = [next(iter(o.state_dict()["state"].values()))["shared"] for o in (one, other)]
    assert not same_bits(*state)


def test_a_stream_resumes_and_is_a_setting_of_the_group() -> None:
    one = perturb(torch.optim.SGD(parameters([4]), lr=0.05), sigma=0.2, stream="a", engine="torch")
    run(one, 3)
    other = perturb(torch.optim.SGD(parameters([4]), lr=0.05), sigma=0.2, engine="torch")
    other.load_state_dict(one.state_dict())
    assert other.param_groups[0]["perturbation.stream"] == "a"
    with pytest.raises(TypeError, match=r"stream must be an integer in \[0, .*\], got 1.5"):
        MPGD(parameters([4]), **LOUD, stream=1.5)
    with pytest.raises(ValueError, match=r"stream must be an integer .* got -1"):
        MPGD(parameters([4]), **LOUD, stream=-1)


def alternate(*optimizers: Any) -> None:
    for k in range(3):
        for optimizer in optimizers:
            run(optimizer, 1, first=k)


def adamw(shapes: list[int], **settings: Any) -> Any:
    inner = torch.optim.AdamW(parameters(shapes), lr=0.05)
    return perturb(inner, sigma=0.2, engine="torch", **settings)


@pytest.mark.parametrize("make", [lambda s, **k: MPGD(parameters(s), **LOUD, **k), adamw])
def test_two_optimizers_that_train_together_are_warned_of_once(make: Any) -> None:
    one, other = make([4, 3]), make([5, 3])
    with pytest.warns(UserWarning, match=r"same seed and stream, .* pass stream=") as seen:
        alternate(one, other)
    assert len(seen) == 1
    for k in ({"stream": "b"}, {"seed": 1}):
        alternate(one, make([5, 3], **k))  # a warning would be an error here


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_one_optimizer_per_parameter_is_warned_of_once(layers: int) -> None:
    model = nn.Sequential(*(nn.Linear(3, 3) for _ in range(layers)))
    each = [MPGD([p], **LOUD) for p in model.parameters()]
    with pytest.warns(UserWarning, match="number_parameters") as seen:
        alternate(*each)
    assert len(seen) == 1
    number_parameters(model)
    alternate(*(MPGD([p], **LOUD) for p in model.parameters()))


def test_the_one_of_several_that_repeats_another_is_found() -> None:
    """Only the first and the third have the same seed, and neither steps right after the other."""
    each = [adamw([size, 3], seed=seed) for size, seed in ((4, 0), (5, 1), (6, 0), (7, 2))]
    with pytest.warns(UserWarning, match="same seed and stream") as seen:
        alternate(*each)
    assert len(seen) == 1


@pytest.mark.parametrize("make", [lambda s, **k: MPGD(parameters(s), **LOUD, **k), adamw])
def test_members_of_an_ensemble_are_warned_of(make: Any) -> None:
    """Their tensors have the same shapes, and they are no copies of each other."""
    members = [make([4, 3]) for _ in range(3)]
    with pytest.warns(UserWarning, match="same seed and stream") as seen:
        alternate(*members)
    assert len(seen) == 1
    alternate(*(make([4, 3], seed=k) for k in range(3)))


def test_two_halves_that_were_both_resumed_are_warned_of() -> None:
    halves = [adamw([4, 3]), adamw([5, 3])]
    for half in halves:
        half.load_state_dict(half.state_dict())
    with pytest.warns(UserWarning, match="same seed and stream") as seen:
        alternate(*halves)
    assert len(seen) == 1


def test_what_shares_its_noise_on_purpose_is_not_warned_of() -> None:
    one = adamw([4, 3])
    run(one, 2)
    copied, resumed = copy.deepcopy(one), adamw([4, 3])
    resumed.load_state_dict(one.state_dict())
    alternate(one, copied, resumed)
    plain = MPGD(parameters([4]), **LOUD, seed=5)
    followed = MPGD(parameters([4]), **LOUD, seed=5)
    followed.load_state_dict(plain.state_dict())
    alternate(plain, copy.deepcopy(plain), followed)
    larger = adamw([9, 9])
    for optimizer in (one, larger):  # one after the other, not together
        run(optimizer, 3)
    inner = torch.optim.AdamW(parameters([9, 9]), lr=0.05)
    alternate(larger, perturb(inner))  # which perturbs nothing


def test_an_optimizer_that_is_gone_is_not_warned_of() -> None:
    one, gone = adamw([4, 3]), adamw([5, 3])
    run(one, 1)
    run(gone, 1)
    number = gone._number
    del gone
    gc.collect()
    assert number not in mpgd.optim.operator.OPTIMIZERS
    run(one, 1)


def test_short_lived_optimizers_leave_nothing_behind() -> None:
    lasting = MPGD(parameters([2]), **LOUD, seed=9)
    for _ in range(300):
        alternate(MPGD(parameters([2]), **LOUD), copy.deepcopy(lasting), lasting)
    turn = streams.TURN
    assert max(map(len, (turn.order, turn.seen, turn.warned, turn.restored))) < 150


class Stepper:
    """What the turns know of an optimizer."""

    def __init__(self) -> None:
        self._number = operator.enrol(self)  # type: ignore[arg-type]

    def _driver_states(self) -> list[Any]:
        return []


def test_optimizers_may_step_in_several_threads() -> None:
    """The order of the steps changes while one thread goes through it."""
    problems: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                steppers = [Stepper() for _ in range(100)]
                for stepper in steppers * 2:
                    streams.take_turn(stepper)
        except BaseException as problem:
            problems.append(problem)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not problems


def test_numbered_parameters_have_one_optimizers_noise_in_several() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 4))
    whole = MPGD(model.parameters(), **LOUD)
    number_parameters(model)
    first, last = (MPGD(layer.parameters(), **LOUD) for layer in model)
    for place in (0, 1):
        assert same_bits(words(first, place), words(whole, place))
        assert same_bits(words(last, place), words(whole, 2 + place))
    with pytest.raises(ValueError, match=r"all parameters .* numbered or none, got 2 of 3"):
        MPGD([*model[0].parameters(), nn.Parameter(torch.ones(2))], **LOUD)
    with pytest.raises(ValueError, match=r"order must name every parameter, got none .*'0.bias'"):
        number_parameters(model, ["0.weight", "1.weight", "1.bias"])
