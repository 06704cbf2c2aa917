"""Heavy tails of a trajectory: its tail index and its fractal dimension.

index               the tail index, by four estimators, each with an interval
stable_estimators   estimators for stable laws: quantiles, characteristic function
dependence          what memory in the rows does to an estimate
dimension           the dimension of a trajectory
"""

from mpgd.theory.tails.dependence import DependenceWarning as DependenceWarning
from mpgd.theory.tails.dimension import Dimension as Dimension
from mpgd.theory.tails.dimension import trajectory_dimension as trajectory_dimension
from mpgd.theory.tails.index import TailIndex as TailIndex
from mpgd.theory.tails.index import tail_index as tail_index
