"""The paper's theorems, made runnable, and what a laminar phase does at a finite step."""

from mpgd.theory.crossing import crossing_time
from mpgd.theory.dependence import DependenceWarning
from mpgd.theory.dimension import Dimension, trajectory_dimension
from mpgd.theory.exits import ExitRate, exit_rate
from mpgd.theory.generalization import (
    GeneralizationBound,
    WorstGap,
    generalization_bound,
    worst_gap,
)
from mpgd.theory.heavy_tailed import (
    heavy_tailed_bound,
    heavy_tailed_estimate,
    heavy_tailed_information,
)
from mpgd.theory.implicit import ImplicitRegularizer, implicit_regularizer
from mpgd.theory.information import (
    gaussian_information,
    information_from_samples,
    mutual_information,
    renyi_divergence,
)
from mpgd.theory.phases import Levels, decay_of, force_of, levels, phase_tail
from mpgd.theory.stability import Stability, growth_exponent, stability
from mpgd.theory.tails import TailIndex, tail_index
from mpgd.theory.topology import (
    TopologicalBound,
    lifetime_sum,
    magnitude,
    positive_magnitude,
    topological_bound,
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
