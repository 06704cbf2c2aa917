"""The keywords of a perturbation, and the frozen value that a group's keywords become.

The keywords live in an optimizer's parameter groups, because those are what schedulers change and
what `state_dict`, `deepcopy` and `pickle` keep. In the groups of a wrapped optimizer they have a
prefix, so that they never meet a setting of the same name there. A step reads none of them: it
works with a `Settings`, made from a group once and again only when somebody changed the group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import torch
from torch import Tensor
from torch._compile import _disable_dynamo

from mpgd.noise import ChaoticNoise, GaussianNoise, Noise, StableNoise
from mpgd.noise.counter_hash import make_key, seed_of
from mpgd.noise.driver import Driver
from mpgd.noise.engines import check_engine, check_kernel
from mpgd.noise.force import check_force, effective_sizes
from mpgd.noise.stochastic_rounding import is_half
from mpgd.parameters import (
    FIRST_SIGNS,
    SIGN_RULES,
    check_beta,
    check_choice,
    check_finite,
    check_flag,
    check_gamma,
    check_integer,
    check_longest,
    check_nonnegative,
    check_seed,
    check_stream,
)

Pair = float | tuple[float, float]  # a number for both noises, or (multiplicative, additive)
NoiseLike = str | Noise | tuple[Noise, Noise]

KINDS: Final = ("chaotic", "gaussian", "stable")
SCALINGS: Final = ("matched", "langevin")
ROUNDINGS: Final = ("nearest", "stochastic")
ORBITS: Final = ("multiplicative", "additive")
COMMON: Final = ("signs", "first_sign", "engine", "longest")  # of two noises that keywords can say
TWIN: Final = 2  # drivers 0 and 1 have 2 and 3 as twins


@dataclass(frozen=True)
class Keywords:
    """The keywords of a perturbation; their defaults stand here and nowhere else."""

    mu: float = 0.0
    sigma: float = 0.0
    gamma: Pair = 0.6
    beta: Pair = 0.0
    symmetric: bool = False
    noise: NoiseLike = "chaotic"
    scaling: str = "matched"
    signs: str = "fresh"
    first_sign: str = "drawn"
    shared_multiplicative: bool = False
    start: int = 0
    stop: int | None = None
    seed: int = 0
    engine: str | None = None
    longest: int | None = None
    force: float | None = None
    decay: float | None = None
    stream: int | str | None = None
    rounding: str = "nearest"


DEFAULTS: Final = Keywords()
NAMES: Final = tuple(field.name for field in fields(Keywords))
PREFIX: Final = "perturbation."  # of our keys among those of a wrapped optimizer


@dataclass(frozen=True, eq=False)
class Settings:
    """What a step needs to know about a group.

    Attributes:
        mu: the size of the multiplicative perturbation, or decay / c0.
        sigma: the size of the additive one, or force / c0.
        noises: the multiplicative and the additive noise.
        exponents: the powers of eta in front of them.
        twins: whether each noise is the difference of two independent ones.
        shared: whether one scalar driver multiplies all coordinates.
        start: the first step that is perturbed.
        stop: the first step that is not any more.
        seed: of the noise; with a stream, the hash of both.
        drivers: what the compiled kernels know of the noises; None for one they do not know.
        engine: the engine that was asked for; ``"torch"`` if kernels do not know a noise in use.
        orbits: (name, which noise, driver number) of every orbit that a parameter holds.
        tables: identifies the tables that the noises come from; None where there are none.
        rounds: whether half types are rounded stochastically.
    """

    mu: float
    sigma: float
    noises: tuple[Noise, Noise]
    exponents: tuple[float, float]
    twins: bool
    shared: bool
    start: int
    stop: int | None
    seed: int
    drivers: tuple[Driver | None, Driver | None]
    engine: str | None
    orbits: tuple[tuple[str, int, int], ...]
    tables: int | None
    rounds: bool

    @property
    def is_perturbed(self) -> bool:
        """Whether the group's parameters are perturbed at all."""
        return bool(self.mu or self.sigma)

    def is_needed(self, dtype: torch.dtype) -> bool:
        """Whether a parameter of ``dtype`` needs a state: a key and a count of its steps."""
        return self.is_perturbed or (self.rounds and is_half(dtype))

    @property
    def sizes(self) -> tuple[float, float]:
        """Mu and sigma."""
        return self.mu, self.sigma

    @property
    def shared_orbits(self) -> tuple[tuple[str, int], ...]:
        """(name, driver number) of the orbits that a group's first parameter holds for all."""
        if not (self.shared and self.noises[0].has_orbit):
            return ()
        return (("shared", 0), ("shared_twin", TWIN)) if self.twins else (("shared", 0),)


class Current:
    """The settings of each group, made again only when somebody changed the group.

    Args:
        prefix: of the keywords' names in the groups.

    Attributes:
        is_new: whether some were made that the states have not been fitted to.
    """

    def __init__(self, prefix: str = "") -> None:
        self.is_new = False
        self._names = [prefix + name for name in NAMES]
        self._made: dict[int, tuple[list[Any], Settings]] = {}

    def of(self, number: int, group: Mapping[str, Any]) -> Settings:
        """Return the settings of group ``number``; a value out of range is an error."""
        values = [group[name] for name in self._names]
        made = self._made.get(number)
        return self._make(number, values) if made is None or made[0] != values else made[1]

    @_disable_dynamo  # no compiler can follow how tables are made
    def _make(self, number: int, values: list[Any]) -> Settings:
        settings = make_settings(dict(zip(NAMES, values, strict=True)))
        kept = [list(v) if isinstance(v, list) else v for v in values]  # lists may change
        self._made[number] = (kept, settings)
        self.is_new = True
        return settings


def keywords_in(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of a perturbation that a group holds, under their prefix or without it.

    Examples:
        >>> keywords_in({"sigma": 9.0, "perturbation.sigma": 0.1})["sigma"]
        0.1
    """
    own = {name.removeprefix(PREFIX): v for name, v in group.items() if name.startswith(PREFIX)}
    found = own or {name: group[name] for name in NAMES if name in group}
    return {**vars(DEFAULTS), **found}


def make_settings(group: Mapping[str, Any]) -> Settings:
    """Return the settings of a group; an error names the keyword, the rule and the value."""
    plain = check_keywords(group)
    noises, twins = _noises(plain)
    both = (_driver(noises[0]), _driver(noises[1]))
    (mu, sigma), exponents = effective_sizes(plain, noises, _exponents(plain, noises))
    shared = bool(plain["shared_multiplicative"] and mu)
    return Settings(
        mu=mu,
        sigma=sigma,
        noises=noises,
        exponents=exponents,
        twins=twins,
        shared=shared,
        start=plain["start"],
        stop=plain["stop"],
        seed=seed_of(plain["seed"], plain["stream"]),
        drivers=both,
        engine=plain["engine"] if any(both) and _is_known((mu, sigma), both) else "torch",
        orbits=_orbits((bool(mu) and not shared, bool(sigma)), noises, twins),
        tables=_tables(both),
        rounds=plain["rounding"] == "stochastic",
    )


def find_engine(group: Mapping[str, Any], fused: Any, params: Any) -> str | None:
    """Return the engine that ``fused`` means for a group of parameters.

    Torch's own optimizers keep a ``fused`` of theirs in the groups that `perturb` shares with them.
    So ours is said by the keyword ``engine``, once, when a group is made.

    Args:
        group: the keywords of the group.
        fused: None: kernels where there are some. True: an error where there is none. False: torch
            operations only.
        params: its parameters.
    """
    engine: str | None = check_keywords(group)["engine"]
    if fused is None and engine != "triton":
        return engine
    if fused is not None:
        check_flag("fused", fused)
        if fused == (engine == "torch") and engine is not None:
            raise ValueError(
                f"fused={fused} and engine={engine!r} contradict each other: leave one of them out"
            )
    if fused is False:
        return "torch"
    settings = make_settings(group)
    if settings.engine == "torch" and engine != "torch":
        raise ValueError(
            f"kernels know chaotic and normal noise, got noise={group['noise']!r}; leave engine "
            "and fused out, and torch operations do the same"
        )
    found = {
        check_kernel(engine, p.device, p.real.dtype if p.is_complex() else p.dtype) for p in params
    }
    return found.pop() if len(found) == 1 else engine


def check_keywords(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of a group as plain values, fit for a checkpoint.

    A `ChaoticNoise` becomes the keywords that say the same. Other noises stay objects, as a pair.
    """
    own = _in_words({name: group[name] for name in NAMES})
    for name, choices in (
        ("scaling", SCALINGS),
        ("signs", SIGN_RULES),
        ("first_sign", FIRST_SIGNS),
        ("rounding", ROUNDINGS),
    ):
        check_choice(name, own[name], choices)
    for flag in ("symmetric", "shared_multiplicative"):
        check_flag(flag, own[flag])
    start, stop = check_integer("start", own["start"], 0), own["stop"]
    if stop is not None:
        stop = check_integer("stop", stop, 0)
        if stop < start:
            raise ValueError(f"stop must not come before start, which is {start}, got {stop}")
    check_engine(own["engine"])
    longest = check_longest(own["longest"])
    if longest is not None and own["noise"] not in ("chaotic", "gaussian"):
        raise ValueError(
            f"longest cuts the phases of chaotic noise, got longest={longest} with "
            f"noise={own['noise']!r}; leave one of them out"
        )
    check_stream(own["stream"])
    return own | {
        "mu": check_nonnegative("mu", own["mu"]),
        "sigma": check_finite("sigma", own["sigma"]),
        "gamma": _plain("gamma", own["gamma"], check_gamma),
        "beta": _plain("beta", own["beta"], check_beta),
        "start": start,
        "stop": stop,
        "seed": check_seed(own["seed"]),
        "longest": longest,
        **check_force(own),
    }


def _plain(name: str, value: Any, check: Callable[[object], float]) -> Any:
    first, second = (check(number) for number in pair(name, value))
    return (first, second) if isinstance(value, (tuple, list)) else first


def pair(name: str, value: Any) -> tuple[Any, Any]:
    """Return a value as a pair of it, and a pair (multiplicative, additive) as it is."""
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise ValueError(
                f"{name} must be one value or a pair (multiplicative, additive), got {value!r}"
            )
        return value[0], value[1]
    return value, value


def check_learning_rate(lr: Any) -> float | Tensor:
    """Return ``lr``, a non-negative number or a tensor of one."""
    if isinstance(lr, Tensor):
        if lr.numel() != 1:
            raise ValueError(f"lr must have one element, got a tensor of shape {tuple(lr.shape)}")
        check_nonnegative("lr", float(lr))
        return lr
    if type(lr) is float and 0.0 <= lr < math.inf:  # the usual case, looked at in every step
        return lr
    return check_nonnegative("lr", lr)


# The kinds of noise are told apart below, and nowhere else in the optimizers. ---------------------


def _in_words(own: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords with two `ChaoticNoise` of one kind as words and numbers."""
    if isinstance(own["noise"], str):
        check_choice("noise", own["noise"], KINDS)
        return own
    both = pair("noise", own["noise"])
    for noise in both:
        if isinstance(noise, type) or not isinstance(noise, Noise):
            raise TypeError(
                f"noise must be one of {', '.join(map(repr, KINDS))}, a noise such as "
                f"ChaoticNoise(0.6), or a pair of noises, got {own['noise']!r}"
            )
    first, second = both
    alike = isinstance(first, ChaoticNoise) and isinstance(second, ChaoticNoise)
    if not alike or any(getattr(first, name) != getattr(second, name) for name in COMMON):
        return own | {"noise": both}
    values = {name: getattr(first, name) for name in COMMON}
    for name in ("gamma", "beta"):
        a, b = getattr(first, name), getattr(second, name)
        values[name] = a if a == b else (a, b)
    values["engine"] = first.engine if first.engine is not None else own["engine"]
    for name, value in values.items():
        if own[name] != getattr(DEFAULTS, name) and own[name] != value:
            raise ValueError(f"noise says {name}={value!r}, but {name}={own[name]!r} was given too")
    return own | {"noise": "chaotic"} | values


def _noises(plain: Mapping[str, Any]) -> tuple[tuple[Noise, Noise], bool]:
    """Return both noises, and whether each has a twin.

    A normal noise given as a word has twice the variance instead of a twin.
    """
    if not isinstance(plain["noise"], str):
        return plain["noise"], plain["symmetric"]
    gammas, betas = pair("gamma", plain["gamma"]), pair("beta", plain["beta"])
    first, second = (_noise(plain, *each) for each in zip(gammas, betas, strict=True))
    return (first, second), plain["symmetric"] and plain["noise"] != "gaussian"


def _noise(plain: Mapping[str, Any], gamma: float, beta: float) -> Noise:
    if plain["noise"] == "stable":
        return StableNoise(1.0 / gamma, beta)
    engine = None if plain["engine"] == "triton" else plain["engine"]  # scalars stay on the CPU
    rules = (plain["signs"], engine, plain["first_sign"], plain["longest"])
    chaotic = ChaoticNoise(gamma, beta, *rules)
    if plain["noise"] == "chaotic":
        return chaotic
    if plain["scaling"] == "langevin":
        return GaussianNoise(1.0)
    return GaussianNoise(chaotic.variance * (2.0 if plain["symmetric"] else 1.0))


def _exponents(plain: Mapping[str, Any], noises: tuple[Noise, Noise]) -> tuple[float, float]:
    """Return the powers of eta: the noise's own, but gamma for a Gaussian matched to chaos."""
    kind = plain["noise"]
    if not isinstance(kind, str) or (kind, plain["scaling"]) == ("gaussian", "langevin"):
        return noises[0].exponent, noises[1].exponent
    gamma = pair("gamma", plain["gamma"])
    return float(gamma[0]), float(gamma[1])


def _is_known(used: tuple[float, float], drivers: tuple[Driver | None, Driver | None]) -> bool:
    """Return whether the compiled kernels know all noises in use."""
    return all(d or not size for d, size in zip(drivers, used, strict=True))


def _driver(noise: Noise) -> Driver | None:
    """Return what the compiled kernels know of a noise."""
    return noise.driver if isinstance(noise, (ChaoticNoise, GaussianNoise)) else None


def _tables(drivers: tuple[Driver | None, Driver | None]) -> int | None:
    """Return what identifies the tables that the noises' bits come from."""
    return make_key(*(d.fingerprint if d else 0 for d in drivers)) if any(drivers) else None


def _orbits(
    used: tuple[bool, bool], noises: tuple[Noise, Noise], twins: bool
) -> tuple[tuple[str, int, int], ...]:
    own = [(ORBITS[k], k, k) for k in (0, 1) if used[k] and noises[k].has_orbit]
    again = [(f"{name}_twin", k, k + TWIN) for name, k, _ in own]
    return tuple(own + (again if twins else []))
