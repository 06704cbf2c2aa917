"""What two gloo processes do with parameters that are swapped, partitioned or made flat."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import nn

import mpgd
from tests.optim.workers import SETTINGS, gathered, make_optimizer, odd_net, train_odd

KINDS = ("mpgd", "adamw")


def swap_under_fsdp(rank: int, folder: str) -> Any:
    """Make the optimizer first, shard the model, and put the new parameters into its groups.

    So does accelerate: it knows the parameters by their addresses, and frees the old ones.
    """
    from torch.distributed.fsdp import fully_shard

    found = []
    for kind in KINDS:
        model = odd_net()
        optimizer = make_optimizer(kind, model.parameters(), engine="torch", symmetric=True)
        names = {p.data_ptr(): name for name, p in model.named_parameters()}
        addresses = [p.data_ptr() for p in optimizer.param_groups[0]["params"]]
        for group in optimizer.param_groups:
            group["params"] = [torch.empty(1) for _ in group["params"]]
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer)
        fully_shard(model)
        new = dict(model.named_parameters())
        for group in optimizer.param_groups:
            group["params"] = [new[names[address]] for address in addresses]
        optimizer.state_dict()
        train_odd(model, optimizer, range(6))
        found.append(gathered(optimizer))
    return found


def zero(kind: str, model: nn.Module) -> Any:
    """Return ZeRO around MPGD or a perturbed AdamW."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    def make(params: Any, **settings: Any) -> torch.optim.Optimizer:
        return make_optimizer(kind, params, engine="torch", symmetric=True, **settings)

    return ZeroRedundancyOptimizer(model.parameters(), optimizer_class=make, lr=SETTINGS["lr"])


def partition(rank: int, folder: str) -> Any:
    """Train under ZeRO, save from rank 0, resume and go on; return parameters of both runs."""
    found = []
    for kind in KINDS:
        model = odd_net()
        optimizer = zero(kind, model)
        train_odd(model, optimizer, range(5))
        optimizer.consolidate_state_dict(to=0)
        content = [deepcopy(optimizer.state_dict()) if rank == 0 else None]
        torch.distributed.broadcast_object_list(content, src=0)
        weights = deepcopy(model.state_dict())
        train_odd(model, optimizer, range(5, 10))
        again = odd_net()
        again.load_state_dict(weights)
        other = zero(kind, again)
        other.load_state_dict(content[0])
        train_odd(again, other, range(5, 10))
        both = [[p.detach().clone() for p in each.parameters()] for each in (model, again)]
        found.append(both)
    return found


def bare_net() -> nn.Sequential:
    """Return `odd_net` without biases: under FSDP1 each layer's flat parameter is one tensor."""
    layers = [
        nn.Linear(x.in_features, x.out_features, bias=False) if isinstance(x, nn.Linear) else x
        for x in odd_net()
    ]
    net = nn.Sequential(*layers)
    net.load_state_dict({k: v for k, v in odd_net().state_dict().items() if "weight" in k})
    return net


def flatten(rank: int, folder: str) -> Any:
    """Train under FSDP1; return the whole parameters and the errors of what is refused."""
    from torch.distributed.fsdp import FullyShardedDataParallel as Fsdp

    def wrapped(layers: bool, original: bool, net: Callable[[], nn.Module] = odd_net) -> Fsdp:
        model = net()
        if layers:
            for name, layer in list(model.named_children()):
                if isinstance(layer, nn.Linear):
                    own = Fsdp(layer, use_orig_params=original, device_id=torch.device("cpu"))
                    setattr(model, name, own)
        return Fsdp(model, use_orig_params=original, device_id=torch.device("cpu"))

    found: dict[str, Any] = {"errors": []}
    for layers, original in ((False, False), (False, True)):
        model = wrapped(layers, original)
        try:
            if not original:
                mpgd.optim.number_parameters(model)
            make_optimizer("mpgd", model.parameters())
        except ValueError as error:
            found["errors"].append(str(error))
    for kind in KINDS:
        for layers in (False, True):
            model = wrapped(layers, True)
            mpgd.optim.number_parameters(model)
            optimizer = make_optimizer(kind, model.parameters(), engine="torch", symmetric=True)
            train_odd(model, optimizer, range(6))
            with Fsdp.summon_full_params(model):
                found[f"{kind} {layers}"] = [p.detach().clone() for p in model.parameters()]
        bare: nn.Module = wrapped(True, False, bare_net)
        mpgd.optim.number_parameters(bare)
        optimizer = make_optimizer(kind, bare.parameters(), engine="torch", symmetric=True)
        train_odd(bare, optimizer, range(6))
        with Fsdp.summon_full_params(bare):
            found[f"{kind} bare"] = [
                layer.weight.detach().clone()
                for layer in bare.modules()
                if type(layer) is nn.Linear
            ]
    return found
