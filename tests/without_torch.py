"""A script for an environment without torch: maps and stable laws import there and compute."""

from __future__ import annotations

import platform
import sys

import numpy as np

import mpgd
from mpgd.maps import ThalerMap
from mpgd.maps.tables import compute_tables
from mpgd.stable import StableLaw

p = np.linspace(0.01, 0.99, 99)
y, x = ThalerMap(0.6).quantile(p), StableLaw(1.5, beta=0.5).ppf(p)

assert mpgd.ThalerMap is ThalerMap
assert mpgd.StableLaw is StableLaw
assert np.allclose(ThalerMap(0.6).cdf(y), p, rtol=1e-12)
assert np.allclose(StableLaw(1.5, beta=0.5).cdf(x), p, rtol=1e-10)
# The bits of the tables, as in tests/maps/test_tables.py.
assert compute_tables(0.6).fingerprint == 4491992027728024698
assert "torch" not in sys.modules

versions = f"Python {platform.python_version()}, numpy {np.__version__}, mpgd {mpgd.__version__}"
print(f"{versions}: y* {ThalerMap(0.6).y_star:.15f}, medians {y[49]:.15f} and {x[49]:.15f}")
