"""Theorem 4.2 and the Hessian, measured: gap, tail index, dimension and trace against gamma.

Small networks are trained on the digits of scikit-learn and, where the file is found, on the
airfoil data, by plain descent, with Gaussian noise and with chaotic noise of several gamma, all at
equal per-step variance: sigma = mu = s / (eta^gamma sqrt(E v^2)). Two claims get a verdict from
differences paired by seed:

    smaller alpha, smaller gap   fitted change of the worst gap from the largest to the smallest
                                 alpha = 1/gamma, the slope of a line through each seed's gammas;
                                 along the whole trajectory, and along its second half, since the
                                 worst gap may lie in the first steps, which all schemes share
    MPGD lowers the Hessian      its trace at the end, the mean over gammas, minus that of plain
                                 descent, and minus that of the Gaussian of equal variance

Equal variance of a step is not equal displacement: chaotic values of larger gamma are correlated
over longer times. Tail index and dimension are those of the trajectory's second half, in a few
randomly chosen parameters. The increments have memory, which lowers a tail index by itself, so
three readings stand side by side: log-moments in the order of time, the same of increments far
apart, and Hill's, which looks at the largest increments only.

Reference: Lim, Wan & Simsekli (2022), Theorem 4.2 and Section 4.2.
"""

from mpgd_lab.data.sources import AIRFOIL
from mpgd_lab.experiment import Experiment, SectionSpec
from mpgd_lab.studies.generalization.runs import needs, select_runs, tasks
from mpgd_lab.studies.generalization.section import blocks, printout
from mpgd_lab.studies.generalization.training import train

EXPERIMENT = Experiment(
    name="generalization",
    runs=tasks,
    train=train,
    printout=printout,
    needs=needs,
    section=SectionSpec("Gap, tail index and trace against γ", blocks, place=10),
    optional_data=(AIRFOIL,),
    sources=lambda run: (AIRFOIL,) * (run.hyperparameters["data"] == "airfoil"),
    tolerance=lambda run: 0.1,  # gradients in float32, which drift apart over the steps
    seeded=False,
    figures=blocks,
    select_runs=select_runs,
    sample=6,  # a run holds 20 seeds
    seconds=6.0,
)
