"""A class of optimizers whose steps are perturbed, for clients that build one by its class.

The Trainer of transformers, timm, LightningCLI and configurations with ``partial`` want a class and
keyword arguments. `perturbed` makes one of any torch optimizer's class.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any

from torch.optim import Optimizer

from mpgd.optim.perturbing import perturb
from mpgd.optim.wrapper import Perturbed

OURS = tuple(name for name in inspect.signature(perturb).parameters if name != "optimizer")


@lru_cache(maxsize=256)
def perturbed(inner: type[Optimizer], /) -> type[Perturbed]:
    """Return a class: ``inner``, with the keywords of `mpgd.perturb` besides its own.

    ``perturbed(AdamW)(params, lr=1e-3, sigma=0.1)`` is ``perturb(AdamW(params, lr=1e-3),
    sigma=0.1)``. The same inner class gives the same class, and its objects can be pickled. A
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
    members = {"__init__": start, "__reduce_ex__": _reduced, "_inner": inner}
    made = type(f"Perturbed{inner.__name__}", (Perturbed,), members)
    made.__doc__ = f"`{inner.__name__}` with perturbed steps, made by `mpgd.perturbed`."
    made.__module__ = __name__
    made.__signature__ = _signature(inner)  # type: ignore[attr-defined]
    return made


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
    """Return the inner class's parameters, then ours that it does not know, as keywords."""
    theirs = list(inspect.signature(inner).parameters.values())
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    plain = [p.replace(annotation=p.empty) for p in theirs if p.kind not in kinds]
    known = {p.name for p in theirs}
    default = inspect.signature(perturb).parameters
    ours = [default[name] for name in OURS if name not in known]
    last = inspect.Parameter("perturbation", inspect.Parameter.KEYWORD_ONLY, default=None)
    return inspect.Signature([*plain, *ours, last])


def _reduced(self: Any, _: Any) -> tuple[Any, ...]:
    return _empty, (type(self)._inner,), self.__getstate__()


def _empty(inner: type[Optimizer]) -> Perturbed:
    """Return an object of a made class without its contents, for `pickle` and `copy`."""
    return object.__new__(perturbed(inner))  # type: ignore[arg-type]
