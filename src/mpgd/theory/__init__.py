"""The paper's theorems, made runnable, and what noise does at a finite step size.

phases/           laminar phases: force, decay, exit rates, stability
tails/            tail index and dimension of a trajectory
implicit/         Theorem 4.3
generalization/   Theorem 4.2
"""

from mpgd.theory.generalization import (
    GeneralizationBound,
    TopologicalBound,
    WorstGap,
    gaussian_information,
    generalization_bound,
    heavy_tailed_bound,
    heavy_tailed_estimate,
    heavy_tailed_information,
    information_from_samples,
    lifetime_sum,
    magnitude,
    mutual_information,
    positive_magnitude,
    renyi_divergence,
    topological_bound,
    worst_gap,
)
from mpgd.theory.implicit import ImplicitRegularizer, implicit_regularizer
from mpgd.theory.phases import (
    ExitRate,
    Levels,
    Stability,
    crossing_time,
    decay_of,
    exit_rate,
    force_of,
    growth_exponent,
    levels,
    lyapunov_exponent,
    phase_tail,
    stability,
)
from mpgd.theory.tails import (
    DependenceWarning,
    Dimension,
    TailIndex,
    tail_index,
    trajectory_dimension,
)

__all__ = [
    "DependenceWarning",
    "Dimension",
    "ExitRate",
    "GeneralizationBound",
    "ImplicitRegularizer",
    "Levels",
    "Stability",
    "TailIndex",
    "TopologicalBound",
    "WorstGap",
    "crossing_time",
    "decay_of",
    "exit_rate",
    "force_of",
    "gaussian_information",
    "generalization_bound",
    "growth_exponent",
    "heavy_tailed_bound",
    "heavy_tailed_estimate",
    "heavy_tailed_information",
    "implicit_regularizer",
    "information_from_samples",
    "levels",
    "lifetime_sum",
    "lyapunov_exponent",
    "magnitude",
    "mutual_information",
    "phase_tail",
    "positive_magnitude",
    "renyi_divergence",
    "stability",
    "tail_index",
    "topological_bound",
    "trajectory_dimension",
    "worst_gap",
]
