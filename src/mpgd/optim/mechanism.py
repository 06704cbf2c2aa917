"""The functions of a perturbed optimizer: displace first, then take the inner class's own step.

The gradient lies in ``p.grad`` before a step, so the perturbation can come first:

    x <- (x - m x) + n         m = mu eta^gamma1 v1,   n = sigma eta^gamma2 v2
    x <- the inner optimizer's step from there

For SGD that is equation (8) of the paper to rounding, momentum included, since the buffer sees only
gradients. Weight decay acts on the displaced x, which changes the noise by a factor 1 - lr * wd.

`mpgd.optim.perturbed` puts these functions *into* a direct subclass of the inner class. Another
base would change the memory layout, and Python would then refuse to set the class of an object,
as of every optimizer whose base inherits from ABC.
"""

from __future__ import annotations

import weakref
from abc import ABC
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar, Final

import torch
from torch import Tensor
from torch._compile import _disable_dynamo
from torch.optim import Optimizer

from mpgd.noise.counter_hash import make_key
from mpgd.noise.force import overridden
from mpgd.optim import buckets, checkpoint, diagnostics, rounding
from mpgd.optim.displacement import Batch, compiled, displace
from mpgd.optim.displacement.reference import Target
from mpgd.optim.distributed import number_partition, refuse_gradients
from mpgd.optim.settings import (
    NAMES,
    PREFIX,
    RECIPE,
    Keywords,
    Settings,
    SettingsCache,
    check_keywords,
    check_learning_rate,
    refuse_unknown,
)
from mpgd.optim.state import State, check_orbits, ensure_states, follow_replaced, is_complete
from mpgd.sharding import local, place_of

_HOOKED: Final = Optimizer.profile_hook_step(lambda self: None).__code__  # of a step with hooks
SAMPLES: Final = 16  # about so many elements of a parameter are compared, see EvaluatedClosure


class EvaluatedClosure:
    """A closure that was evaluated: the inner optimizer's first call returns that loss.

    It does so only while no parameter and no gradient has changed since; SAM moves the parameters
    before it asks. A write through ``p.data`` does not count in a version, so some elements of each
    parameter are compared too.
    """

    def __init__(self, closure: Callable[[], Any], groups: list[dict[str, Any]]) -> None:
        with torch.enable_grad():
            self.loss = closure()
        self.closure = closure
        self.params: list[Tensor] = [p for group in groups for p in group["params"]]
        self._seen: tuple[list[Any], list[Tensor]] | None = None

    def note(self) -> None:
        """Note what the parameters and gradients are now."""
        self._seen = self._look()

    def _look(self) -> tuple[list[Any], list[Tensor]]:
        versions: list[Any] = [(p._version, p.data_ptr()) for p in self.params]
        versions += [(id(p.grad), getattr(p.grad, "_version", None)) for p in self.params]
        parts = [local(p).detach().reshape(-1) for p in self.params]
        samples = [x[:: 1 + x.numel() // SAMPLES].clone() for x in parts]
        return versions, [x.view(torch.uint8) for x in samples]  # a NaN equals itself

    def __call__(self) -> Any:
        """Return the loss."""
        seen, self._seen = self._seen, None
        now = self._look()
        is_same = seen is not None and seen[0] == now[0] and all(map(torch.equal, seen[1], now[1]))
        return self.loss if is_same else self.closure()


class Perturbed(ABC):
    """What a perturbed optimizer has beside its inner class.

    Every perturbed optimizer is an instance of it: ``isinstance(optimizer, Perturbed)``.
    """

    _inner: ClassVar[Any]  # the class whose step is perturbed
    _bare: ClassVar[Callable[..., Any] | None] = None  # torch's own step, without any wrapper
    _prefix: ClassVar[str] = PREFIX
    param_groups: list[dict[str, Any]]
    state: Any

    # Construction ------------------------------------------------------------------------------

    def _begin(self, keywords: dict[str, Any]) -> None:
        """Take the keywords up; if one is wrong, the groups are as they were."""
        number_partition()
        strength = {name: keywords.pop(name, None) for name in RECIPE}
        self._keywords = Keywords(**keywords)
        self._orbits: dict[Tensor, State] = {}
        self._rounding = rounding.Rounding()
        self._renew()
        before = [dict(group) for group in self.param_groups]
        try:
            groups, prefix = self.param_groups, self._prefix
            recipe = diagnostics.resolve_strength(groups, self._keywords, prefix, **strength)
            for group in groups:
                self._settle(group)
            settings = self._fit()
            diagnostics.warn_if_silent(groups, prefix)
            others = [o for o in compiled.OPTIMIZERS.values() if isinstance(o, Perturbed)]
            diagnostics.warn_if_same_noise(self, settings, others)
            diagnostics.warn_if_large(groups, settings, prefix, recipe)
        except Exception:
            for group, old in zip(self.param_groups, before, strict=True):
                group.clear()
                group.update(old)
            raise

    def _renew(self) -> None:
        """Set up what no copy keeps."""
        self._unshown: list[Tensor] = []  # parameters whose drivers `state` does not show yet
        # by the parameter's id, it and the ordinal by which an entry of `state` is ours
        self._marks: dict[int, tuple[Tensor, Any]] = {}
        params = [p for group in self.param_groups for p in group["params"]]
        self._known = [weakref.ref(p) for p in params]  # at the last look
        self._names = {self._prefix + name for name in NAMES}
        self._keys: dict[Tensor, tuple[int, int]] = {}  # seed, and its hash with the ordinal
        self._batches: dict[int, Batch] = {}  # by group, as long as they fit
        self._rounded: set[int] = set()  # groups with float32 states of half parameters
        self._workspace: buckets.Workspace | None = None
        self._is_separable: bool | None = None  # whether tensors may be stepped one by one
        for name in checkpoint.HOOKS:  # an optimizer around another may never have made them
            if name not in self.__dict__:
                setattr(self, name, OrderedDict())
        self._cache = SettingsCache(self._prefix)
        self._number = compiled.register(self)  # type: ignore[arg-type]
        self._patch_step_function()  # type: ignore[attr-defined]

    def _settle(self, group: dict[str, Any]) -> None:
        """Write a group's checked keywords into it; those it lacks are the optimizer's."""
        if "lr" not in group:
            raise ValueError(
                f"every group needs an 'lr' to scale the perturbation, got {sorted(group)}"
            )
        check_learning_rate(group["lr"])
        for flag in ("capturable", "differentiable"):
            if group.get(flag):
                raise ValueError(
                    f"{flag} must be False in a perturbed optimizer: a step happens in place, "
                    "outside autograd, and a captured graph would repeat the noise of one step"
                )
        mine = [n.removeprefix(PREFIX) for n in map(str, group) if n.startswith(PREFIX)]
        refuse_unknown(mine, NAMES, PREFIX)
        if not self._prefix:
            refuse_unknown([n for n in RECIPE if n in group], NAMES, what="a group")
        own = {n: group[self._prefix + n] for n in NAMES if self._prefix + n in group}
        plain = check_keywords(overridden(vars(self._keywords), own))
        group.update({self._prefix + name: value for name, value in plain.items()})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group; the orbits of the others are left alone."""
        if "_keywords" not in self.__dict__:  # the inner class is being made
            self._inner.add_param_group(self, param_group)
            return
        number_partition()
        self._fit()  # a group that was taken out before must not be taken for replaced by this one
        self._inner.add_param_group(self, param_group)
        try:
            self._settle(self.param_groups[-1])
            settings = self._fit()
        except Exception:
            for p in self.param_groups.pop()["params"]:
                self._orbits.pop(p, None)
            raise
        diagnostics.warn_if_large(self.param_groups, settings, self._prefix)

    # What must be there before a step --------------------------------------------------------

    @_disable_dynamo
    def _fit(self) -> list[Settings]:
        """Return the settings of all groups, and make the drivers that they need."""
        self._batches = {}
        checkpoint.adopt(self, self._foreign())
        for group in self.param_groups:
            if not self._names <= group.keys():  # it came past `add_param_group`, or lost some
                self._settle(group)
        settings = [self._cache.of(k, group) for k, group in enumerate(self.param_groups)]
        every = [p for group in self.param_groups for p in group["params"]]
        for old, new in follow_replaced([known() for known in self._known], every, self._orbits):
            self._marks.pop(id(old), None)
            values = self.state.pop(old, None)  # torch's state_dict fails on one in no group
            if values is not None and type(old) is type(new) and old.shape == new.shape:
                self.state[new] = values
        self._known = [weakref.ref(p) for p in every]
        ensure_states(list(zip(self.param_groups, settings, strict=True)), self._orbits)
        self._cache.has_changed = False
        present = set(every)
        self._unshown = [p for p in self._orbits if p in present]
        checkpoint.hide(self, self._orbits.keys() - present)
        checkpoint.show(self, stepped=False)
        return settings

    def _foreign(self) -> list[Tensor]:
        """Return the parameters for which somebody else wrote drivers into `state`."""
        name, marks, unknown = self._prefix + "ordinal", self._marks, (None, None)
        return [
            p
            for p, values in self.state.items()
            if isinstance(values, dict) and values.get(name) is not marks.get(id(p), unknown)[1]
        ]

    def _ready(self) -> list[Settings]:
        """Return the settings of all groups; nothing has moved yet, and what is wrong raises."""
        groups = self.param_groups
        if self._foreign() or not all([self._names <= group.keys() for group in groups]):
            self._fit()
        settings = [self._cache.of(k, group) for k, group in enumerate(groups)]
        must_fit = self._cache.has_changed
        for number, (group, each) in enumerate(zip(groups, settings, strict=True)):
            batch = self._batches.get(number)
            if batch is None or not batch.fits(group["params"], each):
                self._batches.pop(number, None)
                must_fit |= not is_complete(group["params"], each, self._orbits)
        if must_fit:
            self._fit()
        for number, (group, each) in enumerate(zip(groups, settings, strict=True)):
            if each.is_perturbed:
                check_learning_rate(group["lr"])
                if number not in self._batches:
                    params, states = group["params"], [self._orbits[p] for p in group["params"]]
                    check_orbits(params, states, each)
                    batch = Batch([self._target(p, each) for p in params], each)
                    self._batches[number] = batch.keep(params, states)
        return settings

    # The step ----------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None, *args: Any, **kwargs: Any) -> Any:
        """Perturb the parameters that have a gradient, then take the inner optimizer's step.

        A closure is evaluated once before anything moves. What can be refused is refused before a
        parameter is touched; an error of the inner step leaves the parameters perturbed.
        """
        if torch.compiler.is_compiling():
            return compiled.step(self, closure)
        self._opt_called = True  # what a scheduler wants to know
        settings = self._ready()
        if closure is not None:
            closure = EvaluatedClosure(closure, self.param_groups)
            settings = self._ready()  # it may have changed anything
        if closure is not None or args:
            args = (closure, *args)
        for group, each in zip(self.param_groups, settings, strict=True):
            if each.is_perturbed:
                refuse_gradients(group["params"])
        may_round = self._rounded or any([each.rounds for each in settings])
        if may_round and rounding.is_needed(self, settings):
            loss = rounding.step(self, settings, *args, **kwargs)
        else:
            waiting = self._displace(settings)
            if closure is not None:
                closure.note()
            loss = self._inner_step(*args, **kwargs)
            for x, shift in waiting:
                x.add_(shift)
        if self._unshown:
            checkpoint.show(self, stepped=True)
        return loss

    def _inner_step(self, *args: Any, **kwargs: Any) -> Any:
        """Take the inner step without its hooks: those of this object have run."""
        function: Any = self._inner.step
        if getattr(function, "__code__", None) is _HOOKED:
            function = function.__wrapped__
        return function(self, *args, **kwargs)

    @torch.no_grad()
    def _displace(self, settings: list[Settings]) -> list[tuple[Tensor, Tensor]]:
        """Displace the parameters; return (x, shift) of those that wait for the inner step.

        Where gradients have a graph, it may differentiate them again, at the x they belong to.
        """
        waiting: list[tuple[Tensor, Tensor]] = []
        for number, (group, each) in enumerate(zip(self.param_groups, settings, strict=True)):
            params, eta = group["params"], float(group["lr"])
            if not (each.is_perturbed and params and eta):  # at lr 0 the orbits wait
                continue
            gradients = [p.grad for p in params]
            if not any([g is not None and g.requires_grad for g in gradients]):
                self._batches[number].step([g is not None for g in gradients], eta)
                continue
            moved = [p for p in params if p.grad is not None]
            copies = {p: local(p).detach().clone() for p in moved if p.grad.requires_grad}
            displace([self._target(p, each, copies.get(p)) for p in moved], each, eta)
            self.count_steps(moved)
            waiting += [(local(p).detach(), x - local(p)) for p, x in copies.items()]
        return waiting

    def _target(self, p: Tensor, settings: Settings, x: Tensor | None = None) -> Target:
        """Return a parameter, or ``x`` that stands for it, as the displacement sees it."""
        state = self._orbits[p]
        orbits = {number: local(state[name]) for name, _, number in settings.orbits}
        part = local(p) if x is None else x
        shared = {name: state[name] for name, _ in settings.shared_orbits}
        return Target(part, place_of(p), self._key_of(p, settings), state["step"], orbits, shared)

    def _key_of(self, p: Tensor, settings: Settings) -> int:
        """Return the hash of (seed, ordinal)."""
        known, seed = self._keys.get(p), settings.seed
        if known is None or known[0] != seed:
            known = self._keys[p] = (seed, make_key(seed, int(self._orbits[p]["ordinal"])))
        return known[1]

    def count_steps(self, params: list[Tensor]) -> None:
        """Add 1 to the steps of some parameters."""
        if params:
            torch._foreach_add_([self._orbits[p]["step"] for p in params], 1)

    @_disable_dynamo
    def _untraced_step(self, closure: Callable[[], Any] | None) -> Any:
        """Take a step outside a compiler's graph: stochastic rounding replaces the parameters."""
        return Perturbed.step(self, closure)

    # False, whatever the inner class sets: a scaler must unscale and skip before we move
    _step_supports_amp_scaling = property(lambda self: False, lambda self, value: None)

    # Copies and checkpoints ----------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("_keywords", "_orbits", "_rounding")}
        kept = {**self._inner.__getstate__(self), **own}
        return {name: kept[name] for name in kept.keys() - {"_batches", "_known"}}  # addresses

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._inner.__setstate__(self, state)
        if "_orbits" in state:  # a copy or a pickle; torch's load comes here with less
            self._renew()
            # the copies in `state` are the drivers again: a compiled step does not look there
            checkpoint.adopt(self, self._foreign())
            self._unshown = list(self._orbits)
            checkpoint.show(self, stepped=False)

    state_dict = checkpoint.save
    load_state_dict = checkpoint.load


Perturbed.step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]  # no scheduler wraps ours
