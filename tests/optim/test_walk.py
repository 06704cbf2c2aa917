"""The files that a step goes through, so that a reader finds it in few of them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import mpgd
from mpgd.noise.engines import has_cpu
from tests.optim.descents import KINDS, made, parameters
from tests.optim.workers import run, set_gradients

ROOT = Path(mpgd.__file__).parent
OPTIM = {"mechanism.py", "settings.py", "distributed.py", "displacement/__init__.py"}
ENGINE = {f"noise/engines/{name}.py" for name in ("cpu", "native", "threads")}


@pytest.mark.skipif(not has_cpu(), reason="it needs compiled kernels")
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_goes_through_few_files(kind: str) -> None:
    """As docs/architecture.md lists them; a later step does not pass what only the first does."""
    optimizer = made(kind, parameters([5, (2, 3)]))
    run(optimizer, 2)
    set_gradients([p for group in optimizer.param_groups for p in group["params"]], 0)
    seen: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            seen.add(path.relative_to(ROOT).as_posix())

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        optimizer.step()
    finally:
        sys.setprofile(before)
    assert seen == {f"optim/{name}" for name in OPTIM} | ENGINE
