"""The drivers of one parameter: their state, and the perturbation they give at a step.

A perturbed parameter holds, in its optimizer state,

    step, key                  how many steps it took; the hash of (seed, its ordinal)
    multiplicative, additive   the orbits of the two chaotic drivers (8 bytes per element each),
    ..._twin                   of their twins in the symmetric variant,
    tables                     the fingerprint of the tables that advance them

and, with a shared multiplicative driver, the first parameter of the group holds that scalar
orbit and its own step. Independent noises hold no orbit.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Final

import torch
from torch import Tensor

from mpgd.noise import ChaoticNoise, NoiseState
from mpgd.noise.counter import extend_key_tensor, flat_index, make_key, step_key_tensor
from mpgd.noise.engines import check_device, tensor
from mpgd.optim.settings import Noise, exponents, has_twins, is_perturbed, noises
from mpgd.optim.shards import Place, like, local, place_of
from mpgd.optim.update import Scalar, precision_of, strengths, term

State = MutableMapping[str, Any]
Group = MutableMapping[str, Any]

NAMES: Final = ("multiplicative", "additive")
SHARED: Final = 2**40  # stands for the ordinal of the shared scalar driver


def needed(group: Group) -> list[tuple[str, int, int]]:
    """Return (name, which noise, driver number) of every orbit that a parameter must hold."""
    if group["noise"] != "chaotic":
        return []
    sizes = (group["mu"] and not group["shared_multiplicative"], group["sigma"])
    plain = [(NAMES[which], which, which) for which in (0, 1) if sizes[which]]
    twins = [(f"{name}_twin", which, which + 2) for name, which, _ in plain]
    return plain + (twins if has_twins(group) else [])


def ensure(parameter: Tensor, state: State, group: Group, ordinal: int) -> None:
    """Create what the parameter's state lacks; what is there stays."""
    if not is_perturbed(group):
        return
    check_device(parameter.device)
    if parameter.is_conj() or parameter.is_neg():
        raise ValueError(
            "a parameter must own its memory to be updated in place, got a lazily conjugated or "
            f"negated view of shape {tuple(parameter.shape)}; resolve_conj() or resolve_neg() it"
        )
    if "key" not in state:
        state["step"] = torch.zeros((), dtype=torch.int64)
        state["key"] = torch.tensor(make_key(group["seed"], ordinal), dtype=torch.int64)
    place = place_of(parameter)
    for name, which, number in needed(group):
        if name not in state:
            noise = noises(group)[which]
            fresh = noise.init(
                place.shape,
                group["seed"],
                parameter.device,
                tensor_id=ordinal,
                driver_id=number,
                index=place.index(parameter.device),
            )
            state[name] = like(parameter, fresh.s)
    if group["noise"] == "chaotic":
        state["tables"] = torch.tensor(fingerprint(group), dtype=torch.int64)


def fingerprint(group: Group) -> int:
    """Return one number for the tables of both drivers."""
    first, second = noises(group)
    if not (isinstance(first, ChaoticNoise) and isinstance(second, ChaoticNoise)):
        return 0
    return make_key(first.driver.fingerprint, second.driver.fingerprint)


def needed_shared(group: Group) -> list[str]:
    """Return the names that a group's first parameter holds for the shared scalar driver."""
    if not (group["shared_multiplicative"] and group["mu"]):
        return []
    orbits = ["shared", "shared_twin"] if has_twins(group) else ["shared"]
    return ["shared_step", *(orbits if group["noise"] == "chaotic" else [])]


def is_lacking(group: Group, states: list[State]) -> bool:
    """Return whether a perturbed parameter's state lacks what the group's settings now need."""
    names = {"step", *(name for name, _, _ in needed(group))}
    for state in states:
        if not names <= state.keys():
            return True
    return any(name not in states[0] for name in needed_shared(group))


def ensure_shared(state: State, group: Group, others: list[State]) -> None:
    """Create the scalar driver of a group in its first parameter's state.

    A group that joins later takes over the orbit that the optimizer's other groups are on.
    """
    for name in needed_shared(group):
        if name in state:
            continue
        found = [other[name] for other in others if name in other]
        state[name] = found[0].clone() if found else _fresh_shared(name, group)


def _fresh_shared(name: str, group: Group) -> Tensor:
    if name == "shared_step":
        return torch.zeros((), dtype=torch.int64)
    number = 0 if name == "shared" else 2
    return noises(group)[0].init((), group["seed"], "cpu", tensor_id=SHARED, driver_id=number).s


def shared_value(state: State, group: Group, active: bool | Tensor) -> Tensor:
    """Return v1 of the shared scalar driver, a float64 scalar, and advance it where ``active``."""
    noise, step = noises(group)[0], state["shared_step"]
    value = torch.zeros((), dtype=torch.float64)
    for sign, number, name in ((1.0, 0, "shared"), (-1.0, 2, "shared_twin")):
        if sign > 0 or has_twins(group):
            key = torch.tensor(make_key(group["seed"], SHARED, number), dtype=torch.int64)
            s = state[name] if name in state else torch.zeros((), dtype=torch.float64)
            v, following = noise.step(NoiseState(s, step - group["start"], key))
            value = value + sign * v
            if name in state:
                _store(s, following.s, active)
    return value


def _store(s: Tensor, following: Tensor, active: bool | Tensor) -> None:
    new = torch.where(active, following, s) if isinstance(active, Tensor) else following
    torch._foreach_copy_([s], [new])  # torch 2.13 compiles copy_ of a scalar state to nothing


def is_active(step: Tensor, group: Group, eta: Scalar) -> bool | Tensor:
    """Return whether a step is perturbed: start <= step < stop and eta > 0.

    A tensor while compiling, where nothing may depend on a tensor's value.
    """
    start, stop = group["start"], group["stop"]
    if not torch.compiler.is_compiling():
        k = int(step)
        return bool(start <= k and (stop is None or k < stop) and eta != 0)
    if start == 0 and stop is None and not isinstance(eta, Tensor):
        return bool(eta != 0)
    inside: Tensor = (step >= start) & (eta != 0)
    return inside if stop is None else inside & (step < stop)


def terms(
    parameter: Tensor, state: State, group: Group, eta: Scalar, shared: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """Return m and n of `mpgd.optim.update` for one parameter and advance its drivers."""
    active = is_active(state["step"], group, eta)
    if active is False:
        return None, None
    precision = precision_of(local(parameter).dtype)
    scales = strengths(eta, group["mu"], group["sigma"], exponents(group))
    place = place_of(parameter)
    found: list[Tensor | None] = [None, None]
    for which, size in enumerate((group["mu"], group["sigma"])):
        if not size:
            continue
        if which == 0 and shared is not None:
            found[0] = (scales[0] * shared).to(precision)
        else:
            v = draw(parameter, state, group, which, which, place, active)
            twin = has_twins(group)
            w = draw(parameter, state, group, which, which + 2, place, active) if twin else None
            found[which] = term(scales[which], v, w, precision)
    if isinstance(active, Tensor):
        found = [None if t is None else torch.where(active, t, 0.0) for t in found]
    return found[0], found[1]


def draw(
    parameter: Tensor, state: State, group: Group, which: int, number: int, place: Place,
    active: bool | Tensor,
) -> Tensor:  # fmt: skip
    """Return the values of one driver of one parameter, and advance it where ``active``."""
    noise: Noise = noises(group)[which]
    turn = state["step"] - group["start"]
    key = step_key_tensor(extend_key_tensor(state["key"], number), turn)
    index = place.index(parameter.device)
    if not isinstance(noise, ChaoticNoise):
        return noise.draw(
            flat_index(place.shape, parameter.device) if index is None else index, key
        )
    s = local(state[NAMES[which] + ("_twin" if number > 1 else "")])
    value, following = tensor.advance(noise.driver, s, key, index)
    _store(s, following, active)
    return value
