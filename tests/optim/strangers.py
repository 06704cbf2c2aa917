"""Small optimizers with the settings and states that real ones have, to be wrapped by `perturb`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

NAMES: dict[str, Any] = {  # settings that a perturbation has too, with values it would refuse
    "mu": -3.0,
    "sigma": 1.0,
    "gamma": 0.025,
    "beta": 9.65,
    "noise": 7,
    "seed": "none",
    "start": -1,
    "symmetric": "no",
    "signs": 0,
    "stream": 1.5,
}


class Namesake(Optimizer):
    """Descent whose settings have the names of ours; ``beta`` is the weight of the last step."""

    def __init__(
        self, params: Any, lr: float = 0.05, names: Mapping[str, Any] = MappingProxyType(NAMES)
    ) -> None:
        super().__init__(params, {"lr": lr, **names})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """Take one step."""
        for group in self.param_groups:
            for p in group["params"]:
                last = self.state[p].setdefault("last", torch.zeros_like(p))
                last.mul_(group["beta"] / 10).add_(p.grad, alpha=group["sigma"])
                p.sub_(last, alpha=group["lr"])


class Counted(Optimizer):
    """As MADGRAD and SPAM: tensors and numbers in the state that belong to no parameter."""

    def __init__(self, params: Any, lr: float = 0.05) -> None:
        super().__init__(params, {"lr": lr})
        self.state["total"] = 0  # type: ignore[index]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """Take one step."""
        state: Any = self.state
        k = state.setdefault("k", torch.tensor([0]))
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad, alpha=group["lr"] / float(k + 1 + state["total"]))
        k.add_(1)
        state["total"] += 1


class Numbered(Optimizer):
    """As heavyball: integer keys with dictionaries under them, and settings that are not saved."""

    def __init__(self, params: Any, lr: float = 0.05) -> None:
        super().__init__(params, {"lr": lr, "_own": 1})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """Take one step."""
        for group in self.param_groups:
            for p in group["params"]:
                own = self.state[p].setdefault(0, {})
                mean = own.setdefault("mean", torch.zeros_like(p))
                mean.lerp_(p.grad, 0.1)
                p.sub_(mean, alpha=group["lr"])

    def state_dict(self) -> dict[str, Any]:
        """Return the state, without settings that begin with an underscore."""
        packed = super().state_dict()
        for group in packed["param_groups"]:
            group.pop("_own", None)
        return packed


class Bare(Optimizer):
    """A parameter's state is a tensor, not a dictionary."""

    def __init__(self, params: Any, lr: float = 0.05) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """Take one step."""
        state: Any = self.state
        for group in self.param_groups:
            for p in group["params"]:
                if p not in state:
                    state[p] = torch.zeros_like(p)
                state[p].lerp_(p.grad, 0.1)
                p.sub_(state[p], alpha=group["lr"])


class Around(Optimizer):
    """As Lookahead and Magma: another optimizer inside, and a state dict of its own form.

    Like Lookahead's momentum, a sum of its own lies in the state of the optimizer inside.
    """

    def __init__(self, inside: Optimizer) -> None:
        self.inside = inside
        self.defaults = inside.defaults
        self.state = defaultdict(dict)
        self.__setstate__({})
        for p in self._every():
            self.state[p]["slow"] = p.detach().clone()

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of the optimizer inside."""
        return self.inside.param_groups

    def _every(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """Take one step."""
        self.inside.step()
        for p in self._every():
            slow = self.state[p]["slow"]
            slow.lerp_(p, 0.5)
            if "pulled" not in self.inside.state[p]:
                self.inside.state[p]["pulled"] = torch.zeros_like(p)
            pulled = self.inside.state[p]["pulled"].lerp_(slow, 0.5)
            p.copy_(slow).add_(pulled, alpha=0.01)

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""
        slow = {(0, k): dict(self.state[p]) for k, p in enumerate(self._every())}
        return {"slow_state": slow, "base": self.inside.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state."""
        self.inside.load_state_dict(state_dict["base"])
        for (_, k), values in state_dict["slow_state"].items():
            self.state[self._every()[k]]["slow"] = values["slow"].clone()


class Sharpness(Optimizer):
    """As SAM: shares groups and state with the optimizer it makes, and saves what it sees there."""

    def __init__(self, params: Any, make: Callable[..., Optimizer], rho: float = 0.05) -> None:
        super().__init__(params, {"rho": rho})
        self.base = make(self.param_groups)
        self.param_groups = self.base.param_groups
        self.state = self.base.state

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """Take one step."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["old"] = p.clone()
                p.add_(p.grad, alpha=group["rho"])
        for group in self.param_groups:
            for p in group["params"]:
                p.copy_(self.state[p].pop("old"))
        self.base.step()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state."""
        super().load_state_dict(state_dict)
        self.base.param_groups = self.param_groups
        self.base.state = self.state


class Tuned(Optimizer):
    """As TRAC: keeps its own numbers in the state of the optimizer inside, under a name."""

    def __init__(self, inside: Optimizer) -> None:
        self.inside = inside
        self.defaults = inside.defaults
        self.__setstate__({})

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of the optimizer inside."""
        return self.inside.param_groups

    @property
    def state(self) -> Any:
        """The state of the optimizer inside."""
        return self.inside.state

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """Take one step."""
        self.inside.step()
        if "tuned" not in self.state:
            self.state["tuned"] = {"sum": torch.zeros(())}
        own = self.state["tuned"]
        own["sum"] += sum(float(p.abs().sum()) for g in self.param_groups for p in g["params"])
        for group in self.param_groups:
            for p in group["params"]:
                p.mul_(1 - 1e-3 * torch.tanh(own["sum"]))

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""
        return self.inside.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state."""
        self.inside.load_state_dict(state_dict)


class Modes(torch.optim.SGD):
    """As schedulefree: has modes of training and of evaluation."""

    mode = "train"

    def train(self) -> None:
        """Change the mode."""
        self.mode = "train"

    def eval(self) -> None:
        """Change the mode."""
        self.mode = "eval"


STATES: dict[str, Callable[[list[nn.Parameter]], Optimizer]] = {
    "namesake": Namesake,
    "counted": Counted,
    "numbered": Numbered,
    "bare": Bare,
    "around": lambda params: Around(torch.optim.AdamW(params, lr=0.05)),
}
