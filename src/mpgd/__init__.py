"""Gradient descent with chaotic, heavy-tailed perturbations, for PyTorch and JAX.

    parameters -> maps -> stable -> noise -> optim, limits, curvature, jax -> theory

Imports point from a later folder to an earlier one only. A public name is imported when it is first
asked for, since torch takes a second to load; nothing of the extras is. The paper's experiments are
in the package `mpgd_lab`.
"""

import warnings as _warnings
from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpgd import counter as counter
    from mpgd.counter import add_normal_, shifted
    from mpgd.curvature import hessian_top_eigenvalue, hessian_trace
    from mpgd.limits import FastSlow, MarcusSDE
    from mpgd.maps import ThalerMap
    from mpgd.noise import ChaoticNoise, GaussianNoise, StableNoise, TelegraphNoise
    from mpgd.optim import (
        MPGD,
        full_batch,
        param_groups,
        perturb,
        perturbation_sizes,
        perturbed,
        stochastic_rounding,
    )
    from mpgd.stable import StableLaw
    from mpgd.theory import (
        exit_rate,
        generalization_bound,
        implicit_regularizer,
        levels,
        tail_index,
        trajectory_dimension,
    )
else:
    # The first two need no torch, so their names are found before a folder that loads it.
    _FOLDERS = ("maps", "stable", "noise", "optim", "limits", "curvature", "theory")
    _MOVED = {  # names that were here before: the folder that has them now
        "NoiseState": "noise",
        "PerturbationSize": "optim",
        "PerturbationWarning": "optim",
        "Perturbed": "optim",
        "number_parameters": "optim",
        "p_variation": "limits",
        "skorokhod_distance": "limits",
        "stochastic_round": "optim",
        "worst_gap": "theory",
    }

    def __getattr__(name: str) -> object:
        if name in (*_FOLDERS, "counter", "jax"):
            return _import_module(f"mpgd.{name}")
        if name in _MOVED:
            folder = _MOVED[name]
            text = f"mpgd.{name} is now mpgd.{folder}.{name}"
            _warnings.warn(text, DeprecationWarning, stacklevel=2)
            return getattr(_import_module(f"mpgd.{folder}"), name)
        for folder in (*_FOLDERS, "counter") if name in __all__ else ():
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
    "FastSlow",
    "GaussianNoise",
    "MarcusSDE",
    "StableLaw",
    "StableNoise",
    "TelegraphNoise",
    "ThalerMap",
    "add_normal_",
    "counter",
    "exit_rate",
    "full_batch",
    "generalization_bound",
    "hessian_top_eigenvalue",
    "hessian_trace",
    "implicit_regularizer",
    "levels",
    "param_groups",
    "perturb",
    "perturbation_sizes",
    "perturbed",
    "shifted",
    "stochastic_rounding",
    "tail_index",
    "trajectory_dimension",
]
