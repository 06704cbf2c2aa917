"""MPGD as a torch optimizer: the class gathers, `mpgd.optim.update` computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.sgd import sgd

from mpgd.optim import checkpoint, fused
from mpgd.optim.many import descend_many
from mpgd.optim.orbits import (
    State,
    ensure,
    ensure_shared,
    is_active,
    is_lacking,
    shared_value,
    terms,
)
from mpgd.optim.settings import (
    DEFAULTS,
    check_flag,
    check_learning_rate,
    check_settings,
    check_sizes,
    is_perturbed,
)
from mpgd.optim.shards import local
from mpgd.optim.update import Scalar, descended, precision_of


class MPGD(Optimizer):
    """Gradient descent with chaotic multiplicative and additive perturbations.

        x' = x - lr grad(x) - mu lr^gamma v1 x + sigma lr^gamma v2

    With mu = sigma = 0 it is `torch.optim.SGD`, bit for bit, and holds no state. Every setting
    can differ between parameter groups. The noise is a function of (seed, the parameter's
    ordinal, element, step): it does not touch torch's generators, is the same on every rank and
    for every sharding, and resumes bit for bit from `state_dict`.

    Args:
        params: parameters, named parameters, or groups of them.
        lr: the step size eta, a number or a tensor of one.
        mu: the size of the multiplicative perturbation.
        sigma: the size of the additive perturbation.
        gamma: the exponent in (0.5, 0.99]; the tail index of the limit is 1/gamma. A pair gives
            (multiplicative, additive).
        beta: the skewness in [-1, 1], a number or such a pair.
        symmetric: take differences of two independent drivers.
        noise: ``"chaotic"``, ``"gaussian"`` or ``"stable"``.
        scaling: of Gaussian noise: ``"matched"`` (lr^gamma and the chaotic driver's variance) or
            ``"langevin"`` (lr^(1/2) and variance 1).
        signs: ``"fresh"``, or ``"product"`` as the paper prints it.
        shared_multiplicative: one scalar multiplicative driver for all coordinates.
        start: the first step that is perturbed; a parameter counts the steps it took.
        stop: the first step that is not any more. Outside, orbits wait.
        seed: of the noise.
        maximize: ascend instead of descend.
        foreach: work on all parameters of a group at once; the default on CUDA.
        engine: ``"torch"`` or ``"numba"``; by default numba on a CPU where it is installed.

    Examples:
        >>> model = torch.nn.Linear(3, 1)
        >>> optimizer = MPGD(model.parameters(), lr=0.1, mu=0.01, sigma=0.02, gamma=0.6, beta=0.5)
        >>> model(torch.ones(5, 3)).square().mean().backward()
        >>> optimizer.step()
        >>> optimizer.zero_grad()

    Reference: Lim, Wan & Simsekli (2022), equation (8).
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        *,
        mu: float = 0.0,
        sigma: float = 0.0,
        gamma: float | tuple[float, float] = 0.6,
        beta: float | tuple[float, float] = 0.0,
        symmetric: bool = False,
        noise: str = "chaotic",
        scaling: str = "matched",
        signs: str = "fresh",
        shared_multiplicative: bool = False,
        start: int = 0,
        stop: int | None = None,
        seed: int = 0,
        maximize: bool = False,
        foreach: bool | None = None,
        engine: str | None = None,
    ) -> None:
        given = locals()
        defaults = {name: given[name] for name in ("lr", *DEFAULTS, "maximize", "foreach")}
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group; the orbits of the others are left alone."""
        merged = {**self.defaults, **param_group}
        plain = {**check_settings(merged), "lr": check_learning_rate(merged["lr"])}
        check_flag("maximize", merged["maximize"])
        super().add_param_group(param_group)
        self.param_groups[-1].update(plain)
        try:
            self._ensure_states()
        except Exception:
            for parameter in self.param_groups.pop()["params"]:
                self.state.pop(parameter, None)
            raise

    def _ensure_states(self) -> None:
        """Create the states that are missing: eagerly, or after mu or sigma was raised from 0."""
        ordinal = 0
        leaders: list[State] = []
        for group in self.param_groups:
            for parameter in group["params"]:
                if is_perturbed(group):
                    ensure(parameter, self.state[parameter], group, ordinal)
                ordinal += 1
            if group["shared_multiplicative"] and group["mu"] and group["params"]:
                leader = self.state[group["params"][0]]
                ensure_shared(leader, group, leaders)
                leaders.append(leader)

    def state_dict(self) -> dict[str, Any]:
        """Return the state; orbits, counters and keys are tensors, settings plain values."""
        self._ensure_states()
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state; orbits keep their bits, and nothing is changed if it does not fit."""
        checkpoint.load(self, state_dict, super().load_state_dict)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore from a pickle, also of a version that lacked a setting."""
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in {**DEFAULTS, "maximize": False, "foreach": None}.items():
                group.setdefault(name, value)

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], Any]) -> Any: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step; a closure is called once, with gradients on, and its loss returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        refuse_sparse(self.param_groups)
        for group in self.param_groups:
            self._step_group(group)
        return loss

    def _step_group(self, group: dict[str, Any]) -> None:
        params = [p for p in group["params"] if p.grad is not None]
        eta = as_scalar(group["lr"])
        if not is_perturbed(group):
            plain_descent(params, group)
            return
        if not group["params"]:
            return
        if not torch.compiler.is_compiling():
            check_sizes(group)
            check_learning_rate(group["lr"])
        if not isinstance(eta, Tensor) and eta == 0:
            return  # nothing changes and the orbits wait
        if is_lacking(group, [self.state[p] for p in group["params"]]):
            self._ensure_states()
        shared = next_shared(self.state[group["params"][0]], group, eta)
        states: list[State] = [self.state[p] for p in params]
        if uses_foreach(params, group):
            descend_many(params, states, group, float(eta), shared)
            count_steps(states, eta)
            return
        if isinstance(eta, Tensor) or not fused.is_fusible(group):
            rest = list(range(len(params)))
        else:
            rest = fused.descend(params, states, group, eta, shared)
        for k in rest:
            descend_one(params[k], states[k], group, eta, shared)
        count_steps(states, eta)


def descend_one(
    p: Tensor, state: State, group: dict[str, Any], eta: Scalar, shared: Tensor | None
) -> None:
    """Update one parameter in place and advance its drivers, all but the step count."""
    gradient = -p.grad if group["maximize"] else p.grad  # type: ignore[operator]
    m, n = terms(p, state, group, eta, shared)
    x, precision = local(p), precision_of(local(p).dtype)
    new = descended(x.to(precision), local(gradient).to(precision), eta, m, n)  # type: ignore[arg-type]
    x.copy_(new)


def count_steps(states: list[State], eta: Scalar, name: str = "step") -> None:
    """Add 1 to the steps, unless eta is 0."""
    one = (eta != 0).to("cpu", torch.int64) if isinstance(eta, Tensor) else 1
    if states:
        torch._foreach_add_([state[name] for state in states], one)


def next_shared(state: State, group: dict[str, Any], eta: Scalar) -> Tensor | None:
    """Return the value of the group's shared multiplicative driver, if it has one, and advance."""
    if not (group["shared_multiplicative"] and group["mu"]):
        return None
    active = is_active(state["shared_step"], group, eta)
    value = torch.zeros((), dtype=torch.float64)
    if active is not False:
        value = shared_value(state, group, active)
    count_steps([state], eta, "shared_step")
    return value


def plain_descent(params: list[Tensor], group: dict[str, Any]) -> None:
    """Take the step of `torch.optim.SGD` without momentum, by torch's own function."""
    if params:
        sgd(
            params,
            [p.grad for p in params],  # type: ignore[misc]
            [None] * len(params),
            foreach=group["foreach"],
            weight_decay=0.0,
            momentum=0.0,
            lr=group["lr"],
            dampening=0.0,
            nesterov=False,
            maximize=group["maximize"],
        )


def as_scalar(lr: float | Tensor) -> Scalar:
    """Return the step size: a number, or a tensor while compiling with a tensor lr."""
    if isinstance(lr, Tensor) and torch.compiler.is_compiling():
        return lr
    return float(lr)


def uses_foreach(params: list[Tensor], group: dict[str, Any]) -> bool:
    """Return whether the group's parameters are worked on all at once."""
    if group["foreach"] is None:
        compiling = torch.compiler.is_compiling()
        return not compiling and bool(params) and all(p.is_cuda for p in params)
    return bool(group["foreach"]) and not torch.compiler.is_compiling()


def refuse_sparse(param_groups: Iterable[dict[str, Any]]) -> None:
    """Raise on a sparse gradient, before anything is changed."""
    for p in chain.from_iterable(group["params"] for group in param_groups):
        if p.grad is not None and p.grad.layout is not torch.strided:
            raise RuntimeError(
                f"gradients must be dense (torch.strided), got layout {p.grad.layout} "
                f"for a parameter of shape {tuple(p.shape)}"
            )
