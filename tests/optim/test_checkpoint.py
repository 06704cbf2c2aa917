"""Resume bit for bit, and refuse what does not fit before anything is changed: CHECKS 8 and 11."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from tests.optim.workers import SETTINGS, make_optimizer, run, same_bits, small_net, snapshot, train
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.optim import Optimizer

import mpgd
from mpgd.optim.wrapper import PREFIX

KINDS = ["mpgd", "sgd", "adamw", "adagrad"]
VARIANTS: list[dict[str, Any]] = [
    {},
    {"symmetric": True, "gamma": (0.6, 0.7), "beta": (0.0, 1.0)},
    {"shared_multiplicative": True, "symmetric": True},
    {"noise": "gaussian"},
    {"noise": "stable", "shared_multiplicative": True},
    {"start": 5, "stop": 15, "signs": "product", "engine": "torch"},
]


def made(kind: str, model: nn.Module, named: bool = False, **settings: Any) -> Optimizer:
    """Return an optimizer of the model's parameters or named parameters."""
    given = model.named_parameters() if named else model.parameters()
    return make_optimizer(kind, given, **settings)


def reloaded(content: Any, folder: Path) -> Any:
    """Write to disk and read back as a careful user does."""
    torch.save(content, folder / "checkpoint.pt")
    return torch.load(folder / "checkpoint.pt", weights_only=True)


def drivers_state(optimizer: Optimizer) -> dict[Any, Any]:
    """Return a copy of the drivers' part of the state."""
    prefix = PREFIX if isinstance(optimizer, mpgd.Perturbed) else ""
    return {
        number: {key: v.clone() for key, v in values.items() if key.startswith(prefix)}
        for number, values in optimizer.state_dict()["state"].items()
    }


# --- resume ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variant", "named"), [(v, n % 2 == 0) for n, v in enumerate(VARIANTS)], ids=str
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_resumes_from_disk_bit_for_bit(
    kind: str, variant: dict[str, Any], named: bool, tmp_path: Path
) -> None:
    """The new process knows the kind of optimizer; all settings come from the checkpoint."""
    steps = 100 if not variant else 20
    model = small_net()
    optimizer = made(kind, model, named, **variant)
    train(model, optimizer, range(10))
    saved = reloaded((model.state_dict(), optimizer.state_dict()), tmp_path)
    train(model, optimizer, range(10, 10 + steps))
    for mu in (SETTINGS["mu"], 0.0):  # an optimizer built with other settings takes the saved ones
        other = small_net(seed=9)
        again = made(kind, other, named, mu=mu)
        other.load_state_dict(saved[0])
        again.load_state_dict(deepcopy(saved[1]))  # torch itself loads moments without a copy
        train(other, again, range(10, 10 + steps))
        assert same_bits(snapshot(again), snapshot(optimizer))


@pytest.mark.parametrize("kind", KINDS)
def test_named_and_unnamed_checkpoints_fit_each_other(kind: str, tmp_path: Path) -> None:
    for first, second in ((True, False), (False, True)):
        model, other = small_net(), small_net(seed=9)
        optimizer, again = made(kind, model, first), made(kind, other, second)
        train(model, optimizer, range(5))
        saved = reloaded((model.state_dict(), optimizer.state_dict()), tmp_path)
        other.load_state_dict(saved[0])
        again.load_state_dict(saved[1])
        train(model, optimizer, range(5, 20))
        train(other, again, range(5, 20))
        one, two = snapshot(optimizer), snapshot(again)
        assert same_bits(one["state"], two["state"])
        assert same_bits(one["parameters"], two["parameters"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_orbits_of_other_dtypes_keep_their_bits(
    kind: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    """Torch casts state to the parameter's dtype on loading; an orbit must stay float64."""
    models = [small_net(dtype=dtype) for _ in range(2)]
    optimizer, again = (made(kind, model, symmetric=True) for model in models)
    run(optimizer, 10)
    models[1].load_state_dict(models[0].state_dict())
    again.load_state_dict(reloaded(optimizer.state_dict(), tmp_path))
    assert same_bits(drivers_state(again), drivers_state(optimizer))
    run(optimizer, 20, first=10)
    run(again, 20, first=10)
    assert same_bits(snapshot(again), snapshot(optimizer))


def copy_by_pickle(content: Any) -> Any:
    return pickle.loads(pickle.dumps(content))


def copy_by_torch(content: Any) -> Any:
    stream = io.BytesIO()
    torch.save(content, stream)
    stream.seek(0)
    return torch.load(stream, weights_only=False)


@pytest.mark.parametrize("copy", [deepcopy, copy_by_pickle, copy_by_torch])
@pytest.mark.parametrize(("variant", "named"), [(VARIANTS[1], False), (VARIANTS[2], True)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_goes_on_bit_for_bit(
    kind: str, variant: dict[str, Any], named: bool, copy: Callable[[Any], Any]
) -> None:
    model = small_net()
    optimizer = made(kind, model, named, **variant)
    train(model, optimizer, range(5))
    other, again = copy((model, optimizer))
    assert same_bits(snapshot(again), snapshot(optimizer))
    before = snapshot(optimizer)
    train(other, again, range(5, 25))
    assert same_bits(snapshot(optimizer), before)  # nothing is shared with the copy
    train(model, optimizer, range(5, 25))
    assert same_bits(snapshot(again), snapshot(optimizer))
    late = nn.Parameter(torch.ones(3))
    again.add_param_group({"params": [("late", late) if named else late]})  # with the defaults
    assert again.param_groups[1]["mu"] == SETTINGS["mu"]
    assert again.param_groups[1]["gamma"] == again.param_groups[0]["gamma"]
    again.load_state_dict(again.state_dict())


@pytest.mark.parametrize("kind", KINDS)
def test_loading_copies_and_leaves_the_given_state_alone(kind: str) -> None:
    model, other = small_net(), small_net()
    optimizer, again = made(kind, model), made(kind, other)
    train(model, optimizer, range(3))
    saved = optimizer.state_dict()
    kept = deepcopy(saved)
    again.load_state_dict(saved)
    train(other, again, range(3))
    prefix = "" if kind == "mpgd" else PREFIX  # torch itself loads moments without a copy
    for number, values in saved["state"].items():
        own = {key: v for key, v in values.items() if key.startswith(prefix)}
        assert same_bits(own, {key: kept["state"][number][key] for key in own})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ["torch", "numba"])
def test_an_orbit_saved_with_other_strides_still_moves(kind: str, engine: str) -> None:
    model, other = small_net(), small_net()
    optimizer, again = (made(kind, m, engine=engine) for m in (model, other))
    saved = deepcopy(optimizer.state_dict())
    for values in saved["state"].values():
        for key, value in values.items():
            if value.dim() == 2:
                values[key] = value.t().contiguous().t()
    again.load_state_dict(saved)
    train(model, optimizer, range(3))
    train(other, again, range(3))
    assert same_bits(snapshot(again), snapshot(optimizer))


def test_a_checkpoint_holds_tensors_and_plain_values_only() -> None:
    model = small_net()
    saved = made("mpgd", model, symmetric=True, gamma=(0.6, 0.7)).state_dict()
    for values in saved["state"].values():
        assert all(isinstance(v, torch.Tensor) for v in values.values())
    plain = (int, float, str, bool, tuple, list, type(None))
    for group in saved["param_groups"]:
        assert all(isinstance(v, plain) for v in group.values())


# --- what does not fit -------------------------------------------------------------------------


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
    ("dtype", cast("additive", torch.float32), "'additive' of parameter 1 must be torch.float64"),
    ("step", cast("step", torch.float32), "'step' of parameter 1 must be torch.int64, got .*32"),
    ("key", drop("key"), "the state of parameter 1 lacks 'key'"),
    ("orbit", drop("multiplicative"), "the state of parameter 1 lacks 'multiplicative'"),
    ("no tables", drop("tables"), "the state of parameter 1 lacks 'tables'"),
    ("all", lambda saved: saved["state"].pop(1), "the state of parameter 1 lacks"),
    ("none", lambda saved: saved["state"].clear(), "the state of parameter 0 lacks"),
    ("number", edited(lambda s: s.update(step=3)), "'step' of parameter 1 must have shape .* int"),
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
    return {**saved, "state": state}


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
        saved["param_groups"] = part["param_groups"]
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
    ("dtype", lambda s: s["state"][0].update(shared=torch.zeros(())), "'shared' .* torch.float64"),
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
    assert optimizer.param_groups[0]["mu"] == SETTINGS["mu"]
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
    inner = torch.optim.AdamW(groups(model, mu=0.7, gamma=0.8), lr=0.02)
    optimizer = mpgd.perturb(inner, mu=0.1, sigma=0.1)
    inner.load_state_dict(plain.state_dict())
    run(optimizer, 1)
    assert [group["mu"] for group in optimizer.param_groups] == [0.7, 0.1]
    assert [group["gamma"] for group in optimizer.param_groups] == [0.8, 0.6]


# --- torch.distributed.checkpoint on one process -----------------------------------------------


# torch's checkpointing still names parts of itself by deprecated ways
DCP = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning:torch.distributed")


@DCP
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flatten", [False, True])
def test_a_run_resumes_through_distributed_checkpoints(
    kind: str, flatten: bool, tmp_path: Path
) -> None:
    options = StateDictOptions(flatten_optimizer_state_dict=flatten)
    model = small_net()
    optimizer = made(kind, model, symmetric=True)
    train(model, optimizer, range(10))
    weights, state = get_state_dict(model, optimizer, options=options)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=tmp_path / "dcp", no_dist=True)
    train(model, optimizer, range(10, 110))

    other = small_net(seed=9)
    again = made(kind, other, symmetric=True)
    weights, state = get_state_dict(other, again, options=options)
    dcp.load({"model": weights, "optimizer": state}, checkpoint_id=tmp_path / "dcp", no_dist=True)
    set_state_dict(other, again, model_state_dict=weights, optim_state_dict=state, options=options)
    train(other, again, range(10, 110))
    assert same_bits(snapshot(again)["parameters"], snapshot(optimizer)["parameters"])
    assert same_bits(drivers_state(again), drivers_state(optimizer))


@DCP
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_asking_a_fresh_optimizer_for_its_state_changes_nothing_of_the_driver(
    kind: str, variant: dict[str, Any]
) -> None:
    """The function steps an optimizer without state at lr = 0; AdamW itself counts that step."""
    model = small_net()
    optimizer = made(kind, model, **variant)
    before, drivers = snapshot(optimizer), drivers_state(optimizer)
    get_optimizer_state_dict(model, optimizer)
    assert same_bits(drivers_state(optimizer), drivers)
    if kind == "mpgd":
        assert same_bits(snapshot(optimizer), before)
