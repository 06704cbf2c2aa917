"""How MPGD leaves wells at usual step sizes: force, threshold, and which minima it prefers.

In a laminar phase MPGD is descent on a tilted loss with the force F = sigma c0 eta^(gamma-1)
(`phases.laminar`). Walkers in wells of one, two and ten dimensions are counted as they leave;
beside each count stand the rate from phase to phase, that of one phase, and the limits: Levy's of
small steps, Kramers' of Gaussian noise. Two wells of equal height, one narrow and one wide, show
where the time is spent.

Not in the paper, which has the limit only: Lim, Wan & Simsekli (2022), Theorem 4.1.
"""

from mpgd_lab.experiment import Experiment, SectionSpec
from mpgd_lab.studies.escape.runs import label, needs, tasks
from mpgd_lab.studies.escape.section import blocks, printout
from mpgd_lab.studies.escape.training import train

EXPERIMENT = Experiment(
    name="escape",
    runs=tasks,
    train=train,
    printout=printout,
    needs=needs,
    section=SectionSpec("Leaving wells at a finite step", blocks, place=12),
    on_request=True,
    seeded=False,
    max_batch=lambda run: 1,
    label=label,
    figures=blocks,
    seconds=12.0,
)
