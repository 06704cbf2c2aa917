"""The drivers of one parameter: their state, and the perturbation they give at a step.

A perturbed parameter holds, in its optimizer state,

    step, key                  how many steps it took; the hash of (seed, its ordinal)
    multiplicative, additive   the orbits of the two drivers, if its noises have orbits,
    ..._twin                   of their twins in the symmetric variant,
    tables                     the fingerprint of the tables that the noises come from

With a momentum it also holds ``momentum_buffer``, as in `torch.optim.SGD`. With a shared
multiplicative driver, the first parameter of the group holds that scalar orbit and its own step.
Independent noises hold no orbit.

Everything random follows from (seed, ordinal, driver number, element, step), where the step counts
from ``start``, and the seed is one with its stream. So an orbit may be made anew, cut into shards
or moved to another device without a change of its bits. What would change them: another ordinal,
another order of the driver numbers (0 and 1, their twins 2 and 3, rounding 4), or a local index
in the place of the whole tensor's.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from mpgd.noise import NoiseState
from mpgd.noise import stochastic_rounding as rounding
from mpgd.noise.counter_hash import (
    extend_key_tensor,
    flat_index,
    hash_elements,
    make_key,
    step_key_tensor,
)
from mpgd.noise.driver import Driver
from mpgd.noise.engines import tensor
from mpgd.noise.memoryless import integers
from mpgd.optim.settings import ORBITS, TWIN, Settings
from mpgd.optim.shards import Place, local, place_of
from mpgd.optim.update import Direction, Scalar, precision_of, strengths, term

State = MutableMapping[str, Any]
Group = MutableMapping[str, Any]

SHARED: Final = 2**40  # stands for the ordinal of the shared scalar driver
BUFFER: Final = "momentum_buffer"


def int_scalar(value: int) -> Tensor:
    """Return a number of a state: on the CPU, whatever torch's default device is.

    Examples:
        >>> with torch.device("meta"):
        ...     int_scalar(7)
        tensor(7)
    """
    return torch.tensor(value, dtype=torch.int64, device="cpu")


def check_orbits(params: Sequence[Tensor], states: Sequence[State], settings: Settings) -> None:
    """Raise if an orbit is not what a step needs, before anything is changed."""
    for p, state in zip(params, states, strict=True):
        x = local(p)
        for name, which, _ in settings.orbits:
            word = state[name]
            word = word if type(word) is Tensor else local(word)
            is_driven = settings.drivers[which] is not None
            if word.shape != x.shape or (is_driven and word.dtype != torch.int32):
                raise RuntimeError(
                    f"{name} of a parameter of shape {tuple(x.shape)} must be a tensor of that "
                    f"shape, int32 for chaotic noise, got {word.dtype} of {tuple(word.shape)}"
                )
            if not is_there(word):
                raise RuntimeError(
                    f"{name} of a parameter of shape {tuple(x.shape)} has no memory any more"
                )


def is_there(tensor: Tensor) -> bool:
    """Return whether a tensor's storage was not freed."""
    return tensor.numel() == 0 or tensor.data_ptr() != 0


def needed(settings: Settings, leads: bool) -> list[str]:
    """Return the names that a perturbed parameter's state must hold; the first one leads."""
    names = ["step", "key", *(name for name, _, _ in settings.orbits)]
    names += ["tables"] if settings.tables is not None else []
    if leads and settings.shared:
        names += ["shared_step", *(name for name, _ in settings.shared_orbits)]
    return names


def is_lacking(settings: Settings, states: Sequence[State]) -> bool:
    """Return whether a perturbed parameter's state lacks what the settings now need."""
    for name in needed(settings, leads=True):
        if name not in states[0]:
            return True
    names = {"step", *[name for name, _, _ in settings.orbits]}
    return len(states) > 1 and not all([names <= state.keys() for state in states])


def ensure_buffers(
    params: Sequence[Tensor], states: Sequence[State], how: Direction
) -> tuple[bool, ...]:
    """Create the momentum's buffers that are missing; return which are fresh, if there are any."""
    if not how.momentum:
        return ()
    fresh = tuple(state.get(BUFFER) is None for state in states)
    for p, state, is_fresh in zip(params, states, fresh, strict=True):
        if is_fresh:
            state[BUFFER] = torch.zeros_like(p, memory_format=torch.preserve_format)
        elif state[BUFFER].dtype != p.dtype:  # the model was cast after it had been made
            state[BUFFER] = state[BUFFER].to(p.dtype)
    return fresh


def next_shared(state: State, settings: Settings, eta: Scalar) -> Tensor | None:
    """Return the value of the group's shared multiplicative driver, if it has one, and advance."""
    if not settings.shared:
        return None
    active = is_active(state["shared_step"], settings, eta)
    value = torch.zeros((), dtype=torch.float64, device="cpu")
    if active is not False:
        value = _shared_value(state, settings, active)
    count_steps([state], eta, "shared_step")
    return value


def _shared_value(state: State, settings: Settings, active: bool | Tensor) -> Tensor:
    noise, turn = settings.noises[0], state["shared_step"] - settings.start
    value = torch.zeros((), dtype=torch.float64, device="cpu")
    for sign, number, name in ((1.0, 0, "shared"), (-1.0, TWIN, "shared_twin")):
        if sign > 0 or settings.twins:
            key = int_scalar(make_key(settings.seed, SHARED, number))
            word = state.get(name, torch.zeros((), dtype=torch.float64, device="cpu"))
            v, following = noise.step(NoiseState(word, turn, key))
            value = value + sign * v
            if name in state:
                _store(word, following.word, active)
    return value


def _store(word: Tensor, following: Tensor, active: bool | Tensor) -> None:
    new = torch.where(active, following, word) if isinstance(active, Tensor) else following
    torch._foreach_copy_([word], [new])  # torch 2.13 compiles copy_ of a scalar state to nothing


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
    parameter: Tensor,
    state: State,
    settings: Settings,
    eta: Scalar,
    shared: Tensor | None,
    part: slice | None = None,
) -> tuple[Tensor | None, Tensor | None]:
    """Return m and n of `mpgd.optim.update` for one parameter and advance its drivers.

    With ``part``, only for these of its elements, counted in its local part.
    """
    active = is_active(state["step"], settings, eta)
    if active is False:
        return None, None
    precision = precision_of(local(parameter).dtype)
    scales = strengths(eta, *settings.sizes, settings.exponents)
    draw = Draw(parameter, state, settings, place_of(parameter), precision, active, part)
    found: list[Tensor | None] = [None, None]
    for which, size in enumerate(settings.sizes):
        if not size:
            continue
        if which == 0 and shared is not None:
            found[0] = (scales[0] * shared).to(parameter.device, precision)
        elif settings.drivers[which] is not None:
            found[which] = draw.known(which, scales[which])
        else:
            found[which] = draw.other(which, scales[which])
    if isinstance(active, Tensor):
        found = [None if t is None else torch.where(active, t, 0.0) for t in found]
    return found[0], found[1]


def rounded(
    new: Tensor, parameter: Tensor, state: State, settings: Settings, part: slice | None = None
) -> Tensor:
    """Return new values as they are, or as halves that are rounded stochastically.

    With ``part``, they are of these elements only, counted in the parameter's local part.
    """
    dtype = local(parameter).dtype
    if not (settings.rounds and rounding.is_half(dtype)):
        return new
    place, device = place_of(parameter), parameter.device
    index = place.index(device, part)
    index = flat_index(place.shape, device) if index is None else index
    key = step_key_tensor(extend_key_tensor(state["key"], rounding.DRIVER), state["step"])
    return rounding.rounded(new, hash_elements(index, key.to(device)), dtype)


def normal_term(
    driver: Driver, index: Tensor, key: Tensor, unit: Scalar, precision: torch.dtype
) -> Tensor:
    """Return normal values of a step's elements, where the integer 1 stands for ``unit``."""
    if not isinstance(unit, Tensor):
        unit = index.new_full((), unit, dtype=precision)
    return integers(index, key, driver).to(precision) * unit.to(index.device, precision)


@dataclass(frozen=True, eq=False)
class Draw:
    """The next terms of one parameter.

    Attributes:
        parameter: the parameter.
        state: of its drivers, which are advanced where ``active``.
        settings: of its group.
        place: of its local part in the whole.
        precision: of the terms.
        active: whether the step is perturbed.
        part: which elements; None means all.
    """

    parameter: Tensor
    state: State
    settings: Settings
    place: Place
    precision: torch.dtype
    active: bool | Tensor
    part: slice | None

    def known(self, which: int, strength: Scalar) -> Tensor:
        """Return a term of a noise that kernels know: the strength times v, or times v - twin."""
        driver = self.settings.drivers[which]
        assert driver is not None
        values = (strength * driver.laminar_value, strength * driver.burst_value)
        draw = self._normal if driver.is_normal else self._chaotic
        found = draw(driver, which, values)
        return found[0] - found[1] if self.settings.twins else found[0]

    def _normal(self, driver: Driver, which: int, values: tuple[Scalar, Scalar]) -> list[Tensor]:
        device = self.parameter.device
        index = self.place.index(device, self.part)
        index = flat_index(self.place.shape, device) if index is None else index
        keys = [step_key_tensor(self._key(number), self._turn) for number in self._numbers(which)]
        given = (values[0], self.precision)
        return [normal_term(driver, index, key.to(device), *given) for key in keys]

    def _chaotic(self, driver: Driver, which: int, values: tuple[Scalar, Scalar]) -> list[Tensor]:
        index = self.place.index(self.parameter.device, self.part)
        found = []
        for number in self._numbers(which):
            words = local(self.state[orbit_name(number)])
            key = step_key_tensor(self._key(number), self._turn)
            if self.part is None:
                v, following = tensor.advance(driver, words, key, index, values, self.precision)
                _store(words, following, self.active)
            else:
                words = words.view(-1)[self.part]
                v = torch.empty_like(words, dtype=self.precision)
                tensor.advance_into(driver, words, v, key, index, values)
            found.append(v)
        return found

    def other(self, which: int, strength: Scalar) -> Tensor:
        """Return a term of any noise, by its own `step`."""
        device, noise = self.parameter.device, self.settings.noises[which]
        nothing = torch.zeros((), dtype=torch.float64, device=device).expand(self.place.shape)
        found = []
        for number in self._numbers(which):
            orbit = local(self.state[orbit_name(number)]) if noise.has_orbit else nothing
            start = NoiseState(orbit, self._turn, self._key(number))
            v, following = noise.step(start, index=self.place.index(device))
            if noise.has_orbit:
                _store(orbit, following.word, self.active)
            found.append(v)
        return term(strength, found[0], found[1] if self.settings.twins else None, self.precision)

    @property
    def _turn(self) -> Tensor:
        turn: Tensor = self.state["step"] - self.settings.start
        return turn

    def _key(self, number: int) -> Tensor:
        return extend_key_tensor(self.state["key"], number)

    def _numbers(self, which: int) -> tuple[int, ...]:
        return (which, which + TWIN) if self.settings.twins else (which,)


def orbit_name(number: int) -> str:
    """Return the name of a driver's orbit in a parameter's state.

    Examples:
        >>> orbit_name(1), orbit_name(3)
        ('additive', 'additive_twin')
    """
    return ORBITS[number % TWIN] + ("_twin" if number >= TWIN else "")
