"""Hand the contiguous parameters of a group to a compiled kernel, all in one call.

A parameter becomes a `Row` of integers: the kernel gets addresses, not tensors, because unpacking
an array costs more than updating a thousand elements. It trusts them blindly, so everything it
relies on is checked here: dtype, layout, device, length, and that the memory is there. The bits are
those of the torch operations in `mpgd.optim.update` and `mpgd.optim.orbits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from mpgd.noise.driver import Driver
from mpgd.noise.engines import FLOATS, kernel_for
from mpgd.optim.orbits import BUFFER, State
from mpgd.optim.settings import TWIN, Settings
from mpgd.optim.shards import are_overlapping, local, offset_of, place_of
from mpgd.optim.update import Direction, strengths

_NUMBERS: Final = {torch.float32: np.float32, torch.float64: np.float64}
_PLAIN: Final = (Tensor, nn.Parameter)
_KERNELS: Final[dict[tuple[str | None, torch.device], str | None]] = {}  # asked in every step


class Row(NamedTuple):
    """A parameter as the kernel sees it; the order of the fields is that of its columns.

    Attributes:
        x: the address of its first element.
        other: that of its gradient, or of its elements before another optimizer's step.
        orbit0: the address of the orbit of driver 0, the multiplicative one; 0 if it is not used.
        orbit1: of the additive one.
        orbit2: of the twin of driver 0.
        orbit3: of the twin of driver 1.
        length: how many elements it has.
        offset: the index of its first element in the whole tensor.
        key: the hash of (seed, ordinal).
        turn: the step, counted from the first perturbed one.
        buffer: the address of the momentum's buffer; 0 if there is none.
        fresh: 1 if the buffer was never written to, else 0.
    """

    x: int
    other: int
    orbit0: int
    orbit1: int
    orbit2: int
    orbit3: int
    length: int
    offset: int
    key: int
    turn: int
    buffer: int
    fresh: int


LENGTH: Final = Row._fields.index("length")  # a row is a plain list: numpy takes it up faster


class Numbers(NamedTuple):
    """What a step multiplies by, besides a driver's own constants.

    Attributes:
        eta: the step size.
        how: what the step makes of the gradient; None if only the perturbation is to be added.
        m: of the shared multiplicative driver; None if there is none.
        scales: mu eta^gamma1 and sigma eta^gamma2.
    """

    eta: float
    how: Direction | None
    m: float | None
    scales: tuple[float, float]

    @property
    def down(self) -> float:
        """What the direction, or a gradient that is the direction, is multiplied by."""
        if self.how is None:
            return 0.0
        return -self.eta if self.how.is_gradient and self.how.maximize else self.eta

    @property
    def direction(self) -> tuple[tuple[float, ...], tuple[bool, bool, bool, bool]]:
        """The numbers and flags of a direction as the kernels take them."""
        how = self.how or Direction()
        sign = -1.0 if how.maximize else 1.0
        flags = (not how.is_gradient, how.weight_decay != 0, how.momentum != 0, how.nesterov)
        return (sign, how.weight_decay, how.momentum, 1 - how.dampening), flags


def step_rows(
    params: Sequence[Tensor],
    others: Sequence[Tensor],
    states: Sequence[State],
    settings: Settings,
    eta: float,
    shared: Tensor | None,
    how: Direction | None,
    offsets: Sequence[int] | None = None,
    fresh: Sequence[bool] = (),
) -> list[int]:
    """Update parameters in place and advance their drivers, all but the step counts.

    Args:
        params: the parameters.
        others: their gradients, or what they were before another optimizer's step.
        states: of their drivers.
        settings: of their group.
        eta: the step size.
        shared: the value of the group's shared multiplicative driver.
        how: what the step makes of the gradient; None if ``others`` are no gradients and only the
            perturbation is to be added.
        offsets: where the parameters begin in the whole ones, if they are local parts.
        fresh: which of the momentum's buffers were never written to; empty without momentum.

    Returns:
        The numbers of those that the kernel does not take, or to which there is nothing to add now.
    """
    kernel = _kernel(settings.engine, params[0].device) if params else None
    if kernel != "triton":  # the CPU's kernels displace only, and this step descends too
        return list(range(len(params)))
    if len(params) > 1 and are_overlapping(params):  # threads would race: one after the other
        rest = []
        for k in range(len(params)):
            one = slice(k, k + 1)
            alone = params[one], others[one], states[one]
            own = None if offsets is None else offsets[one]
            new = fresh[one] if fresh else fresh
            if step_rows(*alone, settings, eta, shared, how, own, fresh=new):
                rest.append(k)
        return rest
    given = (params, others, states, offsets, fresh)
    rows, rest, _kept_alive = _rows(*given, settings, how, FLOATS[kernel])
    if not rows:
        return rest
    scales = strengths(eta, *settings.sizes, settings.exponents)
    m = None if shared is None else float(scales[0]) * float(shared)
    numbers = Numbers(eta, how, m, (float(scales[0]), float(scales[1])))
    for kind, lines in rows.items():
        _run_triton(lines, kind, settings, numbers)
    _mark_changed(params, rest)
    return rest


def _kernel(engine: str | None, device: torch.device) -> str | None:
    """Return `kernel_for`, remembered by a plain dictionary, which torch.compile understands."""
    key = (engine, device)
    if key not in _KERNELS:
        _KERNELS[key] = kernel_for(engine, device)
    return _KERNELS[key]


def _uses(waits: bool, settings: Settings, has_shared: bool) -> tuple[bool, bool, bool, bool]:
    """Return whether there is a shared m, m and n of each element's own, and twins."""
    moves = not waits
    own = settings.mu != 0 and not has_shared and moves
    return has_shared and moves, own, settings.sigma != 0 and moves, settings.twins


def _run_triton(lines: list[list[int]], kind: Kind, settings: Settings, numbers: Numbers) -> None:
    from mpgd.optim.launches import launch

    factors, flags = numbers.direction
    names = ("has_shared", "draws_m", "draws_n", "twins")
    uses = dict(zip(names, _uses(kind.waits, settings, numbers.m is not None), strict=True))
    uses |= dict(zip(("directs", "decays", "keeps", "nesterov"), flags, strict=True))
    uses |= {"displaces": numbers.how is None, "rounds": settings.rounds}
    first, second = both_drivers(settings)
    uses |= {"normal_m": first.is_normal, "normal_n": second.is_normal}
    values = [v for scaled in _scaled(settings, numbers.scales) for v in scaled]
    place = torch.device("cpu") if kind.device < 0 else torch.device("cuda", kind.device)
    lengths = tuple(row[LENGTH] for row in lines)
    given = (numbers.down, numbers.m or 0.0, *values, *factors)
    launch(lines, lengths, kind.dtype, place, given, both_drivers(settings), settings.start, uses)


def both_drivers(settings: Settings) -> tuple[Driver, Driver]:
    """Return both drivers for a kernel; one that is not used is the other."""
    first, second = settings.drivers
    return (first or second, second or first)  # type: ignore[return-value]


def _scaled(settings: Settings, scales: tuple[float, float]) -> list[tuple[float, float]]:
    """Return the strengths times c0 and c1 of both drivers."""
    pairs = zip(both_drivers(settings), scales, strict=True)
    return [(a * d.laminar_value, a * d.burst_value) for d, a in pairs]


class Kind(NamedTuple):
    """What rows of one launch have in common.

    Attributes:
        dtype: of the parameters.
        device: their device's number; -1 is the CPU.
        waits: whether the noise waits at this step.
    """

    dtype: torch.dtype
    device: int
    waits: bool


def _rows(
    params: Sequence[Tensor],
    others: Sequence[Tensor],
    states: Sequence[State],
    offsets: Sequence[int] | None,
    fresh: Sequence[bool],
    settings: Settings,
    how: Direction | None,
    floats: tuple[torch.dtype, ...],
) -> tuple[dict[Kind, list[list[int]]], list[int], list[Tensor]]:
    """Return the rows by their kind, who has none, and tensors that rows point into."""
    start, stop = settings.start, settings.stop
    names = {number: name for name, _, number in settings.orbits}
    columns = [names.get(number) for number in range(2 * TWIN)]
    on_cpu = params[0].is_cpu
    rows: dict[Kind, list[list[int]]] = {}
    rest: list[int] = []
    alive: list[Tensor] = []
    for number, (p, other, state) in enumerate(zip(params, others, states, strict=True)):
        turn = state["step"].item() - start
        plain = type(p) in _PLAIN and not p.is_complex()
        x, offset = (p, offset_of(p)) if plain else _part_of(p)
        if offsets is not None:
            offset = offsets[number]
        waiting = turn < 0 or (stop is not None and turn >= stop - start)
        dtype = x.dtype
        if offset is None or dtype not in floats or not is_simple(x, on_cpu):
            rest.append(number)
            continue
        buffer = local(state[BUFFER]) if fresh else None
        if (waiting and how is None) or not (buffer is None or buffer.is_contiguous()):
            rest.append(number)
            continue
        if type(other) is not Tensor or other.dtype != dtype or not is_simple(other, on_cpu):
            if other.dtype != dtype and dtype not in _NUMBERS:
                rest.append(number)  # it is wanted in float32, which the row of a half is not
                continue
            other = local(other).to(dtype).resolve_neg().contiguous()
            alive.append(other)
        like = (x.shape, x.get_device())
        row = [x.data_ptr(), _address(other, *like, dtype, "gradient")]
        for name in columns:
            if name is None:
                row.append(0)
                continue
            word = state[name]
            word = word if type(word) is Tensor else local(word)
            row.append(_address(word, *like, torch.int32, name))
        row += (x.numel(), offset, state["key"].item(), turn)
        row.append(0 if buffer is None else _address(buffer, *like, dtype, BUFFER))
        row.append(int(bool(fresh) and fresh[number]))
        rows.setdefault(Kind(dtype, like[1], waiting), []).append(row)
    return rows, rest, alive


def _part_of(parameter: Tensor) -> tuple[Tensor, int | None]:
    return local(parameter), place_of(parameter).offset


def is_simple(x: Tensor, on_cpu: bool) -> bool:
    """Return whether a kernel takes this local part of a parameter or gradient."""
    plain = type(x) in _PLAIN and x.is_cpu == on_cpu
    return plain and x.is_contiguous() and not x.is_neg()


def _address(tensor: Tensor, shape: torch.Size, device: int, dtype: torch.dtype, name: str) -> int:
    """Return a tensor's address for the kernel, which trusts its length, dtype and layout."""
    plain = tensor.dtype is dtype and tensor.is_contiguous() and tensor.get_device() == device
    if not plain or tensor.shape != shape or tensor.is_neg():
        place = "the CPU" if device < 0 else f"GPU {device}"
        raise RuntimeError(
            f"{name} of a parameter of shape {tuple(shape)} must be a contiguous {dtype} tensor "
            f"of that shape on {place}, got {tensor.dtype} of shape {tuple(tensor.shape)} with "
            f"strides {tensor.stride()} on {tensor.device}"
        )
    address = tensor.data_ptr()
    if address == 0 and tensor.numel() > 0:
        raise RuntimeError(f"{name} of a parameter of shape {tuple(shape)} has no memory any more")
    return address


def _mark_changed(params: Sequence[Tensor], rest: list[int]) -> None:
    """Tell autograd which parameters were written to behind its back."""
    if rest:
        params = [p for k, p in enumerate(params) if k not in rest]
    increment_version([local(p) for p in params])
