"""The same perturbation around any torch optimizer.

    x' = step(x) - mu lr^gamma v1 x + sigma lr^gamma v2

The perturbation uses the parameters that the step started from. The wrapper shares the inner
optimizer's parameter groups, so schedulers act on both; its `state_dict` holds both states, the
drivers' under names that begin with ``perturbation.``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from mpgd.noise.force import overridden
from mpgd.optim import checkpoint, operator, rows
from mpgd.optim.descent import MPGD, refuse_sparse, step_size
from mpgd.optim.loop import displace_one
from mpgd.optim.orbits import State, count_steps, ensure_states, is_active, next_shared
from mpgd.optim.settings import (
    DEFAULTS,
    NAMES,
    Current,
    Keywords,
    NoiseLike,
    Pair,
    Settings,
    check_keywords,
    check_learning_rate,
    find_engine,
)
from mpgd.optim.shards import local
from mpgd.optim.sizes import root_mean_square, warn_if_large

PREFIX = "perturbation."


def perturb(
    optimizer: Optimizer,
    *,
    mu: float = DEFAULTS.mu,
    sigma: float = DEFAULTS.sigma,
    gamma: Pair = DEFAULTS.gamma,
    beta: Pair = DEFAULTS.beta,
    symmetric: bool = DEFAULTS.symmetric,
    noise: NoiseLike = DEFAULTS.noise,
    scaling: str = DEFAULTS.scaling,
    signs: str = DEFAULTS.signs,
    first_sign: str = DEFAULTS.first_sign,
    shared_multiplicative: bool = DEFAULTS.shared_multiplicative,
    start: int = DEFAULTS.start,
    stop: int | None = DEFAULTS.stop,
    seed: int = DEFAULTS.seed,
    fused: bool | None = None,
    engine: str | None = DEFAULTS.engine,
    longest: int | None = DEFAULTS.longest,
    force: float | None = DEFAULTS.force,
    decay: float | None = DEFAULTS.decay,
) -> Perturbed:
    """Return ``optimizer`` with chaotic perturbations added to every step.

    Args:
        optimizer: any torch optimizer whose groups have an ``lr``. The keywords are those of
            `mpgd.MPGD`; a group of the optimizer that has one of them keeps its own.
        mu: the size of the multiplicative perturbation.
        sigma: the size of the additive one.
        gamma: the exponent of the noise, a number or a pair (multiplicative, additive).
        beta: its skewness, a number or such a pair.
        symmetric: take differences of two independent drivers.
        noise: a word, a noise, or a pair of noises.
        scaling: of Gaussian noise.
        signs: the rule of the signs.
        first_sign: how the first sign is found.
        shared_multiplicative: one scalar multiplicative driver for all coordinates.
        start: the first step that is perturbed.
        stop: the first step that is not any more.
        seed: of the noise.
        fused: whether compiled kernels are demanded or forbidden. The wrapped optimizer has a
            ``fused`` of its own, which stays as it is.
        engine: which engine advances the noise.
        longest: the most steps a laminar phase has.
        force: instead of sigma: the push of a laminar phase, in units of the inner optimizer's
            update divided by lr.
        decay: instead of mu: the weight decay of a laminar phase, in such units.

    Examples:
        >>> model = torch.nn.Linear(3, 1)
        >>> optimizer = perturb(torch.optim.AdamW(model.parameters(), lr=1e-3), sigma=0.1)
        >>> model(torch.ones(5, 3)).square().mean().backward()
        >>> optimizer.step()
    """
    keywords = Keywords(
        mu,
        sigma,
        gamma,
        beta,
        symmetric,
        noise,
        scaling,
        signs,
        first_sign,
        shared_multiplicative,
        start,
        stop,
        seed,
        engine,
        longest,
        force,
        decay,
    )
    return Perturbed(optimizer, keywords, fused)


class Perturbed(Optimizer):
    """An optimizer and the perturbation of its parameters; made by `mpgd.perturb`.

    Attributes:
        inner: the wrapped optimizer. It shares ``param_groups`` and ``state``.

    Examples:
        >>> inner = torch.optim.Adagrad([torch.nn.Parameter(torch.ones(2))], lr=0.1)
        >>> perturb(inner, mu=0.1).inner is inner
        True
    """

    _warned = False  # whether the size of the perturbation was complained about

    def __init__(self, optimizer: Optimizer, keywords: Keywords, fused: bool | None = None) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"optimizer must be a torch.optim.Optimizer, got {optimizer!r}")
        if isinstance(optimizer, (MPGD, Perturbed)):
            name = type(optimizer).__name__
            raise ValueError(f"optimizer is a {name} and perturbed already: set mu, sigma there")
        given = vars(keywords)
        plain = [_check_group(overridden(given, group)) for group in optimizer.param_groups]
        self.inner, self._fused = optimizer, fused
        self.__setstate__({})  # sets up the hooks, as the base class does for a copy
        for group, own in zip(optimizer.param_groups, plain, strict=True):
            group.update(own)
        self._own = plain
        self._keywords = keywords
        self._orbits: dict[Tensor, State] = {}
        for number in range(len(plain)):
            self._choose_engine(number)
        self._ensure_states()
        for number in range(len(plain)):
            self._warn_once(number)

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The groups of the inner optimizer, with the perturbation's settings among their keys."""
        return self.inner.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """A view of both states, as `state_dict` names them; change ``inner.state`` instead."""
        return _BothStates(self.inner.state, self._orbits)

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """The defaults of the inner optimizer."""
        return self.inner.defaults

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle keeps."""
        names = ("inner", "_own", "_keywords", "_fused", "_orbits")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore from a copy or a pickle."""
        super().__setstate__(state)
        self._current, self._number = Current(), operator.enrol(self)
        self._measures, self._updates = False, dict[int, float | None]()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group to both; the orbits of the others are left alone."""
        defaults = {**self.defaults, **vars(self._keywords)}
        own = _check_group(overridden(defaults, param_group))
        self.inner.add_param_group({**param_group, **own})
        self._own.append(own)
        try:
            self._choose_engine(-1)
            self._ensure_states()
        except Exception:
            for parameter in self.param_groups.pop()["params"]:
                self._orbits.pop(parameter, None)
            self._own.pop()
            raise
        self._warn_once(len(self._own) - 1)

    def _warn_once(self, number: int) -> None:
        if not self._warned:
            group = self.param_groups[number]
            self._warned = warn_if_large(number, group, self._current.of(number, group))

    def _choose_engine(self, number: int) -> None:
        group = self.param_groups[number]
        engine = find_engine(group, self._fused, map(local, group["params"]))
        group["engine"] = self._own[number]["engine"] = engine

    def _ensure_states(self) -> list[Settings]:
        """Create the states that are missing, and return the settings of all groups."""
        made = []
        for number, (group, own) in enumerate(zip(self.param_groups, self._own, strict=True)):
            for name in NAMES:  # the inner optimizer may have loaded a plain checkpoint
                own[name] = group.setdefault(name, own[name])
            made.append(self._current.of(number, group))
        pairs = zip(self.param_groups, made, strict=True)
        ensure_states(pairs, lambda p: self._orbits.setdefault(p, {}))
        return made

    def _settings(self) -> list[Settings]:
        """Return the settings of all groups; a compiler finds the states that are there."""
        if not torch.compiler.is_compiling():
            return self._ensure_states()
        return [self._current.of(number, group) for number, group in enumerate(self.param_groups)]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take the inner optimizer's step, then add the perturbation."""
        every = enumerate(zip(self.param_groups, self._settings(), strict=True))
        perturbed = [(k, g, s) for k, (g, s) in every if s.is_perturbed and g["params"]]
        groups = [group for _, group, _ in perturbed]
        refuse_sparse(groups)
        measures = self._measures and not torch.compiler.is_compiling()
        chosen = [g for _, g, s in perturbed if s.mu or measures]
        old = {p: local(p).clone() for g in chosen for p in g["params"]}
        checked = () if closure is None else (_checked(closure, groups),)
        loss = self.inner.step(*checked)
        if measures:
            self._updates = {k: _update_size(g, old) for k, g, _ in perturbed}
            self._measures = False
        for number, group, settings in perturbed:
            self._displace_group(number, group, settings, old)
        return loss

    def measured_update(self, number: int) -> float | None:
        """Return the root mean square of the inner update over lr, of a group's last measured step.

        The next step measures it again: that takes a copy of the parameters, so it is done only
        when it was asked for.
        """
        self._measures = True
        return self._updates.get(number)

    def _displace_group(
        self, number: int, group: dict[str, Any], settings: Settings, old: dict[Tensor, Tensor]
    ) -> None:
        params = [p for p in group["params"] if p.grad is not None]
        states, leader = [self._orbits[p] for p in params], self._orbits[group["params"][0]]
        if torch.compiler.is_compiling():
            before = [old[p] for p in params if p in old]
            place = (self._number, number)
            if operator.send(place, group, params, before, states, settings, leader):
                return
        eta = step_size(group["lr"])
        if not isinstance(eta, Tensor) and eta == 0:
            return  # nothing changes and the orbits wait
        shared = next_shared(leader, settings, eta)
        rest = list(range(len(params)))
        if not torch.compiler.is_compiling() and not isinstance(eta, Tensor):
            before = [old.get(p, local(p)) for p in params]
            rest = rows.step_rows(params, before, states, settings, eta, shared, None)
        for k in rest:
            if is_active(states[k]["step"], settings, eta):
                displace_one(params[k], old.get(params[k]), states[k], settings, eta, shared)
        count_steps(states, eta)

    @staticmethod
    def _gradient_step(group: dict[str, Any], eta: float) -> None:
        """Return nothing: the inner optimizer has taken the step of the gradient."""

    def state_dict(self) -> dict[str, Any]:
        """Return both states; the drivers' entries begin with ``perturbation.``."""
        self._ensure_states()
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        packed = self.inner.state_dict()
        parameters = [p for group in self.param_groups for p in group["params"]]
        names = [name for group in packed["param_groups"] for name in group["params"]]
        for name, p in zip(names, parameters, strict=True):
            if p in self._orbits:
                entries = {PREFIX + key: value for key, value in self._orbits[p].items()}
                packed["state"][name] = {**packed["state"].get(name, {}), **entries}
        for post_hook in self._optimizer_state_dict_post_hooks.values():
            packed = post_hook(self, packed) or packed
        return checkpoint.in_words(packed)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load both states; nothing is changed if they do not fit."""
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = hook(self, state_dict) or state_dict
        state_dict = checkpoint.with_noises(self, state_dict)
        plain, orbits = _split(state_dict)
        checkpoint.check_state(self, {**state_dict, "state": orbits})
        self.inner.load_state_dict({**state_dict, "state": plain})
        loaded = checkpoint.pairs(self, {**state_dict, "state": orbits})
        self._orbits = {p: checkpoint.own_state(values, p) for p, _, values in loaded if values}
        for post_hook in self._optimizer_load_state_dict_post_hooks.values():
            post_hook(self)


def _update_size(group: dict[str, Any], old: dict[Tensor, Tensor]) -> float | None:
    """Return the root mean square of what the inner optimizer did to a group, over lr."""
    eta = float(group["lr"])
    moved = [local(p) - old[p] for p in group["params"] if p.grad is not None]
    return root_mean_square(moved) / eta if moved and eta else None


class _BothStates(dict[Tensor, dict[str, Any]]):
    """Both states by parameter; empty in a test of truth as long as the inner one is.

    Distributed checkpoints ask that to see whether the inner optimizer must make its state.
    """

    def __init__(self, inner: Any, orbits: dict[Tensor, State]) -> None:
        super().__init__({p: dict(values) for p, values in inner.items()})
        for p, values in orbits.items():
            self.setdefault(p, {}).update({PREFIX + key: value for key, value in values.items()})
        self._started = bool(inner)

    def __bool__(self) -> bool:
        return self._started


def _checked(closure: Callable[[], Any], groups: list[dict[str, Any]]) -> Callable[[], Any]:
    """Return a closure that refuses sparse gradients before the inner optimizer sees them."""

    def checked() -> Any:
        with torch.enable_grad():
            loss = closure()
        refuse_sparse(groups)
        return loss

    return checked


def _split(state_dict: dict[str, Any]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Return the inner optimizer's state and the drivers', by parameter."""
    plain: dict[Any, Any] = {}
    orbits: dict[Any, Any] = {}
    for name, values in state_dict["state"].items():
        own = {key.removeprefix(PREFIX): v for key, v in values.items() if key.startswith(PREFIX)}
        rest = {key: v for key, v in values.items() if not key.startswith(PREFIX)}
        if rest:
            plain[name] = rest
        orbits[name] = own
    return plain, orbits


def _check_group(group: dict[str, Any]) -> dict[str, Any]:
    """Return a group's own settings as plain numbers."""
    if "lr" not in group:
        raise ValueError(
            f"every group needs an 'lr' to scale the perturbation, got {sorted(group)}"
        )
    check_learning_rate(group["lr"])
    return check_keywords(group)
