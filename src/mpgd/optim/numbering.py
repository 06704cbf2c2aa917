"""Which parameter of a model a tensor is, where an optimizer cannot count that itself.

The noise of a parameter depends on its ordinal. An optimizer counts the parameters it is given,
which is right if it is given all of a model in the model's order. It is not

    several optimizers for one model    each begins at 0 again
    ZeRO                                each rank's optimizer is given other parameters
    FSDP1                               the parameters are parts of the model's, made flat

`number_parameters` says it once, for all optimizers. ZeRO's order is found without it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final

from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from mpgd.optim.shards import note_offset

NUMBERED: Final = WeakIdKeyDictionary()  # parameter -> ordinal, as long as the parameter lives
WRAPPERS: Final = ("_fsdp_wrapped_module.", "module.")  # what FSDP1 and DDP put into names
FLAT: Final = "_flat_param"


def number_parameters(model: nn.Module, order: Iterable[str] | None = None) -> None:
    """Number the parameters of a model, so that each keeps its noise in whatever optimizer it is.

    Call it before optimizers are made; under FSDP1, on the wrapped model. Then two optimizers
    that share a model give no two tensors the same noise, and what they give is that of one
    optimizer for the whole model. So it is for the shards of FSDP1 with ``use_orig_params=True``,
    and of flat parameters that hold one tensor each.

    Args:
        model: whose parameters.
        order: all their names, in the order of the model on one process; by default that of
            ``model.named_parameters()``.

    Examples:
        >>> from mpgd import MPGD
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        >>> number_parameters(model)
        >>> first, last = (MPGD(layer.parameters(), sigma=0.1) for layer in model)
        >>> first.state[model[0].weight]["key"] == last.state[model[1].weight]["key"]
        tensor(False)
    """
    found = list(_named(model))
    names = list(order) if order is not None else [name for name, _, _ in found]
    ordinals = {name: ordinal for ordinal, name in enumerate(names)}
    for name, _, _ in found:
        if name not in ordinals:
            raise ValueError(f"order must name every parameter, got none called {name!r}")
    for name, parameter, offset in found:
        NUMBERED[parameter] = ordinals[name]
        if offset:
            note_offset(parameter, offset)


def ordinals_of(parameters: Sequence[Tensor]) -> Sequence[int]:
    """Return the ordinals of an optimizer's parameters: their numbers, or 0, 1, 2, ..."""
    if not NUMBERED:
        for parameter in parameters:
            _refuse_flat(parameter)
        return range(len(parameters))
    known = [NUMBERED.get(p) for p in parameters]  # type: ignore[no-untyped-call]
    for parameter, number in zip(parameters, known, strict=True):
        if number is None:
            _refuse_flat(parameter)
    numbered = [number for number in known if number is not None]
    if not numbered:
        return range(len(parameters))
    if len(numbered) < len(known):
        raise ValueError(
            f"all parameters of an optimizer must be numbered or none, got {len(numbered)} of "
            f"{len(known)}: call number_parameters again on the whole model"
        )
    return numbered


def number_partition() -> None:
    """Number the parameters of the ZeRO optimizer that is making its local part, if one is.

    It hands its class the parameters of one rank, sorted by size. Only the object whose method is
    running knows the others.
    """
    zero = sys.modules.get("torch.distributed.optim.zero_redundancy_optimizer")
    if zero is None:
        return
    frame: Any = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, zero.ZeroRedundancyOptimizer):
            every = chain.from_iterable(group["params"] for group in owner.param_groups)
            for ordinal, parameter in enumerate(every):
                if parameter not in NUMBERED:
                    NUMBERED[parameter] = ordinal
            return
        frame = frame.f_back


def _named(model: nn.Module) -> Iterable[tuple[str, Tensor, int]]:
    """Yield (name, parameter, offset in the whole) of all parameters of a model."""
    shards = _shards(model)
    for name, parameter in model.named_parameters():
        for wrapper in WRAPPERS:
            name = name.replace(wrapper, "")
        if name.endswith(FLAT):
            name = name.removesuffix(FLAT) + parameter._fqns[0]  # type: ignore[attr-defined]
        yield name, parameter, shards.get(id(parameter), 0)


def _shards(model: nn.Module) -> dict[int, int]:
    """Return the first element's index of every shard that FSDP1 made, by the shard's id."""
    if "torch.distributed.fsdp" not in sys.modules:
        return {}
    from torch.distributed.fsdp import FullyShardedDataParallel

    found = {}
    for module in model.modules():
        handle = module._handle if isinstance(module, FullyShardedDataParallel) else None
        if handle is not None and handle.uses_sharded_strategy:
            flat: Any = handle.flat_param
            parts = flat._params if handle._use_orig_params else [flat]
            _refuse_mixed(flat, parts)
            for part, info in zip(parts, flat._shard_param_infos, strict=True):
                found[id(part)] = info.intra_param_start_idx or 0
    return found


def _refuse_mixed(flat: Any, parts: Sequence[Tensor]) -> None:
    if len(parts) != len(flat._shard_param_infos):
        raise ValueError(
            f"a flat parameter of FSDP1 holds {len(flat._shard_param_infos)} tensors "
            f"({', '.join(flat._fqns)}) and cannot give each its own noise: wrap the model "
            "with use_orig_params=True"
        )


def _refuse_flat(parameter: Tensor) -> None:
    if getattr(parameter, "_fsdp_flattened", False):
        raise ValueError(
            f"a parameter of FSDP1 of shape {tuple(parameter.shape)} does not say which part of "
            "which tensor it is: call mpgd.optim.number_parameters(model) on the wrapped model "
            "before the optimizer is made, or use FSDP2 (fully_shard)"
        )
