"""Stable laws.

law        the law: density, distribution function, quantiles, samples
integral   one tail by Zolotarev's integral
"""

from mpgd.stable.law import StableLaw as StableLaw
