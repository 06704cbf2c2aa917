"""Random sequences of operations on an optimizer, against a plain model of what must come out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch

from tests.optim.test_sequences import OPERATIONS, SEQUENCES, WITH_COMPILE, run_sequence

COMPILED_EVERY = 15  # compiling takes seconds


def attack(seed: int) -> Iterator[str | None]:
    """Yield None for a sequence that comes out as the model says, else what went wrong."""
    for number in range(SEQUENCES):
        kind = ("mpgd", "sgd")[number % 2]
        is_compiled = number % COMPILED_EVERY == 0
        operations = WITH_COMPILE if is_compiled else OPERATIONS
        if is_compiled:
            torch._dynamo.reset()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of large noise, and of twins with one seed
                run_sequence(kind, f"{kind} {seed} {number}", operations)
            yield None
        except AssertionError as error:
            yield f"{error} ({error.__cause__!r})"
