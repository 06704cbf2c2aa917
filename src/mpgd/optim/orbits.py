"""The drivers of one parameter: their state, and the perturbation they give at a step.

A perturbed parameter holds, in its optimizer state,

    step, key                  how many steps it took; the hash of (seed, its ordinal)
    multiplicative, additive   the orbits of the two drivers, if its noises have orbits,
    ..._twin                   of their twins in the symmetric variant,
    tables                     the fingerprint of the tables that advance them

and, with a shared multiplicative driver, the first parameter of the group holds that scalar
orbit and its own step. Independent noises hold no orbit.

Everything random follows from (seed, ordinal, driver number, element, step), where the step counts
from ``start``. So an orbit may be made anew, cut into shards or moved to another device without a
change of its bits. What would change them: another ordinal, another order of the driver numbers
(0 and 1, their twins 2 and 3), or a local index in the place of the whole tensor's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from mpgd.noise import NoiseState
from mpgd.noise.counter import extend_key_tensor, make_key
from mpgd.noise.engines import check_device
from mpgd.optim.settings import ORBITS, TWIN, Settings
from mpgd.optim.shards import Place, like, local, place_of
from mpgd.optim.update import Scalar, precision_of, strengths, term

State = MutableMapping[str, Any]
Group = MutableMapping[str, Any]

SHARED: Final = 2**40  # stands for the ordinal of the shared scalar driver


def ensure_states(
    groups: Iterable[tuple[Group, Settings]], state_of: Callable[[Tensor], State]
) -> None:
    """Create the states that are missing: eagerly, or after mu or sigma was raised from 0."""
    ordinal = 0
    leaders: list[State] = []
    for group, settings in groups:
        for parameter in group["params"]:
            if settings.is_perturbed:
                _ensure(parameter, state_of(parameter), settings, ordinal)
            ordinal += 1  # an unperturbed parameter counts too: its turn may come
        if settings.shared and group["params"]:
            leader = state_of(group["params"][0])
            _ensure_shared(leader, settings, leaders)
            leaders.append(leader)


def _ensure(parameter: Tensor, state: State, settings: Settings, ordinal: int) -> None:
    """Create what the parameter's state lacks; what is there stays."""
    check_device(parameter.device)
    if parameter.is_conj() or parameter.is_neg():
        raise ValueError(
            "a parameter must own its memory to be updated in place, got a lazily conjugated or "
            f"negated view of shape {tuple(parameter.shape)}; resolve_conj() or resolve_neg() it"
        )
    if "key" not in state:
        state["step"] = torch.zeros((), dtype=torch.int64)
        state["key"] = torch.tensor(make_key(settings.seed, ordinal), dtype=torch.int64)
    place, device = place_of(parameter), parameter.device
    for name, which, number in settings.orbits:
        if name not in state:
            fresh = settings.noises[which].init(
                place.shape,
                settings.seed,
                device,
                tensor_id=ordinal,
                driver_id=number,
                index=place.index(device),
            )
            state[name] = like(parameter, fresh.s)
    if settings.tables is not None:
        state["tables"] = torch.tensor(settings.tables, dtype=torch.int64)


def needed(settings: Settings, leads: bool) -> list[str]:
    """Return the names that a perturbed parameter's state must hold; the first one leads."""
    names = ["step", "key", *(name for name, _, _ in settings.orbits)]
    names += ["tables"] if settings.tables is not None else []
    if leads and settings.shared:
        names += ["shared_step", *(name for name, _ in settings.shared_orbits)]
    return names


def is_lacking(settings: Settings, states: Sequence[State]) -> bool:
    """Return whether a perturbed parameter's state lacks what the settings now need."""
    if any(name not in states[0] for name in needed(settings, leads=True)):
        return True
    names = {"step", *(name for name, _, _ in settings.orbits)}
    return any(not names <= state.keys() for state in states)


def _ensure_shared(state: State, settings: Settings, others: list[State]) -> None:
    """Create the scalar driver of a group in its first parameter's state.

    A group that joins later takes over the orbit that the optimizer's other groups are on.
    """
    numbers = dict(settings.shared_orbits)
    for name in ("shared_step", *numbers):
        if name not in state:
            found = [other[name] for other in others if name in other]
            state[name] = found[0].clone() if found else _shared_start(settings, numbers.get(name))


def _shared_start(settings: Settings, number: int | None) -> Tensor:
    """Return the first orbit of a shared driver; without a number, the first step."""
    if number is None:
        return torch.zeros((), dtype=torch.int64)
    noise = settings.noises[0]
    return noise.init((), settings.seed, "cpu", tensor_id=SHARED, driver_id=number).s


def next_shared(state: State, settings: Settings, eta: Scalar) -> Tensor | None:
    """Return the value of the group's shared multiplicative driver, if it has one, and advance."""
    if not settings.shared:
        return None
    active = is_active(state["shared_step"], settings, eta)
    value = torch.zeros((), dtype=torch.float64)
    if active is not False:
        value = _shared_value(state, settings, active)
    count_steps([state], eta, "shared_step")
    return value


def _shared_value(state: State, settings: Settings, active: bool | Tensor) -> Tensor:
    noise, turn = settings.noises[0], state["shared_step"] - settings.start
    value = torch.zeros((), dtype=torch.float64)
    for sign, number, name in ((1.0, 0, "shared"), (-1.0, TWIN, "shared_twin")):
        if sign > 0 or settings.twins:
            key = torch.tensor(make_key(settings.seed, SHARED, number), dtype=torch.int64)
            s = state.get(name, torch.zeros((), dtype=torch.float64))
            v, following = noise.step(NoiseState(s, turn, key))
            value = value + sign * v
            if name in state:
                _store(s, following.s, active)
    return value


def _store(s: Tensor, following: Tensor, active: bool | Tensor) -> None:
    new = torch.where(active, following, s) if isinstance(active, Tensor) else following
    torch._foreach_copy_([s], [new])  # torch 2.13 compiles copy_ of a scalar state to nothing


def count_steps(states: Sequence[State], eta: Scalar, name: str = "step") -> None:
    """Add 1 to the steps, unless eta is 0."""
    one = (eta != 0).to("cpu", torch.int64) if isinstance(eta, Tensor) else 1
    if states:
        torch._foreach_add_([state[name] for state in states], one)


def is_active(step: Tensor, settings: Settings, eta: Scalar) -> bool | Tensor:
    """Return whether a step is perturbed: start <= step < stop and eta > 0.

    A tensor while compiling, where nothing may depend on a tensor's value.
    """
    start, stop = settings.start, settings.stop
    if not torch.compiler.is_compiling():
        k = int(step)
        return bool(start <= k and (stop is None or k < stop) and eta != 0)
    if start == 0 and stop is None and not isinstance(eta, Tensor):
        return bool(eta != 0)
    inside: Tensor = (step >= start) & (eta != 0)
    return inside if stop is None else inside & (step < stop)


def terms(
    parameter: Tensor, state: State, settings: Settings, eta: Scalar, shared: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """Return m and n of `mpgd.optim.update` for one parameter and advance its drivers."""
    active = is_active(state["step"], settings, eta)
    if active is False:
        return None, None
    precision = precision_of(local(parameter).dtype)
    scales = strengths(eta, *settings.sizes, settings.exponents)
    place = place_of(parameter)
    found: list[Tensor | None] = [None, None]
    for which, size in enumerate(settings.sizes):
        if not size:
            continue
        if which == 0 and shared is not None:
            found[0] = (scales[0] * shared).to(precision)
        else:
            numbers = (which, which + TWIN) if settings.twins else (which,)
            v = [draw(parameter, state, settings, number, place, active) for number in numbers]
            found[which] = term(scales[which], v[0], v[1] if settings.twins else None, precision)
    if isinstance(active, Tensor):
        found = [None if t is None else torch.where(active, t, 0.0) for t in found]
    return found[0], found[1]


def draw(
    parameter: Tensor,
    state: State,
    settings: Settings,
    number: int,
    place: Place,
    active: bool | Tensor,
) -> Tensor:
    """Return the values of one driver of one parameter, and advance it where ``active``."""
    which = number % TWIN
    noise, turn = settings.noises[which], state["step"] - settings.start
    key = extend_key_tensor(state["key"], number)
    if not noise.has_orbit:
        nothing = torch.zeros((), dtype=torch.float64, device=parameter.device)
        start = NoiseState(nothing.expand(place.shape), turn, key)
        return noise.step(start, index=place.index(parameter.device))[0]
    s = local(state[orbit_name(number)])
    value, following = noise.step(NoiseState(s, turn, key), index=place.index(parameter.device))
    _store(s, following.s, active)
    return value


def orbit_name(number: int) -> str:
    """Return the name of a driver's orbit in a parameter's state.

    Examples:
        >>> orbit_name(1), orbit_name(3)
        ('additive', 'additive_twin')
    """
    return ORBITS[number % TWIN] + ("_twin" if number >= TWIN else "")
