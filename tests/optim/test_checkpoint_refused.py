"""A state that does not fit is refused before anything is changed."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch

from mpgd import ChaoticNoise, GaussianNoise
from mpgd.optim.settings import NAMES
from tests.optim.checkpoints import made, prefix_of
from tests.optim.workers import run, same_bits, small_net, snapshot, train

Edit = Callable[[dict[str, Any]], Any]


def entry(change: Callable[[dict[str, Any]], Any], number: int = 1) -> Edit:
    """Return an edit of one parameter's state."""
    return lambda saved: change(saved["state"][number])


def put(name: str, change: Callable[[Any], Any], number: int = 1) -> Edit:
    """Return an edit of one entry there."""
    return entry(lambda state: state.update({name: change(state[name])}), number)


def group(**values: Any) -> Edit:
    """Return an edit of the group."""
    return lambda saved: saved["param_groups"][0].update(values)


WRONG: list[tuple[str, Edit, str]] = [
    ("shape", put("additive", lambda x: x[:3]), r"'additive' .* 1 must have shape \(7,\), got .*3"),
    ("twin", put("multiplicative_twin", lambda x: x[:3]), "'multiplicative_twin' .* have shape"),
    (
        "dtype",
        put("additive", lambda x: x.float()),
        "'additive' of parameter 1 must be .*int32",
    ),
    ("meta", put("additive", lambda x: x.to("meta")), "'additive' .* a dense tensor with memory"),
    ("steps", put("step", lambda x: x.float()), "'step' of parameter 1 must be torch.int64, got"),
    ("past", put("step", lambda x: x - 9), r"'step' of parameter 1 must be at least 0 .* got -5"),
    ("ordinal", put("ordinal", lambda x: -1), "'ordinal' .* at least 0 and below .*, got -1"),
    (
        "text",
        put("ordinal", lambda x: "x"),
        r"'ordinal' .* must have shape \(\), got str",
    ),
    ("orbit", entry(lambda s: s.pop("multiplicative")), "parameter 1 lacks 'multiplicative'"),
    ("no tables", entry(lambda s: s.pop("tables")), "the state of parameter 1 lacks 'tables'"),
    ("no ordinal", entry(lambda s: s.pop("ordinal")), "the state of parameter 1 lacks 'ordinal'"),
    ("one", lambda saved: saved["state"].pop(1), "the state of parameter 1 lacks 'step'"),
    ("none", lambda saved: saved["state"].clear(), "the state of parameter 0 lacks 'step'"),
    ("no state", lambda saved: saved.update(state=None), "'state' of the state must be a dict"),
    ("no groups", lambda saved: saved.pop("param_groups"), "the state lacks 'param_groups'"),
    ("tables", put("tables", lambda x: x + 1), r"saved with other tables \(fingerprint -?\d+\)"),
    ("gamma", group(gamma=0.7), "parameter 0 was saved with other tables"),
    ("bad gamma", group(gamma=1.7), r"param_groups\[0\] .*: gamma must lie in .* got 1.7"),
    ("bad mu", group(mu=float("nan")), r"param_groups\[0\] of the state: mu must lie .* got nan"),
    ("bad seed", group(seed=(1, 2, 3)), r"a number or a pair \(number, name\), got \(1, 2, 3\)"),
    ("noise", group(noise=["x", "x"]), r"saved with noise=\['x', 'x'\], the optimizer has None"),
    ("no mu", lambda s: s["param_groups"][0].pop("mu"), r"param_groups\[0\] .* lacks \['mu'\]"),
    ("sizes", lambda s: s["param_groups"][0]["params"].pop(), r"groups of \[3\] parameters, .*4"),
    ("groups", lambda s: s["param_groups"].append(s["param_groups"][0]), r"groups of \[4, 4\]"),
    ("names", group(params=[0, 0, 1, 2]), r"must differ from each other, got \[0, 0, 1, 2\]"),
    ("kinds", group(params=[0, 1, 2, None]), "must be numbers or names, got None"),
]
SCALARS: list[tuple[str, Edit, str]] = [
    ("orbit", entry(lambda s: s.pop("shared"), 0), "parameter 0 lacks 'shared'"),
    ("shape", put("shared", lambda x: x.expand(2), 0), r"'shared' .* shape \(\), got .*2"),
    ("dtype", put("shared", lambda x: x.float(), 0), "'shared' .* torch.int32, got torch.float32"),
]


def edited(saved: dict[str, Any], edit: Edit, prefix: str) -> dict[str, Any]:
    """Return a state dict, edited as if our names had no prefix."""
    inner = [
        {k: values.pop(k) for k in list(values) if not k.startswith(prefix)}
        for values in saved["state"].values()
    ]
    for values in (*saved["state"].values(), *saved["param_groups"]):
        for name in [name for name in values if prefix and name.startswith(prefix)]:
            values[name.removeprefix(prefix)] = values.pop(name)
    edit(saved)
    for values in saved.get("param_groups") or ():
        values.update({prefix + name: values.pop(name) for name in NAMES if name in values})
    for number, values in (saved["state"] or {}).items():
        own = {prefix + name: values.pop(name) for name in list(values)}
        values.update({**own, **inner[number]})
    return saved


@pytest.mark.parametrize(
    ("settings", "edit", "text"),
    [
        *(({"symmetric": True}, edit, text) for _, edit, text in WRONG),
        *(({"noise": ChaoticNoise(0.6, longest=100, shared=True)}, e, t) for _, e, t in SCALARS),
    ],
    ids=[name for name, _, _ in WRONG] + [f"shared {name}" for name, _, _ in SCALARS],
)
@pytest.mark.parametrize("kind", ["mpgd", "adamw"])
def test_a_state_that_does_not_fit_changes_nothing(
    kind: str, settings: dict[str, Any], edit: Edit, text: str
) -> None:
    model, twin = small_net(), small_net()
    optimizer, other = (made(kind, net, engine="torch", **settings) for net in (model, twin))
    train(model, optimizer, range(4))
    train(twin, other, range(4))
    saved, before = deepcopy(other.state_dict()), snapshot(optimizer)
    with pytest.raises(ValueError, match=text):
        optimizer.load_state_dict(edited(saved, edit, prefix_of(kind)))
    assert same_bits(snapshot(optimizer), before)
    train(model, optimizer, range(4, 6))
    train(twin, other, range(4, 6))
    assert same_bits(snapshot(optimizer), snapshot(other))


@pytest.mark.parametrize("kind", ["mpgd", "adamw"])
def test_another_noise_is_refused_and_the_same_one_loads(kind: str) -> None:
    saved = made(kind, small_net(), noise=(GaussianNoise(), ChaoticNoise(0.7))).state_dict()
    text = r"was saved with noise=\['GaussianNoise\(.*, .* has \[\"ChaoticNoise\(.*the same"
    with pytest.raises(ValueError, match=text):
        made(kind, small_net(), noise=ChaoticNoise(0.7)).load_state_dict(saved)
    noise = (GaussianNoise(), ChaoticNoise(0.7, engine="torch"))  # the bits do not depend on it
    made(kind, small_net(), noise=noise).load_state_dict(saved)


def test_what_the_inner_class_refuses_changes_nothing_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    optimizer, other = (made("adamw", small_net(), engine="torch") for _ in range(2))
    run(optimizer, 2)
    run(other, 3)
    before, take_over = snapshot(optimizer), torch.optim.AdamW.__setstate__

    def fail(self: Any, state: dict[str, Any]) -> None:
        take_over(self, state)
        raise RuntimeError("not this one")

    monkeypatch.setattr(torch.optim.AdamW, "__setstate__", fail)
    with pytest.raises(RuntimeError, match="not this one"):
        optimizer.load_state_dict(other.state_dict())
    monkeypatch.undo()
    assert same_bits(snapshot(optimizer), before)
