"""Hand the contiguous CPU parameters of a group to the numba kernels, all in one call.

The bits are those of the torch operations in `mpgd.optim.update` and `mpgd.optim.orbits`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from mpgd.noise import ChaoticNoise
from mpgd.noise.engines import use_fused
from mpgd.noise.engines.threads import in_parts
from mpgd.optim.orbits import NAMES, Group, State, is_active
from mpgd.optim.settings import exponents, has_twins, noises
from mpgd.optim.shards import local, place_of
from mpgd.optim.update import strengths

_CPU = torch.device("cpu")
_ORBITS = (NAMES[0], f"{NAMES[0]}_twin", NAMES[1], f"{NAMES[1]}_twin")
_NUMBERS = {torch.float32: np.float32, torch.float64: np.float64}


def is_fusible(group: Group) -> bool:
    """Return whether the kernels know the group's noise and are allowed."""
    return group["noise"] == "chaotic" and use_fused(group["engine"], _CPU)


def takes(parameter: Tensor) -> bool:
    """Return whether the kernels take this parameter; otherwise torch operations do."""
    part = local(parameter)
    plain = type(part) in (Tensor, nn.Parameter) and part.device.type == "cpu"
    simple = plain and part.dtype in _NUMBERS and part.is_contiguous() and not part.is_neg()
    return simple and place_of(parameter).offset is not None


def descend(
    params: Sequence[Tensor], states: Sequence[State], group: Group, eta: float,
    shared: Tensor | None,
) -> None:  # fmt: skip
    """Update parameters in place by their gradients and advance their drivers."""
    if not params:
        return
    from mpgd.optim import kernels

    sign = -1.0 if group["maximize"] else 1.0
    gradients = [_like(p.grad, p) for p in params]  # type: ignore[arg-type]
    arguments, orbits = _drivers(group, eta)
    for dtype, rows in _rows(params, gradients, states, group, orbits).items():
        number = _NUMBERS[dtype]
        m = number(0.0 if shared is None else arguments[0] * float(shared))
        like, step = np.empty(0, number), number(sign * eta)

        def run(part: Any, like: Any = like, step: Any = step, m: Any = m) -> None:
            kernels.descend(part, like, step, m, shared is not None, *arguments[1:])

        _run_in_parts(rows, dtype.itemsize, run)
    increment_version([local(p) for p in params])


def displace(
    params: Sequence[Tensor], before: Sequence[Tensor], states: Sequence[State], group: Group,
    eta: float, shared: Tensor | None,
) -> None:  # fmt: skip
    """Add the perturbation to parameters that were ``before``, and advance their drivers."""
    if not params:
        return
    from mpgd.optim import kernels

    arguments, orbits = _drivers(group, eta)
    before = [_like(old, p) for old, p in zip(before, params, strict=True)]
    for dtype, rows in _rows(params, before, states, group, orbits).items():
        number = _NUMBERS[dtype]
        m = number(0.0 if shared is None else arguments[0] * float(shared))
        like = np.empty(0, number)

        def run(part: Any, like: Any = like, m: Any = m) -> None:
            kernels.displace(part, like, m, shared is not None, *arguments[1:])

        _run_in_parts(rows, dtype.itemsize, run)
    increment_version([local(p) for p in params])


def _like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """Return the local part of a tensor in the parameter's dtype, laid out plainly."""
    part = local(tensor).to(local(parameter).dtype)
    return part.resolve_neg().contiguous()


def _address(tensor: Tensor, x: Tensor, dtype: torch.dtype, name: str) -> int:
    """Return a tensor's address for the kernels, which trust its length, dtype and layout."""
    plain = tensor.is_contiguous() and tensor.device == x.device and tensor.dtype == dtype
    if tensor.shape != x.shape or not plain:
        raise RuntimeError(
            f"{name} of a parameter of shape {tuple(x.shape)} must be a contiguous {dtype} tensor "
            f"of that shape on {x.device}, got {tensor.dtype} of shape {tuple(tensor.shape)} with "
            f"strides {tensor.stride()} on {tensor.device}"
        )
    return tensor.data_ptr()


def _drivers(group: Group, eta: float) -> tuple[tuple[Any, ...], list[str | None]]:
    """Return the strength of a shared driver and both drivers' constants; the orbits used."""
    scales = strengths(eta, group["mu"], group["sigma"], exponents(group))
    arguments: list[Any] = [float(scales[0])]
    for noise, scale in zip(noises(group), scales, strict=True):
        assert isinstance(noise, ChaoticNoise)
        driver = noise.driver
        rule = (np.int64(driver.threshold), np.int64(-(2**63) if driver.product else 0))
        scaled = (float(scale) * driver.laminar_value, float(scale) * driver.burst_value)
        arguments += [driver.returns.rows.reshape(-1), rule, scaled]
    used = (group["mu"] and not group["shared_multiplicative"], group["sigma"])
    wanted = [bool(used[0]), used[0] and has_twins(group), bool(used[1])]
    wanted.append(used[1] and has_twins(group))
    names = [name if want else None for name, want in zip(_ORBITS, wanted, strict=True)]
    return tuple(arguments), names


def _rows(
    params: Sequence[Tensor], others: Sequence[Tensor], states: Sequence[State], group: Group,
    orbits: list[str | None],
) -> dict[torch.dtype, list[list[int]]]:  # fmt: skip
    """Return the kernels' rows by dtype; see `mpgd.optim.kernels` for the columns."""
    found: dict[torch.dtype, list[list[int]]] = {}
    for p, other, state in zip(params, others, states, strict=True):
        x, place = local(p), place_of(p)
        row = [x.data_ptr(), _address(other, x, x.dtype, "gradient")]
        row += [
            0 if name is None else _address(local(state[name]), x, torch.float64, name)
            for name in orbits
        ]
        row += [
            x.numel(),
            place.offset or 0,
            int(state["key"]),
            int(state["step"]) - group["start"],
        ]
        found.setdefault(x.dtype, []).append(row)
    return found


def _run_in_parts(rows: list[list[int]], itemsize: int, run: Callable[[Any], None]) -> None:
    """Call ``run`` on all rows, cut among torch's threads where there is enough to do."""
    whole = np.array(rows, dtype=np.int64)
    ends = np.cumsum(whole[:, 6])

    def cut(first: int, last: int) -> None:
        run(_between(whole, ends, first, last, itemsize))

    in_parts(int(ends[-1]), cut)


def _between(whole: Any, ends: Any, first: int, last: int, itemsize: int) -> Any:
    """Return the rows of the elements from ``first`` to ``last`` of all rows together."""
    if first == 0 and last == ends[-1]:
        return whole
    begins = ends - whole[:, 6]
    skip = np.clip(first - begins, 0, whole[:, 6])
    keep = np.clip(last - begins, 0, whole[:, 6]) - skip
    rows = whole.copy()
    sizes = np.array([itemsize, itemsize, 8, 8, 8, 8])
    rows[:, :6] += np.where(rows[:, :6] != 0, skip[:, None] * sizes, 0)
    rows[:, 6], rows[:, 7] = keep, rows[:, 7] + skip
    return rows[keep > 0]


def active_ones(params: list[Tensor], states: list[State], group: Group, eta: float) -> list[int]:
    """Return which parameters the kernels take and perturb at this step."""
    return [
        k
        for k, (p, state) in enumerate(zip(params, states, strict=True))
        if takes(p) and is_active(state["step"], group, eta)
    ]
