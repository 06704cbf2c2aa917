"""The tracker measures every so many steps what the functions measure once."""

from __future__ import annotations

import pytest
import torch

from mpgd.curvature import CurvatureTracker, hessian_trace
from tests.curvature.network import data, mse, network


def test_tracker_records_every_n_steps() -> None:
    model, batch = network(), data()
    tracker = CurvatureTracker(model, mse, iter([batch]), every=4, probes=5, seed=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    returned = []
    for step in range(9):
        returned.append(tracker(step))
        optimizer.zero_grad()
        mse(model(batch[0]), batch[1]).backward()
        optimizer.step()
    assert [r.step for r in tracker.records] == [0, 4, 8]
    assert [r for r in returned if r] == tracker.records
    assert tracker.records[0].top_eigenvalue != tracker.records[2].top_eigenvalue
    last = CurvatureTracker(model, mse, batch, probes=5, seed=2, top_eigenvalue=False)(0)
    assert last.top_eigenvalue is None
    assert last.trace == hessian_trace(model, mse, batch, probes=5, seed=2)


def test_tracker_refuses_nothing_to_do() -> None:
    with pytest.raises(ValueError, match="every must be at least 1, got 0"):
        CurvatureTracker(network(), mse, data(), every=0)
    with pytest.raises(ValueError, match="trace or top_eigenvalue must be True"):
        CurvatureTracker(network(), mse, data(), trace=False, top_eigenvalue=False)
