"""The update as one pure function, the optimizers around it, and full-batch gradients."""

from mpgd.optim import factory
from mpgd.optim.descent import MPGD as MPGD
from mpgd.optim.factory import perturbed as perturbed
from mpgd.optim.full_batch import full_batch as full_batch
from mpgd.optim.groups import PerturbationSize as PerturbationSize
from mpgd.optim.groups import param_groups as param_groups
from mpgd.optim.groups import perturbation_sizes as perturbation_sizes
from mpgd.optim.numbering import number_parameters as number_parameters
from mpgd.optim.perturbing import perturb as perturb
from mpgd.optim.rounding import stochastic_round as stochastic_round
from mpgd.optim.sizes import PerturbationWarning as PerturbationWarning
from mpgd.optim.wrapper import Perturbed as Perturbed

__getattr__ = factory.named  # mpgd.optim.PerturbedAdamW, for configurations that name a class
