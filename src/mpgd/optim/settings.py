"""The keywords of a perturbation: defaults, checks, and what follows from them.

They live in an optimizer's parameter groups, because those are what schedulers change and what
`state_dict`, `deepcopy` and `pickle` keep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from torch import Tensor

from mpgd.noise import ChaoticNoise, GaussianNoise, StableNoise
from mpgd.noise.engines import check_engine
from mpgd.parameters import (
    SIGN_RULES,
    check_beta,
    check_choice,
    check_gamma,
    check_integer,
    check_nonnegative,
    check_seed,
)

Noise = ChaoticNoise | GaussianNoise | StableNoise

NOISES: Final = ("chaotic", "gaussian", "stable")
SCALINGS: Final = ("matched", "langevin")
DEFAULTS: Final[Mapping[str, Any]] = {
    "mu": 0.0,
    "sigma": 0.0,
    "gamma": 0.6,
    "beta": 0.0,
    "symmetric": False,
    "noise": "chaotic",
    "scaling": "matched",
    "signs": "fresh",
    "shared_multiplicative": False,
    "start": 0,
    "stop": None,
    "seed": 0,
    "engine": None,
}


def check_settings(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as plain numbers, fit for a checkpoint.

    An error names the setting, the rule and the value if one is out of range.
    """
    for name, choices in (("noise", NOISES), ("scaling", SCALINGS), ("signs", SIGN_RULES)):
        check_choice(name, group[name], choices)
    for flag in ("symmetric", "shared_multiplicative"):
        check_flag(flag, group[flag])
    start, stop = check_integer("start", group["start"], 0), group["stop"]
    if stop is not None:
        stop = check_integer("stop", stop, 0)
        if stop < start:
            raise ValueError(f"stop must not come before start, which is {start}, got {stop}")
    check_engine(group["engine"])
    return {
        **{name: group[name] for name in DEFAULTS},
        **check_sizes(group),
        "gamma": _plain("gamma", group["gamma"], check_gamma),
        "beta": _plain("beta", group["beta"], check_beta),
        "start": start,
        "stop": stop,
        "seed": check_seed(group["seed"]),
    }


def check_sizes(group: Mapping[str, Any]) -> dict[str, float]:
    """Return mu and sigma as floats; they may have been changed since the group was made."""
    return {name: check_nonnegative(name, group[name]) for name in ("mu", "sigma")}


def _plain(name: str, value: Any, check: Callable[[object], float]) -> Any:
    first, second = (check(number) for number in pair(name, value))
    return (first, second) if isinstance(value, (tuple, list)) else first


def check_learning_rate(lr: Any) -> float | Tensor:
    """Return ``lr``, a non-negative number or a tensor of one."""
    if isinstance(lr, Tensor):
        if lr.numel() != 1:
            raise ValueError(f"lr must have one element, got a tensor of shape {tuple(lr.shape)}")
        check_nonnegative("lr", float(lr))
        return lr
    return check_nonnegative("lr", lr)


def check_flag(name: str, value: object) -> None:
    """Raise if ``value`` is not a bool."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def pair(name: str, value: Any) -> tuple[Any, Any]:
    """Return a number as a pair of it, and a pair (multiplicative, additive) as it is."""
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise ValueError(
                f"{name} must be a number or a pair (multiplicative, additive), got {value!r}"
            )
        return value[0], value[1]
    return value, value


def is_perturbed(group: Mapping[str, Any]) -> bool:
    """Return whether the group's parameters are perturbed at all."""
    return bool(group["mu"] or group["sigma"])


def noises(group: Mapping[str, Any]) -> tuple[Noise, Noise]:
    """Return the multiplicative and the additive noise of a group."""
    gammas, betas = pair("gamma", group["gamma"]), pair("beta", group["beta"])
    rest = (group["noise"], group["scaling"], group["signs"], group["symmetric"], group["engine"])
    return _kept((gammas[0], betas[0], *rest)), _kept((gammas[1], betas[1], *rest))


# A plain dictionary: torch.compile looks up what eager code has put there, and refuses lru_cache.
_NOISES: dict[tuple[Any, ...], Noise] = {}


def _kept(settings: tuple[Any, ...]) -> Noise:
    if settings not in _NOISES:
        if len(_NOISES) >= 64:  # a schedule of gamma would fill the memory with tables
            del _NOISES[next(iter(_NOISES))]
        _NOISES[settings] = _noise(*settings)
    return _NOISES[settings]


def _noise(
    gamma: float, beta: float, kind: str, scaling: str, signs: str, symmetric: bool,
    engine: str | None,
) -> Noise:  # fmt: skip
    if kind == "stable":
        return StableNoise(1.0 / gamma, beta)
    chaotic = ChaoticNoise(gamma, beta, signs, engine)
    if kind == "chaotic":
        return chaotic
    if scaling == "langevin":
        return GaussianNoise(1.0)
    return GaussianNoise(chaotic.variance * (2.0 if symmetric else 1.0))


def exponents(group: Mapping[str, Any]) -> tuple[float, float]:
    """Return the powers of eta in front of the two noises."""
    if group["noise"] == "gaussian" and group["scaling"] == "langevin":
        return 0.5, 0.5
    gamma = pair("gamma", group["gamma"])
    return float(gamma[0]), float(gamma[1])


def has_twins(group: Mapping[str, Any]) -> bool:
    """Return whether each noise is the difference of two; a normal one has the variance instead."""
    return bool(group["symmetric"]) and group["noise"] != "gaussian"
