"""Theorem 4.3, implicit regularisation: what small perturbations add to the loss on average.

regularizer   the coefficient of eps^2, as printed and complete
drive         one of the two drivers, as a part of g(x) = -a v1 x + b v2
exact         all averages from autocovariances, by matrices
pathwise      the same along drawn paths, by Hessian-vector products
"""

from mpgd.theory.implicit.regularizer import ImplicitRegularizer as ImplicitRegularizer
from mpgd.theory.implicit.regularizer import implicit_regularizer as implicit_regularizer
