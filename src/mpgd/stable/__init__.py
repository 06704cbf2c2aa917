"""Stable laws.

law        the law, with the names of scipy.stats
standard   the standard law: its functions and quantiles
integral   one side by Zolotarev's integral
near_one   the same for alpha near 1
nodes      the quadrature of both
sampling   Chambers, Mallows and Stuck
table      the quantile function in integers, for draws from a hash
slopes     derivatives in x and the parameters
estimate   maximum likelihood
torch      the law as a distribution of torch
levy_process   paths of stable processes
"""

from mpgd.stable.estimate import StableFit as StableFit
from mpgd.stable.law import StableLaw as StableLaw
from mpgd.stable.levy_process import process as process
