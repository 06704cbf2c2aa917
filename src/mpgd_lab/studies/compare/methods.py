"""The methods that are compared, and the configurations among which each is tuned.

    x' = x - lr (g + w x) - m x + n,     m = M lr v / c0,     n = F lr v / c0

v is chaotic, normal with the chaotic driver's variance, or stable of its index; c0 is the value of
a laminar phase, so F is a force in units of the gradient and M a decay in units of curvature.
Methods have equally many configurations on a task. Those with a ``base`` use its best step size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mpgd_lab.studies.compare.tasks import Task

Configuration = Mapping[str, Any]  # hyperparameters of a run that a method sets

GAMMA: Final = 0.6
BETA: Final = 0.0
DWELL: Final = 20  # steps of a telegraph's phase; the time of coloured noise
LONGEST: Final = 20  # steps of a capped phase
ADAMW_DECAY: Final = 0.01
ADAMW_STEP: Final = 0.03  # its step size on functions, where MPGD perturbs it
BATCHED: Final = ("sgd", "gaussian sgd", "telegraph sgd", "mpgd sgd")
ABSENT: Final[Mapping[str, frozenset[str]]] = {  # methods that a kind of task does not have
    "function": frozenset({*BATCHED, "gaussian neuron", "mpgd neuron"}),
    "examples": frozenset({"gaussian neuron", "mpgd neuron"}),
    "pruning": frozenset({*BATCHED, "adamw", "mpgd adamw"}),
}
KINDS: Final[Mapping[str, frozenset[str]]] = {
    "chaotic": frozenset({"chaotic"}),
    "telegraph or coloured": frozenset({"telegraph", "coloured"}),
    "white": frozenset({"gaussian", "annealed", "matched", "anti", "stable"}),
}


@dataclass(frozen=True)
class Method:
    """How a run moves."""

    name: str  # its name in a run
    title: str  # its name in a table
    knob: str  # the hyperparameter that is tuned
    base: str | None = "descent"  # the method whose tuned step size it uses and it is compared with
    rule: str = "descent"  # what is done with the gradient: descent, sharpness or adam
    noise: str = "none"  # one of `noise_terms.KINDS`
    place: str = "additive"  # or multiplicative
    longest: int | None = None  # steps of the longest phase
    burst: bool = True  # whether a visit to Z has a value of its own
    per: str = "weight"  # or neuron: what has a driver of its own

    @property
    def kind(self) -> str:
        """The kind of its noise, one of `KINDS`; empty without noise."""
        return next((kind for kind, noises in KINDS.items() if self.noise in noises), "")


METHODS: Final = (
    Method("descent", "descent", "lr", base=None),
    Method("weight decay", "weight decay", "weight_decay"),
    Method("sgd", "mini-batches", "batch"),
    Method("gaussian", "Gaussian, additive", "force", noise="gaussian"),
    Method(
        "gaussian multiplicative",
        "Gaussian, multiplicative",
        "decay",
        noise="gaussian",
        place="multiplicative",
    ),
    Method("annealed", "Gaussian, annealed", "force", noise="annealed"),
    Method("matched", "Gaussian, as far as MPGD", "force", noise="matched"),
    Method("coloured", "Gaussian, coloured", "force", noise="coloured"),
    Method("telegraph", "telegraph", "force", noise="telegraph"),
    Method(
        "telegraph multiplicative",
        "telegraph, multiplicative",
        "decay",
        noise="telegraph",
        place="multiplicative",
    ),
    Method("anti", "Anti-PGD", "anti", noise="anti"),
    Method("sam", "SAM", "rho", rule="sharpness"),
    Method("stable", "stable", "force", noise="stable"),
    Method("mpgd", "MPGD, additive", "force", noise="chaotic"),
    Method(
        "mpgd multiplicative",
        "MPGD, multiplicative",
        "decay",
        noise="chaotic",
        place="multiplicative",
    ),
    Method("mpgd capped", "MPGD, capped", "force", noise="chaotic", longest=LONGEST),
    Method("mpgd smooth", "MPGD without bursts", "force", noise="chaotic", burst=False),
    Method("gaussian neuron", "Gaussian, per neuron", "force", noise="gaussian", per="neuron"),
    Method("mpgd neuron", "MPGD, per neuron", "force", noise="chaotic", per="neuron"),
    Method("gaussian sgd", "Gaussian on mini-batches", "force", base="sgd", noise="gaussian"),
    Method("telegraph sgd", "telegraph on mini-batches", "force", base="sgd", noise="telegraph"),
    Method("mpgd sgd", "MPGD on mini-batches", "force", base="sgd", noise="chaotic"),
    Method("adamw", "AdamW", "adam_lr", rule="adam"),
    Method("mpgd adamw", "MPGD with AdamW", "adam_force", "adamw", "adam", "chaotic"),
)
BY_NAME: Final = {method.name: method for method in METHODS}
FIRST: Final = ("descent", "sgd", "adamw")  # tuned first: others use their step sizes


def methods_of(task: Task) -> list[Method]:
    """Return the methods that are compared on a task, in the order of the tables."""
    absent = ABSENT[task.kind] | ({"matched"} if task.is_function else set())
    return [method for method in METHODS if method.name not in absent]


def configurations(
    task: Task, method: Method, chosen: Configuration, count: int | None = None
) -> list[Configuration]:
    """Return what a method is tuned among, given the configuration ``chosen`` for its base.

    ``count`` is at most the task's own number.
    """
    options = _configurations(task, method, chosen)
    return options[: count or len(options)]


def _configurations(task: Task, method: Method, chosen: Configuration) -> list[Configuration]:
    if method.knob == "lr":
        return [_plain(task, task.lr * factor) for factor in task.step_sizes]
    if method.knob == "batch":
        factors = task.step_sizes[1::2]
        return [_batches(task, size, task.lr * f) for size in task.batches for f in factors]
    levels = _levels(task, method.knob)
    if method.knob == "adam_lr":
        return [_plain(task, lr) | {"weight_decay": ADAMW_DECAY} for lr in levels]
    if method.knob in ("weight_decay", "rho"):
        return [{**chosen, method.knob: level} for level in levels]
    return [{**chosen, **_noise(method, level)} for level in levels]


def _plain(task: Task, lr: float) -> dict[str, Any]:
    return {"lr": lr, "steps": task.steps}


def _batches(task: Task, size: int, lr: float) -> Configuration:
    """Return a configuration with as many example gradients as descent has."""
    return {"lr": lr, "batch": size, "steps": task.steps * task.examples // size}


def _levels(task: Task, knob: str) -> Sequence[float]:
    """Return the levels of a knob, rounded so that their text is short."""
    first = task.first[knob]
    return [float(f"{first * task.ratio**k:.3g}") for k in range(task.configurations)]


def _noise(method: Method, level: float) -> dict[str, Any]:
    shaped = {"gamma": GAMMA, "beta": BETA, "place": method.place, "level": level}
    capped = {"longest": method.longest} if method.longest else {}
    smooth = {} if method.burst else {"burst": False}
    lasting = {"telegraph": {"dwell": DWELL}, "coloured": {"time": DWELL}}.get(method.noise, {})
    return {"noise": method.noise, **shaped, "per": method.per, **capped, **smooth, **lasting}
