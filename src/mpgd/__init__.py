"""Gradient descent with chaotic, heavy-tailed perturbations, for PyTorch.

    parameters -> maps -> noise -> optim, limits, curvature, jax
               -> theory -> experiments -> report, lab -> cli

Imports point from a later folder to an earlier one only. A public name is imported when it is first
asked for, since torch takes a second to load; nothing of the extras is.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpgd.curvature import CurvatureTracker, hessian_top_eigenvalue, hessian_trace
    from mpgd.limits import FastSlow, MarcusSDE, p_variation, skorokhod_distance
    from mpgd.maps import ThalerMap
    from mpgd.noise import ChaoticNoise, GaussianNoise, NoiseState, StableLaw, StableNoise
    from mpgd.optim import (
        MPGD,
        PerturbationSize,
        PerturbationWarning,
        Perturbed,
        full_batch,
        number_parameters,
        param_groups,
        perturb,
        perturbation_sizes,
    )
    from mpgd.theory import (
        exit_rate,
        generalization_bound,
        implicit_regularizer,
        levels,
        tail_index,
        trajectory_dimension,
        worst_gap,
    )
else:
    _FOLDERS = ("maps", "noise", "optim", "limits", "curvature", "theory")

    def __getattr__(name: str) -> object:
        if name in (*_FOLDERS, "jax"):
            return _import_module(f"mpgd.{name}")
        for folder in _FOLDERS if name in __all__ else ():
            module = _import_module(f"mpgd.{folder}")
            if hasattr(module, name):
                globals()[name] = getattr(module, name)
                return globals()[name]
        raise AttributeError(f"module 'mpgd' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


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
    "PerturbationWarning",
    "Perturbed",
    "StableLaw",
    "StableNoise",
    "ThalerMap",
    "exit_rate",
    "full_batch",
    "generalization_bound",
    "hessian_top_eigenvalue",
    "hessian_trace",
    "implicit_regularizer",
    "levels",
    "number_parameters",
    "p_variation",
    "param_groups",
    "perturb",
    "perturbation_sizes",
    "skorokhod_distance",
    "tail_index",
    "trajectory_dimension",
    "worst_gap",
]
