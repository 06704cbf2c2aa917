"""Random sequences of operations on an optimizer, against a plain model of what must come out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from tests.optim.test_sequences import OPERATIONS, SEQUENCES, run_sequence


def attack(seed: int) -> Iterator[str | None]:
    """Yield None for a sequence that comes out as the model says, else what went wrong."""
    for number in range(SEQUENCES):
        kind = ("mpgd", "sgd")[number % 2]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of large noise, and of twins with one seed
                run_sequence(kind, f"{kind} {seed} {number}", OPERATIONS)
            yield None
        except AssertionError as error:
            yield f"{error} ({error.__cause__!r})"
