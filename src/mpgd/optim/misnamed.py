"""Settings in the groups of a wrapped optimizer whose names do not say what was meant.

The perturbation's have a prefix there. A setting of its without the prefix is the inner
optimizer's, which may have none of that name; a name with the prefix must be one that is known.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from mpgd.noise.force import overridden
from mpgd.optim.settings import DEFAULTS, NAMES, PREFIX, check_keywords, check_learning_rate
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


def refuse_unknown(
    own: Mapping[str, Any],
    known: Sequence[str] = NAMES,
    owner: str = "the perturbation",
    prefix: str = PREFIX,
) -> None:
    """Raise on a name that is no setting of its owner, with the nearest one that is."""
    for name in own:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            every = ", ".join(prefix + each for each in known)
            hint = f"did you mean {prefix + close[0]!r}?" if close else f"it has {every}"
            raise ValueError(f"{owner} has no setting {prefix + name!r}; {hint}")


def warn_of_earlier(number: int, group: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Warn of settings that do not count because an earlier `perturb` left its own in the group.

    It leaves all of them; a user who gives a group settings of its own gives a few.
    """
    own = split(group)[1]
    if not set(NAMES) <= own.keys():
        return
    for name, value in check_keywords(given).items():
        if value != getattr(DEFAULTS, name) and value != own[name]:
            warnings.warn(
                f"group {number} has {PREFIX + name!r} of {own[name]!r} from an earlier perturb of "
                f"the same optimizer, so {name}={value!r} does not count: change it in the group, "
                "or build the inner optimizer anew",
                UserWarning,
                stacklevel=level_of_user(),
            )


def warn_of_bare_names(number: int, group: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Warn of settings without their prefix that the inner optimizer has no default for."""
    for name in sorted({*NAMES} & group.keys() - defaults.keys()):
        warnings.warn(
            f"group {number} has {name!r}, which its optimizer has no default for; it is not a "
            f"setting of the perturbation, which would be {PREFIX + name!r}",
            UserWarning,
            stacklevel=level_of_user(),
        )
