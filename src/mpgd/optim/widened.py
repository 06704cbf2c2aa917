"""Another optimizer's step on half parameters as if they were float32.

An optimizer rounds to nearest when it writes a half parameter, so a small step is lost before
anybody could round it otherwise. With ``rounding="stochastic"`` it therefore works on float32
stand-ins of the parameters, which live as long as the step; then the result, perturbed or not, is
rounded stochastically into the parameters. Its own state is float32 too, and stays so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from mpgd.noise.counter_hash import extend_key, step_key
from mpgd.noise.stochastic_rounding import DRIVER, is_half
from mpgd.optim.rounding import round_part
from mpgd.optim.shards import are_overlapping, local


class Widened:
    """Some half parameters of an optimizer, and their stand-ins.

    Attributes:
        stand_ins: the float32 tensors by parameter.
    """

    def __init__(self, optimizer: Optimizer, params: Iterable[Tensor]) -> None:
        self.optimizer = optimizer
        self.stand_ins = {p: nn.Parameter(p.detach().float(), p.requires_grad) for p in params}

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def step(self, *closure: Callable[[], Any]) -> Any:
        """Return the loss of the optimizer's step; without a half it is the optimizer's own."""
        if are_overlapping(list(self.stand_ins)):
            raise ValueError(
                'rounding="stochastic" cannot take half parameters that share memory: each has a '
                "float32 copy for the time of a step; give the optimizer one of them"
            )
        self.enter()
        try:
            return self.optimizer.step(*(self._seen(each) for each in closure))
        finally:
            self.leave()

    def enter(self) -> None:
        """Put the stand-ins, with their gradients and states, into the optimizer."""
        for p, stand_in in self.stand_ins.items():
            stand_in.grad = None if p.grad is None else p.grad.float()
        self._swap(self.stand_ins)
        for stand_in in self.stand_ins.values():
            _widen_state(self.optimizer.state.get(stand_in))

    def leave(self) -> None:
        """Put the parameters back; the stand-ins keep the new values."""
        self._swap({stand_in: p for p, stand_in in self.stand_ins.items()})

    def write(self, p: Tensor, key: int, step: int) -> None:
        """Round a stand-in into its parameter, given the parameter's key and step."""
        own = step_key(extend_key(key, DRIVER), step)
        x = local(p)
        x.copy_(round_part(self.stand_ins[p], x.dtype, own))

    def _seen(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """Return a closure that sees the parameters, at the values that the stand-ins have now."""

        def evaluated() -> Any:
            self.leave()
            with torch.no_grad():
                for p, stand_in in self.stand_ins.items():
                    local(p).copy_(local(stand_in))
            try:
                return closure()
            finally:
                self.enter()

        return evaluated

    def _swap(self, replacement: dict[Tensor, Any]) -> None:
        """Replace parameters in the optimizer's groups, in place, and move their states."""
        for group in self.optimizer.param_groups:
            group["params"][:] = [replacement.get(p, p) for p in group["params"]]
        state = self.optimizer.state
        for p, other in replacement.items():
            if p in state:
                state[other] = state.pop(p)


def saved_in_float32(pairs: Iterable[tuple[Tensor, Any]]) -> list[Tensor]:
    """Return the half parameters among (parameter, its saved state) whose state is float32."""
    return [
        p
        for p, values in pairs
        if is_half(local(p).dtype)
        and isinstance(values, dict)
        and any(_is_float32(value, p) for value in values.values())
    ]


def refuse_narrowing(
    number: int, rounding: str, params: Iterable[Tensor], state: Mapping[Tensor, Any]
) -> None:
    """Raise if a group that was rounded stochastically is not any more, but has a float32 state."""
    if rounding == "stochastic" and saved_in_float32([(p, state.get(p)) for p in params]):
        raise ValueError(
            f"the rounding of group {number} was 'stochastic', so its optimizer's state is in "
            "float32, and cannot become 'nearest' in mid-run: set it back, or build a new optimizer"
        )


def _widen_state(values: Any) -> None:
    """Make an earlier state of halves one of float32 numbers."""
    if isinstance(values, dict):
        for name, value in values.items():
            if isinstance(value, Tensor) and is_half(value.dtype):
                values[name] = value.float()


def _is_float32(value: Any, p: Tensor) -> bool:
    """Return whether a state is of float32 numbers; one for a whole tensor is a count of steps."""
    if not isinstance(value, Tensor) or value.dtype != torch.float32:
        return False
    return value.dim() > 0 or value.shape == p.shape
