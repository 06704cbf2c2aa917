"""Hand the contiguous CPU parameters of a group to the numba kernels, all in one call.

The bits are those of the torch operations in `mpgd.optim.update` and `mpgd.optim.orbits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from mpgd.noise import ChaoticNoise
from mpgd.noise.engines import use_fused
from mpgd.noise.engines.threads import in_parts
from mpgd.optim.orbits import NAMES, Group, State
from mpgd.optim.settings import exponents, has_twins, noises
from mpgd.optim.shards import local, place_of
from mpgd.optim.update import strengths

_NUMBERS = {torch.float32: np.float32, torch.float64: np.float64}
_PLAIN = (Tensor, nn.Parameter)
_CPU = torch.device("cpu")

Row = list[int]
Rows = dict[torch.dtype, list[Row]]


def is_fusible(group: Group) -> bool:
    """Return whether the kernels know the group's noise and are allowed."""
    return group["noise"] == "chaotic" and use_fused(group["engine"], _CPU)


def descend(
    params: Sequence[Tensor], states: Sequence[State], group: Group, eta: float,
    shared: Tensor | None,
) -> list[int]:  # fmt: skip
    """Update parameters in place by their gradients and advance their drivers.

    Return the numbers of those that the kernels do not take or that are not perturbed now.
    """
    gradients: list[Tensor] = [p.grad for p in params]  # type: ignore[misc]
    drivers = _drivers(group)
    rows, rest, _kept_alive = _rows(params, gradients, states, group, drivers)
    if rows:
        from mpgd.optim import kernels

        step = -eta if group["maximize"] else eta
        m, constants = drivers.scaled(group, eta, shared)
        for dtype, lines in rows.items():
            number = _NUMBERS[dtype]
            scalars = (np.empty(0, number), number(step), number(m), shared is not None)
            _run(lines, kernels.descend, (*scalars, *constants))
        _mark_changed(params, rest)
    return rest


def displace(
    params: Sequence[Tensor], before: Sequence[Tensor], states: Sequence[State], group: Group,
    eta: float, shared: Tensor | None,
) -> list[int]:  # fmt: skip
    """Add the perturbation to parameters that were ``before``, and advance their drivers.

    Return the numbers of those that the kernels do not take or that are not perturbed now.
    """
    drivers = _drivers(group)
    rows, rest, _kept_alive = _rows(params, before, states, group, drivers)
    if rows:
        from mpgd.optim import kernels

        m, constants = drivers.scaled(group, eta, shared)
        for dtype, lines in rows.items():
            number = _NUMBERS[dtype]
            scalars = (np.empty(0, number), number(m), shared is not None)
            _run(lines, kernels.displace, (*scalars, *constants))
        _mark_changed(params, rest)
    return rest


@dataclass(frozen=True, eq=False)
class Drivers:
    """The constants of a group's two drivers, in the kernels' form.

    Attributes:
        orbits: the names of the four orbits in a parameter's state; None for one not used.
        tables: of the returns to Z.
        rules: threshold and product mask of the signs.
        values: c0 and c1.
        exponents: the powers of eta in front of them.
    """

    orbits: tuple[str | None, ...]
    tables: tuple[Any, Any]
    rules: tuple[tuple[np.int64, np.int64], ...]
    values: tuple[tuple[float, float], ...]
    exponents: tuple[float, float]

    def scaled(
        self, group: Group, eta: float, shared: Tensor | None
    ) -> tuple[float, tuple[Any, ...]]:
        """Return a shared driver's m, and the kernels' last arguments."""
        scales = strengths(eta, group["mu"], group["sigma"], self.exponents)
        constants: list[Any] = []
        for which in (0, 1):
            c0, c1 = self.values[which]
            scale = float(scales[which])
            constants += (self.tables[which], self.rules[which], (scale * c0, scale * c1))
        m = 0.0 if shared is None else float(scales[0]) * float(shared)
        return m, tuple(constants)


_SETTINGS = ("gamma", "beta", "signs", "symmetric", "shared_multiplicative", "engine")
_KNOWN: dict[tuple[Any, ...], Drivers] = {}


def _drivers(group: Group) -> Drivers:
    """Return the constants of a group's drivers, looked up rather than made at every step."""
    used = (bool(group["mu"]) and not group["shared_multiplicative"], bool(group["sigma"]))
    # A pair from a checkpoint may be a list, which has no hash.
    key = (*used, *(str(group[name]) for name in _SETTINGS))
    if key not in _KNOWN:
        if len(_KNOWN) >= 64:  # a schedule of gamma would fill the memory with tables
            del _KNOWN[next(iter(_KNOWN))]
        _KNOWN[key] = _make_drivers(group, used)
    return _KNOWN[key]


def _make_drivers(group: Group, used: tuple[bool, bool]) -> Drivers:
    names: list[str | None] = []
    tables, rules, values = [], [], []
    for which, noise in enumerate(noises(group)):
        assert isinstance(noise, ChaoticNoise)
        driver, name = noise.driver, NAMES[which] if used[which] else None
        names += (name, f"{name}_twin" if name and has_twins(group) else None)
        tables.append(driver.returns.rows.reshape(-1))
        rules.append((np.int64(driver.threshold), np.int64(-(2**63) if driver.product else 0)))
        values.append((driver.laminar_value, driver.burst_value))
    both = (tables[0], tables[1])
    return Drivers(tuple(names), both, tuple(rules), tuple(values), exponents(group))


def _rows(
    params: Sequence[Tensor], others: Sequence[Tensor], states: Sequence[State], group: Group,
    drivers: Drivers,
) -> tuple[Rows, list[int], list[Tensor]]:  # fmt: skip
    """Return the kernels' rows by dtype, who has none, and tensors that rows point into."""
    start, stop = group["start"], group["stop"]
    rows: Rows = {}
    rest: list[int] = []
    alive: list[Tensor] = []
    for number, (p, other, state) in enumerate(zip(params, others, states, strict=True)):
        turn = int(state["step"]) - start
        x, offset = (p, 0) if type(p) in _PLAIN and not p.is_complex() else _part_of(p)
        if turn < 0 or (stop is not None and turn >= stop - start) or not _is_simple(x, offset):
            rest.append(number)
            continue
        dtype = x.dtype
        if type(other) is not Tensor or other.dtype != dtype or not _is_simple(other, 0):
            other = local(other).to(dtype).resolve_neg().contiguous()
            alive.append(other)
        row = [x.data_ptr(), _address(other, x, dtype, "gradient")]
        for name in drivers.orbits:
            row.append(0 if name is None else _address(local(state[name]), x, torch.float64, name))
        row += (x.numel(), offset or 0, int(state["key"]), turn)
        rows.setdefault(dtype, []).append(row)
    return rows, rest, alive


def _part_of(parameter: Tensor) -> tuple[Tensor, int | None]:
    return local(parameter), place_of(parameter).offset


def _is_simple(x: Tensor, offset: int | None) -> bool:
    """Return whether the kernels take this local part of a parameter."""
    plain = type(x) in _PLAIN and x.is_cpu and x.dtype in _NUMBERS
    return plain and x.is_contiguous() and not x.is_neg() and offset is not None


def _address(tensor: Tensor, x: Tensor, dtype: torch.dtype, name: str) -> int:
    """Return a tensor's address for the kernels, which trust its length, dtype and layout."""
    plain = tensor.dtype == dtype and tensor.is_contiguous() and tensor.is_cpu
    if not plain or tensor.shape != x.shape or tensor.is_neg():
        raise RuntimeError(
            f"{name} of a parameter of shape {tuple(x.shape)} must be a contiguous {dtype} tensor "
            f"of that shape on {x.device}, got {tensor.dtype} of shape {tuple(tensor.shape)} with "
            f"strides {tensor.stride()} on {tensor.device}"
        )
    return tensor.data_ptr()


def _mark_changed(params: Sequence[Tensor], rest: list[int]) -> None:
    """Tell autograd which parameters were written to behind its back."""
    if rest:
        params = [p for k, p in enumerate(params) if k not in rest]
    increment_version([local(p) for p in params])


def _run(rows: list[Row], kernel: Any, arguments: tuple[Any, ...]) -> None:
    """Call a kernel on all rows, cut among torch's threads where there is enough to do."""
    table = np.array(rows, dtype=np.int64)
    in_parts(
        sum(row[6] for row in rows), lambda first, last: kernel(table, first, last, *arguments)
    )
