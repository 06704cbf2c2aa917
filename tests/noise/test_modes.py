"""What is kept for later does not depend on the mode that torch was in when it was made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from mpgd import ChaoticNoise, GaussianNoise
from mpgd.noise.driver import make_driver
from mpgd.noise.memoryless import normal_driver

Mode = Callable[[], AbstractContextManager[Any]]
MODES: dict[str, Mode] = {
    "fake": FakeTensorMode,
    "meta": lambda: torch.device("meta"),
    "inference": torch.inference_mode,
}


@pytest.fixture
def _no_drivers() -> Iterator[None]:
    """Let the drivers be made anew, in the test and after it."""
    for cache in (make_driver, normal_driver):
        cache.cache_clear()
    yield
    for cache in (make_driver, normal_driver):
        cache.cache_clear()


@pytest.mark.usefixtures("_no_drivers")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "noise",
    [lambda: ChaoticNoise(0.6), lambda: ChaoticNoise(0.6, longest=9), GaussianNoise],
    ids=["chaotic", "cut", "gaussian"],
)
def test_a_noise_first_used_in_a_mode_is_the_same_later(
    mode: str, noise: Callable[[], Any]
) -> None:
    given: dict[str, Any] = {"steps": 5, "shape": (7,), "seed": 3, "device": "cpu"}
    expected = noise().path(**given)
    make_driver.cache_clear()
    normal_driver.cache_clear()
    with MODES[mode]():
        noise().init((7,), 3)
        table = noise().driver.returns.on(torch.device("cpu"))
        assert isinstance(table, FakeTensor) == (mode == "fake")
        assert table.device.type == "cpu"
    assert torch.equal(noise().path(**given), expected)
    for device in ("cpu", "meta"):
        table = noise().driver.returns.on(torch.device(device))
        assert table.device.type == device
        assert not isinstance(table, FakeTensor)
        assert not table.is_inference()


@pytest.mark.usefixtures("_no_drivers")
def test_a_copy_that_is_made_among_fake_tensors_is_not_kept() -> None:
    table = ChaoticNoise(0.7).driver.returns
    with FakeTensorMode():
        assert isinstance(table.on(torch.device("meta")), FakeTensor)
    assert not isinstance(table.on(torch.device("meta")), FakeTensor)
