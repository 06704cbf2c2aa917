"""The same words from every engine: 10^5 elements x 1,000 steps, five gammas, both sign rules.

    python -m benchmarks.words [--elements 100000] [--steps 1000]

Compared step by step with the reference in numpy: torch eager, torch compiled, the CPU's kernels
with each instruction set, and JAX where it is installed (`.venv-jax/bin/python`, after `make jax`).
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Iterator
from itertools import product
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from mpgd import ChaoticNoise
from mpgd.noise import NoiseState
from mpgd.noise.counter_hash import make_key, step_key
from mpgd.noise.engines import cpu
from tests.noise.integer_reference import Reference

GAMMAS: Final = (0.52, 0.6, 0.75, 0.9, 0.99)
SIGNS: Final = ("fresh", "product")
BETA: Final = 0.3
Words = NDArray[np.uint32]


def reference(gamma: float, signs: str, count: int, steps: int) -> Iterator[Words]:
    """Yield the words of the reference, step by step."""
    driver, index = Reference(gamma, BETA, signs), np.arange(count)
    key = make_key(0, 0, 0)
    words = driver.start(index, make_key(key, 0), make_key(key, 1))
    for k in range(steps):
        yield words
        _, words = driver.step(words, index, step_key(key, k))


def jax_engine(gamma: float, signs: str, count: int, steps: int) -> Iterator[Words]:
    """Yield the words of `mpgd.jax`, step by step."""
    import jax

    from mpgd.jax import noise

    source = noise(gamma, BETA, signs=signs)
    step, state = jax.jit(source.step), source.init(count)
    for _ in range(steps):
        yield np.asarray(state.word).view(np.uint32)
        state = step(state)[1]


def engine(name: str, gamma: float, signs: str, count: int, steps: int) -> Iterator[Words]:
    """Yield the words of an engine, step by step."""
    if name == "jax":
        yield from jax_engine(gamma, signs, count, steps)
        return
    kind = "cpu" if name in cpu.INSTRUCTIONS else "torch"
    noise = ChaoticNoise(gamma, BETA, signs=signs, engine=kind)

    def step(state: NoiseState) -> NoiseState:
        return noise.step(state, dtype=torch.float32)[1]

    def step_with(state: NoiseState) -> NoiseState:
        cpu.select(name)
        return noise.step(state, dtype=torch.float32)[1]

    if name.startswith("compiled by "):
        torch._dynamo.reset()
        step = torch.compile(step, backend=name.removeprefix("compiled by "), fullgraph=True)
    state = noise.init(count)
    for _ in range(steps):
        yield state.word.numpy().view(np.uint32)
        state = step_with(state) if kind == "cpu" else step(state)


def instruction_sets() -> list[str]:
    """Return those that this CPU has."""
    best = cpu.instructions()
    return list(cpu.INSTRUCTIONS[: cpu.INSTRUCTIONS.index(best) + 1]) if best else []


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.words", description=__doc__)
    parser.add_argument("--elements", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--compilers", nargs="*", default=["aot_eager", "inductor"])
    options = parser.parse_args()
    size = (options.elements, options.steps)
    names = ["torch", *instruction_sets()]
    names += [f"compiled by {name}" for name in options.compilers]
    names += ["jax"] if importlib.util.find_spec("jax") else []
    print(f"{size[0]:,} elements x {size[1]:,} steps")
    for case in product(GAMMAS, SIGNS):
        began = time.perf_counter()
        same = dict.fromkeys(names, True)
        runs = [engine(name, *case, *size) for name in names]
        for expected, *found in zip(reference(*case, *size), *runs, strict=True):
            for name, words in zip(names, found, strict=True):
                same[name] = same[name] and np.array_equal(words, expected)
        verdict = ", ".join(f"{name} {'same' if ok else 'DIFFERENT'}" for name, ok in same.items())
        print(
            f"  gamma {case[0]}, {case[1]} signs: {verdict}  ({time.perf_counter() - began:.0f} s)"
        )


if __name__ == "__main__":
    main()
