"""The update as one pure function, the optimizers around it, and full-batch gradients."""

from mpgd.optim.descent import MPGD as MPGD
from mpgd.optim.full_batch import full_batch as full_batch
from mpgd.optim.groups import PerturbationSize as PerturbationSize
from mpgd.optim.groups import param_groups as param_groups
from mpgd.optim.groups import perturbation_sizes as perturbation_sizes
from mpgd.optim.numbering import number_parameters as number_parameters
from mpgd.optim.perturbing import perturb as perturb
from mpgd.optim.sizes import PerturbationWarning as PerturbationWarning
from mpgd.optim.wrapper import Perturbed as Perturbed
