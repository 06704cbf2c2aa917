"""Is descent with large steps chaotic by itself? Lyapunov exponents over the step size.

The paper suggests it at the end of Section 5. Plain descent, without noise, is followed on the
valley and on airfoil's net, from the starts of those studies, at step sizes below and above the
paper's own (0.01 and 0.1). Its largest Lyapunov exponent is that of the last half of the steps.

The rule, set before the runs: at each step size the claim is that the exponent is above 0, judged
over seeds as everywhere else, all step sizes of a problem together. An orbit that leaves the
finite numbers, which is no chaos either, has none and is left out; fewer than five that stay are
not judged. The steps are finite in number: an exponent above 0 says that neighbouring starts
parted over these steps, not that they would for ever.

Reference: Lim, Wan & Simsekli (2022), Section 5.
"""

from mpgd_lab.data.sources import AIRFOIL
from mpgd_lab.experiment import Experiment, SectionSpec
from mpgd_lab.studies.lyapunov.runs import needs, select_runs, sources, tasks
from mpgd_lab.studies.lyapunov.section import blocks, printout
from mpgd_lab.studies.lyapunov.training import train

EXPERIMENT = Experiment(
    name="lyapunov",
    runs=tasks,
    train=train,
    printout=printout,
    needs=needs,
    section=SectionSpec("Is descent with large steps chaotic?", blocks, place=16),
    optional_data=(AIRFOIL,),
    sources=sources,
    select_runs=select_runs,
    sample=12,  # each takes as long as ten of other studies
    run_seconds=lambda run: 9.0 if run.hyperparameters["data"] == "airfoil" else 1.0,
)
