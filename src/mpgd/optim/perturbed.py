"""A perturbation in front of any torch optimizer.

    perturbed(AdamW)                a subclass of AdamW whose steps are perturbed
    perturb(optimizer, ...)         the same object, now of that class
    stochastic_rounding(optimizer)  the same, with rounded steps in place of perturbed ones

`mpgd.optim.mechanism` has the functions that the subclass gets.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import reduce
from importlib import import_module
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from mpgd.noise.stochastic_round import is_half
from mpgd.optim import rounding
from mpgd.optim.distributed import refuse_gradients
from mpgd.optim.mechanism import Perturbed
from mpgd.optim.settings import (
    KEYWORDS,
    NAMES,
    PREFIX,
    RECIPE,
    SGD_KEYWORDS,
    Keywords,
    Seed,
    refuse_unknown,
)

CLASS_PREFIX: Final = "Perturbed"  # as in PerturbedAdamW
CLASSES: Final[dict[type, type]] = {}  # inner class: the subclass that `perturbed` made


def perturbed(inner: type[Optimizer], /) -> Any:
    """Return the subclass of an optimizer's class whose steps are perturbed.

    For clients that build an optimizer by its class: the Trainer of transformers, LightningCLI,
    configurations. It takes the arguments of ``inner`` and the keywords of `mpgd.perturb`. Where
    both have a keyword of one name, it is the inner one's, and the perturbation's are given as a
    dictionary, ``perturbation={...}``. The same inner class always gives the same class.

    Examples:
        >>> PerturbedAdamW = perturbed(torch.optim.AdamW)
        >>> optimizer = PerturbedAdamW([torch.nn.Parameter(torch.ones(2))], lr=1e-3, force=0.1)
        >>> isinstance(optimizer, torch.optim.AdamW), PerturbedAdamW.__name__
        (True, 'PerturbedAdamW')
    """
    if inner in CLASSES:
        return CLASSES[inner]
    if not (isinstance(inner, type) and issubclass(inner, Optimizer)):
        raise TypeError(f"inner must be a class of torch optimizers, got {inner!r}")
    if issubclass(inner, Perturbed):
        raise ValueError(f"inner is {inner.__name__}, which is perturbed already")
    parameter, theirs = inspect.Parameter, inspect.signature(inner).parameters
    mine = [name for name in KEYWORDS if name not in theirs]
    takes_any = any(p.kind is parameter.VAR_KEYWORD for p in theirs.values())

    def start(
        self: Any, *given: Any, perturbation: dict[str, Any] | None = None, **keywords: Any
    ) -> None:
        own, more = {n: keywords.pop(n) for n in mine if n in keywords}, perturbation or {}
        refuse_unknown(more, KEYWORDS)
        if not takes_any:
            refuse_unknown(keywords, (*theirs, *mine, "perturbation"), what=type(self).__name__)
        if twice := own.keys() & more.keys():
            raise TypeError(f"{sorted(twice)} are given twice")
        inner.__init__(self, *given, **keywords)
        self._begin(own | more)

    # what clients read keywords from
    variable = (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    listed = [parameter("self", parameter.POSITIONAL_ONLY)]
    listed += [p.replace(annotation=p.empty) for p in theirs.values() if p.kind not in variable]
    defaults = vars(Keywords()) | dict.fromkeys((*RECIPE, "perturbation"))
    for name in (*mine, "perturbation"):
        listed.append(parameter(name, parameter.KEYWORD_ONLY, default=defaults[name]))
    start.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
    is_torchs = f"{inner.__module__}.".startswith("torch.optim.")  # Adafactor's is torch.optim
    place = "" if is_torchs else "@" + inner.__module__
    where = f"{CLASS_PREFIX}{inner.__qualname__}{place}".replace(".", "/")  # what pickles look up
    members: dict[str, Any] = {
        "__init__": start,
        "_bare": staticmethod(inspect.unwrap(inner.step)) if is_torchs else None,
        "__module__": "mpgd.optim",
        "__qualname__": where,
        "__doc__": f"`{inner.__name__}` whose parameters are perturbed before each step.",
    }
    metaclass: Any = type(inner)
    made = install(metaclass(CLASS_PREFIX + inner.__name__, (inner,), members))
    return CLASSES.setdefault(inner, made)


def install(made: Any) -> Any:
    """Put the functions of `Perturbed` into a direct subclass of an optimizer's class."""
    made._inner = made.__bases__[0]
    for name, member in vars(Perturbed).items():
        is_function = callable(member) or isinstance(member, (property, staticmethod))
        if (is_function or name in ("_prefix", "_bare")) and name not in vars(made):
            setattr(made, name, member)
    Perturbed.register(made)
    return made


def find_class(name: str) -> Any:
    """Return the perturbed class of one of torch's optimizers, ``"PerturbedAdamW"`` say.

    In pickles, ``"PerturbedLion@package/module"`` is that of another library's.
    """
    kind, _, place = name.removeprefix(CLASS_PREFIX).partition("@")
    inner: Any = None
    if name.startswith(CLASS_PREFIX):
        home: Any = import_module(place.replace("/", ".")) if place else torch.optim
        inner = reduce(lambda found, part: getattr(found, part, None), kind.split("/"), home)
    if not isinstance(inner, type) or inner is Optimizer:
        raise AttributeError(f"module 'mpgd.optim' has no attribute {name!r}")
    return perturbed(inner)


def perturb(
    optimizer: Optimizer,
    *,
    strength: float | None = None,
    steps: int | None = None,
    **keywords: Any,
) -> Any:
    """Perturb the steps of an optimizer: the same object, of a subclass of its class.

    Before each step every parameter with a gradient is displaced, x <- x - m x + n with
    m = mu lr^gamma v1 and n = sigma lr^gamma v2; then the optimizer takes its own step. All it was
    before it still is: an instance of its class, with its state, groups, hooks and schedulers. Its
    checkpoints have further entries named ``perturbation.…``; a plain checkpoint of it loads too.

    Args:
        optimizer: any torch optimizer.
        strength: how far a typical weight is pushed over the whole training, in units of the
            weights' root mean square; up to 0.3 did no significant harm in our studies. It sets
            ``force`` and ``stop``, and needs ``steps``.
        steps: how many steps the training takes.
        **keywords: of the perturbation, as `mpgd.MPGD` describes them: ``force, decay, sigma, mu,
            gamma, beta, symmetric, noise, start, stop, seed, rounding, engine``.

    Examples:
        >>> model = torch.nn.Linear(3, 1)
        >>> optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        >>> optimizer = perturb(optimizer, strength=0.2, steps=3000)
        >>> isinstance(optimizer, torch.optim.AdamW)
        True
    """
    if isinstance(optimizer, Perturbed):
        raise ValueError(
            "optimizer is perturbed or rounded already: change the settings in its groups, or "
            "perturb first, then stochastic_rounding"
        )
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"optimizer must be a torch optimizer, got {type(optimizer).__name__}")
    refuse_unknown(keywords, KEYWORDS)
    states = [state for state in optimizer.state.values() if isinstance(state, dict)]
    if any(name.startswith(PREFIX) for state in states for name in map(str, state)):
        raise ValueError(
            "optimizer has loaded a checkpoint of a perturbed one: perturb it first, then load"
        )
    kind, replaced = type(optimizer), vars(optimizer).get("step")
    if replaced is not None and not getattr(replaced, "_wrapped_by_lr_sched", False):
        raise ValueError("optimizer.step was replaced in this object: perturb it before that")
    made: type = perturbed(kind)
    try:
        optimizer.__class__ = made
    except TypeError as error:
        raise TypeError(
            f"the class of this {kind.__name__} cannot be set ({error}): build it as "
            f"perturbed({kind.__name__})(...)"
        ) from error
    vars(optimizer).pop("step", None)  # a scheduler's wrapper around the old one
    try:
        optimizer._begin(keywords | {"strength": strength, "steps": steps})  # type: ignore[attr-defined]
    except Exception:
        optimizer.__class__ = kind
        if replaced is not None:
            optimizer.step = replaced  # type: ignore[method-assign]
        raise
    return optimizer


def stochastic_rounding(
    optimizer: Optimizer,
    *,
    state_dtype: torch.dtype | None = None,
    seed: Seed = 0,
    free_gradients: bool = False,
) -> Any:
    """Round the steps of bfloat16 and float16 parameters stochastically: no small step is lost.

    The same object, of a subclass of its class, as with `mpgd.perturb`. Its own step works on
    float32 stand-ins of about a million elements at a time, which are then rounded into the
    parameters. The chance is a function of (seed, parameter, element, step), so the bits do not
    depend on the sharding, and resume from `state_dict`. Parameters in full precision are stepped
    as ever. An optimizer that couples tensors is stepped whole, and a warning says so.

    Args:
        optimizer: any torch optimizer; one that is perturbed keeps its noise and its seed.
        state_dtype: ``torch.bfloat16`` keeps states of a parameter's shape, such as AdamW's
            moments, in that type, rounded stochastically too. None: in float32.
        seed: of the chance: a number, or (number, name).
        free_gradients: set a gradient to None as soon as its step is taken.

    Examples:
        >>> model = torch.nn.Linear(3, 1, dtype=torch.bfloat16)
        >>> optimizer = stochastic_rounding(torch.optim.AdamW(model.parameters(), lr=1e-3))
        >>> model(torch.ones(5, 3, dtype=torch.bfloat16)).square().mean().backward()
        >>> optimizer.step()
        >>> optimizer.state[model.weight]["exp_avg"].dtype
        torch.float32
    """
    if state_dtype not in (None, torch.bfloat16):
        raise ValueError(
            "state_dtype must be torch.bfloat16 or None, as float16 loses small squares of "
            f"gradients, got {state_dtype}"
        )
    if not isinstance(optimizer, Perturbed):
        perturb(optimizer, rounding="stochastic", seed=seed)
    elif seed != 0:
        raise ValueError(
            f"optimizer is perturbed and has a seed already, got seed={seed!r}: leave it out"
        )
    made: Any = optimizer
    for group in made.param_groups:
        group[made._prefix + "rounding"] = "stochastic"
    made._rounding = rounding.Rounding(state_dtype, free_gradients)
    if not any(is_half(p.dtype) for group in made.param_groups for p in group["params"]):
        warnings.warn(
            "no parameter is bfloat16 or float16, so nothing is rounded and state_dtype has no "
            "effect: call model.bfloat16() first",
            UserWarning,
            stacklevel=2,
        )
    made._fit()
    return made


def step_in_backward(optimizer: Any) -> list[Any]:
    """Let each parameter take its step in the backward pass, and free its gradient at once.

    So the gradients of a model are never there together. There is no call of ``step``, one backward
    pass is one step, and nothing can clip or accumulate gradients. Torch copies no hooks: call this
    again for a deep copy of the model and the optimizer, which otherwise takes no step.

    Args:
        optimizer: one of torch's own, after `mpgd.stochastic_rounding` or `mpgd.perturb`.

    Returns:
        The handles of the hooks; ``handle.remove()`` takes one away.

    Examples:
        >>> model = torch.nn.Linear(3, 1, dtype=torch.bfloat16)
        >>> optimizer = stochastic_rounding(torch.optim.AdamW(model.parameters(), lr=0.1))
        >>> handles = step_in_backward(optimizer)
        >>> before = model.weight.detach().clone()
        >>> model(torch.ones(5, 3, dtype=torch.bfloat16)).square().mean().backward()
        >>> model.weight.grad is None, torch.equal(model.weight, before)
        (True, False)
    """
    if not isinstance(optimizer, Perturbed):
        raise TypeError("optimizer must be perturbed or rounded: see mpgd.stochastic_rounding")
    made: Any = optimizer
    settings = made._ready()
    if made._bare is None:
        raise ValueError(
            f"{made._inner.__name__} may couple tensors: only torch's own optimizers can step in "
            "the backward pass"
        )
    rounding.is_needed(made, settings)

    def take_step(p: Tensor) -> None:
        made._opt_called = True
        settings = made._ready()
        refuse_gradients([p])
        groups = enumerate(made.param_groups)
        number = next(k for k, group in groups if any(p is own for own in group["params"]))
        rounding.step_parts(made, settings, [{number: [p]}])
        p.grad = None

    params = [p for group in made.param_groups for p in group["params"]]
    return [p.register_post_accumulate_grad_hook(take_step) for p in params if p.requires_grad]


def param_groups(
    model: nn.Module,
    perturb: Callable[[str, Tensor], bool] | str = "all",
    *,
    wrapped: bool = False,
    **settings: Any,
) -> list[dict[str, Any]]:
    """Return two groups: the parameters to perturb, with ``settings``, and the rest, plain.

    Args:
        model: whose parameters.
        perturb: a function of (name, parameter), or ``"all"``, ``"first"`` (the first module
            with parameters of its own, the input layer), ``"matrices"`` (no biases and norms:
            parameters of at least two dimensions).
        wrapped: whether the groups are for `mpgd.perturb` or `mpgd.perturbed`, whose settings have
            the prefix ``perturbation.``.
        settings: of the perturbed group, such as ``mu`` and ``sigma``.

    Examples:
        >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        >>> groups = param_groups(model, perturb="first", mu=0.03, sigma=0.01)
        >>> [len(group["params"]) for group in groups], groups[1]["mu"]
        ([2, 2], 0.0)
    """
    prefix = PREFIX if wrapped else ""
    refuse_unknown(settings, NAMES if wrapped else ("lr", *NAMES, *SGD_KEYWORDS), prefix)
    owners = [m for m in model.modules() if any(True for _ in m.parameters(recurse=False))]
    first = {id(p) for owner in owners[:1] for p in owner.parameters(recurse=False)}
    choices: dict[Any, Callable[[str, Tensor], bool]] = {
        "all": lambda name, p: True,
        "matrices": lambda name, p: p.dim() >= 2,
        "first": lambda name, p: id(p) in first,
    }
    if not callable(perturb) and perturb not in choices:
        raise ValueError(
            f"perturb must be a function or one of 'all', 'first', 'matrices', got {perturb!r}"
        )
    chosen = perturb if callable(perturb) else choices[perturb]
    named = list(model.named_parameters())
    is_inside = [bool(chosen(name, p)) for name, p in named]
    if not any(is_inside):
        raise ValueError(f"perturb chose none of {[name for name, _ in named]}")
    groups: list[dict[str, Any]] = []
    plain = {"mu": 0.0, "sigma": 0.0, "force": None, "decay": None}
    for which, own in ((True, settings), (False, plain)):
        params = [pair for pair, is_in in zip(named, is_inside, strict=True) if is_in is which]
        groups.append({"params": params} | {prefix + name: own[name] for name in own})
    return groups if groups[1]["params"] else groups[:1]
