"""Equal displacement beside equal variance: how much of a result is how far the noise moves?

The tables compare MPGD with Gaussian noise of its variance per step. Chaotic values are correlated,
so MPGD moves the parameters farther, 3 to 8 times here. `displacement.runs` defines the rows: a
Gaussian that moves as far as MPGD, and MPGD that moves as far as the Gaussian.

The rule, set before the runs. Differences are paired by seed with the published runs of the same
study (protocol ``corrected``), and judged as everywhere else, all of one study and measure
together:

    MPGD at its own level        against the Gaussian that moves as far
    MPGD that moves as far       against the Gaussian of the study, and against descent

Of the networks of `generalization`, at the Gaussian's displacement, judged together for each data
set: the fitted change of the worst gap from the largest alpha to the smallest, as there; and mean
gap and trace of MPGD over gammas against the Gaussian. None of it is counted in the answer: the
paper has no such comparison.
"""

from mpgd_lab.data.sources import AIRFOIL, ECG5000
from mpgd_lab.experiment import ROUNDING, Experiment, SectionSpec
from mpgd_lab.studies.displacement.runs import NETWORKS, needs, select_runs, sources, tasks
from mpgd_lab.studies.displacement.section import blocks, printout
from mpgd_lab.studies.displacement.training import max_batch, train

EXPERIMENT = Experiment(
    name="displacement",
    runs=tasks,
    train=train,
    printout=printout,
    needs=needs,
    section=SectionSpec(
        "Equal displacement",
        blocks,
        others=("ecg", "airfoil", "digits", "generalization"),
        place=11,
    ),
    optional_data=(AIRFOIL, ECG5000),
    sources=sources,
    # Gradients of the networks are in float32, which drift apart over the steps.
    tolerance=lambda run: 0.1 if run.hyperparameters["data"] in NETWORKS else ROUNDING,
    select_runs=select_runs,
    max_batch=max_batch,
    seconds=0.8,
)
