"""In the reference a default that the source takes from a constant is shown by its value."""

from __future__ import annotations

import griffe

from mpgd.optim.settings import DEFAULTS


class Defaults(griffe.Extension):
    """Write 0.6 where a signature says ``DEFAULTS.gamma``."""

    def on_function_instance(self, *, func: griffe.Function, **kwargs: object) -> None:
        """Replace the defaults of one function."""
        for parameter in func.parameters:
            prefix, _, name = str(parameter.default).partition(".")
            if prefix == "DEFAULTS":
                parameter.default = repr(getattr(DEFAULTS, name))
