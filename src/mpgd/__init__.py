"""Gradient descent with chaotic, heavy-tailed perturbations, for PyTorch.

    parameters -> maps -> noise -> optim, limits, curvature
               -> theory -> experiments -> report -> cli

Imports point from a later folder to an earlier one only. Importing this package loads torch and
numpy, nothing of the extras.
"""

from mpgd.curvature import CurvatureTracker, hessian_top_eigenvalue, hessian_trace
from mpgd.limits import FastSlow, MarcusSDE, p_variation, skorokhod_distance
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
from mpgd.theory import (
    generalization_bound,
    implicit_regularizer,
    tail_index,
    trajectory_dimension,
    worst_gap,
)

__version__ = "0.1.0"

__all__ = [
    "MPGD",
    "ChaoticNoise",
    "CurvatureTracker",
    "FastSlow",
    "GaussianNoise",
    "MarcusSDE",
    "NoiseState",
    "PerturbationSize",
    "Perturbed",
    "StableLaw",
    "StableNoise",
    "ThalerMap",
    "full_batch",
    "generalization_bound",
    "hessian_top_eigenvalue",
    "hessian_trace",
    "implicit_regularizer",
    "p_variation",
    "param_groups",
    "perturb",
    "perturbation_sizes",
    "skorokhod_distance",
    "tail_index",
    "trajectory_dimension",
    "worst_gap",
]
