"""The paper's theorems, made runnable: implicit regularisation, tails, dimension and bounds."""

from mpgd.theory.dimension import Dimension, trajectory_dimension
from mpgd.theory.generalization import (
    GeneralizationBound,
    WorstGap,
    generalization_bound,
    worst_gap,
)
from mpgd.theory.implicit import ImplicitRegularizer, implicit_regularizer
from mpgd.theory.tails import TailIndex, tail_index

__all__ = [
    "Dimension",
    "GeneralizationBound",
    "ImplicitRegularizer",
    "TailIndex",
    "WorstGap",
    "generalization_bound",
    "implicit_regularizer",
    "tail_index",
    "trajectory_dimension",
    "worst_gap",
]
