"""One step of the optimizer passes few files: what docs/architecture.md lists, and no more."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

import mpgd
from mpgd import MPGD
from tests.optim.descents import LOUD, parameters

pytest.importorskip("numba", reason="the walk is numba's: pip install 'mpgd[fast]'")
compiled = pytest.importorskip("mpgd.noise.engines.compiled")

ROOT = Path(mpgd.__file__).parent
COMPILED = {"mpgd.optim.kernels", "mpgd.noise.engines.fused", "mpgd.noise.engines.intrinsics"}
MOST = 10


def passed(optimizer: torch.optim.Optimizer) -> set[str]:
    """Return the files of the package in which a function runs during one step."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            found.add(str(path.relative_to(ROOT)))

    sys.setprofile(note)
    try:
        optimizer.step()
    finally:
        sys.setprofile(None)
    return found


def test_a_step_passes_at_most_ten_files() -> None:
    optimizer = MPGD(parameters([(3, 4), 5]), **LOUD, engine="numba")
    for p in optimizer.param_groups[0]["params"]:
        p.grad = torch.ones_like(p)
    optimizer.step()
    python = passed(optimizer)
    assert compiled.reached("mpgd.optim.kernels") >= COMPILED
    kernels = {name.removeprefix("mpgd.").replace(".", "/") + ".py" for name in COMPILED}
    assert len(python | kernels) <= MOST, sorted(python | kernels)
    walk = (ROOT.parents[1] / "docs" / "architecture.md").read_text()
    for file in python | kernels:
        assert f"`{file}`" in walk, f"docs/architecture.md does not name {file}"
