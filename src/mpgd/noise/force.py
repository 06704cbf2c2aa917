"""Sizes in units of the loss: a force instead of sigma, a decay instead of mu.

In a laminar phase chi is constant, and the step is plain descent on a tilted and bent loss,

    R(x) - chi F x + chi' (M/2) x^2,    F = sigma c0 eta^(gamma-1),    M = mu c0 eta^(gamma-1)

Given F and M instead, a step pushes by F eta v2/c0 and M eta x v1/c0: sizes F/c0 and M/c0 with eta
to the power 1. Then a schedule that changes eta leaves force and decay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mpgd.parameters import check_finite, check_nonnegative

INSTEAD: Final = {"decay": "mu", "force": "sigma"}  # in the order (multiplicative, additive)


def check_force(own: Mapping[str, Any], noises: tuple[Any, Any]) -> dict[str, float | None]:
    """Return decay and force as numbers or None; an error if the other size is given too."""
    checks = {"decay": check_nonnegative, "force": check_finite}
    found: dict[str, float | None] = {}
    for (name, other), noise in zip(INSTEAD.items(), noises, strict=True):
        value = own[name]
        found[name] = None if value is None else checks[name](name, value)
        if value is not None and not hasattr(noise, "laminar_value"):
            raise ValueError(
                f"{name} is the push of a laminar phase, which {noise!r} has not, got "
                f"{name}={value!r}; give {other} instead"
            )
        if value is not None and own[other]:
            raise ValueError(
                f"{name} is given instead of {other}, got {name}={value!r} and "
                f"{other}={own[other]!r}; leave one of them out"
            )
    return found


def overridden(defaults: Mapping[str, Any], group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults with a group's own keywords; its force replaces a default sigma.

    Examples:
        >>> defaults = {"mu": 0.0, "decay": None, "sigma": 0.1, "force": None}
        >>> overridden(defaults, {"force": 0.5})
        {'mu': 0.0, 'decay': None, 'sigma': 0.0, 'force': 0.5}
    """
    merged = {**defaults, **group}
    for name, other in INSTEAD.items():
        if group.get(name) is not None and other not in group:
            merged[other] = 0.0
        elif group.get(other) and name not in group:
            merged[name] = None
    return merged


def effective_sizes(
    plain: Mapping[str, Any], noises: tuple[Any, Any], exponents: tuple[float, float]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return mu and sigma, or what stands for them, and the powers of eta in front of them."""
    found, powers = [], []
    for (name, other), noise, exponent in zip(INSTEAD.items(), noises, exponents, strict=True):
        value = plain[name]
        if value is None:
            found.append(plain[other])
            powers.append(exponent)
        else:
            found.append(value / noise.driver.laminar_value)  # check_force has refused others
            powers.append(1.0)
    return (found[0], found[1]), (powers[0], powers[1])
