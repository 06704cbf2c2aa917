"""A run resumes through `torch.distributed.checkpoint`, here on one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.optim import Optimizer

from tests.optim.checkpoints import KINDS, VARIANTS, drivers_state, made, prefix_of
from tests.optim.workers import make_optimizer, same_bits, small_net, snapshot, train

# torch's checkpointing still names parts of itself by deprecated ways
pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::UserWarning:torch.distributed"
)


def two_groups(kind: str, model: nn.Module, plain: int) -> Optimizer:
    """Return an optimizer of two groups, one of them without noise."""
    layers = [{"params": list(layer.parameters())} for layer in (model[0], model[2])]  # type: ignore[index]
    layers[plain] |= {prefix_of(kind) + "mu": 0.0, prefix_of(kind) + "sigma": 0.0}
    return make_optimizer(kind, layers)


MAKES: dict[str, Any] = {
    "one group": lambda kind, model: made(kind, model, symmetric=True),
    "shared": lambda kind, model: made(kind, model, **VARIANTS[2]),
    "the second plain": lambda kind, model: two_groups(kind, model, 1),
    "the first plain": lambda kind, model: two_groups(kind, model, 0),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flatten", [False, True])
@pytest.mark.parametrize("groups", list(MAKES))
def test_a_run_resumes_through_distributed_checkpoints(
    kind: str, flatten: bool, groups: str, tmp_path: Path
) -> None:
    options = StateDictOptions(flatten_optimizer_state_dict=flatten)
    model, other = small_net(), small_net(seed=9)
    optimizer, again = MAKES[groups](kind, model), MAKES[groups](kind, other)
    train(model, optimizer, range(5))
    weights, state = get_state_dict(model, optimizer, options=options)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=tmp_path / "dcp", no_dist=True)
    train(model, optimizer, range(5, 15))

    weights, state = get_state_dict(other, again, options=options)
    dcp.load({"model": weights, "optimizer": state}, checkpoint_id=tmp_path / "dcp", no_dist=True)
    set_state_dict(other, again, model_state_dict=weights, optim_state_dict=state, options=options)
    train(other, again, range(5, 15))
    assert same_bits(snapshot(again)["parameters"], snapshot(optimizer)["parameters"])
    assert same_bits(drivers_state(again), drivers_state(optimizer))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("groups", list(MAKES))
def test_asking_a_fresh_optimizer_for_its_state_changes_nothing_of_the_driver(
    kind: str, groups: str
) -> None:
    """The function steps an optimizer without state at lr = 0; AdamW itself counts that step."""
    model = small_net()
    optimizer = MAKES[groups](kind, model)
    before, drivers = snapshot(optimizer), drivers_state(optimizer)
    get_optimizer_state_dict(model, optimizer)
    assert same_bits(drivers_state(optimizer), drivers)
    assert same_bits(snapshot(optimizer)["parameters"], before["parameters"])
