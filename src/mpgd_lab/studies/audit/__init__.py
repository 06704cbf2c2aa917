"""The audit: what each deviation of the authors' scripts does to the results, alone and together.

A case is one row of an experiment's tables. From its runs under protocol ``corrected`` one
deviation is switched on at a time, with the same seeds; the last line is protocol ``released``: all
of them together. ``control`` is no deviation but a check of the method, the corrected noise drawn
by other means, which ought to make no difference. `audit.case_comparison` says what is compared.

A deviation is tried on the rows it concerns: of the noise, on plain and symmetric MPGD; those that
mean something for descent or for a Gaussian, on them too. On ECG5000 the net has the two hidden
layers of the printed numbers, and the text's one layer is a line.

Reference: Lim, Wan & Simsekli (2022), Section 5 and Appendix F, and the scripts released with it.
"""

from mpgd_lab.experiment import Experiment, SectionSpec
from mpgd_lab.studies.audit.case_comparison import printout
from mpgd_lab.studies.audit.runs import STUDIES, needs, select_runs, study_of
from mpgd_lab.studies.audit.runs import all_tasks as tasks
from mpgd_lab.studies.audit.section import blocks
from mpgd_lab.studies.audit.training import max_batch, train

EXPERIMENT = Experiment(
    name="audit",
    runs=tasks,
    train=train,
    printout=printout,
    needs=needs,
    section=SectionSpec("The audit", blocks, tuple(STUDIES), place=8),
    optional_data=tuple(source for study in STUDIES.values() for source in study.experiment.data),
    sources=lambda run: STUDIES[study_of(run)].experiment.data,
    max_batch=max_batch,
    select_runs=select_runs,
    seconds=0.4,
)
