"""Gradient descent with chaotic, heavy-tailed perturbations, for PyTorch.

    parameters -> maps -> noise -> optim, limits, curvature
               -> theory -> experiments -> report -> cli

Imports point from a later folder to an earlier one only.
"""

from mpgd.maps import ThalerMap
from mpgd.noise import ChaoticNoise, GaussianNoise, NoiseState, StableLaw, StableNoise
from mpgd.optim import (
    MPGD,
    PerturbationSize,
    Perturbed,
    full_batch,
    param_groups,
    perturb,
    perturbation_sizes,
)

__version__ = "0.1.0"

__all__ = [
    "MPGD",
    "ChaoticNoise",
    "GaussianNoise",
    "NoiseState",
    "PerturbationSize",
    "Perturbed",
    "StableLaw",
    "StableNoise",
    "ThalerMap",
    "full_batch",
    "param_groups",
    "perturb",
    "perturbation_sizes",
]
