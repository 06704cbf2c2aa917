"""Damaged checkpoints: an error and nothing changed, or a state that is one and goes on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mpgd
from tests.optim.checkpoints import KINDS, drivers_state, made
from tests.optim.workers import run, same_bits, small_net, snapshot

CORRUPTIONS = 125  # of each of the four kinds


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every entry of a nest of dictionaries and lists."""
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))


def sparse(x: Tensor) -> Tensor:
    with torch.sparse.check_sparse_tensor_invariants():
        return x.reshape(-1).to_sparse()


def changed_tensor(x: Tensor, dice: random.Random) -> Any:
    edits: list[Callable[[Tensor], Any]] = [
        sparse,
        lambda x: x.to("meta"),
        lambda x: x.reshape(-1)[:1].expand(2),
        lambda x: x[..., None],
        lambda x: x.to(torch.complex64),
        lambda x: x.to(torch.float32),
        lambda x: x.to(torch.int64),
        lambda x: -1 - x.abs(),
        lambda x: torch.full_like(x.double(), float("nan")),
        lambda x: x.reshape(-1).tolist(),
        lambda x: x.new_empty(0),
    ]
    return dice.choice(edits)(x)


def corrupt(saved: Any, dice: random.Random) -> tuple[Any, ...]:
    """Change one entry of a state dict; return the way to it."""
    path = dice.choice(list(places(saved)))
    parent = saved
    for key in path[:-1]:
        parent = parent[key]
    value = parent[path[-1]]
    junk = [None, "x", -1, -0.5, float("nan"), float("inf"), [], {}, True, (1.0, 2.0, 3.0), 2.5]
    plain = isinstance(value, Tensor) and value.layout == torch.strided  # not damaged before
    if plain and value.device.type == "cpu" and dice.random() < 0.6:
        parent[path[-1]] = changed_tensor(value, dice)
    elif dice.random() < 0.3:
        del parent[path[-1]]
    else:
        parent[path[-1]] = dice.choice(junk)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_state_is_refused_whole_or_is_a_state(kind: str) -> None:
    model = small_net()
    source = made(kind, model, symmetric=True, engine="torch")
    run(source, 3)
    refused = 0
    for number in range(CORRUPTIONS):
        dice = random.Random(f"{kind} {number}")
        saved = deepcopy(source.state_dict())
        path = corrupt(saved, dice)
        optimizer = made(kind, small_net(), symmetric=True, engine="torch")
        run(optimizer, 1)
        before = snapshot(optimizer)
        try:
            optimizer.load_state_dict(saved)
        except ValueError:
            refused += 1
            assert same_bits(snapshot(optimizer), before), path
            continue
        run(optimizer, 10, first=3)
        for values in drivers_state(optimizer).values():
            own = {key.removeprefix("perturbation."): v for key, v in values.items()}
            if "step" in own:
                assert 10 <= int(own["step"]) < 2**62, path
                assert own["additive"].dtype == torch.int32, path
        again = made(kind, small_net(), symmetric=True, engine="torch")
        again.load_state_dict(optimizer.state_dict())  # what it holds is a whole state
    assert CORRUPTIONS // 3 < refused < CORRUPTIONS  # both ends are met


WRONG: list[tuple[str, Callable[[dict[str, Any]], Any], str]] = [
    ("no state", lambda s: s.update(state=None), "'state' of the state must be a dict, got None"),
    ("no groups", lambda s: s.pop("param_groups"), "the state lacks 'param_groups'"),
    ("a list", lambda s: s["state"].update({1: []}), "state of parameter 1 |groups|lacks"),
    ("lr", lambda s: s["param_groups"][0].update(lr=-1.0), r"lr must lie in \[0, inf\), got -1.0"),
    ("no lr", lambda s: s["param_groups"][0].pop("lr"), "lr"),
    ("names", lambda s: s["param_groups"][0].update(params=[0, 0, 1, 2]), "must differ"),
]


@pytest.mark.parametrize(("name", "edit", "text"), WRONG, ids=[w[0] for w in WRONG])
@pytest.mark.parametrize("kind", ["mpgd", "adamw"])
def test_every_refusal_says_which_entry(kind: str, name: str, edit: Any, text: str) -> None:
    optimizer = made(kind, small_net(), engine="torch")
    run(optimizer, 2)
    saved, before = deepcopy(optimizer.state_dict()), snapshot(optimizer)
    edit(saved)
    with pytest.raises(ValueError, match=text):
        optimizer.load_state_dict(saved)
    assert same_bits(snapshot(optimizer), before)


INNER: list[tuple[str, Callable[[dict[str, Any]], Any], str]] = [
    ("no step", lambda s: s.pop("step"), "the state of parameter 1 lacks 'step'"),
    ("step", lambda s: s.update(step=torch.tensor(-2.0)), "'step' of parameter 1 must be at least"),
    ("text", lambda s: s.update(exp_avg="x"), "'exp_avg' of parameter 1 must be a tensor .*'x'"),
    ("shape", lambda s: s.update(exp_avg=torch.ones(2)), r"'exp_avg' .* shape \(7,\), got \(2,\)"),
    ("meta", lambda s: s.update(exp_avg=s["exp_avg"].to("meta")), "'exp_avg' .* dense tensor"),
    ("ours", lambda s: s.update({"perturbation.step": torch.tensor(-1)}), "'step' .* at least 0"),
]


@pytest.mark.parametrize(("name", "edit", "text"), INNER, ids=[w[0] for w in INNER])
def test_a_state_that_the_inner_optimizer_would_stumble_over_is_refused(
    name: str, edit: Any, text: str
) -> None:
    optimizer = made("adamw", small_net(), engine="torch")
    run(optimizer, 2)
    saved, before = deepcopy(optimizer.state_dict()), snapshot(optimizer)
    edit(saved["state"][1])
    with pytest.raises(ValueError, match=text):
        optimizer.load_state_dict(saved)
    assert same_bits(snapshot(optimizer), before)


def test_settings_of_the_inner_optimizer_are_checked_by_its_class() -> None:
    optimizer = made("adamw", small_net(), engine="torch")
    saved = deepcopy(optimizer.state_dict())
    saved["param_groups"][0]["betas"] = (0.9, 1.5)
    with pytest.raises(ValueError, match=r"does not fit the AdamW: .*Invalid beta parameter"):
        optimizer.load_state_dict(saved)


def test_a_word_beyond_the_longest_phase_is_refused() -> None:
    optimizer = made("mpgd", small_net(), engine="torch", longest=100)
    saved = deepcopy(optimizer.state_dict())
    saved["state"][1]["additive"][3] = 2**30
    text = r"'additive' of parameter 1 has a phase longer than .*100"
    with pytest.raises(ValueError, match=text):
        optimizer.load_state_dict(saved)


# Steps of a whole group at once: what a parameter alone could do without, the group cannot. -------

TOGETHER: list[tuple[str, dict[str, Any], str, Any, str]] = [
    ("SGD", {"momentum": 0.9, "fused": True}, "momentum_buffer", None, r"parameters \[1\] have"),
    ("SGD", {"momentum": 0.9, "fused": True}, "momentum_buffer", "lost", r"parameters \[1\] have"),
    ("RMSprop", {"momentum": 0.9}, "momentum_buffer", None, "'momentum_buffer' .* got None"),
    ("Adam", {"foreach": True}, "step", torch.tensor(3), "cannot take a step from its states"),
    ("Adafactor", {}, "row_var", "lost", "lacks 'row_var'"),
]


def of_torch(name: str, **settings: Any) -> tuple[list[nn.Parameter], mpgd.Perturbed]:
    params = [
        nn.Parameter(torch.linspace(0.1, 1.0, 6).reshape(shape)) for shape in ((2, 3), (3, 2))
    ]
    inner = getattr(torch.optim, name)(params, lr=0.01, **settings)
    return params, mpgd.perturb(inner, sigma=0.001)


def take_steps(params: list[nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
    for _ in range(3):
        for p in params:
            p.grad = torch.ones_like(p) if p.requires_grad else None
        optimizer.step()


@pytest.mark.parametrize(
    ("name", "settings", "entry", "value", "text"),
    TOGETHER,
    ids=[f"{t[0]} {t[3]}" for t in TOGETHER],
)
def test_a_state_that_a_group_could_not_step_from_is_refused(
    name: str, settings: dict[str, Any], entry: str, value: Any, text: str
) -> None:
    params, source = of_torch(name, **settings)
    take_steps(params, source)
    saved = deepcopy(source.state_dict())
    saved["state"][1][entry] = value
    if value == "lost":
        del saved["state"][1][entry]
    params, optimizer = of_torch(name, **settings)
    before = snapshot(optimizer)
    with pytest.raises(ValueError, match=f"does not fit the {name}: .*{text}"):
        optimizer.load_state_dict(saved)
    assert same_bits(snapshot(optimizer), before)


def test_a_missing_momentum_is_no_harm_where_torch_can_do_without() -> None:
    """Without fused; and with it, of a parameter that has never had a gradient."""
    params, source = of_torch("SGD", momentum=0.9)
    take_steps(params, source)
    saved = deepcopy(source.state_dict())
    saved["state"][1]["momentum_buffer"] = None
    params, optimizer = of_torch("SGD", momentum=0.9)
    optimizer.load_state_dict(saved)
    take_steps(params, optimizer)
    params, source = of_torch("SGD", momentum=0.9, fused=True)
    params[1].requires_grad_(False)
    take_steps(params, source)
    others, optimizer = of_torch("SGD", momentum=0.9, fused=True)
    others[1].requires_grad_(False)
    optimizer.load_state_dict(deepcopy(source.state_dict()))
    with torch.no_grad():
        for own, other in zip(params, others, strict=True):
            other.copy_(own)
    take_steps(params, source)
    take_steps(others, optimizer)
    assert all(torch.equal(p, q) for p, q in zip(params, others, strict=True))
