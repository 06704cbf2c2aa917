"""The same perturbation around any torch optimizer.

    x' = step(x) - mu lr^gamma v1 x + sigma lr^gamma v2

The perturbation uses the parameters that the step started from. The wrapper shares the inner
optimizer's parameter groups, so schedulers act on both; its `state_dict` holds both states. What is
the perturbation's, settings and tensors, has names that begin with ``perturbation.`` in both, so
that it never meets a setting or a tensor of the inner optimizer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._compile import _disable_dynamo
from torch.optim import Optimizer

from mpgd.noise.stochastic_rounding import is_half
from mpgd.optim import checkpoint, kernel_rows, operator
from mpgd.optim.copies import copied
from mpgd.optim.creation import ensure_states
from mpgd.optim.descent import MPGD, step_size
from mpgd.optim.inner import (
    ENTRY,
    FULL_NAMES,
    ROUNDING,
    bare_step,
    drop_own,
    have_moved,
    inner_step,
    load_inner,
    pack,
    unpack,
    with_prefix,
)
from mpgd.optim.loop import displace_one
from mpgd.optim.misnamed import checked_group, warn_of_bare_names, warn_of_earlier
from mpgd.optim.numbering import number_partition
from mpgd.optim.orbits import (
    State,
    check_orbits,
    count_steps,
    is_active,
    is_lacking,
    next_shared,
)
from mpgd.optim.settings import (
    PREFIX,
    Current,
    Keywords,
    Settings,
    check_keywords,
    check_learning_rate,
    find_engine,
)
from mpgd.optim.shards import local, refuse_sparse
from mpgd.optim.sizes import update_size, warn_if_large
from mpgd.optim.streams import TURN, take_turn
from mpgd.optim.swaps import follow
from mpgd.optim.views import BothStates
from mpgd.optim.widened import Widened, refuse_narrowing, saved_in_float32


class Perturbed(Optimizer):
    """An optimizer and the perturbation of its parameters; made by `mpgd.perturb`.

    What it does not know itself, such as ``train()`` and ``eval()``, it asks the inner optimizer.

    Attributes:
        inner: the wrapped optimizer. It shares ``param_groups``.

    Examples:
        >>> from mpgd import perturb
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
        number_partition()
        plain = [checked_group(vars(keywords), group) for group in optimizer.param_groups]
        for number, group in enumerate(optimizer.param_groups):
            warn_of_bare_names(number, group, optimizer.defaults)
            warn_of_earlier(number, group, vars(keywords))
        self.inner, self._fused = optimizer, fused
        self.__setstate__({})  # sets up the hooks, as the base class does for a copy
        for group, own in zip(optimizer.param_groups, plain, strict=True):
            group.update(with_prefix(own))
        self._own = plain
        self._keywords = keywords
        self._orbits: dict[Tensor, State] = {}
        try:
            for number in range(len(plain)):
                self._choose_engine(number)
            self._ensure_states()
            for number in range(len(plain)):
                self._warn_once(number)
        except Exception:
            for group in optimizer.param_groups:
                drop_own(group)
            raise

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the inner optimizer; those of torch's machinery are our own."""
        if name.startswith("_") or name == "inner":
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return getattr(self.inner, name)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of the inner optimizer, with the perturbation's settings under a prefix."""
        return self.inner.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self.inner.param_groups = groups

    @property
    def state(self) -> Any:
        """A live view of both states, as `state_dict` names them; it can be written to."""
        return BothStates(self.inner.state, self._orbits)

    @state.setter
    def state(self, values: Any) -> None:
        content = dict(values.items())  # of a view too, before the stores behind it change
        self.inner.state = defaultdict(dict)
        self._orbits = {}
        both = self.state
        for key, value in content.items():
            both[key] = dict(value.items()) if isinstance(value, Mapping) else value

    @property
    def defaults(self) -> dict[str, Any]:
        """The defaults of the inner optimizer."""
        return self.inner.defaults

    @defaults.setter
    def defaults(self, values: dict[str, Any]) -> None:
        self.inner.defaults = values

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle keeps."""
        names = ("inner", "_own", "_keywords", "_fused", "_orbits")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore from a copy or a pickle."""
        super().__setstate__(state)
        self._current, self._number = Current(PREFIX), operator.enrol(self)
        if state:
            TURN.restored.add(self._number)
        self._bare = bare_step(self.inner)
        self._measures, self._updates = False, dict[int, float | None]()
        self._room: dict[Tensor, Tensor] = {}  # for the parameters before a step

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group to both; the orbits of the others are left alone."""
        number_partition()
        own = checked_group(vars(self._keywords), {**self.defaults, **param_group})
        warn_of_bare_names(len(self._own), param_group, self.defaults)
        self.inner.add_param_group({**param_group, **with_prefix(own)})
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
        group, own = self.param_groups[number], self._own[number]
        own["engine"] = find_engine(own, self._fused, map(local, group["params"]))
        group.update(with_prefix(own))

    def _driver_states(self) -> Iterable[tuple[Tensor, State]]:
        return self._orbits.items()

    def _ensure_states(self, always: bool = False) -> list[Settings]:
        """Create the states that are missing, and return the settings of all groups.

        With ``always``, also what the states say of the settings is brought up to date.
        """
        made = self._ensure_settings()
        pairs = list(zip(self.param_groups, made, strict=True))
        always = always or self._current.is_new
        if not always and all(self._is_complete(*pair) for pair in pairs):
            return made
        for old, new in follow(pairs, self._orbits):
            if old in self.inner.state and old.shape == new.shape and type(old) is type(new):
                self.inner.state[new] = self.inner.state.pop(old)
        ensure_states(pairs, self._orbits)
        self._current.is_new = False
        return made

    def _ensure_settings(self) -> list[Settings]:
        """Return the settings of all groups, and put back those that somebody took out."""
        for _ in range(len(self._own), len(self.param_groups)):  # the inner one was given a group
            self._own.append(check_keywords(vars(self._keywords)))
        made = []
        for number, (group, own) in enumerate(zip(self.param_groups, self._own, strict=False)):
            if own["rounding"] != group.get(ROUNDING, own["rounding"]):
                refuse_narrowing(number, own["rounding"], group["params"], self.inner.state)
            for name, full in FULL_NAMES:  # the inner optimizer may have loaded a plain checkpoint
                own[name] = group.setdefault(full, own[name])
            made.append(self._current.of(number, group))
        return made

    def _is_complete(self, group: dict[str, Any], settings: Settings) -> bool:
        params = group["params"]
        if not settings.is_perturbed:  # then halves that are rounded by chance may need a count
            params = [p for p in params if settings.is_needed(local(p).dtype)]
        return not params or not is_lacking(settings, [self._orbits.get(p, {}) for p in params])

    def _settings(self) -> list[Settings]:
        """Return the settings of all groups; a compiler finds the states that are there."""
        if not torch.compiler.is_compiling():
            return self._ensure_states()
        made = [self._current.of(k, group) for k, group in enumerate(self.param_groups)]
        return self._fitted_states() if self._current.is_new else made

    @_disable_dynamo
    def _fitted_states(self) -> list[Settings]:
        return self._ensure_states()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take the inner optimizer's step, then add the perturbation."""
        every = list(enumerate(zip(self.param_groups, self._settings(), strict=True)))
        perturbed = [(k, g, s) for k, (g, s) in every if s.is_perturbed and g["params"]]
        groups = [group for _, group, _ in perturbed]
        refuse_sparse(groups)
        if not torch.compiler.is_compiling():
            if TURN.last != self._number:
                take_turn(self)
            for _, group, settings in perturbed:  # before the inner optimizer changes anything
                check_learning_rate(group["lr"])
                params = group["params"]
                check_orbits(params, [self._orbits[p] for p in params], settings)
        measures = self._measures and not torch.compiler.is_compiling()
        chosen = [(g["params"], s.engine) for _, g, s in perturbed if s.mu or measures]
        old = copied([(p, engine) for params, engine in chosen for p in params], self._room)
        if not torch.compiler.is_compiling():
            self._room = old
        checked = () if closure is None else (_checked(closure, groups),)
        rounding = [g for _, (g, s) in every if s.rounds]
        wide = Widened(self.inner, [p for g in rounding for p in g["params"] if _is_half(p)])
        steps = {p: int(self._orbits[p]["step"]) for p in wide.stand_ins}
        bare = partial(inner_step, self.inner, self._bare)
        loss = wide.step(*checked) if steps else bare(*checked)
        if measures:
            self._updates = {k: update_size(g, old) for k, g, _ in perturbed}
            self._measures = False
        for number, group, settings in perturbed:
            self._displace_group(number, group, settings, old, wide)
        for p, step in steps.items():
            wide.write(p, int(self._orbits[p]["key"]), step)
        for group in (g for _, (g, s) in every if steps and not s.is_perturbed):
            moved = [p for p in group["params"] if p in steps and p.grad is not None]
            count_steps([self._orbits[p] for p in moved if step_size(group["lr"])], 1.0)
        return loss

    def measured_update(self, number: int) -> float | None:
        """Return the root mean square of the inner update over lr, of a group's last measured step.

        The next step measures it again: that takes a copy of the parameters, so it is done only
        when it was asked for.
        """
        self._measures = True
        return self._updates.get(number)

    def _displace_group(
        self,
        number: int,
        group: dict[str, Any],
        settings: Settings,
        old: dict[Tensor, Tensor],
        wide: Widened,
    ) -> None:
        params = [p for p in group["params"] if p.grad is not None]
        states, leader = [self._orbits[p] for p in params], self._orbits[group["params"][0]]
        if torch.compiler.is_compiling():
            before = [old[p] for p in params if p in old]
            place = (self._number, number)
            sent = not wide.stand_ins
            if sent and operator.send(place, group, params, before, states, settings, leader):
                return
        eta = step_size(group["lr"])
        if not isinstance(eta, Tensor) and eta == 0:
            return  # nothing changes and the orbits wait
        shared = next_shared(leader, settings, eta)
        rest = list(range(len(params)))
        moved = [wide.stand_ins.get(p, p) for p in params]
        if not torch.compiler.is_compiling() and not isinstance(eta, Tensor):
            before = [old.get(p, local(x)) for p, x in zip(params, moved, strict=True)]
            rest = kernel_rows.step_rows(moved, before, states, settings, eta, shared, None)
        for k in rest:
            active = is_active(states[k]["step"], settings, eta)
            if active is not False:  # a tensor while compiling, which then chooses by itself
                displace_one(moved[k], old.get(params[k]), states[k], settings, eta, shared)
        count_steps(states, eta)

    @staticmethod
    def _gradient_step(group: dict[str, Any]) -> None:
        """Return nothing: the inner optimizer has taken the step of the gradient."""

    def state_dict(self) -> dict[str, Any]:
        """Return both states; the drivers' entries begin with ``perturbation.``."""
        self._ensure_states(always=True)
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        packed = pack(self.inner, self.inner.state_dict(), self._orbits)
        for post_hook in self._optimizer_state_dict_post_hooks.values():
            packed = post_hook(self, packed) or packed
        return packed

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load both states; nothing is changed if they do not fit."""
        self._ensure_states()
        given = checkpoint.as_mapping(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            given = hook(self, given) or given
        plain, groups, states = unpack(self.inner, given)
        saved = checkpoint.with_noises(self._own, {"param_groups": groups, "state": states})
        own_groups = [
            {**own, "params": group["params"]}
            for group, own in zip(self.param_groups, self._own, strict=True)
        ]
        settings = checkpoint.check_state(own_groups, saved)
        before = () if ENTRY in given else checkpoint.pairs(self.param_groups, plain)
        wide = Widened(self.inner, saved_in_float32([(p, values) for p, _, values in before]))
        wide.enter()  # torch casts to the parameters' dtype
        try:
            load_inner(self.inner, plain, have_moved(saved))
        finally:
            wide.leave()
        loaded = checkpoint.pairs(self.param_groups, saved)
        self._orbits = {p: checkpoint.own_state(values, p) for p, _, values in loaded if values}
        self._own = settings
        TURN.restored.add(self._number)
        for group, own in zip(self.param_groups, settings, strict=True):
            group.update(with_prefix(own))
        for post_hook in self._optimizer_load_state_dict_post_hooks.values():
            post_hook(self)


def _is_half(p: Tensor) -> bool:
    return is_half(local(p).dtype)


def _checked(closure: Callable[[], Any], groups: list[dict[str, Any]]) -> Callable[[], Any]:
    """Return a closure that refuses sparse gradients before the inner optimizer sees them."""

    def checked() -> Any:
        with torch.enable_grad():
            loss = closure()
        refuse_sparse(groups)
        return loss

    return checked
