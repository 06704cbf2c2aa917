"""A state that does not fit is refused before anything is changed."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mpgd
from mpgd.optim.settings import NAMES, PREFIX
from tests.optim.checkpoints import KINDS, drivers_state, made, reloaded
from tests.optim.workers import SETTINGS, make_optimizer, run, same_bits, small_net, snapshot, train


def edited(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], None]:
    """Return an edit of the second parameter's state, given without the wrapper's prefix."""

    def edit(saved: dict[str, Any]) -> None:
        change(saved["state"][1])

    return edit


def cut(name: str) -> Callable[[dict[str, Any]], None]:
    return edited(lambda s: s.update({name: s[name][:3]}))


def cast(name: str, dtype: torch.dtype) -> Callable[[dict[str, Any]], None]:
    return edited(lambda s: s.update({name: s[name].to(dtype)}))


def drop(name: str) -> Callable[[dict[str, Any]], None]:
    return edited(lambda s: s.pop(name))


def setting(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda saved: saved["param_groups"][0].update({name: value})


WRONG: list[tuple[str, Callable[[dict[str, Any]], Any], str]] = [
    ("shape", cut("additive"), r"'additive' of parameter 1 must have shape \(7,\), got .*3"),
    ("twin", cut("multiplicative_twin"), r"'multiplicative_twin' of parameter 1 must have shape"),
    ("dtype", cast("additive", torch.float32), "'additive' of parameter 1 must be torch.int32"),
    ("step", cast("step", torch.float32), "'step' of parameter 1 must be torch.int64, got .*32"),
    ("key", drop("key"), "the state of parameter 1 lacks 'key'"),
    ("orbit", drop("multiplicative"), "the state of parameter 1 lacks 'multiplicative'"),
    ("no tables", drop("tables"), "the state of parameter 1 lacks 'tables'"),
    ("all", lambda saved: saved["state"].pop(1), "the state of parameter 1 lacks"),
    ("none", lambda saved: saved["state"].clear(), "the state of parameter 0 lacks"),
    ("number", edited(lambda s: s.update(key=3)), "'key' of parameter 1 must have shape .* int"),
    ("tables", edited(lambda s: s.update(tables=s["tables"] + 1)), "saved with other tables"),
    ("gamma", setting("gamma", 0.7), r"saved with other tables \(fingerprint -?\d+\)"),
    ("bad gamma", setting("gamma", 1.7), r"gamma must lie in \(0.5, 1\), got 1.7"),
    ("bad mu", setting("mu", float("nan")), "mu must lie .* got nan"),
    ("plain", lambda s: s["param_groups"][0].pop("mu"), r"param_groups\[0\] of the state lacks"),
    ("sizes", lambda s: s["param_groups"][0]["params"].pop(), r"groups of \[3\] parameters"),
    ("groups", lambda s: s["param_groups"].append(s["param_groups"][0]), r"groups of \[4, 4\]"),
]


def without_prefix(saved: dict[str, Any]) -> dict[str, Any]:
    state = {
        n: {key.removeprefix(PREFIX): v for key, v in values.items() if key.startswith(PREFIX)}
        for n, values in saved["state"].items()
    }
    groups = [
        {key.removeprefix(PREFIX): v for key, v in group.items()} for group in saved["param_groups"]
    ]
    return {**saved, "state": state, "param_groups": groups}


def assert_refused(kind: str, settings: dict[str, Any], edit: Any, text: str) -> None:
    """Load an edited state: an error, nothing changed, and the run goes on."""
    model, twin = small_net(), small_net()
    optimizer, other = made(kind, model, **settings), made(kind, twin, **settings)
    train(model, optimizer, range(4))
    train(twin, other, range(4))
    saved = deepcopy(other.state_dict())
    if kind == "mpgd":
        edit(saved)
    else:  # edit the drivers' part and put it back under the wrapper's names
        part = without_prefix(saved)
        edit(part)
        saved["param_groups"] = [
            {PREFIX + key if key in NAMES else key: v for key, v in group.items()}
            for group in part["param_groups"]
        ]
        for n, values in saved["state"].items():
            rest = {key: v for key, v in values.items() if not key.startswith(PREFIX)}
            own = {PREFIX + key: v for key, v in part["state"].get(n, {}).items()}
            saved["state"][n] = {**rest, **own}
    before = snapshot(optimizer)
    with pytest.raises(ValueError, match=text):
        optimizer.load_state_dict(saved)
    assert same_bits(snapshot(optimizer), before)
    train(model, optimizer, range(4, 6))
    train(twin, other, range(4, 6))
    assert same_bits(snapshot(optimizer), snapshot(other))


@pytest.mark.parametrize(("name", "edit", "text"), WRONG, ids=[w[0] for w in WRONG])
@pytest.mark.parametrize("kind", KINDS[:3])
def test_a_state_that_does_not_fit_changes_nothing(
    kind: str, name: str, edit: Callable[[dict[str, Any]], Any], text: str
) -> None:
    assert_refused(kind, {"symmetric": True}, edit, text)


SHARED: list[tuple[str, Callable[[dict[str, Any]], Any], str]] = [
    ("shared", lambda s: s["state"][0].pop("shared"), "parameter 0 lacks 'shared'"),
    ("step", lambda s: s["state"][0].pop("shared_step"), "parameter 0 lacks 'shared_step'"),
    ("shape", lambda s: s["state"][0].update(shared=torch.zeros(2).double()), "'shared' .* shape"),
    ("dtype", lambda s: s["state"][0].update(shared=torch.zeros(())), "'shared' .* torch.int32"),
]


@pytest.mark.parametrize(("name", "edit", "text"), SHARED, ids=[w[0] for w in SHARED])
@pytest.mark.parametrize("kind", KINDS[:2])
def test_a_shared_driver_that_does_not_fit_changes_nothing(
    kind: str, name: str, edit: Callable[[dict[str, Any]], Any], text: str
) -> None:
    assert_refused(kind, {"shared_multiplicative": True}, edit, text)


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_checkpoint_is_refused(kind: str) -> None:
    model, other = small_net(), small_net()
    inner = {"mpgd": "sgd"}.get(kind, kind)
    plain = make_optimizer(inner, other.parameters()).inner  # type: ignore[attr-defined]
    plain = type(plain)(other.parameters(), lr=0.05)
    train(other, plain, range(3))
    optimizer = made(kind, model)
    before = snapshot(optimizer)
    with pytest.raises(ValueError, match="it was not written by a perturbed optimizer"):
        optimizer.load_state_dict(plain.state_dict())
    assert same_bits(snapshot(optimizer), before)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_the_inner_optimizer_still_loads_its_old_plain_checkpoint(
    kind: str, tmp_path: Path
) -> None:
    """The moments come from the checkpoint; the drivers and their settings stay."""
    model = small_net()
    plain = type(make_optimizer(kind, small_net().parameters()).inner)(  # type: ignore[attr-defined]
        model.parameters(), lr=0.02, **({"momentum": 0.9} if kind == "sgd" else {})
    )
    train(model, plain, range(5))
    saved = reloaded((model.state_dict(), plain.state_dict()), tmp_path)

    other = small_net()
    optimizer = made(kind, other, symmetric=True)
    train(other, optimizer, range(3))
    drivers = drivers_state(optimizer)
    other.load_state_dict(saved[0])
    optimizer.inner.load_state_dict(saved[1])  # type: ignore[attr-defined]
    assert same_bits(drivers_state(optimizer), drivers)
    assert optimizer.param_groups[0]["lr"] == 0.02
    assert optimizer.param_groups[0]["perturbation.mu"] == SETTINGS["mu"]
    moments = optimizer.inner.state_dict()["state"]  # type: ignore[attr-defined]
    assert same_bits(moments, plain.state_dict()["state"])
    before = snapshot(optimizer)
    train(other, optimizer, range(5, 8))
    assert not same_bits(drivers_state(optimizer), drivers)
    again_model = small_net()
    again = made(kind, again_model, symmetric=True)
    again_model.load_state_dict(saved[0])
    again.load_state_dict(before)
    train(again_model, again, range(5, 8))
    assert same_bits(snapshot(again), snapshot(optimizer))


def test_groups_keep_their_own_settings_when_the_inner_optimizer_loads_a_plain_checkpoint() -> None:
    def groups(model: nn.Sequential, **own: Any) -> list[dict[str, Any]]:
        return [{"params": model[0].parameters(), **own}, {"params": model[2].parameters()}]

    plain = torch.optim.AdamW(groups(small_net()), lr=0.02)
    model = small_net()
    inner = torch.optim.AdamW(
        groups(model, **{"perturbation.mu": 0.7, "perturbation.gamma": 0.8}), lr=0.02
    )
    optimizer = mpgd.perturb(inner, mu=0.1, sigma=0.1)
    inner.load_state_dict(plain.state_dict())
    run(optimizer, 1)
    assert [group["perturbation.mu"] for group in optimizer.param_groups] == [0.7, 0.1]
    assert [group["perturbation.gamma"] for group in optimizer.param_groups] == [0.8, 0.6]
