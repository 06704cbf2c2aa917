"""In the reference a default that the source takes from a constant is shown by its value."""

from __future__ import annotations

from importlib import import_module

import griffe

from mpgd.optim.settings import DEFAULTS


class Defaults(griffe.Extension):
    """Write 0.6 where a signature says ``DEFAULTS.gamma``, 17 where it says ``POINTS``."""

    def on_function_instance(self, *, func: griffe.Function, **kwargs: object) -> None:
        """Replace the defaults of one function."""
        for parameter in func.parameters:
            default = str(parameter.default)
            prefix, _, name = default.partition(".")
            if prefix == "DEFAULTS":
                parameter.default = repr(getattr(DEFAULTS, name))

    def on_attribute_instance(self, *, attr: griffe.Attribute, **kwargs: object) -> None:
        """Replace the default of one field of a dataclass."""
        name = str(attr.value)
        if attr.parent and attr.parent.is_class and name.isupper() and name.isidentifier():
            attr.value = repr(getattr(import_module(attr.module.path), name))
