"""Stable laws.

law        the law, with the names of scipy.stats
standard   the standard law: its functions by Zolotarev's integral, and quantiles
near_one   the same for alpha near 1
integral   the quadrature
sampling   draws by a formula, from a table, and along paths
slopes     derivatives in x and the parameters
estimate   maximum likelihood
torch      the law as a distribution of torch
"""

from mpgd.stable.estimate import StableFit as StableFit
from mpgd.stable.law import StableLaw as StableLaw
from mpgd.stable.sampling import process as process
