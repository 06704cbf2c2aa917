"""The paper's theorems, made runnable: implicit regularisation, tails, dimension and bounds."""

from mpgd.theory.dimension import Dimension, trajectory_dimension
from mpgd.theory.generalization import (
    GeneralizationBound,
    WorstGap,
    generalization_bound,
    worst_gap,
)
from mpgd.theory.implicit import ImplicitRegularizer, implicit_regularizer
from mpgd.theory.information import (
    gaussian_information,
    information_from_samples,
    mutual_information,
    renyi_divergence,
)
from mpgd.theory.tails import TailIndex, tail_index

__all__ = [
    "Dimension",
    "GeneralizationBound",
    "ImplicitRegularizer",
    "TailIndex",
    "WorstGap",
    "gaussian_information",
    "generalization_bound",
    "implicit_regularizer",
    "information_from_samples",
    "mutual_information",
    "renyi_divergence",
    "tail_index",
    "trajectory_dimension",
    "worst_gap",
]
