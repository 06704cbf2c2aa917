"""Every optimizer of pytorch_optimizer, made by a class and perturbed after it was made."""

from __future__ import annotations

from tests.clients.every_optimizer import EXACT, NO_LR, NOT_ALONE, outcomes

RATELESS = {"a2grad", "alig"}
# Those fail alone: they are fused into the backward pass, ask for lists of equal length, for a
# package that is not there, or for a process group.
FAILING = {"adalomo", "lomo", "bsam", "demo", "distributedmuon"}


def test_every_optimizer_that_runs_alone_trains_and_resumes_in_bits() -> None:
    found = outcomes()
    assert not {name: text for name, text in found.items() if text.startswith("WRONG")}
    assert {name for name, text in found.items() if text == NO_LR} == RATELESS
    assert {name for name, text in found.items() if text.startswith(NOT_ALONE)} == FAILING
    assert sum(text == EXACT for text in found.values()) == len(found) - 7 >= 121
