"""A scheme: how one row of a table perturbs descent, as a value.

Its fields are hyperparameters of a run, and its text is the row's name:

    gd                          no noise
    sgd                         no noise, mini-batches
    langevin [variant]          Gaussian, prefactor eta^(1/2)
    gaussian [variant gamma]    Gaussian of that MPGD's variance, or the authors' own
    gaussian ... over n steps   Gaussian that moves as far as that MPGD in n steps
    mpgd variant gamma beta b   chaotic, as the text says or as the authors' scripts draw it

A record's scheme is made again from its hyperparameters; its name is never taken apart.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, Final, Self

from mpgd.parameters import check_choice
from mpgd_lab.store import Run

Settings = dict[str, Any]

KINDS: Final = {  # the noise of a run, and what a table calls it
    "none": "gd",
    "matched": "gaussian",
    "released_gaussian": "gaussian",
    "langevin": "langevin",
    "chaotic": "mpgd",
    "switched": "mpgd",
    "mini-batches": "sgd",
}
ORDER: Final = ("gd", "gaussian", "langevin", "mpgd", "sgd")  # of the rows of a table
PLAIN, SYMMETRIC = "plain", "symmetric"
VARIANTS: Final = (PLAIN, SYMMETRIC)
SCRIPTED: Final = "script"  # how a run is computed: one net at a time
PRINTED_SIGNS: Final[Settings] = {
    "signs": "product",
    "first_sign": "positive",
}  # as the paper's text has them


@dataclass(frozen=True)
class Scheme:
    """How a run is perturbed; a field that is None is no hyperparameter of the run.

    Examples:
        >>> scheme = Scheme("chaotic", symmetric=False, gamma=0.6, beta=0.5, mu=0.01, sigma=0.02)
        >>> str(scheme), scheme.kind, scheme.variant
        ('mpgd plain 0.6 beta 0.5', 'mpgd', 'plain')
        >>> str(Scheme("langevin")), str(Scheme("none", batch=32))
        ('langevin', 'sgd')
    """

    noise: str = "none"  # a name in `KINDS`
    symmetric: bool | None = None  # whether differences of two drivers perturb
    gamma: float | None = None  # of the driver, or of the one whose variance a Gaussian has
    beta: float | None = None  # the skewness
    mu: float | None = None  # the multiplicative level
    sigma: float | None = None  # the additive level
    switches: tuple[str, ...] | None = None  # the authors' deviations that are on
    batch: int | None = None  # examples of a mini-batch
    steps: int | None = None  # where the scheme has a number of its own
    how: str | None = None  # "script" where one net is trained at a time, as the authors do
    dtype: str | None = None  # the precision, where it is not float64
    step: str | None = None  # how a step is rounded, where that is not the usual way
    signs: str | None = None  # the rule of the signs, where it is not the usual one
    first_sign: str | None = None  # likewise of the first sign
    matched_over: int | None = None  # steps in which a Gaussian moves as far; None: equal variance
    note: str = ""  # stands behind the name of a scheme that others would be taken for

    def __post_init__(self) -> None:
        check_choice("noise", self.noise, tuple(KINDS))

    @classmethod
    def of(cls, run: Run) -> Self:
        """Return the scheme of a run."""
        names = [field.name for field in fields(cls) if field.name in run.hyperparameters]
        values = {name: run.hyperparameters[name] for name in names}
        if "switches" in values:
            values["switches"] = tuple(values["switches"])
        return cls(**values)

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """What the scheme adds to a run's hyperparameters."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values = {
            name: value for name, value in values.items() if value is not None and name != "note"
        }
        return values | ({"switches": list(self.switches)} if self.switches is not None else {})

    @property
    def kind(self) -> str:
        """One of `ORDER`."""
        return "sgd" if self.batch else KINDS[self.noise]

    @property
    def variant(self) -> str | None:
        """Plain or symmetric; None where there is no such choice."""
        if self.symmetric is None and self.gamma is None:
            return None
        return SYMMETRIC if self.symmetric else PLAIN

    def __str__(self) -> str:
        gamma = f"{self.gamma:g}" if self.gamma is not None else None
        beta = f"beta {self.beta:g}" if self.beta is not None else None
        over = f"over {self.matched_over} steps" if self.matched_over else None
        return " ".join(filter(None, (self.kind, self.variant, gamma, beta, over, self.note)))


def is_scripted(run: Run) -> bool:
    """Return whether one net is trained at a time, as the authors' scripts do."""
    return run.hyperparameters.get("how") == SCRIPTED


def mpgd(gammas: Iterable[float], betas: Iterable[float], base: Scheme) -> list[Scheme]:
    """Return ``base`` for every gamma, beta and variant, in this order."""
    return [
        replace(base, gamma=gamma, beta=beta, symmetric=variant == SYMMETRIC)
        for gamma, beta, variant in product(gammas, betas, VARIANTS)
    ]


def chaotic(protocol: str, **settings: Any) -> Scheme:
    """Return MPGD under a protocol, with the printed signs if that is ``text``.

    Examples:
        >>> chaotic("text", mu=0.1).signs, chaotic("corrected", mu=0.1).signs
        ('product', None)
    """
    return Scheme("chaotic", **settings, **(PRINTED_SIGNS if protocol == "text" else {}))


def matched(gammas: Iterable[float], mu: float, sigma: float) -> list[Scheme]:
    """Return the Gaussian of every MPGD's variance, for both variants."""
    base = Scheme("matched", mu=mu, sigma=sigma)
    return [
        replace(base, symmetric=variant == SYMMETRIC, gamma=gamma)
        for variant, gamma in product(VARIANTS, gammas)
    ]


def gaussian_of(scheme: Scheme, others: Iterable[Scheme]) -> Scheme | None:
    """Return the Gaussian an MPGD row is compared with.

    That of its own variance, else the only one, else that of the plain variant's variance; never
    one that is matched over several steps.

    Examples:
        >>> str(gaussian_of(Scheme("chaotic", False, 0.6, 0.5), [Scheme("released_gaussian")]))
        'gaussian'
    """
    rivals = [s for s in others if s.kind == "gaussian" and not s.matched_over]
    gaussians = {(s.gamma, s.variant): s for s in rivals}
    only = next((other for (gamma, _), other in gaussians.items() if gamma is None), None)
    plain = gaussians.get((scheme.gamma, PLAIN))
    return gaussians.get((scheme.gamma, scheme.variant), only or plain)


def sort_key(scheme: Scheme) -> tuple[Any, ...]:
    """Return what rows of a table are sorted by: kind, skewness, variant, gamma."""
    return ORDER.index(scheme.kind), scheme.beta or 0.0, scheme.variant or "", scheme.gamma or 0.0


def runs_of(
    experiment: str, protocol: str, schemes: Iterable[Scheme], seeds: Iterable[int], fixed: Settings
) -> list[Run]:
    """Return a run for every scheme and seed; ``fixed`` is what they share."""
    return [
        Run(experiment, protocol, str(scheme), fixed | scheme.hyperparameters, seed)
        for scheme, seed in product(schemes, seeds)
    ]
