"""How a CIFAR-10 run is perturbed: the input layer, by MPGD or as the authors' script does.

Noise of the text goes through `mpgd.MPGD` with `mpgd.param_groups`. The script's noise is added to
the gradient, as it does itself, so that a plain step gives x' = x - eta grad - ...:

    switched            eta^(gamma - 1) (mu v1 x - sigma v2), see `mpgd_lab.perturbations.released`
    released_gaussian   sigma n / eta with n standard normal: the step size cancels

In CIFAR-10 the seeds of an orbit are 2 s + i and those of its twin 123456 + s + i for element i of
any tensor in run s.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor

from mpgd.noise import ChaoticNoise, GaussianNoise
from mpgd.noise.counter_hash import flat_index, make_key, step_key
from mpgd.optim import MPGD, param_groups
from mpgd_lab.perturbations.released import FIRST_SEED, SwitchedNoise
from mpgd_lab.studies.cifar10.resnet import ResNet18

Perturb = Callable[[int], None]  # adds the perturbation of step k to the gradients

OURS: Final = ("chaotic", "matched", "langevin")  # the noises of the text


def make_optimizer(model: ResNet18, h: Mapping[str, Any], seed: int) -> MPGD:
    """Return plain descent, or MPGD on the input layer if the run's noise is one of the text."""
    if h["noise"] not in OURS:
        return MPGD(model.parameters(), h["eta"], force=0.0)
    settings = {"mu": h["mu"], "sigma": h["sigma"], "seed": seed, "noise": make_noise(h)}
    settings["symmetric"] = h["noise"] == "chaotic" and h["symmetric"]
    if "inert_multiplicative" in h["deviations"]:
        settings["mu"] = 0.0
    names = set(perturbed(model, h))
    groups = param_groups(model, lambda name, p: name in names, **settings)
    return MPGD(groups, h["eta"])


def make_noise(h: Mapping[str, Any]) -> ChaoticNoise | GaussianNoise:
    """Return the noise of a run of the text.

    A Gaussian has the variance of its chaotic noise, or its displacement over some steps.
    """
    if h["noise"] == "langevin":
        return GaussianNoise()
    signs = {name: h[name] for name in ("signs", "first_sign") if name in h}
    chaotic = ChaoticNoise(h["gamma"], h.get("beta", 0.0), **signs)
    if h["noise"] == "chaotic":
        return chaotic
    steps = h.get("matched_over", 1)
    return GaussianNoise.matched(chaotic, steps=steps, symmetric=h["symmetric"])


def make_perturbation(model: ResNet18, h: Mapping[str, Any], seed: int) -> Perturb | None:
    """Return what adds the script's noise to the gradients, or None if it is not the script's."""
    params = perturbed(model, h)
    if h["noise"] == "released_gaussian":
        return _gaussian(list(params.values()), h, seed)
    return _switched(list(params.values()), h, seed) if h["noise"] == "switched" else None


def perturbed(model: ResNet18, h: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the perturbed parameters: the stem, in the script also the first norm's weight."""
    stem = {"stem.weight": model.stem.weight}
    return stem | {"norm.weight": model.norm.weight} if "norm_too" in h["deviations"] else stem


def _gaussian(params: list[Tensor], h: Mapping[str, Any], seed: int) -> Perturb:
    keys = [make_key(seed, ordinal) for ordinal in range(len(params))]

    def add(k: int) -> None:
        for p, key in zip(params, keys, strict=True):
            n = GaussianNoise().draw(flat_index(tuple(p.shape)), step_key(key, k))
            _add(p, h["sigma"] / h["eta"] * n)

    return add


def _switched(params: list[Tensor], h: Mapping[str, Any], seed: int) -> Perturb:
    noise = ScriptNoise(h["gamma"], h["beta"], h["symmetric"], frozenset(h["switches"]))
    level = h["eta"] ** (h["gamma"] - 1.0)
    mu = 0.0 if "inert_multiplicative" in h["deviations"] else h["mu"]
    tables = noise.tables(seed, [tuple(p.shape) for p in params], h["steps"])

    def add(k: int) -> None:
        v1, v2 = (torch.split(v[k], [p.numel() for p in params]) for v in tables)
        for p, a, b in zip(params, v1, v2, strict=True):
            x = p.detach().double().cpu()
            _add(p, level * (mu * a.view_as(x) * x - h["sigma"] * b.view_as(x)))

    return add


def _add(p: Tensor, term: Tensor) -> None:
    assert p.grad is not None
    p.grad.add_(term.to(p.device, p.dtype))


class ScriptNoise(SwitchedNoise):
    """The authors' noise with the seeds of their CIFAR-10 script."""

    def _first_seed(self, seed: int, twin: int) -> int:
        return FIRST_SEED + seed if twin else 2 * seed
