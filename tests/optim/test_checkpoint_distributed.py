"""A run resumes through `torch.distributed.checkpoint`, here on one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    get_state_dict,
    set_state_dict,
)

from tests.optim.checkpoints import KINDS, VARIANTS, drivers_state, made
from tests.optim.workers import same_bits, small_net, snapshot, train

# torch's checkpointing still names parts of itself by deprecated ways
DCP = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning:torch.distributed")


@DCP
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flatten", [False, True])
def test_a_run_resumes_through_distributed_checkpoints(
    kind: str, flatten: bool, tmp_path: Path
) -> None:
    options = StateDictOptions(flatten_optimizer_state_dict=flatten)
    model = small_net()
    optimizer = made(kind, model, symmetric=True)
    train(model, optimizer, range(10))
    weights, state = get_state_dict(model, optimizer, options=options)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=tmp_path / "dcp", no_dist=True)
    train(model, optimizer, range(10, 110))

    other = small_net(seed=9)
    again = made(kind, other, symmetric=True)
    weights, state = get_state_dict(other, again, options=options)
    dcp.load({"model": weights, "optimizer": state}, checkpoint_id=tmp_path / "dcp", no_dist=True)
    set_state_dict(other, again, model_state_dict=weights, optim_state_dict=state, options=options)
    train(other, again, range(10, 110))
    assert same_bits(snapshot(again)["parameters"], snapshot(optimizer)["parameters"])
    assert same_bits(drivers_state(again), drivers_state(optimizer))


@DCP
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_asking_a_fresh_optimizer_for_its_state_changes_nothing_of_the_driver(
    kind: str, variant: dict[str, Any]
) -> None:
    """The function steps an optimizer without state at lr = 0; AdamW itself counts that step."""
    model = small_net()
    optimizer = made(kind, model, **variant)
    before, drivers = snapshot(optimizer), drivers_state(optimizer)
    get_optimizer_state_dict(model, optimizer)
    assert same_bits(drivers_state(optimizer), drivers)
    if kind == "mpgd":
        assert same_bits(snapshot(optimizer), before)
