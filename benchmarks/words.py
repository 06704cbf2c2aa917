"""The same words from every engine: 10^5 elements x 1,000 steps, five gammas, both sign rules.

    python -m benchmarks.words [--elements 100000] [--steps 1000]

Compared step by step with the reference in numpy: torch eager, torch compiled, numba as this CPU
compiles it, and JAX where it is installed (`.venv-jax/bin/python`, after `make jax`). Other
processes compile for an AVX2 CPU and for one without vectors; their words are compared by a digest
of all steps.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import subprocess
import sys
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
from mpgd.noise.engines import fused
from tests.noise.integer_reference import Reference

GAMMAS: Final = (0.52, 0.6, 0.75, 0.9, 0.99)
SIGNS: Final = ("fresh", "product")
BETA: Final = 0.3
CPUS: Final = {
    "haswell": "+avx2,+bmi,+bmi2,+fma,+lzcnt,+popcnt,+avx,+sse4.2,+sse4.1,+ssse3,+sse3",
    "generic": "",
}

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
    kind = "numba" if name == "numba" else "torch"
    noise = ChaoticNoise(gamma, BETA, signs=signs, engine=kind)

    def step(state: NoiseState) -> NoiseState:
        return noise.step(state, dtype=torch.float32)[1]

    if name.startswith("compiled by "):
        torch._dynamo.reset()
        step = torch.compile(step, backend=name.removeprefix("compiled by "), fullgraph=True)
    state = noise.init(count)
    for _ in range(steps):
        yield fused.flat(state.word)
        state = step(state)


def digest(words: Iterator[Words]) -> str:
    """Return the SHA-256 of all words."""
    whole = hashlib.sha256()
    for step in words:
        whole.update(step.tobytes())
    return whole.hexdigest()


def elsewhere(cpu: str, count: int, steps: int) -> list[str]:
    """Return the digests of numba's words, compiled for another CPU in a new process."""
    code = f"from benchmarks.words import digests; print(*digests({count}, {steps}))"
    own = {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": CPUS[cpu]}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | own,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.split()


def digests(count: int, steps: int) -> list[str]:
    """Return the digests of numba's words, one for each gamma and sign rule."""
    return [digest(engine("numba", *case, count, steps)) for case in product(GAMMAS, SIGNS)]


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.words", description=__doc__)
    parser.add_argument("--elements", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--compilers", nargs="*", default=["aot_eager", "inductor"])
    options = parser.parse_args()
    size = (options.elements, options.steps)
    names = ["torch", "numba", *(f"compiled by {name}" for name in options.compilers)]
    names += ["jax"] if importlib.util.find_spec("jax") else []
    others = {cpu: elsewhere(cpu, *size) for cpu in CPUS}
    way = fused.advance_block.py_func.__name__
    print(f"{size[0]:,} elements x {size[1]:,} steps; numba here: {way}")
    for number, case in enumerate(product(GAMMAS, SIGNS)):
        began = time.perf_counter()
        whole, same = hashlib.sha256(), dict.fromkeys(names, True)
        runs = [engine(name, *case, *size) for name in names]
        for expected, *found in zip(reference(*case, *size), *runs, strict=True):
            whole.update(expected.tobytes())
            for name, words in zip(names, found, strict=True):
                same[name] = same[name] and np.array_equal(words, expected)
        same |= {cpu: rows[number] == whole.hexdigest() for cpu, rows in others.items()}
        verdict = ", ".join(f"{name} {'same' if ok else 'DIFFERENT'}" for name, ok in same.items())
        print(
            f"  gamma {case[0]}, {case[1]} signs: {verdict}  ({time.perf_counter() - began:.0f} s)"
        )


if __name__ == "__main__":
    main()
