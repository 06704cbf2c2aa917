"""A pytest plugin, ``-p tests.without_numba``: run as where numba is not installed."""

from __future__ import annotations

import sys

sys.modules["numba"] = None  # type: ignore[assignment]  # an import of it fails, a search finds none
