"""Theorem 4.3 against simulation: the coefficient of eps^2 in E R(x_k) - R(xbar_k).

    D(eps) = (E R(x_k; eps) + E R(x_k; -eps) - 2 R(xbar_k)) / (2 eps^2)
           = c2 + c4 eps^2 + c6 eps^4 + ...

The same paths of the drivers serve eps, -eps and all sizes of eps (odd orders cancel), and three
sizes give c2 without c4 and c6: (64 D(eps/4) - 20 D(eps/2) + D(eps)) / 45. Beside it stand the
theorem as printed and with the term its proof drops (`mpgd.theory.implicit_regularizer`), whose
autocovariances come from the invariant law and not from these paths.

Reference: Lim, Wan & Simsekli (2022), Theorem 4.3.
"""

from mpgd_lab.experiment import Experiment, SectionSpec
from mpgd_lab.studies.implicit.runs import NEEDS, RATIO, RATIO_NEEDS, label, tasks
from mpgd_lab.studies.implicit.section import blocks, printout
from mpgd_lab.studies.implicit.training import train

EXPERIMENT = Experiment(
    name="implicit",
    runs=tasks,
    train=train,
    printout=printout,
    needs=lambda run: RATIO_NEEDS if run.scheme == RATIO else NEEDS,
    section=SectionSpec("Theorem 4.3 against simulation", blocks, place=9),
    seeded=False,
    max_batch=lambda run: 1,
    label=label,
    figures=blocks,
    seconds=1.5,
)
