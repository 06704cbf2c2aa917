"""A valley that narrows: gradient descent on l(u, v) = v^2 |u|^2 / 2 and its Hessian's trace.

    grad_u = v^2 u,     grad_v = v |u|^2,     trace = d v^2 + |u|^2

All of v = 0 is a minimum, the flattest is at u = 0. The claim: descent stays where it starts,
Gaussian perturbations do not converge, MPGD lowers the trace.

Protocol ``corrected``: u in R^10, started at 5 U[0, 1]^10, v = 0, fresh signs; ``text``: the same
with the printed signs. Protocol ``released`` follows the authors' script: u is one number, 17.28 at
the start; the Gaussian has prefactor 1, mean 10 on u and mean 1 elsewhere; v's multiplicative noise
multiplies u; u moves before v; one multiplicative driver serves both; each driver's sign flips at
every visit to Z or never, and already at the visit. Seed 1 is the script's own path, further seeds
shift its orbit seeds.

Reference: Lim, Wan & Simsekli (2022), Section 5.1.
"""

from mpgd_lab.experiment import Experiment, SectionSpec
from mpgd_lab.schema import Needs
from mpgd_lab.studies.valley.runs import LANDSCAPE, all_tasks, printout
from mpgd_lab.studies.valley.section import blocks
from mpgd_lab.studies.valley.training import train

NEEDS = Needs(("trace",), (("step", "trace"),))
PATHS = Needs(curves=(("u", "v"),))
EXPERIMENT = Experiment(
    name="valley",
    runs=all_tasks,
    train=train,
    printout=printout,
    needs=lambda run: PATHS if run.hyperparameters.get("part") == LANDSCAPE else NEEDS,
    section=SectionSpec("The valley", blocks, place=3),
    max_batch=lambda run: 1000,
    seconds=0.1,
)
