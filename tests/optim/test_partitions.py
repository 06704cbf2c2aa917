"""Two gloo processes: swapped parameters, ZeRO and FSDP1 have the noise of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.optim import partitions
from tests.optim.workers import (
    in_two_processes,
    make_optimizer,
    odd_net,
    results,
    same_bits,
    train_odd,
)

pytestmark = pytest.mark.timeout(240)
TASKS: dict[str, tuple[Any, ...]] = {
    "swapped": (partitions.swap_under_fsdp,),
    "zero": (partitions.partition,),
    "flat": (partitions.flatten,),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all tasks on two processes, once."""
    return in_two_processes(tmp_path_factory.mktemp("partitions"), TASKS)


def alone(kind: str, steps: int, net: Any = odd_net) -> Any:
    """Return the model and the optimizer of one process."""
    model = net()
    optimizer = make_optimizer(kind, model.parameters(), engine="torch", symmetric=True)
    train_odd(model, optimizer, range(steps))
    return model, optimizer


def close(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b.detach(), rtol=1e-4, atol=1e-5)  # means of two gradients


def test_swapped_parameters_keep_the_noise_of_the_whole(folder: Path) -> None:
    one, other = results(folder, "swapped")
    assert same_bits(one, other)
    for kind, found in zip(partitions.KINDS, one, strict=True):
        model, optimizer = alone(kind, 6)
        close(found["parameters"], list(model.parameters()))
        for number, values in optimizer.state_dict()["state"].items():
            for key, value in values.items():
                if not value.is_floating_point():
                    assert same_bits(found["state"][number][key], value)


def test_under_zero_the_bits_are_those_of_one_process(folder: Path) -> None:
    one, other = results(folder, "zero")
    assert same_bits(one, other)
    for kind, (whole, resumed) in zip(partitions.KINDS, one, strict=True):
        model, _ = alone(kind, 10)
        assert same_bits(resumed, whole)
        assert same_bits(whole, [p.detach() for p in model.parameters()])


def test_under_fsdp1_the_noise_is_that_of_one_process(folder: Path) -> None:
    one, other = results(folder, "flat")
    for each in (one, other):
        del each["errors"]  # each names the shape of its own part
    assert same_bits(one, other)
    for kind in partitions.KINDS:
        model, _ = alone(kind, 6)
        for layers in (False, True):
            close(one[f"{kind} {layers}"], list(model.parameters()))
        bare, _ = alone(kind, 6, partitions.bare_net)
        close(one[f"{kind} bare"], list(bare.parameters()))  # use_orig_params=False


def test_what_fsdp1_does_not_say_is_refused(folder: Path) -> None:
    mixed, unnumbered = results(folder, "flat")[0]["errors"]
    assert "holds 6 tensors" in mixed
    assert "wrap the model with use_orig_params=True" in mixed
    assert "call mpgd.number_parameters(model) on the wrapped model" in unnumbered
