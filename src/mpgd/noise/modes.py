"""Tensors that do not depend on the mode they happen to be made in.

Inside ``with torch.device(...)``, `FakeTensorMode` and `torch.inference_mode` torch makes other
tensors than outside: on another device, without memory, or such that nothing outside may change
them. What is kept for later, in a cache or in an optimizer's state, must not be one of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch._guards import active_fake_mode


@contextmanager
def outside_modes() -> Iterator[None]:
    """Make tensors that have memory and may be changed, whatever mode is on.

    A default device stays in force: name the device.

    Examples:
        >>> with torch.inference_mode(), outside_modes():
        ...     torch.zeros(2, device="cpu").is_inference()
        False
    """
    with torch.inference_mode(False), torch._C._DisableTorchDispatch():
        yield


class Constant:
    """An array of int64 and its copies on devices.

    Args:
        array: the numbers; they share the memory of the CPU's tensor.

    Examples:
        >>> Constant(np.arange(3)).on(torch.device("cpu"))
        tensor([0, 1, 2])
    """

    def __init__(self, array: NDArray[np.int64]) -> None:
        self._array = np.ascontiguousarray(array)
        with outside_modes():
            self._copies = {torch.device("cpu"): torch.from_numpy(self._array)}

    def on(self, device: torch.device) -> Tensor:
        """Return the numbers on ``device``; a fake tensor, which nobody keeps, among fake ones."""
        if not torch.compiler.is_compiling() and active_fake_mode() is not None:
            return torch.from_numpy(self._array).to(device)
        if device not in self._copies:
            with outside_modes():
                self._copies[device] = self._copies[torch.device("cpu")].to(device)
        return self._copies[device]
