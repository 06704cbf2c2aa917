"""Hand the contiguous CPU parameters of a group to the compiled kernel, all in one call.

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

from mpgd.noise.engines.threads import in_parts
from mpgd.optim.orbits import State
from mpgd.optim.settings import TWIN, Settings
from mpgd.optim.shards import local, place_of
from mpgd.optim.update import strengths

_NUMBERS: Final = {torch.float32: np.float32, torch.float64: np.float64}
_PLAIN: Final = (Tensor, nn.Parameter)


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


def is_compiled(settings: Settings) -> bool:
    """Return whether the kernel takes the group now; torch.compile makes kernels of its own."""
    return settings.compiled and not torch.compiler.is_compiling()


def step_rows(
    params: Sequence[Tensor],
    others: Sequence[Tensor],
    states: Sequence[State],
    settings: Settings,
    eta: float,
    shared: Tensor | None,
    gradient_step: float | None,
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

    Returns:
        The numbers of those that the kernel does not take or that are not perturbed now.
    """
    rows, rest, _kept_alive = _rows(params, others, states, settings)
    if not rows:
        return rest
    from mpgd.optim.kernels import step_rows as kernel

    scales = strengths(eta, *settings.sizes, settings.exponents)
    m = 0.0 if shared is None else float(scales[0]) * float(shared)
    constants = _constants(settings, scales)
    uses = (settings.mu != 0 and shared is None, settings.sigma != 0, settings.twins)
    for dtype, lines in rows.items():
        number, table = _NUMBERS[dtype], np.array(lines, dtype=np.int64)
        scalars = (np.empty(0, number), number(gradient_step or 0.0), gradient_step is None)
        given = (*scalars, number(m), shared is not None, *uses, *constants)
        total = sum(row[LENGTH] for row in lines)
        in_parts(total, partial(_run, kernel, table, given))
    _mark_changed(params, rest)
    return rest


def _run(kernel: Any, table: Any, given: tuple[Any, ...], first: int, last: int) -> None:
    kernel(table, first, last, *given)


def _constants(settings: Settings, scales: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return (table, rule, scaled values) of both drivers; one that is not used is the other's."""
    first, second = settings.drivers
    both = (first or second, second or first)
    return [
        (d.table, d.rule, (float(a) * d.laminar_value, float(a) * d.burst_value))  # type: ignore[union-attr]
        for d, a in zip(both, scales, strict=True)
    ]


def _rows(
    params: Sequence[Tensor],
    others: Sequence[Tensor],
    states: Sequence[State],
    settings: Settings,
) -> tuple[dict[torch.dtype, list[list[int]]], list[int], list[Tensor]]:
    """Return the rows by dtype, who has none, and tensors that rows point into."""
    start, stop = settings.start, settings.stop
    names = {number: name for name, _, number in settings.orbits}
    columns = [names.get(number) for number in range(2 * TWIN)]
    rows: dict[torch.dtype, list[list[int]]] = {}
    rest: list[int] = []
    alive: list[Tensor] = []
    for number, (p, other, state) in enumerate(zip(params, others, states, strict=True)):
        turn = int(state["step"]) - start
        x, offset = (p, 0) if type(p) in _PLAIN and not p.is_complex() else _part_of(p)
        waiting = turn < 0 or (stop is not None and turn >= stop - start)
        if waiting or offset is None or not _is_simple(x):
            rest.append(number)
            continue
        dtype = x.dtype
        if type(other) is not Tensor or other.dtype != dtype or not _is_simple(other):
            other = local(other).to(dtype).resolve_neg().contiguous()
            alive.append(other)
        row = [x.data_ptr(), _address(other, x, dtype, "gradient")]
        for name in columns:
            row.append(_address(local(state[name]), x, torch.int32, name) if name else 0)
        row += (x.numel(), offset, int(state["key"]), turn)
        rows.setdefault(dtype, []).append(row)
    return rows, rest, alive


def _part_of(parameter: Tensor) -> tuple[Tensor, int | None]:
    return local(parameter), place_of(parameter).offset


def _is_simple(x: Tensor) -> bool:
    """Return whether the kernel takes this local part of a parameter or gradient."""
    plain = type(x) in _PLAIN and x.is_cpu and x.dtype in _NUMBERS
    return plain and x.is_contiguous() and not x.is_neg()


def _address(tensor: Tensor, x: Tensor, dtype: torch.dtype, name: str) -> int:
    """Return a tensor's address for the kernel, which trusts its length, dtype and layout."""
    plain = tensor.dtype == dtype and tensor.is_contiguous() and tensor.is_cpu
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
