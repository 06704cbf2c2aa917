"""A class of optimizers whose steps are perturbed, for clients that build one by its class.

The Trainer of transformers, timm, LightningCLI and configurations with ``partial`` want a class and
keyword arguments. `perturbed` makes one of any torch optimizer's class. A text can name those of
torch's own optimizers: ``mpgd.optim.PerturbedAdamW`` is ``perturbed(torch.optim.AdamW)``.
"""

from __future__ import annotations

import copyreg
import inspect
from functools import cache
from typing import Any, Final

import torch
from torch.optim import Optimizer

from mpgd.optim.perturbing import perturb
from mpgd.optim.wrapper import Perturbed

OURS = tuple(name for name in inspect.signature(perturb).parameters if name != "optimizer")
BEGINNING: Final = Perturbed.__name__


class Made(type):
    """The class of classes that `perturbed` makes; it tells `pickle` how to make them again."""


def _again(made: Any) -> str | tuple[Any, ...]:
    """Return how a made class is made again; a class that inherits from one has a place by name."""
    mine = perturbed(made._inner) is made
    return (perturbed, (made._inner,)) if mine else made.__qualname__


copyreg.pickle(Made, _again)


def named(name: str) -> type[Perturbed]:
    """Return the perturbed class of one of torch's own optimizers, such as ``"PerturbedAdamW"``."""
    inner = getattr(torch.optim, name.removeprefix(BEGINNING), None)
    is_known = isinstance(inner, type) and issubclass(inner, Optimizer) and inner is not Optimizer
    if not (is_known and name.startswith(BEGINNING)):
        raise AttributeError(f"module 'mpgd.optim' has no attribute {name!r}")
    return perturbed(inner)


@cache
def perturbed(inner: type[Optimizer], /) -> type[Perturbed]:
    """Return a class: ``inner``, with the keywords of `mpgd.perturb` besides its own.

    ``perturbed(AdamW)(params, lr=1e-3, sigma=0.1)`` is ``perturb(AdamW(params, lr=1e-3),
    sigma=0.1)``. The same inner class gives the same class; it and its objects can be pickled. A
    keyword that both know, such as the ``beta`` of some optimizers or ``fused``, goes to the inner
    optimizer; ours is then given in ``perturbation={"beta": 0.5}``, which takes any of ours.

    Args:
        inner: a class of torch optimizers.

    Examples:
        >>> import torch
        >>> PerturbedAdamW = perturbed(torch.optim.AdamW)
        >>> params = [torch.nn.Parameter(torch.ones(2))]
        >>> optimizer = PerturbedAdamW(params, lr=1e-3, weight_decay=0.1, sigma=0.01, gamma=0.7)
        >>> type(optimizer.inner).__name__, type(optimizer).__name__
        ('AdamW', 'PerturbedAdamW')
        >>> PerturbedAdamW is perturbed(torch.optim.AdamW)
        True
    """
    if not (isinstance(inner, type) and issubclass(inner, Optimizer)):
        raise TypeError(f"inner must be a class of torch optimizers, got {inner!r}")
    if issubclass(inner, Perturbed):
        raise ValueError(f"inner is {inner.__name__}, which is perturbed already")

    def start(
        self: Perturbed, *given: Any, perturbation: dict[str, Any] | None = None, **keywords: Any
    ) -> None:
        ours, theirs = _divided(inner, perturbation or {}, keywords)
        made = perturb(inner(*given, **theirs), **ours)
        self.__dict__.update(made.__dict__)
        self.__setstate__({})  # which gives the operators a number of this object

    start.__doc__ = f"Make `{inner.__name__}` of the parameters, and perturb it."
    start.__signature__ = _signature(inner)  # type: ignore[attr-defined]
    members = {"__init__": start, "_inner": inner, "__module__": "mpgd.optim"}
    members["__doc__"] = f"`{inner.__name__}` with perturbed steps, made by `mpgd.perturbed`."
    return Made(BEGINNING + inner.__name__, (Perturbed,), members)  # type: ignore[return-value]


def _divided(
    inner: type[Optimizer], given: dict[str, Any], keywords: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keywords of the perturbation and those of the inner optimizer."""
    unknown = given.keys() - set(OURS)
    if unknown:
        raise TypeError(f"perturbation takes {', '.join(OURS)}, got {sorted(unknown)}")
    own = set(OURS) - _names(inner)
    ours = {name: value for name, value in keywords.items() if name in own}
    twice = ours.keys() & given.keys()
    if twice:
        raise TypeError(f"{sorted(twice)} are given twice, as keywords and in perturbation")
    theirs = {name: value for name, value in keywords.items() if name not in own}
    return ours | given, theirs


def _names(inner: type[Optimizer]) -> set[str]:
    """Return the keywords that an optimizer's class names."""
    return set(inspect.signature(inner).parameters)


def _signature(inner: type[Optimizer]) -> inspect.Signature:
    """Return ``self``, the inner class's parameters, then ours that it does not know."""
    theirs = list(inspect.signature(inner).parameters.values())
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    plain = [p.replace(annotation=p.empty) for p in theirs if p.kind not in kinds]
    known = {p.name for p in theirs}
    default = inspect.signature(perturb).parameters
    ours = [default[name] for name in OURS if name not in known]
    last = inspect.Parameter("perturbation", inspect.Parameter.KEYWORD_ONLY, default=None)
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    return inspect.Signature([first, *plain, *ours, last])
