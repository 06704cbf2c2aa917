"""`perturb`: the keywords of a perturbation around any torch optimizer."""

from __future__ import annotations

from torch.optim import Optimizer

from mpgd.optim.settings import DEFAULTS, Keywords, NoiseLike, Pair
from mpgd.optim.wrapper import Perturbed


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
    stream: int | str | None = DEFAULTS.stream,
    rounding: str = DEFAULTS.rounding,
) -> Perturbed:
    """Return ``optimizer`` with chaotic perturbations added to every step.

    Args:
        optimizer: any torch optimizer whose groups have an ``lr``. The keywords are those of
            `mpgd.MPGD`; a group that has one of them with the prefix, such as
            ``"perturbation.sigma"``, keeps its own, and may be changed there later.
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
        stream: a name or number; optimizers of one training with other streams have other noise.
        rounding: of bfloat16 and float16 parameters, ``"nearest"`` or ``"stochastic"``. Stochastic:
            the optimizer steps on float32 stand-ins of them, keeps its own state in float32, and
            only the sum of its step and the perturbation is rounded.

    Examples:
        >>> import torch
        >>> model = torch.nn.Linear(3, 1)
        >>> optimizer = perturb(torch.optim.AdamW(model.parameters(), lr=1e-3), sigma=0.1)
        >>> model(torch.ones(5, 3)).square().mean().backward()
        >>> optimizer.step()
        >>> optimizer.param_groups[0]["perturbation.sigma"] = 0.05
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
        stream,
        rounding,
    )
    return Perturbed(optimizer, keywords, fused)
