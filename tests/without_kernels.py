"""A pytest plugin, ``-p tests.without_kernels``: run as where no C compiler was found."""

from __future__ import annotations

import mpgd.library as library

library.load = lambda source: library.Loaded(
    None, f"lib{source.stem}.so is not there: {library.CURE}"
)
