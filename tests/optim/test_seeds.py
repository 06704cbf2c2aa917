"""The noise is a function of (seed, tensor, element, step): what repeats, what does not, a warning.

No two tensors of one training get the same noise, or it is said.
"""

from __future__ import annotations

import gc
from copy import deepcopy
from hashlib import blake2b
from typing import Any
from weakref import WeakValueDictionary

import pytest
import torch
from torch import Tensor, nn

from mpgd import MPGD, ChaoticNoise, GaussianNoise, perturb
from mpgd.noise.counter_hash import make_key, seed_of, step_key
from mpgd.noise.engines import tensor
from mpgd.optim import number_parameters
from mpgd.optim.displacement import compiled
from tests.optim.checkpoints import KINDS, prefix_of
from tests.optim.descents import parameters
from tests.optim.workers import make_optimizer, run, same_bits, snapshot

LOUD: dict[str, Any] = {"lr": 0.05, "sigma": 0.2, "engine": "torch"}
# Other tests compare optimizers that have the same noise, step by step; see pyproject.toml.
pytestmark = pytest.mark.filterwarnings("error:two optimizers have the same seed")
quiet = pytest.mark.filterwarnings("ignore:two optimizers have the same seed")


@pytest.fixture(autouse=True)
def _nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Optimizers of other tests may live on."""
    monkeypatch.setattr(compiled, "OPTIMIZERS", WeakValueDictionary())


def words(optimizer: Any, number: int = 0) -> Tensor:
    """Return the additive orbit of a parameter."""
    state = optimizer.state_dict()["state"][number]
    return next(value for name, value in state.items() if name.endswith("additive"))


def test_a_named_seed_is_a_seed_of_its_own() -> None:
    digest = int.from_bytes(blake2b(b"critic", digest_size=8).digest(), "little")
    seed = make_key(3, digest) % 2**63
    assert seed_of(3, "critic") == seed_of(3, digest) == seed
    assert seed_of(3, "\ud800") != seed_of(3, "\ud801")  # any text is a name
    start = ChaoticNoise(0.6).init(40, seed, tensor_id=0, driver_id=1).word
    with pytest.warns(UserWarning, match="two optimizers have the same seed"):  # three ways
        ways = [MPGD(parameters([40]), **LOUD, seed=s) for s in ((3, "critic"), (3, digest), seed)]
    assert all(same_bits(words(each), start) for each in ways)
    plain = MPGD(parameters([40]), **LOUD, seed=3)
    assert same_bits(words(plain), ChaoticNoise(0.6).init(40, 3, driver_id=1).word)
    noise = ChaoticNoise(0.6, shared=True)
    shared = [MPGD(parameters([4]), **LOUD, mu=0.1, noise=noise, seed=(0, k)) for k in (1, 2)]
    assert not same_bits(*(each.state_dict()["state"][0]["shared"] for each in shared))


@pytest.mark.parametrize(
    ("seed", "error", "text"),
    [
        (-1, ValueError, r"seed must be an integer in \[0, .*\], got -1"),
        ((0, 1.5), TypeError, r"stream must be an integer .* got 1.5"),
        ((0, -1), ValueError, r"stream must be an integer .* got -1"),
        ((0, None), ValueError, r"must be a number or a pair \(number, name\), got \(0, None\)"),
        ((0, "a", "b"), ValueError, r"a number or a pair \(number, name\), got \(0, 'a', 'b'\)"),
    ],
)
def test_a_bad_seed_is_refused(seed: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        MPGD(parameters([4]), **LOUD, seed=seed)


# A seed that changes, and a window that moves. ---------------------------------------------------


def following(old: Tensor, seed: int, step: int) -> Tensor:
    """Return the additive words of parameter 0 after a step, by explicit keys."""
    key = step_key(make_key(seed, 0, 1), step)
    return tensor.advance(ChaoticNoise(0.6, 0.5).driver, old, key)[1]


@quiet
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ["torch", "cpu"])
def test_a_changed_seed_draws_other_numbers_from_the_same_positions(kind: str, engine: str) -> None:
    optimizer = make_optimizer(kind, parameters([3000]), engine=engine)
    run(optimizer, 2)
    loaded = make_optimizer(kind, parameters([3000]), engine=engine)
    loaded.load_state_dict(deepcopy(optimizer.state_dict()))
    for each in (optimizer, loaded):
        before = words(each).clone()
        each.param_groups[0][prefix_of(kind) + "seed"] = 7
        assert same_bits(words(each), before)
        run(each, 1, first=2)
        assert same_bits(words(each), following(before, 7, 2))
        assert not same_bits(words(each), following(before, 0, 2))
        again = deepcopy(words(each))
        each.param_groups[0][prefix_of(kind) + "seed"] = 0  # and back
        run(each, 1, first=3)
        assert same_bits(words(each), following(again, 0, 3))


@quiet
@pytest.mark.parametrize("noise", [ChaoticNoise(0.6), GaussianNoise()], ids=str)
@pytest.mark.parametrize("kind", ["mpgd", "adamw"])
def test_members_of_an_ensemble_with_seeds_of_their_own_part(kind: str, noise: Any) -> None:
    """Copies of one run, and runs that loaded one checkpoint; rounding is drawn anew too."""
    settings = {"noise": noise, "mu": 0.0, "sigma": 0.05, "rounding": "stochastic"}
    source = make_optimizer(kind, parameters([3000], torch.bfloat16), **settings)
    run(source, 2)
    members = [deepcopy(source) for _ in range(2)]
    members.append(make_optimizer(kind, parameters([3000], torch.bfloat16), **settings))
    members[2].load_state_dict(source.state_dict())
    with torch.no_grad():
        members[2].param_groups[0]["params"][0].copy_(source.param_groups[0]["params"][0])
    ends = []
    for seed, member in enumerate(members, start=1):
        assert same_bits(snapshot(member)["parameters"], snapshot(source)["parameters"])
        member.param_groups[0][prefix_of(kind) + "seed"] = seed
        run(member, 3, first=2)
        ends.append(snapshot(member)["parameters"][0])
    assert not any(torch.equal(*pair) for pair in ((ends[0], ends[1]), (ends[1], ends[2])))


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_second_window_of_noise_does_not_repeat_the_first(symmetric: bool) -> None:
    """Step k has value k of the noise, wherever the window begins; outside it the values wait."""
    p = nn.Parameter(torch.zeros(50, dtype=torch.float64))
    noise = GaussianNoise(exponent=1.0)
    optimizer = MPGD([p], lr=1.0, sigma=1.0, noise=noise, stop=3, seed=5, symmetric=symmetric)
    states = [noise.init(50, 5, driver_id=number) for number in (1, 3)]
    seen = []
    for k in range(8):
        optimizer.param_groups[0].update({"start": 5, "stop": 8} if k == 3 else {})
        p.grad, old = torch.zeros_like(p), p.detach().clone()
        optimizer.step()
        (value, states[0]), (twin, states[1]) = (noise.step(state) for state in states)
        expected = value - twin if symmetric else value
        moved = p.detach() - old
        torch.testing.assert_close(moved, expected if k not in (3, 4) else torch.zeros_like(p))
        seen.append(moved)
    assert not any(torch.allclose(seen[a], seen[b]) for a in range(3) for b in range(5, 8))


# Two optimizers. ---------------------------------------------------------------------------------


def mpgd(shapes: list[int], **settings: Any) -> Any:
    return MPGD(parameters(shapes), **LOUD, **settings)


def adamw(shapes: list[int], **settings: Any) -> Any:
    inner = torch.optim.AdamW(parameters(shapes), lr=0.05)
    return perturb(inner, sigma=0.2, engine="torch", **settings)


@pytest.mark.parametrize("make", [mpgd, adamw])
def test_a_second_optimizer_with_the_same_seed_is_warned_of_when_it_is_made(make: Any) -> None:
    """Members of an ensemble too, whose tensors have the same shapes."""
    first = make([4, 3])
    for shapes in ([5, 3], [4, 3]):
        with pytest.warns(UserWarning, match=r'seed=\(0, "critic"\), or number') as seen:
            make(shapes)
        [warning] = [each for each in seen if "two optimizers" in str(each.message)]
        assert warning.filename == __file__
    gc.collect()
    others = [make([5, 3], seed=seed) for seed in (1, (0, "critic"), (0, "actor"))]
    run(first, 1)  # one that has stepped is taken for an earlier training
    others.append(make([4, 3]))


def test_what_shares_its_noise_on_purpose_is_not_warned_of() -> None:
    one = adamw([4, 3])
    perturb(torch.optim.AdamW(parameters([9, 9]), lr=0.05))  # which perturbs nothing
    same = MPGD(one.param_groups[0]["params"], **LOUD)  # of the same tensors
    copies = deepcopy((one, same))
    del one, same, copies  # and one that is no more
    gc.collect()
    adamw([5, 3])


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
