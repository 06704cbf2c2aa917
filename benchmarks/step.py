"""What one optimizer step costs per parameter, beside plain and Gaussian-perturbed SGD.

The Gaussian scheme is written as a user would write it after `torch.optim.SGD`: two normal
tensors, one scaled by the old parameters. The memory floor reads and writes the bytes that MPGD
must touch, by torch's additions in place.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor, nn

from benchmarks.timing import Case, Claim, Table, Timing, interleaved, threads
from mpgd import MPGD, ChaoticNoise, GaussianNoise, StableNoise, TelegraphNoise, perturb
from mpgd.noise.engines import cpu

LR, MU, SIGMA, GAMMA = 0.1, 0.01, 0.02, 0.6
SIZES: Final = (10_000, 1_000_000, 10_000_000)
SMALL_NET: Final = ((64, 120), (120,), (120, 16), (16,), (16, 10), (10,))  # 9,906 parameters
HUNDRED: Final = ((10, 10),) * 100

SGD, GAUSSIAN, FLOOR = "SGD", "SGD + two `randn_like`", "memory floor"
KERNEL, TORCH, SYMMETRIC = "MPGD", "MPGD, torch operations", "MPGD, symmetric"
DISPLACEMENT, SCALAR = "its displacement alone", "MPGD, kernel without vectors"
ADAMW, FUSED, PERTURBED = "AdamW", "AdamW, fused", "`perturb(AdamW)`"
PERTURBED_FUSED = "`perturb(AdamW)`, fused"
MOMENTUM, NORMAL = "MPGD, momentum", "MPGD, Gaussian noise"
TELEGRAPH, STABLE = "MPGD, telegraph noise", "MPGD, stable noise"
HALF, ROUNDED = "MPGD, bfloat16", "MPGD, bfloat16, stochastic rounding"


def parameters(size: int, shapes: Sequence[tuple[int, ...]] = ()) -> list[Tensor]:
    """Return float32 parameters with gradients: a small net at 10^4, else one tensor."""
    shapes = shapes or (SMALL_NET if size == SIZES[0] else ((size,),))
    generator = torch.Generator().manual_seed(0)
    found = []
    for shape in shapes:
        p = nn.Parameter(torch.randn(shape, generator=generator))
        p.grad = torch.randn(shape, generator=generator)
        found.append(p)
    return found


def optimizer_step(make: Callable[[list[Tensor]], torch.optim.Optimizer], size: int) -> Case:
    """Return one step of an optimizer on fresh parameters."""
    return make(parameters(size)).step


def half_step(size: int, rounding: str) -> Case:
    """Return a step on bfloat16 parameters."""
    halves = []
    for p in parameters(size):
        half = nn.Parameter(p.detach().bfloat16())
        half.grad = p.grad.bfloat16()  # type: ignore[union-attr]
        halves.append(half)
    return mpgd_maker(rounding=rounding)(halves).step


def gaussian_step(size: int) -> Case:
    """Return the Gaussian scheme: the noises are drawn and the old parameters used, in place."""
    params = parameters(size)
    sgd = torch.optim.SGD(params, lr=LR)
    scale = LR**GAMMA

    @torch.no_grad()
    def step() -> None:
        shifts = [
            torch.randn_like(p)
            .mul_(SIGMA * scale)
            .addcmul_(torch.randn_like(p), p, value=-MU * scale)
            for p in params
        ]
        sgd.step()
        torch._foreach_add_(params, shifts)

    return step


def displacement_step(size: int) -> Case:
    """Return the displacement of a step, without the inner optimizer's."""
    optimizer: Any = mpgd_maker()(parameters(size))
    return lambda: optimizer._displace(optimizer._ready())


def scalar_step(size: int) -> Case:
    """Return a step on a CPU without vector instructions."""
    step = optimizer_step(mpgd_maker(), size)

    def run() -> None:
        before = cpu.instructions()
        cpu.select("scalar")
        try:
            step()
        finally:
            cpu.select(before)

    return run


def mpgd_maker(**settings: Any) -> Callable[[list[Tensor]], torch.optim.Optimizer]:
    """Return what makes the optimizer of every row of the table."""
    return lambda p: MPGD(p, LR, mu=MU, sigma=SIGMA, **settings)


def floor_step(size: int) -> Case:
    """Return the memory floor: read g, read and write x and two words, 28 bytes."""
    x, g = (torch.zeros(size) for _ in range(2))
    words = [torch.zeros(size, dtype=torch.int32) for _ in range(2)]

    def run() -> None:
        x.add_(g)
        for each in words:
            each.add_(1)

    return run


def cases(size: int) -> dict[str, Case]:
    """Return every row of the table at one size."""
    noise = {"mu": MU, "sigma": SIGMA, "gamma": GAMMA}
    return {
        SGD: optimizer_step(lambda p: torch.optim.SGD(p, lr=LR), size),
        GAUSSIAN: gaussian_step(size),
        KERNEL: optimizer_step(mpgd_maker(), size),
        DISPLACEMENT: displacement_step(size),
        SCALAR: scalar_step(size),
        TORCH: optimizer_step(mpgd_maker(engine="torch"), size),
        SYMMETRIC: optimizer_step(mpgd_maker(symmetric=True), size),
        ADAMW: optimizer_step(lambda p: torch.optim.AdamW(p, lr=1e-3), size),
        FUSED: optimizer_step(lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True), size),
        PERTURBED: optimizer_step(lambda p: perturb(torch.optim.AdamW(p, lr=1e-3), **noise), size),
        PERTURBED_FUSED: optimizer_step(
            lambda p: perturb(torch.optim.AdamW(p, lr=1e-3, fused=True), **noise), size
        ),
        MOMENTUM: optimizer_step(mpgd_maker(momentum=0.9, weight_decay=1e-4), size),
        NORMAL: optimizer_step(mpgd_maker(noise=GaussianNoise.matched(ChaoticNoise(GAMMA))), size),
        TELEGRAPH: optimizer_step(mpgd_maker(noise=TelegraphNoise(20)), size),
        STABLE: optimizer_step(mpgd_maker(noise=StableNoise(1 / GAMMA)), size),
        HALF: half_step(size, "nearest"),
        ROUNDED: half_step(size, "stochastic"),
        FLOOR: floor_step(size),
    }


def table(size: int, count: int, rounds: int) -> Table:
    """Return nanoseconds per parameter at one size and thread count, with the promises."""
    with threads(count):
        t = interleaved(cases(size), rounds if size < SIZES[2] else max(3, rounds // 3))
    rows = [
        [
            name,
            *(f"{x * 1e9 / size:.2f}" for x in (timing.median, timing.best)),
            f"{timing.over(t[GAUSSIAN]):.2f}",
            f"{timing.over(t[FLOOR]):.2f}",
        ]
        for name, timing in t.items()
    ]
    columns = ["ns per parameter", "median", "best", "relative to Gaussian", "to the floor"]
    words = "one thread" if count == 1 else f"{count} threads"
    return Table(
        f"One step, {size:,} parameters, {words}", columns, rows, (), claims(t, size, count)
    )


def claims(t: dict[str, Timing], size: int, count: int) -> list[Claim]:
    """Return what must show at this size."""
    if size == SIZES[0]:
        return [Claim("MPGD / SGD, at most 4", t[KERNEL].over(t[SGD]), 4, at_least=False)]
    ratios = [
        ("MPGD / Gaussian", KERNEL, GAUSSIAN, 0.19 if count == 1 else 0.10),
        ("MPGD / fused AdamW", KERNEL, FUSED, 3),
        ("displacement / fused AdamW", DISPLACEMENT, FUSED, 2.1),
        ("telegraph noise / chaotic noise", TELEGRAPH, KERNEL, 1.05),
        ("Gaussian noise / SGD + two `randn_like`", NORMAL, GAUSSIAN, 1),
        ("stable noise / Gaussian noise", STABLE, NORMAL, 2),
        ("stochastic rounding / nearest", ROUNDED, HALF, 1.3),
        ("`perturb` / fused AdamW alone", PERTURBED_FUSED, FUSED, 3.2),
    ]
    return [
        Claim(f"{name}, at most {bound}", t[row].over(t[other]), bound, at_least=False)
        for name, row, other, bound in ratios
    ]


def hundred(rounds: int) -> Table:
    """Return microseconds per step of a hundred small tensors: what is spent outside kernels."""
    noise: dict[str, Any] = {"mu": MU, "sigma": SIGMA, "gamma": GAMMA}
    makers: dict[str, Callable[[list[Tensor]], torch.optim.Optimizer]] = {
        SGD: lambda p: torch.optim.SGD(p, lr=LR),
        KERNEL: mpgd_maker(),
        FUSED: lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True),
        PERTURBED_FUSED: lambda p: perturb(torch.optim.AdamW(p, lr=1e-3, fused=True), **noise),
    }
    with threads(1):
        t = interleaved(
            {n: make(parameters(0, HUNDRED)).step for n, make in makers.items()}, rounds
        )
    rows = [
        [
            name,
            *(f"{x * 1e6:.0f}" for x in (timing.median, timing.best)),
            f"{timing.over(t[SGD]):.2f}",
        ]
        for name, timing in t.items()
    ]
    columns = ["microseconds per step", "median", "best", "relative to SGD"]
    return Table("One step, a hundred tensors of 100 parameters, one thread", columns, rows)


def memory(rounds: int) -> Table:
    """Return bytes of state per parameter, and what a step allocates and gives back."""
    size, rows = SIZES[1], []
    makers = {
        KERNEL: lambda p: MPGD(p, LR, mu=MU, sigma=SIGMA),
        SYMMETRIC: lambda p: MPGD(p, LR, mu=MU, sigma=SIGMA, symmetric=True),
        PERTURBED: lambda p: perturb(torch.optim.AdamW(p), mu=MU, sigma=SIGMA),
    }
    for name, make in makers.items():
        optimizer = make(parameters(size))
        optimizer.step()
        tensors = [v for s in optimizer.state_dict()["state"].values() for v in s.values()]
        state = sum(v.numel() * v.element_size() for v in tensors if torch.is_tensor(v))
        tracemalloc.start()
        optimizer.step()
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        rows.append([name, f"{state / size:.1f}", f"{kept / size:.4f}"])
    columns = ["10^6 float32 parameters", "state, bytes per parameter", "kept by a step (Python)"]
    return Table(
        "Memory", columns, rows, ["Each driver holds 4 bytes per parameter; AdamW adds 8."]
    )


TABLES = [
    *(
        lambda rounds, size=size, count=count: table(size, count, rounds)
        for size in SIZES
        for count in (1, 2)
    ),
    hundred,
    memory,
]
