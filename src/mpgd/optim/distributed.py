"""Which parameter of the model a parameter of an optimizer is, in distributed training too.

The noise of a parameter depends on its ordinal in the model. An optimizer counts the parameters it
is given. That is wrong for several optimizers of one model, where each begins at 0 again; under
ZeRO, where a rank has some of the parameters; and under FSDP1, where they are parts of the model's.
`number_parameters` says it once, for all optimizers. ZeRO's order is found without it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from mpgd.sharding import note_offset

NUMBERED: Final = WeakIdKeyDictionary()  # parameter -> ordinal, as long as the parameter lives
WRAPPERS: Final = ("_fsdp_wrapped_module.", "module.")  # what FSDP1 and DDP put into names
FLAT: Final = "_flat_param"
STEPPED: Final = (  # dtypes of parameters
    *(torch.float32, torch.bfloat16, torch.float16, torch.float64),
    *(torch.complex64, torch.complex128, torch.complex32),
)


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
        >>> [int(each.state_dict()["state"][0]["ordinal"]) for each in (first, last)]
        [0, 2]
    """
    named = list(_named(model))
    names = [name for name, _, _ in named] if order is None else order
    ordinals = {name: ordinal for ordinal, name in enumerate(names)}
    for name, _, _ in named:
        if name not in ordinals:
            raise ValueError(f"order must name every parameter, got none called {name!r}")
    for name, parameter, offset in named:
        NUMBERED[parameter] = ordinals[name]
        if offset:
            note_offset(parameter, offset)


def ordinals_of(parameters: Sequence[Tensor]) -> Sequence[int]:
    """Return the ordinals of an optimizer's parameters: their numbers, or 0, 1, 2, ..."""
    known = [NUMBERED.get(p) for p in parameters]  # type: ignore[no-untyped-call]
    for parameter, number in zip(parameters, known, strict=True):
        if number is None and getattr(parameter, "_fsdp_flattened", False):
            raise ValueError(
                f"a parameter of FSDP1 of shape {tuple(parameter.shape)} does not say which part "
                "of which tensor it is: call mpgd.optim.number_parameters(model) on the wrapped "
                "model before the optimizer is made, or use FSDP2 (fully_shard)"
            )
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

    It hands its class the parameters of one rank. Only the object whose method is running knows
    the others.
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


def _named(model: nn.Module) -> Iterator[tuple[str, Tensor, int]]:
    """Yield (name, parameter, offset in the whole) of all parameters of a model."""
    starts = _fsdp1_starts(model) if "torch.distributed.fsdp" in sys.modules else {}
    for name, parameter in model.named_parameters():
        for wrapper in WRAPPERS:
            name = name.replace(wrapper, "")
        if name.endswith(FLAT):
            name = name.removesuffix(FLAT) + parameter._fqns[0]  # type: ignore[attr-defined]
        yield name, parameter, starts.get(id(parameter), 0)


def _fsdp1_starts(model: nn.Module) -> dict[int, int]:
    """Return the first element's index of every shard that FSDP1 made, by the shard's id."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    starts: dict[int, int] = {}
    for module in model.modules():
        handle = module._handle if isinstance(module, FullyShardedDataParallel) else None
        if handle is None or not handle.uses_sharded_strategy:
            continue
        flat: Any = handle.flat_param
        parts, infos = flat._params if handle._use_orig_params else [flat], flat._shard_param_infos
        if len(parts) != len(infos):
            raise ValueError(
                f"a flat parameter of FSDP1 holds {len(infos)} tensors ({', '.join(flat._fqns)}) "
                "and cannot give each its own noise: wrap the model with use_orig_params=True"
            )
        starts |= {id(p): i.intra_param_start_idx or 0 for p, i in zip(parts, infos, strict=True)}
    return starts


def refuse_gradients(params: Iterable[Tensor]) -> None:
    """Raise on a gradient that no step can be taken with, before anything is changed."""
    for p in params:
        g = p.grad
        if g is None:
            continue
        if p.dtype not in STEPPED:
            raise RuntimeError(f"a parameter of {p.dtype} cannot take a step, but has a gradient")
        if g.layout is not torch.strided:
            raise RuntimeError(
                f"gradients must be dense (torch.strided), got layout {g.layout} "
                f"for a parameter of shape {tuple(p.shape)}"
            )
        # all of the parameter's memory is allowed; torch.optim.SGD refuses a part too
        distance = g.data_ptr() - p.data_ptr() if type(g) is Tensor else 0
        is_inside = distance and -g.nbytes < distance < p.nbytes
        if is_inside and p.is_contiguous() and g.is_contiguous():
            raise RuntimeError(
                f"the gradient of a parameter of shape {tuple(p.shape)} must not lie in a part of "
                "the parameter's memory: clone() it"
            )
