"""Random numbers that are functions of (seed, tensor, element, step), and of nothing else.

    normal(x, seed=0, tensor=3, step=7)

gives every element of a tensor its number: the same on a CPU and a GPU, on one thread and on many,
and for a DTensor on each rank the numbers of the elements it has. Nothing has a state, so there is
nothing to save, and any step can be asked for. The bits are those of the optimizers' own hash,
`mpgd.noise.counter_hash`, under driver numbers that they do not use.

`add_normal_` and `shifted` move the parameters of a model by such numbers. Neither makes a copy of
the model: `shifted` keeps the old bits only of the elements that x + d - d does not give back.

Examples:
    >>> bits(torch.zeros(3), seed=0, step=7).shape
    torch.Size([3])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from mpgd.noise import StableNoise
from mpgd.noise import counter_hash as counter
from mpgd.noise.engines import cpu, use_cpu_kernels
from mpgd.noise.memoryless import integers, normal_driver, stable_driver
from mpgd.noise.stochastic_round import is_half
from mpgd.optim.distributed import ordinals_of
from mpgd.parameters import check_finite, check_integer, check_seed
from mpgd.sharding import Place, like, local, place_of

DRIVER: Final = 5  # 0 to 3 are the noises and their twins, 4 is stochastic rounding
SHIFTS: Final = 7
PART: Final = 1 << 16  # elements of a parameter that are shifted at a time
KEPT: Final = 0.25  # of a part: where more elements are not given back, all are kept


def bits(x: Tensor, *, seed: int, step: int, tensor: int = 0, out: Tensor | None = None) -> Tensor:
    """Return 64 random bits for every element of ``x``, int64; the upper ones are the best.

    Args:
        x: only its shape, device and sharding count. A complex element counts as two.
        seed: a non-negative integer.
        step: the number of the draw.
        tensor: tells tensors apart.
        out: write there, and return it; a tensor like ``x`` of the result's dtype.

    Examples:
        >>> x = torch.empty(4, 3)
        >>> whole = bits(x, seed=1, step=0)
        >>> whole.shape, torch.equal(whole, bits(x, seed=1, step=0))
        (torch.Size([4, 3]), True)
    """
    return _hashed(x, torch.int64, _key(seed, tensor), step, out)


def uniform(
    x: Tensor, *, seed: int, step: int, tensor: int = 0, out: Tensor | None = None
) -> Tensor:
    """Return a float64 number in (0, 1) for every element of ``x``; arguments as in `bits`.

    Examples:
        >>> u = uniform(torch.empty(100_000), seed=1, step=0)
        >>> round(float(u.mean()), 2), bool((u > 0).all() and (u < 1).all())
        (0.5, True)
    """
    return _hashed(x, torch.float64, _key(seed, tensor), step, out)


def normal(
    x: Tensor,
    *,
    seed: int,
    step: int,
    tensor: int = 0,
    dtype: torch.dtype = torch.float32,
    out: Tensor | None = None,
) -> Tensor:
    """Return a standard normal number for every element of ``x``; arguments as in `bits`.

    It is a multiple of 2^-27 below 8, found by integers alone and rounded once to ``dtype``, or to
    that of ``out``; to a half type by way of float32.

    Examples:
        >>> z = normal(torch.empty(100_000), seed=1, step=0)
        >>> z.dtype, round(float(z.std()), 2)
        (torch.float32, 1.0)
    """
    dtype = dtype if out is None else out.dtype
    if not dtype.is_floating_point:
        raise TypeError(f"dtype must be a floating-point type, got {dtype}")
    wide = torch.float32 if dtype.itemsize < 4 else dtype
    place, device = place_of(x), local(x).device
    target = None if out is None else _checked(out, x, dtype)
    is_direct = target is not None and dtype == wide and target.is_contiguous()
    part = target if is_direct else torch.empty(place.shape, dtype=wide, device=device)
    assert part is not None
    _write_normals(part, place, _key(seed, tensor), check_integer("step", step, 0), 1.0)
    return _given(x, part if target is not None else part.to(dtype), target, out)


def stable(
    x: Tensor,
    alpha: float,
    beta: float = 0.0,
    *,
    seed: int,
    step: int,
    tensor: int = 0,
    out: Tensor | None = None,
) -> Tensor:
    """Return a number of the stable law for every element of ``x``, float64.

    It is that of `mpgd.StableNoise`: scale 1 and location 0 in the parametrization S1.

    Args:
        x: as in `bits`, like the other arguments.
        alpha: the index, in [0.25, 2].
        beta: the skewness.
        seed: a non-negative integer.
        step: the number of the draw.
        tensor: tells tensors apart.
        out: write there.

    Examples:
        >>> stable(torch.empty(100_000), 1.5, seed=1, step=0).abs().max() > 100
        tensor(True)
    """
    noise, key, step = StableNoise(alpha, beta), _key(seed, tensor), check_integer("step", step, 0)
    place, device = place_of(x), local(x).device
    target = None if out is None else _checked(out, x, torch.float64)
    if place.offset is not None and use_cpu_kernels(None, device):
        is_direct = target is not None and target.is_contiguous()
        part = target if is_direct else torch.empty(place.shape, dtype=torch.float64, device=device)
        assert part is not None
        cpu.advance(stable_driver(alpha, beta), None, part, key, step, offset=place.offset)
    else:
        part = noise.draw(_index(place, device), counter.step_key(key, step))
    return _given(x, part, target, out)


def add_(x: Tensor, scale: float, *, seed: int, step: int, tensor: int = 0) -> Tensor:
    """Add ``scale`` times the numbers of `normal` to ``x`` in place, and return it.

    Half types are added in float32 and rounded to nearest once.

    Examples:
        >>> x = torch.zeros(4)
        >>> torch.equal(add_(x, 2.0, seed=1, step=0), 2 * normal(x, seed=1, step=0))
        True
    """
    key = _key(seed, tensor)
    _add(x, key, check_integer("step", step, 0), check_finite("scale", scale))
    return x


# Parameters of a model --------------------------------------------------


@torch.no_grad()
def add_normal_(
    params: nn.Module | Iterable[Tensor], seed: int, scale: float, step: int = 0
) -> None:
    """Add ``scale`` times normal numbers of (seed, step) to parameters, in place.

    Each parameter has numbers of its own, by its place in the model. So a step along a random
    direction is two numbers, and a run of such steps replays from a list of them. Half types are
    added in float32 and rounded to nearest once.

    Args:
        params: a model, or its parameters in its order.
        seed: of the direction.
        scale: of the step, of either sign.
        step: another direction of the same seed.

    Examples:
        >>> model = torch.nn.Linear(3, 2)
        >>> before = model.weight.detach().clone()
        >>> add_normal_(model, seed=4, scale=0.1)
        >>> torch.equal(model.weight, before)
        False
    """
    scale, step = check_finite("scale", scale), check_integer("step", step, 0)
    for p, key in _keyed(params, seed):
        _add(p, key, step, scale)


@contextmanager
def shifted(
    model: nn.Module | Iterable[Tensor], seed: int, scale: float, step: int = 0
) -> Iterator[None]:
    """Move a model by ``scale`` times normal numbers inside the ``with``, and back to its bits.

    The shift is that of `add_normal_`. What x + d - d does not give back is kept, for few elements
    while d is smaller than x, and never more than a copy of the model.

    Args:
        model: a model, or its parameters in its order; nothing may change them inside.
        seed: of the direction.
        scale: of the shift, of either sign.
        step: another direction of the same seed.

    Examples:
        >>> model = torch.nn.Linear(3, 2, dtype=torch.bfloat16)
        >>> before = model.weight.detach().clone()
        >>> with shifted(model, seed=4, scale=0.1):
        ...     moved = model.weight.detach().clone()
        >>> torch.equal(model.weight, before), torch.equal(moved, before)
        (True, False)
    """
    scale, step = check_finite("scale", scale), check_integer("step", step, 0)
    shifts: list[tuple[Tensor, int, list[Kept]]] = []
    try:
        with torch.no_grad():
            for p, key in _keyed(model, seed):
                shifts.append((p, key, []))
                _add(p, key, step, scale, shifts[-1][2])
        versions = [p._version for p, _, _ in shifts]
        yield
        if versions != [p._version for p, _, _ in shifts]:
            raise RuntimeError(
                "a parameter changed inside mpgd.shifted, so its old bits cannot come back exactly"
            )
    finally:
        with torch.no_grad():
            for p, key, kept in reversed(shifts):  # they may share memory
                _restore(p, key, step, scale, kept)


class Kept(NamedTuple):
    """Old bits of a part: of the elements ``where``, or of all if that is None."""

    where: Tensor | None
    bits: Tensor


def _keyed(params: nn.Module | Iterable[Tensor], seed: int) -> list[tuple[Tensor, int]]:
    every = list(params.parameters() if isinstance(params, nn.Module) else params)
    check_seed(seed)
    pairs = zip(every, ordinals_of(every), strict=True)
    return [(p, counter.make_key(seed, ordinal, SHIFTS)) for p, ordinal in pairs]


def _parts(x: Tensor, key: int, step: int, scale: float) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the local elements of ``x`` part by part, and scale times their numbers."""
    place, whole = place_of(x), local(x).detach()
    dtype = torch.float32 if is_half(whole.dtype) else whole.dtype
    if not whole.is_contiguous():  # channels_last: one part, in its own layout
        d = torch.empty(place.shape, dtype=dtype, device=whole.device)
        _write_normals(d, place, key, step, scale)
        yield whole, d
        return
    flat = whole.view(-1)
    for first in range(0, flat.numel(), PART):
        part = flat[first : first + PART]
        d = torch.empty(part.shape, dtype=dtype, device=part.device)
        _write_normals(d, place, key, step, scale, first)
        yield part, d


def _add(x: Tensor, key: int, step: int, scale: float, kept: list[Kept] | None = None) -> None:
    if x.is_conj():
        raise ValueError("a lazily conjugated tensor cannot be changed in place: resolve_conj() it")
    for part, d in _parts(x, key, step, scale):
        if kept is None:
            part.copy_(part + d)
            continue
        old = part.clone()
        part.copy_(old + d)
        lost = _bits(_difference(part, d)) != _bits(old)
        if lost.dim() != 1 or int(lost.sum()) > KEPT * len(lost):
            kept.append(Kept(None, old))
        else:
            kept.append(Kept(lost.nonzero().view(-1).int(), old[lost]))
    increment_version(x)


def _restore(x: Tensor, key: int, step: int, scale: float, kept: list[Kept]) -> None:
    for (part, d), each in zip(_parts(x, key, step, scale), kept, strict=False):
        if each.where is None:
            part.copy_(each.bits)
        else:
            part.copy_(_difference(part, d))
            part[each.where.long()] = each.bits
    increment_version(x)


def _difference(part: Tensor, d: Tensor) -> Tensor:
    return (part - d).to(part.dtype)


def _bits(x: Tensor) -> Tensor:
    sizes = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return x.view(sizes[x.dtype.itemsize])


# Numbers of a local part --------------------------------------------------


def _key(seed: int, tensor: int) -> int:
    return counter.make_key(check_seed(seed), check_integer("tensor", tensor, 0), DRIVER)


def _index(place: Place, device: torch.device) -> Tensor:
    """Return the index of every local element in the whole tensor."""
    index = place.index(device)
    return counter.flat_index(place.shape, device) if index is None else index


def _hashed(x: Tensor, dtype: torch.dtype, key: int, step: int, out: Tensor | None) -> Tensor:
    """Return hashes, or numbers in (0, 1) if ``dtype`` is float64."""
    place, device = place_of(x), local(x).device
    key = counter.step_key(key, check_integer("step", step, 0))
    target = None if out is None else _checked(out, x, dtype)
    if place.offset is not None and use_cpu_kernels(None, device):
        is_direct = target is not None and target.is_contiguous()
        part = target if is_direct else torch.empty(place.shape, dtype=dtype, device=device)
        assert part is not None
        cpu.draw_bits(part, key, place.offset)
    else:
        h = counter.hash_elements(_index(place, device), key)
        part = h if dtype == torch.int64 else counter.uniform(h)
    return _given(x, part, target, out)


def _write_normals(
    part: Tensor, place: Place, key: int, step: int, scale: float, first: int = 0
) -> None:
    """Write scale times normal numbers of a part of a place that begins at ``first``."""
    driver = normal_driver(scale)
    if place.offset is not None and use_cpu_kernels(None, part.device):
        cpu.advance(driver, None, part, key, step, offset=place.offset + first)
        return
    index = place.part_index(part.device, slice(first, first + part.numel()))
    z = integers(index, counter.step_key(key, step), normal_driver(1.0))
    part.copy_((z.to(part.dtype) * driver.laminar_value).view(part.shape))


def _checked(out: Tensor, x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the local part of ``out``, which must fit ``x``."""
    part, shape = local(out), place_of(x).shape
    if part.dtype != dtype or tuple(part.shape) != shape:
        raise ValueError(
            f"out must be {dtype} of shape {shape}, got {part.dtype} of {tuple(part.shape)}"
        )
    return part.detach()


def _given(x: Tensor, part: Tensor, target: Tensor | None, out: Tensor | None) -> Tensor:
    """Return ``out`` with a part written to it; without one, the part sharded as ``x``."""
    if target is None or out is None:
        return like(x, part)
    if part.data_ptr() != target.data_ptr():
        target.copy_(part)
    increment_version(out)
    return out
