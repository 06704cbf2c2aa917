"""Rows on the CPU, by numba (replaced)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch

from mpgd.noise.engines.threads import in_parts
from mpgd.optim.displacement.rows import Numbers, Row, both_drivers, scaled_values
from mpgd.optim.settings import Settings

_NUMBERS = {torch.float32: np.float32, torch.float64: np.float64}


def run(rows: list[Row], dtype: torch.dtype, settings: Settings, numbers: Numbers) -> None:
    """Displace all rows."""
    number = _NUMBERS.get(dtype, np.float32)
    if dtype in _NUMBERS:
        from mpgd.optim.kernels import step_rows as kernel

        first: Any = np.empty(0, _NUMBERS[dtype])
    else:
        from mpgd.optim.halves import step_half_rows as kernel

        first = (dtype == torch.bfloat16, False, 0)
    how = (tuple(number(v) for v in (1.0, 0.0, 0.0, 1.0)), (False, False, False, False))
    constants = [
        (d.table, d.rule, v, d.is_normal)
        for d, v in zip(
            both_drivers(settings), scaled_values(settings, numbers.scales), strict=True
        )
    ]
    m = 0.0 if numbers.shared is None else numbers.shared
    has_shared = numbers.shared is not None
    uses = (has_shared, settings.mu != 0 and not has_shared, settings.sigma != 0, settings.twins)
    given = (first, number(0.0), how, True, number(m), *uses, *constants)
    table = np.array(
        [[r.x, r.x, *r[1:5], r.length, r.offset, r.key, r.step, 0, 0] for r in rows], dtype=np.int64
    )
    in_parts(sum(r.length for r in rows), partial(_run, kernel, table, given))


def _run(kernel: Any, table: Any, given: tuple[Any, ...], first: int, last: int) -> None:
    kernel(table, first, last, *given)
