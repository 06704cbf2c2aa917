"""The keywords that torch's optimizers know too: their defaults, and what they may be."""

from __future__ import annotations

from typing import Any, Final

from mpgd.optim.settings import check_learning_rate
from mpgd.parameters import check_finite, check_flag, check_nonnegative

SGDS: Final[dict[str, Any]] = {  # the keywords of torch.optim.SGD that make its direction
    "weight_decay": 0.0,
    "momentum": 0.0,
    "dampening": 0.0,
    "nesterov": False,
}
NUMBERS: Final = ("weight_decay", "momentum", "dampening")
TORCHS: Final = (*SGDS, "maximize", "foreach", "fused")  # what torch's optimizers know too


def check_torchs(group: dict[str, Any]) -> None:
    """Raise if a group's lr, or a keyword of torch's optimizers, is not what it must be."""
    check_learning_rate(group["lr"])
    check_flag("maximize", group["maximize"])
    for name in ("foreach", "fused"):  # which earlier checkpoints lack
        if group.get(name) is not None:
            check_flag(name, group[name])
    if group.get("foreach") and group.get("fused"):
        raise ValueError("foreach and fused must not both be True: leave one of them out")
    check_direction({**SGDS, **group})  # earlier checkpoints lack these too


def check_direction(group: dict[str, Any]) -> None:
    """Raise if weight decay or momentum are out of range, as `torch.optim.SGD` does."""
    for name in ("weight_decay", "momentum"):
        check_nonnegative(name, group[name])
    check_finite("dampening", group["dampening"])
    check_flag("nesterov", group["nesterov"])


def check_nesterov(group: dict[str, Any]) -> None:
    """Raise on Nesterov's momentum without one; later a schedule may bring it to 0."""
    if group["nesterov"] and (group["momentum"] == 0 or group["dampening"] != 0):
        raise ValueError(
            "nesterov needs a momentum above 0 and no dampening, got "
            f"momentum={group['momentum']!r}, dampening={group['dampening']!r}"
        )


def refuse_graphs(capturable: bool, differentiable: bool) -> None:
    """Raise if a step is to be captured or to be differentiated."""
    if capturable:
        raise ValueError(
            "capturable must be False: a captured graph would repeat the noise of one step; "
            "torch.compile takes the step, and computes the noise anew"
        )
    if differentiable:
        raise ValueError(
            "differentiable must be False: a step happens in place and outside autograd; "
            "mpgd.optim.update.descended is the update as a pure function"
        )


def plain_number(x: Any) -> Any:
    """Return a number that torch saves without ado: an int or a float as it is, others as one."""
    return x if type(x) in (int, float) else float(x)
