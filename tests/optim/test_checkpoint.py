"""A run resumes bit for bit from a checkpoint or a copy."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mpgd.optim.wrapper import PREFIX
from tests.optim.checkpoints import KINDS, VARIANTS, drivers_state, made, reloaded, setting_name
from tests.optim.workers import SETTINGS, run, same_bits, small_net, snapshot, train


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
    """Torch casts state to the parameter's dtype on loading; an orbit must stay int32."""
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
    mu, gamma = setting_name(again, "mu"), setting_name(again, "gamma")
    assert again.param_groups[1][mu] == SETTINGS["mu"]
    assert again.param_groups[1][gamma] == again.param_groups[0][gamma]
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


@pytest.mark.parametrize("change", [{"gamma": 0.7}, {"noise": "gaussian"}], ids=str)
@pytest.mark.parametrize("kind", ["mpgd", "adamw"])
def test_what_was_changed_in_mid_run_is_saved_as_it_is_now(
    kind: str, change: dict[str, Any]
) -> None:
    """The fingerprint of the tables is that of the new noise, or the state would not load."""
    model, other = small_net(), small_net(seed=9)
    optimizer, again = made(kind, model), made(kind, other)
    train(model, optimizer, range(2))
    for name, value in change.items():
        optimizer.param_groups[0][setting_name(optimizer, name)] = value
    train(model, optimizer, range(2, 4))
    other.load_state_dict(deepcopy(model.state_dict()))
    again.load_state_dict(deepcopy(optimizer.state_dict()))
    for net, each in ((model, optimizer), (other, again)):
        train(net, each, range(4, 8))
    assert same_bits(snapshot(optimizer), snapshot(again))


@pytest.mark.parametrize("kind", KINDS)
def test_numpys_numbers_of_a_schedule_are_saved_as_plain_ones(kind: str, tmp_path: Path) -> None:
    optimizer = made(kind, small_net(), engine="torch")
    [group] = optimizer.param_groups
    for name, value in {"sigma": np.float64(0.25), "gamma": (np.float32(0.625), 0.75)}.items():
        group[setting_name(optimizer, name)] = value
    group["lr"] = np.float64(0.125)
    run(optimizer, 1)
    saved = reloaded(optimizer.state_dict(), tmp_path)
    optimizer.load_state_dict(saved)
    [group] = saved["param_groups"]
    assert group["lr"] == 0.125
    assert group[setting_name(optimizer, "sigma")] == 0.25
    assert group[setting_name(optimizer, "gamma")] == (0.625, 0.75)
