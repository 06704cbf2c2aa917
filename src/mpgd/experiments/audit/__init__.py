"""The audit: what each deviation of the authors' scripts does to the results, alone and together.

A case is one row of an experiment's tables. From its runs under protocol ``paper`` one deviation
is switched on at a time, with the same seeds; a table shows each metric and its difference to
``paper``, paired by seed, with Student's interval. Its last row is protocol ``released``: all of
them together. ``control`` is no deviation but a check of the method, the text's noise drawn by
other means, which ought to make no difference.

A deviation is tried on the rows it concerns: of the noise, on plain and symmetric MPGD, or on the
Gaussian. On ECG5000 ``paper`` means the text's one hidden layer.

Reference: Lim, Wan & Simsekli (2022), Section 5 and Appendix F, and the scripts released with it.
"""

from mpgd.experiments import PROTOCOLS
from mpgd.experiments.audit.runs import STUDIES, needs, told, wanted
from mpgd.experiments.audit.runs import all_tasks as tasks
from mpgd.experiments.audit.section import blocks
from mpgd.experiments.audit.training import largest, train
from mpgd.experiments.experiment import Experiment, Part

EXPERIMENT = Experiment(
    name="audit",
    runs=tasks,
    train=train,
    told=told,
    needs=needs,
    protocols=PROTOCOLS,
    section=Part("The audit", blocks, tuple(STUDIES), place=8),
    also=tuple(source for study in STUDIES.values() for source in study.experiment.data),
    largest=largest,
    wanted=wanted,
)
