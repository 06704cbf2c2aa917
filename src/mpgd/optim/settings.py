"""The keywords of a perturbation, and the frozen value that a group's keywords become.

The keywords live in an optimizer's parameter groups: schedulers change them there, and copies and
state dicts keep them. Around another optimizer they have a prefix, so that they never meet a
setting of the same name. A step works with a `Settings`, made again only when a group has changed.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import torch
from torch import Tensor

from mpgd.noise import ChaoticNoise, Noise
from mpgd.noise.counter_hash import make_key, seed_of
from mpgd.noise.driver import Driver
from mpgd.noise.engines import check_engine
from mpgd.noise.force import check_force, effective_sizes
from mpgd.noise.stochastic_round import is_half
from mpgd.parameters import (
    check_beta,
    check_choice,
    check_finite,
    check_flag,
    check_gamma,
    check_integer,
    check_nonnegative,
    check_seed_or_stream,
)

Pair = float | tuple[float, float]  # a number for both noises, or (multiplicative, additive)
NoiseLike = Noise | tuple[Noise, Noise] | None
Seed = int | tuple[int, int | str]  # a number, or a number and the name of a stream

PREFIX: Final = "perturbation."  # of our names in the groups and states of another optimizer
ROUNDINGS: Final = ("nearest", "stochastic")
ORBITS: Final = ("multiplicative", "additive")
TWIN: Final = 2  # drivers 0 and 1 have 2 and 3 as twins
SIZES: Final = ("mu", "sigma", "decay", "force")
RECIPE: Final = ("strength", "steps")
SGD_KEYWORDS: Final = (
    *("momentum", "dampening", "weight_decay", "nesterov"),
    *("maximize", "foreach", "fused"),
)


@dataclass(frozen=True)
class Keywords:
    """The keywords of a perturbation that a group holds; their defaults stand here."""

    force: float | None = None
    decay: float | None = None
    sigma: float = 0.0
    mu: float = 0.0
    gamma: Pair = 0.6
    beta: Pair = 0.0
    symmetric: bool = False
    noise: NoiseLike = None
    start: int = 0
    stop: int | None = None
    seed: Seed = 0
    rounding: str = "nearest"
    engine: str | None = None


DEFAULTS: Final = Keywords()
NAMES: Final = tuple(field.name for field in fields(Keywords))
KEYWORDS: Final = (*RECIPE, *NAMES)


@dataclass(frozen=True, eq=False)
class Settings:
    """What a step needs to know about a group; pairs are (multiplicative, additive)."""

    mu: float  # or decay / c0
    sigma: float  # or force / c0
    noises: tuple[Noise, Noise]
    exponents: tuple[float, float]  # the powers of eta in front of them
    twins: bool  # each noise is the difference of two independent ones
    shared: bool  # one scalar driver multiplies all coordinates
    start: int
    stop: int | None
    seed: int  # with a stream, the hash of both
    drivers: tuple[Driver | None, Driver | None]  # None for a noise that the kernels do not know
    engine: str | None  # "torch" if kernels do not know a noise in use
    orbits: tuple[tuple[str, int, int], ...]  # of a parameter: (name, which noise, driver number)
    tables: int | None  # the fingerprint of the noises' tables, if there are some
    rounds: bool  # half types are rounded stochastically

    @property
    def sizes(self) -> tuple[float, float]:
        """Mu and sigma."""
        return self.mu, self.sigma

    @property
    def is_perturbed(self) -> bool:
        """Whether the group's parameters are perturbed at all."""
        return bool(self.mu or self.sigma)

    def needs_state(self, dtype: torch.dtype) -> bool:
        """Whether a parameter of ``dtype`` needs an ordinal and a count of its steps."""
        return self.is_perturbed or (self.rounds and is_half(dtype))

    def is_active(self, step: int) -> bool:
        """Whether step number ``step`` is perturbed."""
        return self.start <= step and (self.stop is None or step < self.stop)

    @property
    def shared_orbits(self) -> tuple[tuple[str, int], ...]:
        """(name, driver number) of the scalar orbits; all parameters have the same at a step."""
        if not (self.shared and self.noises[0].has_orbit):
            return ()
        return (("shared", 0), ("shared_twin", TWIN)) if self.twins else (("shared", 0),)


class SettingsCache:
    """The settings of each group, made again only when somebody changed the group."""

    def __init__(self, prefix: str) -> None:
        self.has_changed = True  # since somebody last set it to False
        self._names = [prefix + name for name in NAMES]
        self._made: dict[int, tuple[list[Any], Settings]] = {}

    def of(self, number: int, group: Mapping[str, Any]) -> Settings:
        """Return the settings of group ``number``; a value out of range is an error."""
        values = [group[name] for name in self._names]
        known = self._made.get(number)
        if known is None or known[0] != values:
            settings = make_settings(dict(zip(NAMES, values, strict=True)))
            copied = [list(v) if isinstance(v, list) else v for v in values]  # a list may change
            known = self._made[number] = (copied, settings)
            self.has_changed = True
        return known[1]


def make_settings(group: Mapping[str, Any]) -> Settings:
    """Return the settings of a group; an error names the keyword, the rule and the value."""
    plain = check_keywords(group)
    noises, twins, seed = make_noises(plain), plain["symmetric"], plain["seed"]
    found = [getattr(noise, "driver", None) for noise in noises]
    m, n = (driver if isinstance(driver, Driver) else None for driver in found)
    sizes, exponents = effective_sizes(plain, noises, (noises[0].exponent, noises[1].exponent))
    shared = bool(sizes[0]) and getattr(noises[0], "shared", False)
    used = (sizes[0] and not shared, sizes[1])
    orbits = [(ORBITS[k], k, k) for k in (0, 1) if used[k] and noises[k].has_orbit]
    if twins:
        orbits += [(f"{name}_twin", k, k + TWIN) for name, k, _ in orbits]
    tables = [driver.fingerprint if driver else 0 for driver in (m, n)]
    are_known = bool(m or n) and bool(m or not sizes[0]) and bool(n or not sizes[1])
    return Settings(
        mu=sizes[0],
        sigma=sizes[1],
        noises=noises,
        exponents=exponents,
        twins=twins,
        shared=shared,
        start=plain["start"],
        stop=plain["stop"],
        seed=seed_of(*seed) if isinstance(seed, tuple) else seed,
        drivers=(m, n),
        engine=plain["engine"] if are_known else "torch",
        orbits=tuple(orbits),
        tables=make_key(*tables) if any(tables) else None,
        rounds=plain["rounding"] == "stochastic",
    )


def check_keywords(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of a group, checked, numbers as Python's own."""
    own = {name: group[name] for name in NAMES}
    check_choice("rounding", own["rounding"], ROUNDINGS)
    check_flag("symmetric", own["symmetric"])
    check_engine(own["engine"])
    start, stop = check_integer("start", own["start"], 0), own["stop"]
    stop = None if stop is None else check_integer("stop", stop, 0)
    if stop is not None and stop < start:
        raise ValueError(f"stop must not come before start, which is {start}, got {stop}")
    plain = own | {
        "mu": check_nonnegative("mu", own["mu"]),
        "sigma": check_finite("sigma", own["sigma"]),
        "gamma": _checked_pair("gamma", own["gamma"], check_gamma),
        "beta": _checked_pair("beta", own["beta"], check_beta),
        "noise": check_noise(own),
        "start": start,
        "stop": stop,
        "seed": check_seed_or_stream(own["seed"]),
    }
    return plain | check_force(plain, make_noises(plain))


def check_noise(own: Mapping[str, Any]) -> NoiseLike:
    """Return the noise, a noise or a pair of them; refuse a gamma or beta that it overrules."""
    noise = own["noise"]
    if noise is None:
        return None
    for each in pair("noise", noise):
        if isinstance(each, type) or not isinstance(each, Noise):
            raise TypeError(
                "noise must be an object, such as TelegraphNoise(20), or a pair (multiplicative, "
                f"additive) of them, got {noise!r}"
            )
    for name in ("gamma", "beta"):
        if own[name] != getattr(DEFAULTS, name):
            raise ValueError(
                f"noise={noise!r} says {name} itself, got {name}={own[name]!r} too; leave it out"
            )
    return tuple(noise) if isinstance(noise, list) else noise


def pair(name: str, value: Any) -> tuple[Any, Any]:
    """Return a value as a pair of it, and a pair (multiplicative, additive) as it is."""
    if not isinstance(value, (tuple, list)):
        return value, value
    if len(value) != 2:
        raise ValueError(
            f"{name} must be one value or a pair (multiplicative, additive), got {value!r}"
        )
    return value[0], value[1]


def _checked_pair(name: str, value: Any, check: Callable[[object], float]) -> Any:
    first, second = map(check, pair(name, value))
    return (first, second) if isinstance(value, (tuple, list)) else first


def check_learning_rate(lr: Any) -> float | Tensor:
    """Return ``lr``, a non-negative number or a tensor of one."""
    if type(lr) is float and 0.0 <= lr < math.inf:  # the usual case, looked at in every step
        return lr
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError(f"lr must have one element, got a tensor of shape {tuple(lr.shape)}")
    number = check_nonnegative("lr", float(lr) if isinstance(lr, Tensor) else lr)
    return lr if isinstance(lr, Tensor) else number


def refuse_unknown(
    names: Iterable[str], known: Iterable[str], prefix: str = "", what: str = "the perturbation"
) -> None:
    """Raise on a name that ``what`` does not have as a keyword, with the nearest one that it has.

    Examples:
        >>> refuse_unknown(["sigm"], NAMES)
        Traceback (most recent call last):
        TypeError: the perturbation has no keyword 'sigm'; did you mean 'sigma'?
    """
    known = list(known)
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            every = ", ".join(prefix + each for each in known)
            hint = f"did you mean {prefix + close[0]!r}?" if close else f"it has {every}"
            if name in RECIPE:
                hint = f"it is an argument of the optimizer: perturb(..., {name}=...), MPGD(...)"
            elif name in {field.name for field in fields(ChaoticNoise)}:
                hint = f"it belongs to the noise, {prefix}noise=ChaoticNoise(0.6, {name}=...)"
            raise TypeError(f"{what} has no keyword {prefix + name!r}; {hint}")


def make_noises(plain: Mapping[str, Any]) -> tuple[Noise, Noise]:
    """Return the multiplicative and the additive noise that keywords ask for."""
    if plain["noise"] is not None:
        return pair("noise", plain["noise"])
    gammas, betas = pair("gamma", plain["gamma"]), pair("beta", plain["beta"])
    engine = None if plain["engine"] == "triton" else plain["engine"]  # scalars stay on the CPU
    first, second = (
        ChaoticNoise(gamma, beta, engine=engine) for gamma, beta in zip(gammas, betas, strict=True)
    )
    return first, second
