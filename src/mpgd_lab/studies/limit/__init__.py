"""Theorem 4.1 at work: MPGD with m steps per unit of time beside the equation it tends to.

    x' = x - grad(x)/m - mu m^(-gamma) v1 x + sigma m^(-gamma) v2
    dX = -grad(X) dt - mu diag(X) <> dL1 + sigma dL2

Laws at fixed times are compared on the scale asinh(x): under multiplicative noise X = exp(-mu L)
has no mean, and without one the Wasserstein and energy distances are infinite. The KS distance is
the same on any scale. Beside it stands the driver's own: that of m^(-gamma) (v_0 + ... + v_(m-1))
to its stable law. While this is large, m is too small for the equation to mean anything.

Gradients are globally Lipschitz, as the theorem asks. That of the valley u^2 v^2 / 2 is not, so the
valley is taken at 3 tanh(u/3), 3 tanh(v/3), where all its derivatives are bounded.

Reference: Lim, Wan & Simsekli (2022), Theorem 4.1 and Appendix B.3.
"""

from mpgd_lab.experiment import Experiment, SectionSpec
from mpgd_lab.studies.limit.runs import NEEDS, PARTS, label, tasks
from mpgd_lab.studies.limit.section import blocks, figures, printout
from mpgd_lab.studies.limit.training import train

EXPERIMENT = Experiment(
    name="limit",
    runs=tasks,
    train=train,
    printout=printout,
    needs=lambda run: NEEDS.get(str(run.hyperparameters.get("part")), PARTS),
    section=SectionSpec("Convergence to the limit equation", blocks, place=2),
    seeded=False,
    max_batch=lambda run: 1,
    label=label,
    figures=figures,
    seconds=0.7,
)
