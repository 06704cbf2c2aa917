"""Theorem 4.2, generalisation: bounds on the worst gap along a trajectory.

bound          the theorem's bound and the measured worst gap
information    the mutual information in it
heavy_tailed   a later bound without an information term
topology       a later bound by the complexity of the trajectory as a set
"""

from mpgd.theory.generalization.bound import GeneralizationBound as GeneralizationBound
from mpgd.theory.generalization.bound import WorstGap as WorstGap
from mpgd.theory.generalization.bound import generalization_bound as generalization_bound
from mpgd.theory.generalization.bound import worst_gap as worst_gap
from mpgd.theory.generalization.heavy_tailed import heavy_tailed_bound as heavy_tailed_bound
from mpgd.theory.generalization.heavy_tailed import heavy_tailed_estimate as heavy_tailed_estimate
from mpgd.theory.generalization.heavy_tailed import (
    heavy_tailed_information as heavy_tailed_information,
)
from mpgd.theory.generalization.information import gaussian_information as gaussian_information
from mpgd.theory.generalization.information import (
    information_from_samples as information_from_samples,
)
from mpgd.theory.generalization.information import mutual_information as mutual_information
from mpgd.theory.generalization.information import renyi_divergence as renyi_divergence
from mpgd.theory.generalization.topology import TopologicalBound as TopologicalBound
from mpgd.theory.generalization.topology import lifetime_sum as lifetime_sum
from mpgd.theory.generalization.topology import magnitude as magnitude
from mpgd.theory.generalization.topology import positive_magnitude as positive_magnitude
from mpgd.theory.generalization.topology import topological_bound as topological_bound
