"""A study that is run again computes only what its store lacks."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest


def check_nothing_again(
    patch: pytest.MonkeyPatch,
    module: ModuleType,
    work: str,
    same: Callable[[], None],
    other: Callable[[], None],
) -> None:
    """Let ``work`` of a module refuse: ``same`` must not ask for it, and ``other`` must."""

    def refuse(*arguments: object) -> None:
        raise AssertionError("computed again")

    patch.setattr(module, work, refuse)
    same()
    with pytest.raises(AssertionError, match="computed again"):
        other()
