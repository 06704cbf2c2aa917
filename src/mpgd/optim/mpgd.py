"""MPGD: `torch.optim.SGD` with the perturbation of the paper's equation (8)."""

from __future__ import annotations

import inspect
from typing import Any, Never

from torch import Tensor
from torch.optim import SGD

from mpgd.optim.perturbed import install
from mpgd.optim.settings import (
    DEFAULTS,
    KEYWORDS,
    SGD_KEYWORDS,
    NoiseLike,
    Pair,
    Seed,
    refuse_unknown,
)


@install
class MPGD(SGD):
    """Gradient descent with chaotic multiplicative and additive perturbations.

        x' = x - lr g - mu lr^gamma v1 x + sigma lr^gamma v2

    It is `torch.optim.SGD`, a subclass, whose parameters are perturbed before each step. With
    mu = sigma = 0 it is SGD bit for bit. Every setting can differ between parameter groups. The
    noise is a function of (seed, the parameter's ordinal, element, step): it does not touch torch's
    generators, is the same on every rank and for every sharding, and resumes bit for bit from
    `state_dict`. Weight decay acts on the perturbed x.

    Args:
        params: parameters, named parameters, or groups of them.
        lr: the step size eta, a number or a tensor of one.
        strength: how far a typical weight is pushed over the whole training, in units of the
            weights' root mean square; it sets ``force`` and ``stop``, and needs ``steps``.
        steps: how many steps the training takes.
        force: instead of sigma: in a laminar phase every coordinate feels this force, in units of
            the gradient, whatever lr is. A burst pushes by force lr |c1|/c0. Of either sign.
        decay: instead of mu: a laminar phase is a weight decay of this strength, or growth, in
            units of the curvature.
        sigma: the size of the additive perturbation, of either sign.
        mu: the size of the multiplicative perturbation.
        gamma: the exponent in (0.5, 0.99]; the tail index of the limit is 1/gamma. A pair gives
            (multiplicative, additive).
        beta: the skewness in [-1, 1], a number or such a pair.
        symmetric: take differences of two independent drivers.
        noise: a noise, such as ``GaussianNoise()`` or ``ChaoticNoise(0.6, longest=100)``, or a pair
            of noises (multiplicative, additive), instead of the chaotic noise of gamma and beta. A
            noise of your own trains too, see `mpgd.noise.Noise`.
        start: the first step that is perturbed; a parameter counts the steps it took.
        stop: the first step that is not any more. Outside, orbits wait.
        seed: of the noise: a number, or (number, name) for a stream of its own. It may be changed
            in mid-run: the orbits stay where they are, and other numbers follow.
        rounding: of bfloat16 and float16 parameters: ``"nearest"``, or ``"stochastic"``, which is
            unbiased, so that no small step is lost.
        engine: ``"torch"``, ``"cpu"`` or ``"triton"``; by default a kernel if there is one.
        momentum: as in `torch.optim.SGD`; no noise enters its buffer.
        dampening: of the momentum.
        weight_decay: as in `torch.optim.SGD`.
        nesterov: use Nesterov momentum.
        maximize: ascend instead of descend.
        foreach: of torch's SGD step.
        fused: of torch's SGD step.

    Examples:
        >>> import torch
        >>> model = torch.nn.Linear(3, 1)
        >>> optimizer = MPGD(model.parameters(), lr=0.1, strength=0.2, steps=1000)
        >>> model(torch.ones(5, 3)).square().mean().backward()
        >>> optimizer.step()
        >>> optimizer.zero_grad()

    Reference: Lim, Wan & Simsekli (2022), equation (8).
    """

    _prefix = ""
    _bare = staticmethod(inspect.unwrap(SGD.step))

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        *,
        strength: float | None = None,
        steps: int | None = None,
        force: float | None = DEFAULTS.force,
        decay: float | None = DEFAULTS.decay,
        sigma: float = DEFAULTS.sigma,
        mu: float = DEFAULTS.mu,
        gamma: Pair = DEFAULTS.gamma,
        beta: Pair = DEFAULTS.beta,
        symmetric: bool = DEFAULTS.symmetric,
        noise: NoiseLike = DEFAULTS.noise,
        start: int = DEFAULTS.start,
        stop: int | None = DEFAULTS.stop,
        seed: Seed = DEFAULTS.seed,
        rounding: str = DEFAULTS.rounding,
        engine: str | None = DEFAULTS.engine,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        **unknown: Never,
    ) -> None:
        given = locals()  # first of all: the arguments alone
        refuse_unknown(unknown, ("lr", *KEYWORDS, *SGD_KEYWORDS), what="MPGD")
        super().__init__(params, lr, **{name: given[name] for name in SGD_KEYWORDS})
        self._begin({name: given[name] for name in KEYWORDS})  # type: ignore[attr-defined]
