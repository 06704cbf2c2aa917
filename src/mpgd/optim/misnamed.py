"""Settings in the groups of a wrapped optimizer whose names do not say what was meant.

The perturbation's have a prefix there. A setting of its without the prefix is the inner
optimizer's, which may have none of that name; a name with the prefix must be one that is known.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Mapping
from typing import Any

from mpgd.noise.force import overridden
from mpgd.optim.settings import NAMES, PREFIX, check_keywords, check_learning_rate
from mpgd.optim.sizes import level_of_user
from mpgd.optim.views import split


def checked_group(given: Mapping[str, Any], group: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group's own settings as plain numbers, those it lacks from ``given``."""
    if "lr" not in group:
        raise ValueError(
            f"every group needs an 'lr' to scale the perturbation, got {sorted(group)}"
        )
    check_learning_rate(group["lr"])
    own = split(group)[1]
    refuse_unknown(own)
    return check_keywords(overridden(given, own))


def refuse_unknown(own: Mapping[str, Any]) -> None:
    """Raise on a name that is no setting of the perturbation, with the nearest one that is."""
    for name in own:
        if name not in NAMES:
            close = difflib.get_close_matches(name, NAMES, n=1)
            known = ", ".join(PREFIX + each for each in NAMES)
            hint = f"did you mean {PREFIX + close[0]!r}?" if close else f"it has {known}"
            raise ValueError(f"the perturbation has no setting {PREFIX + name!r}; {hint}")


def warn_of_bare_names(number: int, group: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Warn of settings without their prefix that the inner optimizer has no default for."""
    for name in sorted({*NAMES} & group.keys() - defaults.keys()):
        warnings.warn(
            f"group {number} has {name!r}, which its optimizer has no default for; it is not a "
            f"setting of the perturbation, which would be {PREFIX + name!r}",
            UserWarning,
            stacklevel=level_of_user(),
        )
