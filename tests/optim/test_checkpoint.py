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

from mpgd import MPGD, ChaoticNoise, GaussianNoise, perturb
from tests.optim.checkpoints import KINDS, VARIANTS, drivers_state, made, prefix_of, reloaded
from tests.optim.descents import flat, parameters
from tests.optim.workers import SETTINGS, run, same_bits, set_gradients, small_net, snapshot, train

PLAIN: dict[str, Any] = {
    "mpgd": torch.optim.SGD,
    "sgd": lambda params, lr: torch.optim.SGD(params, lr=lr, momentum=0.9),
    "adamw": torch.optim.AdamW,
    "adagrad": torch.optim.Adagrad,
}


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_resumes_from_disk_bit_for_bit(
    kind: str, variant: dict[str, Any], tmp_path: Path
) -> None:
    """All settings but the noise objects come from the checkpoint; names may come or go."""
    for steps, names in ((0, (False, False)), (10, (True, False)), (10, (False, True))):
        model, other = small_net(), small_net(seed=9)
        optimizer = made(kind, model, names[0], **variant)
        train(model, optimizer, range(steps))
        saved = reloaded((model.state_dict(), optimizer.state_dict()), tmp_path)
        train(model, optimizer, range(steps, 40))
        own = {name: variant[name] for name in ("noise",) if name in variant}
        again = made(kind, other, names[1], mu=0.0, seed=99, **own)
        again.param_groups[0]["lr"] = 7.0
        other.load_state_dict(saved[0])
        again.load_state_dict(saved[1])
        train(other, again, range(steps, 40))
        one, two = snapshot(again), snapshot(optimizer)
        for found in (one, two):
            found["param_groups"][0].pop("param_names", None)
        assert same_bits(one, two)


@pytest.mark.parametrize("kind", ["mpgd", "adamw"])
@pytest.mark.parametrize(
    ("dtype", "rounding"),
    [
        (torch.bfloat16, "nearest"),
        (torch.bfloat16, "stochastic"),
        (torch.float16, "stochastic"),
        (torch.float64, "nearest"),
    ],
)
def test_a_float32_checkpoint_goes_on_in_another_dtype(
    kind: str, dtype: torch.dtype, rounding: str, tmp_path: Path
) -> None:
    """Torch casts what it loads to the parameter's dtype; an orbit stays as it is."""
    optimizer = made(kind, small_net(), symmetric=True, rounding=rounding)
    run(optimizer, 5)
    models = [small_net(dtype=dtype) for _ in range(2)]
    one, two = (made(kind, model, symmetric=True) for model in models)
    one.load_state_dict(reloaded(optimizer.state_dict(), tmp_path))
    assert same_bits(drivers_state(one), drivers_state(optimizer))
    run(optimizer, 3, first=5)
    run(one, 3, first=5)
    assert same_bits(drivers_state(one), drivers_state(optimizer))
    models[1].load_state_dict(models[0].state_dict())  # and from here on within the dtype
    two.load_state_dict(reloaded(one.state_dict(), tmp_path))
    for each in (one, two):
        run(each, 3, first=8)
    assert same_bits(snapshot(one), snapshot(two))


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
    assert type(again) is type(optimizer)
    before = snapshot(optimizer)
    assert same_bits(snapshot(again), before)
    train(other, again, range(5, 15))
    assert same_bits(snapshot(optimizer), before)  # nothing is shared with the copy
    train(model, optimizer, range(5, 15))
    assert same_bits(snapshot(again), snapshot(optimizer))
    late = nn.Parameter(torch.ones(3))
    again.add_param_group({"params": [("late", late) if named else late]})  # with the defaults
    for name in ("mu", "gamma", "noise", "seed"):
        values = [group[prefix_of(kind) + name] for group in again.param_groups]
        assert values[0] == values[1], name
    again.load_state_dict(again.state_dict())


@pytest.mark.parametrize("kind", ["mpgd", "adamw"])
@pytest.mark.parametrize("engine", ["torch", "cpu"])
def test_a_loaded_orbit_is_copied_whatever_its_strides(kind: str, engine: str) -> None:
    model, other = small_net(), small_net()
    optimizer, again = (made(kind, m, engine=engine) for m in (model, other))
    saved = deepcopy(optimizer.state_dict())
    for values in saved["state"].values():
        for key, value in values.items():
            if value.dim() == 2:
                values[key] = value.t().contiguous().t()
    kept = deepcopy(saved)
    again.load_state_dict(saved)
    train(model, optimizer, range(3))
    train(other, again, range(3))
    assert same_bits(snapshot(again), snapshot(optimizer))
    for number, values in kept["state"].items():
        for key in (key for key in values if key.endswith("ive")):  # torch copies no moments
            assert same_bits(saved["state"][number][key], values[key])


@pytest.mark.parametrize("kind", ["mpgd", "adamw"])
@pytest.mark.parametrize(
    "change",
    [{"gamma": 0.7}, {"symmetric": True}, {"noise": GaussianNoise(), "gamma": 0.6, "beta": 0.0}],
    ids=str,
)
def test_what_was_changed_in_mid_run_is_saved_as_it_is_now(
    kind: str, change: dict[str, Any]
) -> None:
    """The fingerprint of the tables is that of the new noise, or the state would not load."""
    model, other = small_net(), small_net(seed=9)
    optimizer = made(kind, model)
    train(model, optimizer, range(2))
    for name, value in change.items():
        optimizer.param_groups[0][prefix_of(kind) + name] = value
    train(model, optimizer, range(2, 4))
    again = made(kind, other, **{"noise": change["noise"]} if "noise" in change else {})
    other.load_state_dict(deepcopy(model.state_dict()))
    again.load_state_dict(deepcopy(optimizer.state_dict()))
    for net, each in ((model, optimizer), (other, again)):
        train(net, each, range(4, 8))
    assert same_bits(snapshot(optimizer), snapshot(again))


@pytest.mark.parametrize("kind", KINDS)
def test_numpys_numbers_of_a_schedule_are_saved_as_plain_ones(kind: str, tmp_path: Path) -> None:
    optimizer = made(kind, small_net(), engine="torch", seed=np.int64(3))
    [group] = optimizer.param_groups
    values: dict[str, Any] = {
        prefix_of(kind) + "sigma": np.float64(0.25),
        prefix_of(kind) + "gamma": (np.float32(0.625), 0.75),
        "lr": np.float64(0.125),
    }
    group.update(values)
    run(optimizer, 1)
    saved = reloaded(optimizer.state_dict(), tmp_path)
    optimizer.load_state_dict(saved)
    assert {name: saved["param_groups"][0][name] for name in values} == values


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_checkpoint_loads_and_leaves_the_drivers_as_they_are(
    kind: str, tmp_path: Path
) -> None:
    """The moments come from the checkpoint; so does the way back to a plain optimizer."""
    model, other = small_net(), small_net()
    plain = PLAIN[kind](model.parameters(), lr=0.02)
    train(model, plain, range(5))
    saved = reloaded((model.state_dict(), plain.state_dict()), tmp_path)
    optimizer = made(kind, other, symmetric=True)
    train(other, optimizer, range(3))
    drivers = drivers_state(optimizer)
    other.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    assert same_bits(drivers_state(optimizer), drivers)
    [group] = optimizer.param_groups
    assert (group["lr"], group[prefix_of(kind) + "mu"]) == (0.02, SETTINGS["mu"])
    group.update({prefix_of(kind) + "mu": 0.0, prefix_of(kind) + "sigma": 0.0})
    back = PLAIN[kind](model.parameters(), lr=0.5)
    back.load_state_dict(reloaded(optimizer.state_dict(), tmp_path))
    train(model, back, range(5, 8))
    train(other, optimizer, range(5, 8))
    assert same_bits(list(model.parameters()), list(other.parameters()))


def test_each_group_keeps_its_settings_when_a_plain_checkpoint_is_loaded() -> None:
    def groups(model: nn.Sequential, **own: Any) -> list[dict[str, Any]]:
        return [{"params": model[0].parameters(), **own}, {"params": model[2].parameters()}]

    plain = torch.optim.AdamW(groups(small_net()), lr=0.02)
    own = {"perturbation.mu": 0.7, "perturbation.noise": ChaoticNoise(0.8)}
    optimizer = perturb(torch.optim.AdamW(groups(small_net(), **own), lr=0.1), mu=0.1, sigma=0.1)
    optimizer.load_state_dict(plain.state_dict())
    run(optimizer, 1)
    assert [group["perturbation.mu"] for group in optimizer.param_groups] == [0.7, 0.1]
    assert optimizer.param_groups[0]["perturbation.noise"] == ChaoticNoise(0.8)


def test_an_optimizer_that_has_trained_keeps_its_state_when_it_is_perturbed() -> None:
    """Before the noise starts, its further steps are those of the plain one."""
    models = [small_net() for _ in range(2)]
    plain, late = (torch.optim.AdamW(model.parameters(), lr=0.05) for model in models)
    for model, optimizer in zip(models, (plain, late), strict=True):
        train(model, optimizer, range(4))
    assert perturb(late, sigma=0.1, start=4) is late
    for model, optimizer in zip(models, (plain, late), strict=True):
        train(model, optimizer, range(4, 8))
    assert same_bits(list(models[0].parameters()), list(models[1].parameters()))
    train(models[1], late, range(8, 9))
    assert float(late.state[models[1][0].weight]["step"]) == 9
    assert not same_bits(list(models[0].parameters()), list(models[1].parameters()))


def test_a_state_that_was_written_from_outside_goes_on(tmp_path: Path) -> None:
    """As ZeRO does: it writes what it loads into `state`, and steps."""
    one, two = (made("adamw", small_net(dtype=torch.bfloat16)) for _ in range(2))
    run(one, 3)
    for group, other in zip(one.param_groups, two.param_groups, strict=True):
        for p, q in zip(group["params"], other["params"], strict=True):
            q.data.copy_(p.data)
            two.state[q] = {name: x.detach().clone() for name, x in one.state[p].items()}
    for optimizer in (one, two):
        set_gradients(optimizer.param_groups[0]["params"], 3)
        optimizer.step()
    assert same_bits(snapshot(one), snapshot(two))


def test_mpgd_and_perturbed_sgd_load_each_others_checkpoints() -> None:
    """They are one algorithm; only the prefix of the entries differs."""
    makers: list[Any] = [
        lambda params: MPGD(params, lr=0.1, sigma=0.1, momentum=0.9),
        lambda params: perturb(torch.optim.SGD(params, lr=0.1, momentum=0.9), sigma=0.1),
    ]
    for make, make_other in (makers, makers[::-1]):
        one = make(parameters([5, 3]))
        run(one, 3)
        other = make_other([nn.Parameter(p.detach().clone()) for p in flat(one)])
        other.load_state_dict(deepcopy(one.state_dict()))  # torch shares buffers otherwise
        for optimizer in (one, other):
            run(optimizer, 2, first=3)
        assert same_bits(flat(one), flat(other))
        saved = deepcopy(one.state_dict())
        del saved["param_groups"][0][one._prefix + "rounding"]
        with pytest.raises(ValueError, match=r"lacks \['rounding'\]"):
            other.load_state_dict(saved)
