"""Trace and top eigenvalue of a loss's Hessian, from Hessian-vector products.

With f(x) the mean loss over the data at parameters x (flattened, only those that require grad):

    H v = gradient of v^T grad f(x), v held          reverse over reverse, no Hessian is formed
    tr H = E z^T H z, z_i = +-1 independent          Hutchinson; the mean of m probes +- its error
    lambda_1 = max v^T H v over |v| = 1              Lanczos

Theorem 4.3's explicit regulariser is a trace against this H (Lim, Wan & Simsekli 2022).

The loss is taken in eval mode (batch norm uses its running statistics, dropout is off) on copies of
parameters and buffers; mode, parameters, ``.grad`` and buffers stay as they are. Randomness comes
from a generator of its own. Batches are weighted by their number of inputs, so that with a loss_fn
that averages, f is the mean over all data however it is cut; a product holds one batch's graph at
a time, so that smaller batches need less memory.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vjp
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from mpgd.parameters import check_integer, check_seed

Batch = tuple[Tensor, Tensor]
Data = Batch | Iterable[Batch]
LossFn = Callable[[Tensor, Tensor], Tensor]
Loss = Callable[[Tensor], Tensor]
Product = Callable[[Tensor], Tensor]

DENSE_BELOW = 32  # eigenvalues of so small a matrix are cheaper than any iteration
SIDES = {"largest": "LA", "smallest": "SA", "magnitude": "LM"}


@dataclass(frozen=True)
class TraceEstimate:
    """A trace and its standard error, which is 0 where the trace is exact.

    Examples:
        >>> TraceEstimate(value=3.0, stderr=0.1).value
        3.0
    """

    value: float
    stderr: float


def hessian_trace(
    model: nn.Module,
    loss_fn: LossFn,
    data: Data,
    *,
    probes: int = 100,
    seed: int = 0,
    exact: bool = False,
) -> TraceEstimate:
    """Return the trace of the Hessian of the mean loss.

    With no more parameters than probes, or with ``exact=True``, it is the sum of e_i^T H e_i.

    Args:
        model: Called as ``model(inputs)``.
        loss_fn: Called as ``loss_fn(outputs, targets)``; returns a scalar, the batch mean.
        data: ``(inputs, targets)`` or an iterable of such batches.
        probes: Number of random sign vectors, at least 2.
        seed: Seed of the signs.
        exact: Take all basis vectors, whatever the number of parameters.

    Examples:
        >>> model = nn.Linear(2, 1, bias=False)
        >>> data = (torch.eye(2), torch.zeros(2, 1))
        >>> hessian_trace(model, nn.functional.mse_loss, data)
        TraceEstimate(value=2.0, stderr=0.0)
    """
    probes, seed = check_integer("probes", probes, 2), check_seed(seed)
    with _hessian(model, loss_fn, data) as (x, product):
        if exact or len(x) <= probes:
            return TraceEstimate(float(torch.trace(_dense(x, product))), 0.0)
        generator = torch.Generator().manual_seed(seed)
        draws = np.array([_probe(x, product, generator) for _ in range(probes)])
    return TraceEstimate(float(draws.mean()), float(draws.std(ddof=1)) / sqrt(probes))


def hessian_top_eigenvalue(
    model: nn.Module,
    loss_fn: LossFn,
    data: Data,
    *,
    which: Literal["largest", "smallest", "magnitude"] = "largest",
    tol: float = 1e-6,
    seed: int = 0,
    max_iterations: int = 1000,
) -> float:
    """Return an end of the Hessian's spectrum: by default the largest eigenvalue with its sign.

    Needs scipy (``pip install "mpgd[lab]"``) above 32 parameters.

    Args:
        model: Called as ``model(inputs)``.
        loss_fn: Called as ``loss_fn(outputs, targets)``; returns a scalar, the batch mean.
        data: ``(inputs, targets)`` or an iterable of such batches.
        which: "largest" and "smallest" go by sign, "magnitude" by absolute value.
        tol: Relative accuracy at which Lanczos stops.
        seed: Seed of the starting vector.
        max_iterations: Restarts of Lanczos before it gives up.

    Examples:
        >>> model = nn.Linear(2, 1, bias=False)
        >>> data = (torch.diag(torch.tensor([1.0, 3.0])), torch.zeros(2, 1))
        >>> hessian_top_eigenvalue(model, nn.functional.mse_loss, data)
        9.0
    """
    if which not in SIDES:
        raise ValueError(f"which must be one of {', '.join(SIDES)}, got {which!r}")
    if not tol >= 0.0:
        raise ValueError(f"tol must be at least 0, got {tol!r}")
    with _hessian(model, loss_fn, data) as (x, product):
        if len(x) > DENSE_BELOW:
            return _lanczos(x, product, SIDES[which], tol, seed, max_iterations)
        values = np.linalg.eigvalsh(_dense(x, product).double().cpu().numpy())
    ends = {"largest": values[-1], "smallest": values[0], "magnitude": max(values, key=abs)}
    return float(ends[which])


def as_batches(data: Data) -> list[Batch]:
    """Return the batches of ``data`` as a list, read once.

    Examples:
        >>> len(as_batches((torch.zeros(4, 2), torch.zeros(4))))
        1
    """
    if isinstance(data, tuple | list) and len(data) == 2 and isinstance(data[0], Tensor):
        return [(data[0], data[1])]
    batches = list(data)
    if not batches:
        raise ValueError("data must hold at least one batch, got none")
    for batch in batches:
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise ValueError(
                "data must be (inputs, targets) or an iterable of such batches, got a batch "
                f"of type {type(batch).__name__}"
            )
    return [(inputs, targets) for inputs, targets in batches]


class UnfusedWeightNorm(TorchFunctionMode):
    """Weight norm as g v / |v| in plain operations.

    The second derivative of ``torch._weight_norm`` itself is wrong in torch 2.13: the Hessian comes
    out asymmetric, and its trace up to 10 % off.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call a function of torch, weight norm by its formula."""
        if func is torch._weight_norm:
            v, g, dim = args
            return v * (g / torch.norm_except_dim(v, 2, dim))
        return func(*args, **(kwargs or {}))


@contextmanager
def _hessian(model: nn.Module, loss_fn: LossFn, data: Data) -> Iterator[tuple[Tensor, Product]]:
    """Yield the flat parameters x and v -> H v, the model in eval mode meanwhile."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        # fused kernels of attention have no second derivative, that of weight norm a wrong one
        unfused = sdpa_kernel(SDPBackend.MATH), UnfusedWeightNorm()
        with torch.inference_mode(False), torch.enable_grad(), unfused[0], unfused[1]:
            x, losses = _flat_losses(model, loss_fn, as_batches(data))
            for loss in losses:
                _check(x, loss)
            yield x, partial(_product, x, losses)
    finally:
        for module, mode in modes:
            module.training = mode


def _product(x: Tensor, losses: list[Loss], v: Tensor) -> Tensor:
    """Return H v; H is symmetric, so the vector may stand on the left, which is reverse mode."""
    Hv = torch.zeros_like(x)
    for loss in losses:
        Hv += vjp(grad(loss), x)[1](v)[0]
    return _finite(Hv, "Hessian-vector product")


def _flat_losses(
    model: nn.Module, loss_fn: LossFn, batches: list[Batch]
) -> tuple[Tensor, list[Loss]]:
    """Return the flat parameters x and the share of the mean loss of every batch, from x."""
    free = {k: p.detach() for k, p in model.named_parameters() if p.requires_grad}
    if not free:
        raise ValueError("model must have parameters that require grad, got none")
    if any(p.is_complex() for p in free.values()):
        raise ValueError("model must have real parameters, got complex ones")
    fixed = {k: p.detach() for k, p in model.named_parameters() if k not in free}
    fixed |= {k: b.detach().clone() for k, b in model.named_buffers()}
    total = sum(len(inputs) for inputs, _ in batches)
    if total == 0:
        raise ValueError("data must hold at least one example, got empty batches")
    sizes = [p.numel() for p in free.values()]

    def loss(batch: Batch, x: Tensor) -> Tensor:
        inputs, targets = batch
        pieces = zip(free.items(), torch.split(x, sizes), strict=True)
        state = fixed | {k: piece.view_as(p).to(p.dtype) for (k, p), piece in pieces}
        value = _scalar(loss_fn(functional_call(model, state, (inputs,)), targets))
        return value * (len(inputs) / total)

    x = torch.cat([p.reshape(-1) for p in free.values()])
    return x, [partial(loss, batch) for batch in batches]


def _check(x: Tensor, loss: Loss) -> None:
    """Refuse a loss that is not finite or that autograd cannot follow back to the parameters."""
    leaf = x.clone().requires_grad_()
    value = loss(leaf)
    if not value.requires_grad or torch.autograd.grad(value, leaf, allow_unused=True)[0] is None:
        raise ValueError(
            "loss_fn must return a loss with a graph back to the model's parameters, got one "
            "without: is something detached or under no_grad?"
        )
    _finite(value.detach(), "loss")


def _scalar(value: Tensor) -> Tensor:
    if not isinstance(value, Tensor) or value.ndim != 0:
        got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"loss_fn must return a scalar tensor, got {got}: take the mean")
    return value


def _finite(value: Tensor, name: str) -> Tensor:
    if not torch.isfinite(value).all():
        raise ValueError(f"the {name} must be finite, got NaN or infinity")
    return value


def _dense(x: Tensor, product: Product) -> Tensor:
    return torch.stack([product(e) for e in torch.eye(len(x), dtype=x.dtype, device=x.device)])


def _probe(x: Tensor, product: Product, generator: torch.Generator) -> float:
    signs = torch.randint(2, (len(x),), generator=generator).to(x) * 2 - 1
    return float(signs @ product(signs))


def _lanczos(
    x: Tensor, product: Product, side: str, tol: float, seed: int, max_iterations: int
) -> float:
    try:
        from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
    except ImportError as error:
        raise ImportError('hessian_top_eigenvalue needs scipy: pip install "mpgd[lab]"') from error

    def matvec(v: NDArray[np.float64]) -> NDArray[np.float64]:
        return product(torch.from_numpy(v.ravel()).to(x)).double().cpu().numpy()

    start = np.random.default_rng(seed).standard_normal(len(x))
    if not matvec(start).any():  # the Hessian is zero, on which ARPACK fails
        return 0.0
    operator = LinearOperator((len(x), len(x)), matvec=matvec, dtype=np.float64)
    try:
        how = {"which": side, "v0": start, "tol": tol, "maxiter": max_iterations}
        values = eigsh(operator, 1, **how, return_eigenvectors=False)
    except ArpackNoConvergence as error:
        raise RuntimeError(
            f"Lanczos did not reach tol {tol!r} in {max_iterations} iterations: raise either"
        ) from error
    return float(values[0])
