"""Optimizers whose parameters are perturbed before each step, and full-batch gradients.

mechanism       the functions that are put into a subclass of an optimizer
perturbed       that subclass, perturb(), and parameter groups
mpgd            MPGD, the same over torch.optim.SGD
settings        keywords as one frozen value
state           the drivers of a parameter; checkpoint: shown, saved and loaded
displacement/   x <- (x - m x) + n, by torch operations and by kernels
rounding        stochastic rounding of half parameters; buckets: which are stepped together
distributed     which parameter of the model one is
diagnostics     how large a perturbation is, warnings, the recipe
full_batch      gradients of a whole data set
"""

from mpgd.noise.stochastic_round import stochastic_round as stochastic_round
from mpgd.optim.diagnostics import PerturbationSize as PerturbationSize
from mpgd.optim.diagnostics import PerturbationWarning as PerturbationWarning
from mpgd.optim.diagnostics import perturbation_sizes as perturbation_sizes
from mpgd.optim.distributed import number_parameters as number_parameters
from mpgd.optim.full_batch import full_batch as full_batch
from mpgd.optim.mechanism import Perturbed as Perturbed
from mpgd.optim.mpgd import MPGD as MPGD
from mpgd.optim.perturbed import param_groups as param_groups
from mpgd.optim.perturbed import perturb as perturb
from mpgd.optim.perturbed import perturbed as perturbed
from mpgd.optim.perturbed import step_in_backward as step_in_backward
from mpgd.optim.perturbed import stochastic_rounding as stochastic_rounding


def __getattr__(name: str) -> object:
    """Return ``PerturbedAdamW`` and the like, for configurations that name a class."""
    from mpgd.optim.perturbed import find_class

    return find_class(name)
