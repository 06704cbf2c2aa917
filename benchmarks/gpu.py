"""What one optimizer step costs per parameter on a GPU, where there is one.

Every case waits for the GPU at its end. The memory floor copies as many bytes as MPGD must move,
28 for each float32 parameter: half of them in, half of them out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor, nn

from benchmarks.timing import Case, Table, interleaved
from mpgd import MPGD

LR, MU, SIGMA, GAMMA = 0.1, 0.01, 0.02, 0.6
SIZES: Final = (1_000_000, 100_000_000)
TENSORS: Final = 100  # as many tensors as a net of some depth has
BYTES: Final = 28

Make = Callable[[list[Tensor]], torch.optim.Optimizer]
OPTIMIZERS: Final[dict[str, Make]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=LR),
    "AdamW, fused": lambda p: torch.optim.AdamW(p, lr=LR, fused=True),
    "MPGD": lambda p: MPGD(p, LR, mu=MU, sigma=SIGMA, gamma=GAMMA),
    "MPGD, symmetric": lambda p: MPGD(p, LR, mu=MU, sigma=SIGMA, gamma=GAMMA, symmetric=True),
    "MPGD, torch operations": lambda p: MPGD(p, LR, mu=MU, sigma=SIGMA, gamma=GAMMA, fused=False),
}
GAUSSIAN, FLOOR = "SGD + two `randn_like`", "memory floor"


def parameters(size: int, device: str) -> list[Tensor]:
    """Return float32 parameters with gradients."""
    found: list[Tensor] = []
    for _ in range(TENSORS):
        p = nn.Parameter(torch.randn(size // TENSORS, device=device))
        p.grad = torch.randn_like(p)
        found.append(p)
    return found


def waited(step: Case) -> Case:
    """Return a step that ends when the GPU has done it."""

    def run() -> None:
        step()
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    return run


def gaussian_step(size: int, device: str) -> Case:
    """Return the Gaussian scheme as a user would write it, all tensors at once."""
    params = parameters(size, device)
    sgd, scale = torch.optim.SGD(params, lr=LR), LR**GAMMA

    @torch.no_grad()
    def step() -> None:
        shifts = [torch.randn_like(p) for p in params]
        torch._foreach_mul_(shifts, SIGMA * scale)
        factors = [torch.randn_like(p) for p in params]
        torch._foreach_addcmul_(shifts, factors, params, value=-MU * scale)
        sgd.step()
        torch._foreach_add_(params, shifts)

    return step


def floor_step(size: int, device: str) -> Case:
    """Return a copy that moves as many bytes as a step of MPGD must."""
    source, target = (torch.empty(BYTES // 2 * size, dtype=torch.int8, device=device) for _ in "ab")
    return lambda: target.copy_(source)


def table(size: int, rounds: int, device: str = "cuda") -> Table:
    """Return nanoseconds per parameter at one size."""
    steps = {name: make(parameters(size, device)).step for name, make in OPTIMIZERS.items()}
    cases: dict[str, Case] = {
        **steps,
        GAUSSIAN: gaussian_step(size, device),
        FLOOR: floor_step(size, device),
    }
    t = interleaved({name: waited(step) for name, step in cases.items()}, rounds)
    rows = [
        [
            name,
            f"{x.median * 1e9 / size:.3f}",
            f"{x.over(t[GAUSSIAN]):.2f}",
            f"{x.over(t[FLOOR]):.2f}",
        ]
        for name, x in t.items()
    ]
    columns = ["ns per parameter", "median", "relative to Gaussian", "to the floor"]
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else device
    return Table(f"One step on {name}, {size:,} parameters in {TENSORS} tensors", columns, rows)


def _at(size: int) -> Callable[[int], Table]:
    return lambda rounds: table(size, rounds)


TABLES = [_at(size) for size in SIZES] if torch.cuda.is_available() else []
