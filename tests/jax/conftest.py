"""The tests of `mpgd.jax` need jax, which only `make jax` installs, and several devices."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

# jax reads this once, when it is first used.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")


class WithoutJax(pytest.Module):
    """A module of tests that cannot be imported here."""

    def collect(self) -> list[pytest.Item]:
        """Say what is missing."""
        pytest.skip("jax is not installed; `make jax` installs it and runs these tests")


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Skip every module here, with a message, where jax is absent."""
    if find_spec("jax") is None:
        return WithoutJax.from_parent(parent, path=module_path)
    return None
