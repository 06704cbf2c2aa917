"""The drivers of a parameter: the tensors that hold them, how they start, how they are checked.

A perturbed parameter has

    step, ordinal              how many steps it took; its number in the model
    multiplicative, additive   the orbits of the two drivers, if its noises have orbits,
    ..._twin                   of their twins in the symmetric variant,
    tables                     the fingerprint of the tables that the noises come from

A shared multiplicative driver is a scalar orbit, ``shared``. Every parameter has a copy of its own;
at the same step all copies are equal. Independent noises have no orbit.

Everything random follows from (seed, ordinal, driver number, element, step), and the seed stands
in the group. So an orbit may be cut into shards or moved to another device. What would change its
bits: another ordinal, another order of the driver numbers (0 and 1, their twins 2 and 3, rounding
4), or a local index in the place of the whole tensor's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from mpgd.noise.counter_hash import make_key
from mpgd.noise.engines import check_integers, kernel_for
from mpgd.noise.phased import PhasedNoise
from mpgd.optim.distributed import ordinals_of
from mpgd.optim.settings import ORBITS, Settings
from mpgd.sharding import Place, is_sharded, like, local, place_of

State = MutableMapping[str, Any]
Groups = Sequence[tuple[MutableMapping[str, Any], Settings]]

SHARED: Final = 2**40  # the ordinal of shared scalar drivers
PART: Final = 1 << 16  # elements that start in one call
ELEMENTS: Final = tuple(f"{name}{twin}" for twin in ("", "_twin") for name in ORBITS)
SCALARS: Final = ("shared", "shared_twin")
ENTRIES: Final = ("step", "ordinal", "tables", *ELEMENTS, *SCALARS)  # what a state may hold


def int_scalar(value: int) -> Tensor:
    """Return a number of a state: on the CPU, whatever torch's default device is."""
    return torch.tensor(value, dtype=torch.int64, device="cpu")


def needed_entries(settings: Settings) -> list[str]:
    """Return the names that a parameter's state must hold."""
    names = ["step", "ordinal", *(name for name, _, _ in settings.orbits)]
    names += ["tables"] if settings.tables is not None else []
    return [*names, *(name for name, _ in settings.shared_orbits)]


def is_complete(
    params: Sequence[Tensor], settings: Settings, states: Mapping[Tensor, State]
) -> bool:
    """Return whether every parameter of a group has the entries that the settings ask for."""
    needed = set(needed_entries(settings))
    return all(
        needed <= states.get(p, {}).keys() for p in params if settings.needs_state(local(p).dtype)
    )


def check_orbits(params: Sequence[Tensor], states: Sequence[State], settings: Settings) -> None:
    """Raise if an orbit is not what a step needs, before anything is changed.

    Kernels get addresses, so what they rely on is checked here: that the words are there, one after
    the other, where the parameter is.
    """
    for p, state in zip(params, states, strict=True):
        x = local(p)
        for name, which, _ in settings.orbits:
            words, what = local(state[name]), f"{name} of a parameter of shape {tuple(x.shape)}"
            is_word = words.dtype == torch.int32 or settings.drivers[which] is None
            fits = words.shape == x.shape and words.get_device() == x.get_device()
            if not (is_word and fits and words.is_contiguous()):
                raise RuntimeError(
                    f"{what} must be a contiguous tensor of that shape on {x.device}, int32 for "
                    f"chaotic noise, got {words.dtype} of shape {tuple(words.shape)} with strides "
                    f"{words.stride()} on {words.device}"
                )
            if words.numel() and not words.data_ptr():
                raise RuntimeError(f"{what} has no memory any more")


@torch.inference_mode(False)  # a step outside must be able to change what is made inside
def ensure_states(groups: Groups, states: MutableMapping[Tensor, State]) -> None:
    """Create the entries that are missing: at construction, or after a setting asks for more."""
    pending = list(_pending(groups, states))
    for p, _, settings, _ in pending:
        kernel_for(settings.engine, p.device)  # refuses one that does not run
        is_expanded = any(n > 1 and not s for n, s in zip(p.shape, p.stride(), strict=True))
        if p.is_conj() or p.is_neg() or is_expanded:
            raise ValueError(
                "a parameter must own its memory to be updated in place, got an expanded, lazily "
                f"conjugated or negated view of shape {tuple(p.shape)} and strides {p.stride()}; "
                "use contiguous(), resolve_conj() or resolve_neg()"
            )
    for _, state, _, ordinal in pending:
        state.setdefault("step", int_scalar(0))
        state.setdefault("ordinal", int_scalar(ordinal))
    _start_orbits(pending)
    for _, state, settings, _ in pending:
        if settings.tables is not None and int(state.get("tables", -1)) != settings.tables:
            state["tables"] = int_scalar(settings.tables)
        noise, seed = settings.noises[0], settings.seed
        for name, number in settings.shared_orbits:
            if name not in state:
                state[name] = noise.init((), seed, "cpu", tensor_id=SHARED, driver_id=number).word


def _pending(
    groups: Groups, states: MutableMapping[Tensor, State]
) -> Iterator[tuple[Tensor, State, Settings, int]]:
    """Yield the parameters that need a state, with it and an ordinal; one that has one keeps it."""
    every = [p for group, _ in groups for p in group["params"]]
    # an unperturbed parameter counts too: it may be perturbed later
    if not any(settings.is_perturbed or settings.rounds for _, settings in groups):
        return
    own = {p: int(state["ordinal"]) for p, state in states.items() if "ordinal" in state}
    taken = set(own.values())  # those of groups that were taken out too, which may come back
    ordinals = dict(zip(every, ordinals_of(every), strict=True)) | own
    for group, settings in groups:
        for p in group["params"]:
            if not settings.needs_state(local(p).dtype):
                continue
            ordinal = ordinals[p]
            if p not in own and ordinal in taken:  # a group was taken out, and others moved up
                ordinal = max(max(taken), len(every)) + 1
            taken.add(ordinal)
            yield p, states.setdefault(p, {}), settings, ordinal


class OrbitPart(NamedTuple):
    """At most PART words of an orbit that starts, from word number ``first`` on."""

    noise: PhasedNoise
    words: Tensor
    place: Place  # of the whole orbit
    first: int
    key: int


def _start_orbits(pending: Sequence[tuple[Tensor, State, Settings, int]]) -> None:
    """Start the orbits that are missing; many small ones of one noise together, which is faster."""
    started: list[tuple[State, str, Tensor]] = []
    batch: list[OrbitPart] = []
    for p, state, settings, ordinal in pending:
        place = place_of(p)
        for name, which, number in settings.orbits:
            if name in state:
                continue
            noise = settings.noises[which]
            if not isinstance(noise, PhasedNoise):
                ids = {"tensor_id": ordinal, "driver_id": number}
                index = place.index(p.device)
                words = noise.init(place.shape, settings.seed, p.device, index=index, **ids).word
                started.append((state, name, like(p, words)))
                continue
            words = torch.empty(place.shape, dtype=torch.int32, device=p.device)
            started.append((state, name, like(p, words)))
            key = make_key(settings.seed, ordinal, number)
            for k, part in enumerate(torch.split(words.view(-1), PART)):
                is_alike = all(b.noise == noise and b.words.device == p.device for b in batch[:1])
                size = part.numel() + sum([each.words.numel() for each in batch])
                if not (is_alike and size <= PART):
                    _start_batch(batch)
                    batch = []
                batch.append(OrbitPart(noise, part, place, k * PART, key))
    _start_batch(batch)
    for state, name, words in started:
        state[name] = words


def _start_batch(batch: Sequence[OrbitPart]) -> None:
    """Write the first words of parts of orbits, of one noise on one device."""
    if not batch:
        return
    device = batch[0].words.device
    check_integers(device)
    sizes = [part.words.numel() for part in batch]
    index = [
        part.place.part_index(device, slice(part.first, part.first + size))
        for part, size in zip(batch, sizes, strict=True)
    ]
    keys = torch.tensor([part.key for part in batch], dtype=torch.int64, device=device)
    repeats = torch.tensor(sizes, device=device)
    each_key = torch.repeat_interleave(keys, repeats, output_size=sum(sizes))
    words = batch[0].noise.start(torch.cat(index), each_key)
    for part, own in zip(batch, torch.split(words, sizes), strict=True):
        part.words.copy_(own)


@torch.inference_mode(False)  # as the states that are made
def exact_copies(values: Mapping[str, Any], p: Tensor) -> dict[str, Any]:
    """Return exact copies of saved tensors: orbits beside the parameter, scalars on the CPU."""
    copies = {}
    for name in ENTRIES:
        if name in values:
            value = values[name]
            value = value if isinstance(value, Tensor) else int_scalar(value)
            value = value if is_sharded(value) else value.as_subclass(Tensor)
            device = p.device if name in ELEMENTS else "cpu"
            copies[name] = value.detach().to(device=device, copy=True).contiguous()
    return copies


# Parameters that somebody replaced, as FSDP2 through accelerate does ------------------------------


def follow_replaced(
    known: Sequence[Tensor | None], every: Sequence[Tensor], states: MutableMapping[Any, State]
) -> list[tuple[Tensor, Tensor]]:
    """Give the states of parameters that are gone to new ones at their places; return the pairs.

    ``known`` were there before, None for one that is no more; ``every`` are there now. One that was
    taken out with its group, so that nothing is at its place, keeps its state: the group may be
    added again.
    """
    before, present = set(map(id, known)), set(map(id, every))
    pairs = []
    for old, p in zip(known, every, strict=False):
        if old is None or id(old) in present or id(p) in before or states.get(p):
            continue
        pairs.append((old, p))
        state = states.pop(old, None)
        moved = _transferred(state, old, p) if state and old.shape == p.shape else None
        if moved is not None:
            states[p] = moved
    return pairs


def _transferred(state: State, old: Any, new: Any) -> State | None:
    """Return the state of ``old`` for ``new``; None if its orbits cannot be cut to fit."""
    if is_sharded(old):
        is_same = is_sharded(new) and old.device_mesh == new.device_mesh
        return dict(state) if is_same and old.placements == new.placements else None
    place, device = place_of(new), new.device
    cut = dict(state)
    for name in ELEMENTS:
        if name in state:
            words = local(state[name]).to(device).reshape(-1)
            part = words[place.part_index(device, slice(0, math.prod(place.shape)))]
            cut[name] = like(new, part.reshape(place.shape))
    return cut
