"""Figure 1 of the paper: an orbit, its values, and the sums that tend to a stable law.

    y_(k+1) = T(y_k),     v_k = chi_k v(y_k),     k^(-gamma) (v_0 + ... + v_(k-1)) -> X(alpha, beta)

for two sign rules: ``fresh``, the one whose sums have the skewness beta in the limit, and
``product``, as printed (each sign multiplies the last, the first is +1), whose limit is symmetric.
Distances are Kolmogorov's; a perfect sample of n values has 0.87 / sqrt(n) on average. A laminar
phase, a stay left of y* between two visits to Z, has a length of exactly known law:

    P(length > n) = (H(x_n) - H(x_(n+1))) / P(Z),     x_n = Y(n + 1)

Reference: Lim, Wan & Simsekli (2022), Sections 2 and 3 and Figure 1.
"""

from mpgd_lab.experiment import Experiment, SectionSpec
from mpgd_lab.studies.driver.runs import NEEDS, PARTS, label, tasks
from mpgd_lab.studies.driver.section import blocks, printout
from mpgd_lab.studies.driver.training import train

EXPERIMENT = Experiment(
    name="noise",
    runs=tasks,
    train=train,
    printout=printout,
    needs=lambda run: NEEDS.get(str(run.hyperparameters.get("part")), PARTS),
    section=SectionSpec("The driver and its limit law", blocks, place=1),
    seeded=False,
    max_batch=lambda run: 1,
    label=label,
    figures=blocks,
    tolerance=lambda run: 1e-12,
    seconds=4.5,
)
