"""The remark on step sizes at the end of Section 5, and the one on levels in Appendix F.1, tested.

The paper says of a range of step sizes eta, which it does not show, that MPGD consistently
outperforms descent at smaller ones, and that both perform alike at large ones. Here airfoil and
ECG5000 (two hidden layers) are trained with eta from 0.003 to 0.5, at equal time eta * steps and at
equal steps, under each protocol, at gamma 0.6 and beta 0.5.

Of ECG5000 the paper says too that lower levels would lower the accuracy, but keep it above those of
descent and of Gaussian noise: mu = sigma = 0.02, 0.05 and 0.1 are run beside its 0.2.

Runs are trained as those of `airfoil` and `ecg` are. All are measured after the last step, so that
one descent is the rival under every protocol: only the noise differs.

The rule, set before the published runs: 10 seeds, every protocol, the levels first, then equal
steps, then equal time. None of it is counted in the answer: the paper prints no numbers of these
remarks, and step sizes and levels are ours.

Reference: Lim, Wan & Simsekli (2022), Section 5 and Appendix F.1.
"""

from mpgd_lab.data.sources import AIRFOIL, ECG5000
from mpgd_lab.experiment import Experiment, SectionSpec
from mpgd_lab.studies.steps.runs import TOGETHER, label, needs, tasks
from mpgd_lab.studies.steps.section import blocks, printout
from mpgd_lab.studies.steps.training import train

EXPERIMENT = Experiment(
    name="steps",
    runs=tasks,
    train=train,
    printout=printout,
    needs=needs,
    section=SectionSpec("Small and large steps, lower levels", blocks, place=15),
    data=(AIRFOIL, ECG5000),
    on_request=True,
    seconds=2.7,
    max_batch=lambda run: TOGETHER[run.hyperparameters["data"]],
    label=label,
    figures=blocks,
)
