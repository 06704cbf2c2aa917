"""Make the states that parameters lack, as `mpgd.optim.orbits` describes them.

That is when an optimizer is built or is given a group, and when a setting asks for more than
before. Orbits of many parameters start in one call, because a call costs more than a thousand
elements; each element keeps its own index and key, so the bits are those of the noise's `init`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

import torch
from torch import Tensor

from mpgd.noise import ChaoticNoise
from mpgd.noise.counter_hash import make_key
from mpgd.noise.engines import check_integers
from mpgd.noise.word import MAGNITUDE, NEGATIVE
from mpgd.optim.loop import PART
from mpgd.optim.numbering import ordinals_of
from mpgd.optim.orbits import SHARED, Group, State, int_scalar, orbit_name
from mpgd.optim.settings import TWIN, Settings
from mpgd.optim.shards import joined_index, like, local, per_element, place_of

_CUT: Final = (  # (name, which noise) of every orbit that a state may hold
    *((orbit_name(number), number % TWIN) for number in range(2 * TWIN)),
    ("shared", 0),
    ("shared_twin", 0),
)


class Needy(NamedTuple):
    """A parameter that needs a state, and what the state follows from."""

    parameter: Tensor
    state: State
    settings: Settings
    ordinal: int


class Lacking(NamedTuple):
    """An orbit that a state lacks: its name, which noise it is of, and its driver's number."""

    of: Needy
    name: str
    which: int
    number: int

    @property
    def size(self) -> int:
        """How many elements it has here."""
        return local(self.of.parameter).numel()

    @property
    def key(self) -> int:
        """The key of its elements."""
        return make_key(self.of.settings.seed, self.of.ordinal, self.number)


@torch.inference_mode(False)  # a step outside must be able to change what is made inside
def ensure_states(
    groups: Iterable[tuple[Group, Settings]], states: MutableMapping[Tensor, State]
) -> None:
    """Create the states that are missing: eagerly, or after mu or sigma was raised from 0.

    Phases of those that are there are cut where ``longest`` has fallen below them.
    """
    groups = list(groups)
    needy = list(_needy(groups, states))
    for each in needy:
        _refuse_lazy(each.parameter)
    for each in needy:
        if "key" not in each.state:
            each.state["step"] = int_scalar(0)
            each.state["key"] = int_scalar(make_key(each.settings.seed, each.ordinal))
    _ensure_orbits(needy)
    for each in needy:
        _note_tables(each.state, each.settings)
    leaders: list[State] = []
    for group, settings in groups:
        if settings.shared and group["params"]:
            leader = states.setdefault(group["params"][0], {})
            _ensure_shared(leader, settings, leaders)
            leaders.append(leader)
    for group, settings in groups:
        for parameter in group["params"]:
            _cut_phases(states.get(parameter, {}), settings)


def _needy(
    groups: Sequence[tuple[Group, Settings]], states: MutableMapping[Tensor, State]
) -> Iterator[Needy]:
    every = [p for group, _ in groups for p in group["params"]]
    # an unperturbed parameter counts too: its turn may come
    counts = any(settings.is_perturbed or settings.rounds for _, settings in groups)
    ordinals = iter(ordinals_of(every if counts else []))
    for group, settings in groups:
        for parameter in group["params"]:
            ordinal = next(ordinals, 0)
            if settings.is_needed(local(parameter).dtype):
                yield Needy(parameter, states.setdefault(parameter, {}), settings, ordinal)


def _refuse_lazy(parameter: Tensor) -> None:
    if parameter.is_conj() or parameter.is_neg():
        raise ValueError(
            "a parameter must own its memory to be updated in place, got a lazily conjugated or "
            f"negated view of shape {tuple(parameter.shape)}; resolve_conj() or resolve_neg() it"
        )


def _note_tables(state: State, settings: Settings) -> None:
    """Note which tables the orbits come from, where that is not what the state says."""
    if settings.tables is None:
        return
    if "tables" not in state or int(state["tables"]) != settings.tables:
        state["tables"] = int_scalar(settings.tables)


def _ensure_orbits(needy: Sequence[Needy]) -> None:
    """Start the orbits that are missing; what is there stays."""
    lacking = [
        Lacking(each, *orbit)
        for each in needy
        for orbit in each.settings.orbits
        if orbit[0] not in each.state
    ]
    # of one noise on one device: these can start together
    alike: dict[object, list[Lacking]] = {}
    for number, orbit in enumerate(lacking):
        noise, device = orbit.of.settings.noises[orbit.which], orbit.of.parameter.device
        is_small = type(noise) is ChaoticNoise and orbit.size <= PART
        alike.setdefault((noise, device) if is_small else number, []).append(orbit)
    words: dict[tuple[int, str], Tensor] = {}
    for orbits in chain.from_iterable(map(_in_parts, alike.values())):
        for orbit, word in zip(orbits, _started(orbits), strict=True):
            words[id(orbit.of.state), orbit.name] = word
    for orbit in lacking:  # in the order of their names
        orbit.of.state[orbit.name] = like(orbit.of.parameter, words[id(orbit.of.state), orbit.name])


def _in_parts(orbits: list[Lacking]) -> Iterator[list[Lacking]]:
    """Yield orbits in so many parts that what is worked on at a time stays small."""
    part: list[Lacking] = []
    size = 0
    for orbit in orbits:
        if part and size + orbit.size > PART:
            yield part
            part, size = [], 0
        part.append(orbit)
        size += orbit.size
    if part:
        yield part


def _started(orbits: Sequence[Lacking]) -> list[Tensor]:
    """Return the first words of some orbits; several are of one chaotic noise on one device."""
    first = orbits[0]
    noise, device = first.of.settings.noises[first.which], first.of.parameter.device
    places = [place_of(orbit.of.parameter) for orbit in orbits]
    if len(orbits) == 1 or not isinstance(noise, ChaoticNoise):
        seed, ordinal, index = first.of.settings.seed, first.of.ordinal, places[0].index(device)
        ids = {"tensor_id": ordinal, "driver_id": first.number}
        return [noise.init(places[0].shape, seed, device, index=index, **ids).word]
    check_integers(device)
    sizes = [orbit.size for orbit in orbits]
    keys = torch.tensor([orbit.key for orbit in orbits], dtype=torch.int64, device="cpu")
    words = noise.start(joined_index(places, device), per_element(keys, sizes, device))
    parts = zip(torch.split(words, sizes), places, strict=True)
    return [word.view(place.shape).clone() for word, place in parts]  # each in its own memory


def _cut_phases(state: State, settings: Settings) -> None:
    """Cut phases that are longer than the settings allow, as a visit to Z would have cut them.

    Also those of a driver that is not in use: a checkpoint holds them too.
    """
    for name, which in _CUT:
        driver, word = settings.drivers[which], state.get(name)
        if word is not None and driver is not None and driver.law is not None:
            words = local(word)
            if words.dtype == torch.int32:  # else the step refuses it
                is_longer = words & MAGNITUDE > driver.largest
                words.copy_(torch.where(is_longer, words & -NEGATIVE | driver.largest, words))


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
        return int_scalar(0)
    noise = settings.noises[0]
    return noise.init((), settings.seed, "cpu", tensor_id=SHARED, driver_id=number).word
