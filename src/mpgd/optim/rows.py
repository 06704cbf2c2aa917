"""Hand the contiguous parameters of a group to a compiled kernel, all in one call.

A parameter becomes a `Row` of integers: the kernel gets addresses, not tensors, because unpacking
an array costs more than updating a thousand elements. It trusts them blindly, so everything it
relies on is checked here: dtype, layout, device, length, and that the memory is there. The bits are
those of the torch operations in `mpgd.optim.update` and `mpgd.optim.orbits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from mpgd.noise.driver import Driver
from mpgd.noise.engines import FLOATS, kernel_for
from mpgd.noise.engines.threads import in_parts
from mpgd.optim.orbits import State
from mpgd.optim.settings import TWIN, Settings
from mpgd.optim.shards import are_overlapping, local, offset_of, place_of
from mpgd.optim.update import strengths

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


LENGTH: Final = Row._fields.index("length")  # a row is a plain list: numpy takes it up faster


class Numbers(NamedTuple):
    """What a step multiplies by, besides a driver's own constants.

    Attributes:
        down: the factor of the gradient; None if only the perturbation is to be added.
        m: of the shared multiplicative driver; None if there is none.
        scales: mu eta^gamma1 and sigma eta^gamma2.
    """

    down: float | None
    m: float | None
    scales: tuple[float, float]


def step_rows(
    params: Sequence[Tensor],
    others: Sequence[Tensor],
    states: Sequence[State],
    settings: Settings,
    eta: float,
    shared: Tensor | None,
    gradient_step: float | None,
    offsets: Sequence[int] | None = None,
) -> list[int]:
    """Update parameters in place and advance their drivers, all but the step counts.

    Args:
        params: the parameters.
        others: their gradients, or what they were before another optimizer's step.
        states: of their drivers.
        settings: of their group.
        eta: the step size.
        shared: the value of the group's shared multiplicative driver.
        gradient_step: what the gradient is multiplied by; None if ``others`` are no gradients and
            only the perturbation is to be added.
        offsets: where the parameters begin in the whole ones, if they are local parts.

    Returns:
        The numbers of those that the kernel does not take or that are not perturbed now.
    """
    kernel = _kernel(settings.engine, params[0].device) if params else None
    if kernel is None:
        return list(range(len(params)))
    if len(params) > 1 and are_overlapping(params):  # threads would race: one after the other
        rest = []
        for k in range(len(params)):
            one, own = slice(k, k + 1), None if offsets is None else offsets[k : k + 1]
            alone = params[one], others[one], states[one]
            if step_rows(*alone, settings, eta, shared, gradient_step, own):
                rest.append(k)
        return rest
    rows, rest, _kept_alive = _rows(params, others, states, settings, FLOATS[kernel], offsets)
    if not rows:
        return rest
    scales = strengths(eta, *settings.sizes, settings.exponents)
    m = None if shared is None else float(scales[0]) * float(shared)
    numbers = Numbers(gradient_step, m, (float(scales[0]), float(scales[1])))
    run = _run_numba if kernel == "numba" else _run_triton
    for (dtype, device), lines in rows.items():
        run(lines, dtype, device, settings, numbers)
    _mark_changed(params, rest)
    return rest


def _kernel(engine: str | None, device: torch.device) -> str | None:
    """Return `kernel_for`, remembered by a plain dictionary, which torch.compile understands."""
    key = (engine, device)
    if key not in _KERNELS:
        _KERNELS[key] = kernel_for(engine, device)
    return _KERNELS[key]


def _run_numba(
    lines: list[list[int]], dtype: torch.dtype, _: int, settings: Settings, numbers: Numbers
) -> None:
    from mpgd.optim.kernels import step_rows as kernel

    number, table = _NUMBERS[dtype], np.array(lines, dtype=np.int64)
    down, m, scales = numbers
    scalars = (np.empty(0, number), number(down or 0.0), down is None)
    uses = (settings.mu != 0 and m is None, settings.sigma != 0, settings.twins)
    constants = [
        (d.table, d.rule, scaled)
        for d, scaled in zip(both_drivers(settings), _scaled(settings, scales), strict=True)
    ]
    given = (*scalars, number(m or 0.0), m is not None, *uses, *constants)
    in_parts(sum(row[LENGTH] for row in lines), partial(_run, kernel, table, given))


def _run(kernel: Any, table: Any, given: tuple[Any, ...], first: int, last: int) -> None:
    kernel(table, first, last, *given)


def _run_triton(
    lines: list[list[int]], dtype: torch.dtype, device: int, settings: Settings, numbers: Numbers
) -> None:
    from mpgd.optim.launches import launch

    down, m, scales = numbers
    uses = {
        "displaces": down is None,
        "has_shared": m is not None,
        "draws_m": settings.mu != 0 and m is None,
        "draws_n": settings.sigma != 0,
        "twins": settings.twins,
    }
    values = [v for scaled in _scaled(settings, scales) for v in scaled]
    place = torch.device("cpu") if device < 0 else torch.device("cuda", device)
    lengths = tuple(row[LENGTH] for row in lines)
    given = (down or 0.0, m or 0.0, *values)
    launch(lines, lengths, dtype, place, given, both_drivers(settings), uses)


def both_drivers(settings: Settings) -> tuple[Driver, Driver]:
    """Return both drivers for a kernel; one that is not used is the other."""
    first, second = settings.drivers
    return (first or second, second or first)  # type: ignore[return-value]


def _scaled(settings: Settings, scales: tuple[float, float]) -> list[tuple[float, float]]:
    """Return the strengths times c0 and c1 of both drivers."""
    pairs = zip(both_drivers(settings), scales, strict=True)
    return [(a * d.laminar_value, a * d.burst_value) for d, a in pairs]


def _rows(
    params: Sequence[Tensor],
    others: Sequence[Tensor],
    states: Sequence[State],
    settings: Settings,
    floats: tuple[torch.dtype, ...],
    offsets: Sequence[int] | None,
) -> tuple[dict[tuple[torch.dtype, int], list[list[int]]], list[int], list[Tensor]]:
    """Return the rows by dtype and device, who has none, and tensors that rows point into."""
    start, stop = settings.start, settings.stop
    names = {number: name for name, _, number in settings.orbits}
    columns = [names.get(number) for number in range(2 * TWIN)]
    on_cpu = params[0].is_cpu
    rows: dict[tuple[torch.dtype, int], list[list[int]]] = {}
    rest: list[int] = []
    alive: list[Tensor] = []
    for number, (p, other, state) in enumerate(zip(params, others, states, strict=True)):
        turn = int(state["step"]) - start
        plain = type(p) in _PLAIN and not p.is_complex()
        x, offset = (p, offset_of(p)) if plain else _part_of(p)
        if offsets is not None:
            offset = offsets[number]
        waiting = turn < 0 or (stop is not None and turn >= stop - start)
        dtype = x.dtype
        if waiting or offset is None or dtype not in floats or not is_simple(x, on_cpu):
            rest.append(number)
            continue
        if type(other) is not Tensor or other.dtype != dtype or not is_simple(other, on_cpu):
            if other.dtype != dtype and dtype not in _NUMBERS:
                rest.append(number)  # it is wanted in float32, which the row of a half is not
                continue
            other = local(other).to(dtype).resolve_neg().contiguous()
            alive.append(other)
        row = [x.data_ptr(), _address(other, x, dtype, "gradient")]
        for name in columns:
            row.append(_address(local(state[name]), x, torch.int32, name) if name else 0)
        row += (x.numel(), offset, int(state["key"]), turn)
        rows.setdefault((dtype, x.get_device()), []).append(row)
    return rows, rest, alive


def _part_of(parameter: Tensor) -> tuple[Tensor, int | None]:
    return local(parameter), place_of(parameter).offset


def is_simple(x: Tensor, on_cpu: bool) -> bool:
    """Return whether a kernel takes this local part of a parameter or gradient."""
    plain = type(x) in _PLAIN and x.is_cpu == on_cpu
    return plain and x.is_contiguous() and not x.is_neg()


def _address(tensor: Tensor, x: Tensor, dtype: torch.dtype, name: str) -> int:
    """Return a tensor's address for the kernel, which trusts its length, dtype and layout."""
    plain = tensor.dtype == dtype and tensor.is_contiguous()
    plain = plain and tensor.get_device() == x.get_device()
    if not plain or tensor.shape != x.shape or tensor.is_neg():
        raise RuntimeError(
            f"{name} of a parameter of shape {tuple(x.shape)} must be a contiguous {dtype} tensor "
            f"of that shape on {x.device}, got {tensor.dtype} of shape {tuple(tensor.shape)} with "
            f"strides {tensor.stride()} on {tensor.device}"
        )
    address = tensor.data_ptr()
    if address == 0 and tensor.numel() > 0:
        raise RuntimeError(
            f"{name} of a parameter of shape {tuple(x.shape)} has no memory any more"
        )
    return address


def _mark_changed(params: Sequence[Tensor], rest: list[int]) -> None:
    """Tell autograd which parameters were written to behind its back."""
    if rest:
        params = [p for k, p in enumerate(params) if k not in rest]
    increment_version([local(p) for p in params])
