"""MPGD as a torch optimizer: the class gathers, `mpgd.optim.update` computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, overload

import torch
from torch import Tensor
from torch._compile import _disable_dynamo
from torch.optim import Optimizer
from torch.optim.sgd import sgd

from mpgd.noise.engines import kernel_for
from mpgd.noise.force import overridden
from mpgd.optim import checkpoint, kernel_rows, operator
from mpgd.optim.creation import ensure_states
from mpgd.optim.loop import descend_one, keep_direction
from mpgd.optim.many import descend_many
from mpgd.optim.numbering import number_partition
from mpgd.optim.orbits import (
    BUFFER,
    State,
    count_steps,
    ensure_buffers,
    is_lacking,
    next_shared,
)
from mpgd.optim.settings import (
    DEFAULTS,
    Current,
    Keywords,
    NoiseLike,
    Pair,
    Settings,
    check_keywords,
    check_learning_rate,
    find_engine,
)
from mpgd.optim.shards import are_overlapping, local, refuse_overlap, refuse_sparse
from mpgd.optim.sizes import warn_if_large
from mpgd.optim.streams import TURN, take_turn
from mpgd.optim.swaps import follow
from mpgd.optim.torch_keywords import (
    NUMBERS,
    SGDS,
    TORCHS,
    check_nesterov,
    check_torchs,
    plain_number,
    refuse_graphs,
)
from mpgd.optim.update import Direction, Scalar


class MPGD(Optimizer):
    """Gradient descent with chaotic multiplicative and additive perturbations.

        x' = x - lr d - mu lr^gamma v1 x + sigma lr^gamma v2

    d is the gradient, or what `torch.optim.SGD` makes of it by weight decay and momentum; no noise
    enters its buffer. With mu = sigma = 0 it is `torch.optim.SGD`, bit for bit. Every setting
    can differ between parameter groups. The noise is a function of (seed, the parameter's
    ordinal, element, step): it does not touch torch's generators, is the same on every rank and
    for every sharding, and resumes bit for bit from `state_dict`.

    Args:
        params: parameters, named parameters, or groups of them.
        lr: the step size eta, a number or a tensor of one.
        mu: the size of the multiplicative perturbation.
        sigma: the size of the additive perturbation, of either sign.
        gamma: the exponent in (0.5, 0.99]; the tail index of the limit is 1/gamma. A pair gives
            (multiplicative, additive).
        beta: the skewness in [-1, 1], a number or such a pair.
        symmetric: take differences of two independent drivers.
        noise: ``"chaotic"``, ``"gaussian"`` or ``"stable"``; or a noise, such as
            ``ChaoticNoise(0.6, 0.5)``, or a pair of noises (multiplicative, additive). A noise of
            your own trains too, see `mpgd.noise.Noise`.
        scaling: of Gaussian noise: ``"matched"`` (lr^gamma and the chaotic driver's variance) or
            ``"langevin"`` (lr^(1/2) and variance 1).
        signs: ``"fresh"``, or ``"product"`` as the paper prints it.
        first_sign: ``"drawn"`` like the others, or ``"positive"`` as the paper prints it.
        shared_multiplicative: one scalar multiplicative driver for all coordinates.
        start: the first step that is perturbed; a parameter counts the steps it took.
        stop: the first step that is not any more. Outside, orbits wait.
        seed: of the noise.
        stream: a name or number; optimizers of one training with other streams have other noise.
        rounding: of bfloat16 and float16 parameters: ``"nearest"``, or ``"stochastic"``, up or down
            by chance and right in the mean, so that no small step is lost.
        weight_decay: is multiplied by x and added to the gradient, as in `torch.optim.SGD`.
        momentum: of the direction, as there.
        dampening: of the momentum.
        nesterov: whether the momentum is Nesterov's.
        maximize: ascend instead of descend.
        foreach: work on all parameters of a group at once, with torch operations; the default on
            CUDA where triton is not installed.
        fused: True: compiled kernels, or an error that says what is missing; False: torch
            operations; None: kernels where there are some.
        engine: ``"torch"``, ``"cpu"`` or ``"triton"``; by default torch on a CPU and Triton on
            CUDA and ROCm, where they are installed.
        longest: no laminar phase of chaotic noise has more steps than this; None sets no bound.
        force: instead of sigma: a step pushes by force lr v2/c0, so that in a laminar phase every
            coordinate feels this force, in units of the gradient, whatever lr is. A single visit
            to Z pushes by force lr |c1|/c0. With symmetric the largest push is twice that. Chaotic
            noise only; of either sign.
        decay: instead of mu: a laminar phase is a weight decay of this strength, or growth, in
            units of the curvature; with symmetric up to twice that.
        capturable: False. A captured graph would repeat the noise of one step, so True is refused.
        differentiable: False. A step happens in place and outside autograd, so True is refused.

    Examples:
        >>> model = torch.nn.Linear(3, 1)
        >>> optimizer = MPGD(model.parameters(), lr=0.1, force=0.006, gamma=0.6, stop=750)
        >>> model(torch.ones(5, 3)).square().mean().backward()
        >>> optimizer.step()
        >>> optimizer.zero_grad()

    Reference: Lim, Wan & Simsekli (2022), equation (8).
    """

    _warned = False  # whether the size of the perturbation was complained about
    _is_building = False  # whether groups are still to come before the first state is made

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
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
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        engine: str | None = DEFAULTS.engine,
        longest: int | None = DEFAULTS.longest,
        force: float | None = DEFAULTS.force,
        decay: float | None = DEFAULTS.decay,
        stream: int | str | None = DEFAULTS.stream,
        rounding: str = DEFAULTS.rounding,
        weight_decay: float = SGDS["weight_decay"],
        momentum: float = SGDS["momentum"],
        dampening: float = SGDS["dampening"],
        nesterov: bool = SGDS["nesterov"],
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
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
            stream,
            rounding,
        )
        refuse_graphs(capturable, differentiable)
        self._current, self._number = Current(), operator.enrol(self)
        self._checked: dict[int, tuple[list[Any], Direction]] = {}  # by group: what was checked
        torchs = {"maximize": maximize, "foreach": foreach, "fused": fused}
        sgds: tuple[Any, ...] = (weight_decay, momentum, dampening, nesterov)
        own = dict(zip(SGDS, sgds, strict=True))
        self._is_building = True
        super().__init__(params, {"lr": lr, **vars(keywords), **torchs, **own})
        self._is_building = False
        self._ensure_states()  # of all groups at once
        for number in range(len(self.param_groups)):
            self._warn_once(number)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group; the orbits of the others are left alone."""
        number_partition()
        merged = overridden(self.defaults, param_group)
        plain = {**check_keywords(merged), "lr": check_learning_rate(merged["lr"])}
        check_torchs(merged)
        check_nesterov(merged)
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        group.update(plain)
        group.update({name: plain_number(group[name]) for name in NUMBERS})
        try:
            group["engine"] = find_engine(group, group["fused"], map(local, group["params"]))
            if not self._is_building:
                self._ensure_states()
        except Exception:
            for parameter in self.param_groups.pop()["params"]:
                self.state.pop(parameter, None)
            raise
        if not self._is_building:
            self._warn_once(len(self.param_groups) - 1)

    def _warn_once(self, number: int) -> None:
        if not self._warned:
            group = self.param_groups[number]
            self._warned = warn_if_large(number, group, self._current.of(number, group))

    @_disable_dynamo
    def _ensure_states(self) -> None:
        """Create the states that are missing, and fit the others to the settings."""
        made = [self._current.of(k, group) for k, group in enumerate(self.param_groups)]
        pairs = list(zip(self.param_groups, made, strict=True))
        follow(pairs, self.state)
        ensure_states(pairs, self.state)
        self._current.is_new = False

    def _driver_states(self) -> Iterable[tuple[Tensor, State]]:
        return self.state.items()

    def state_dict(self) -> dict[str, Any]:
        """Return the state; orbits, counters and keys are tensors, settings plain values."""
        self._ensure_states()
        return checkpoint.in_words(super().state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state; orbits keep their bits, and nothing is changed if it does not fit."""
        self._ensure_states()
        checkpoint.load(self, state_dict, super().load_state_dict, check_torchs)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore from a pickle, also of a version that lacked a setting."""
        super().__setstate__(state)
        self._current, self._number = Current(), operator.enrol(self)
        TURN.restored.add(self._number)
        self._checked = {}
        torchs = {"maximize": False, "foreach": None, "fused": None, **SGDS}
        for group in (self.defaults, *self.param_groups):
            for name, value in {**vars(DEFAULTS), **torchs}.items():
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
        if torch.compiler.is_compiling():
            directions = [self._gradient_step(group) for group in self.param_groups]
        else:
            if TURN.last != self._number:
                take_turn(self)
            directions = self._check_torchs()
        current = [
            self._current.of(number, group) for number, group in enumerate(self.param_groups)
        ]
        if self._current.is_new:
            self._ensure_states()
        for number, group in enumerate(self.param_groups):
            self._step_group(number, group, current[number], directions[number])
        return loss

    def _check_torchs(self) -> list[Direction]:
        """Check what torch's optimizers know too, where it has changed, before anything moves."""
        found = []
        for number, group in enumerate(self.param_groups):
            check_learning_rate(group["lr"])
            now, known = [group[name] for name in TORCHS], self._checked.get(number)
            if known is None or now != known[0]:
                check_torchs(group)
                known = self._checked[number] = (now, self._gradient_step(group))
            found.append(known[1])
        return found

    def _step_group(
        self, number: int, group: dict[str, Any], settings: Settings, how: Direction
    ) -> None:
        needy, is_compiling = group["params"], torch.compiler.is_compiling()
        if not settings.is_perturbed:
            needy = (
                [p for p in needy if settings.is_needed(local(p).dtype)] if settings.rounds else []
            )
            self._descend(without(group["params"], needy), group)
        if not needy:
            return
        if is_lacking(settings, [self.state[p] for p in needy]):
            self._ensure_states()
        params: list[Tensor] = [p for p in needy if p.grad is not None]
        states: list[State] = [self.state[p] for p in params]
        leader: State = self.state[needy[0]]
        if not is_compiling:
            refuse_overlap(params)
        fresh = ensure_buffers(params, states, how)
        if is_compiling:
            gradients: list[Tensor] = [p.grad for p in params]  # type: ignore[misc]
            place = (self._number, number)
            if operator.send(place, group, params, gradients, states, settings, leader, fresh):
                return
        eta = step_size(group["lr"])
        if not isinstance(eta, Tensor) and eta == 0:
            for p, state, is_fresh in zip(params, states, fresh, strict=bool(fresh)):
                gradient: Tensor = local(p.grad)  # type: ignore[arg-type]
                keep_direction(local(p), gradient, local(state[BUFFER]), is_fresh, how)
            return  # nothing but a buffer changes, and the orbits wait
        shared = next_shared(leader, settings, eta)
        if uses_foreach(params, group, settings):
            descend_many(params, states, settings, float(eta), shared, how, fresh)
        else:
            self._step_rows_or_tensors(params, states, settings, eta, shared, how, fresh)
        count_steps(states, eta)

    def _descend(self, every: list[Tensor], group: dict[str, Any]) -> None:
        """Take the step of `torch.optim.SGD` where there are gradients, by torch's own function."""
        params = [p for p in every if p.grad is not None]
        if not params:
            return
        has_momentum = group["momentum"] != 0
        buffers = [self.state[p].get(BUFFER) if has_momentum else None for p in params]
        sgd(
            params,
            [p.grad for p in params],  # type: ignore[misc]
            buffers,
            foreach=group["foreach"],
            lr=group["lr"],
            maximize=group["maximize"],
            **{name: group[name] for name in SGDS},
        )
        for p, buffer in zip(params, buffers, strict=True):
            if has_momentum:
                self.state[p][BUFFER] = buffer

    def _step_rows_or_tensors(
        self,
        params: list[Tensor],
        states: list[State],
        settings: Settings,
        eta: Scalar,
        shared: Tensor | None,
        how: Direction,
        fresh: Sequence[bool],
    ) -> None:
        """Let the compiled kernel take what it can, and torch operations the rest."""
        rest = list(range(len(params)))
        if not torch.compiler.is_compiling() and not isinstance(eta, Tensor):
            gradients: list[Tensor] = [p.grad for p in params]  # type: ignore[misc]
            rest = kernel_rows.step_rows(
                params, gradients, states, settings, eta, shared, how, fresh=fresh
            )
        for k in rest:
            is_fresh = bool(fresh) and fresh[k]
            descend_one(params[k], states[k], settings, eta, shared, how, is_fresh)

    @staticmethod
    def _gradient_step(group: dict[str, Any]) -> Direction:
        """Return what a step makes of the gradient."""
        return Direction(maximize=group["maximize"], **{name: group[name] for name in SGDS})


def without(params: list[Tensor], others: list[Tensor]) -> list[Tensor]:
    """Return the parameters that are none of ``others``."""
    known = {id(p) for p in others}
    return [p for p in params if id(p) not in known] if known else params


def step_size(lr: float | Tensor) -> Scalar:
    """Return eta: a number, or a tensor while compiling with a tensor lr."""
    if torch.compiler.is_compiling():
        return lr if isinstance(lr, Tensor) else float(lr)
    return float(check_learning_rate(lr))


def uses_foreach(params: list[Tensor], group: dict[str, Any], settings: Settings) -> bool:
    """Return whether the group's parameters are worked on all at once by torch operations."""
    if torch.compiler.is_compiling() or not params:
        return False
    if group["foreach"] is not None:
        return bool(group["foreach"]) and not are_overlapping(params)
    return all(p.is_cuda for p in params) and not kernel_for(settings.engine, params[0].device)
