"""How a driver moves the state: by b(x) v, or along the flow of b.

A coupling b(x) is a d x r matrix; it turns r driver values into a move of the d coordinates. The
recursion and the Ito integral add b(x) v. The Marcus integral follows, for an increment dL,

    dz/dr = b(z) dL,   z(0) = x,   r from 0 to 1,   and ends at z(1):

    `Constant`   b(x) = B            x + B dL
    `Diagonal`   b(x) = c diag(x)    x exp(c dL), coordinatewise
    `Linear`     b(x) = M x          exp(M dL) x, one driver for all coordinates
    `Field`      any function b      by an adaptive Runge-Kutta method

Reference: Lim, Wan & Simsekli (2022), Appendices B.2.1 and B.3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from mpgd.limits.runge_kutta import integrate

VectorField = Callable[[Tensor], Tensor]


@runtime_checkable
class Coupling(Protocol):
    """What both solvers ask of a coupling; ``x`` is (path, coordinate), ``v`` (path, driver)."""

    def width(self, x: Tensor) -> int:
        """Return r, the number of drivers; raise if the coupling does not fit ``x``."""

    def add(self, out: Tensor, x: Tensor, v: Tensor) -> None:
        """Add b(x) v to ``out`` in place."""

    def flow(self, x: Tensor, dL: Tensor) -> Tensor:
        """Return where the flow of b takes ``x``."""


CouplingLike = Coupling | VectorField | ArrayLike | Tensor


@dataclass(frozen=True, eq=False)
class Constant:
    """b(x) = B for all x: a number (times the identity), (d,) a diagonal, or (d, r) a matrix.

    Examples:
        >>> Constant(torch.tensor([2.0, 3.0])).flow(torch.zeros(1, 2), torch.ones(1, 2))
        tensor([[2., 3.]], dtype=torch.float64)
    """

    value: ArrayLike | Tensor

    def __post_init__(self) -> None:
        _set_real(self, "value", (0, 1, 2))

    @property
    def B(self) -> Tensor:
        """The value as a tensor."""
        return _tensor(self.value)

    def width(self, x: Tensor) -> int:
        """Return r, which is d unless B is a matrix."""
        d = x.shape[1]
        if self.B.dim() and len(self.B) != d:
            raise ValueError(f"a constant b of shape {tuple(self.B.shape)} does not fit d = {d}")
        return self.B.shape[1] if self.B.dim() == 2 else d

    def add(self, out: Tensor, x: Tensor, v: Tensor) -> None:
        """Add B v in place."""
        if self.B.dim() == 2:
            out.addmm_(v, self.B.T)
        else:
            out.addcmul_(v, self.B)

    def flow(self, x: Tensor, dL: Tensor) -> Tensor:
        """Return x + B dL."""
        moved = x.to(torch.float64, copy=True)
        self.add(moved, x, dL.to(torch.float64))
        return moved


@dataclass(frozen=True, eq=False)
class Diagonal:
    """b(x) = c diag(x), one driver per coordinate; c is a number or (d,).

    Examples:
        >>> x, dL = torch.ones(1, 2, dtype=torch.float64), torch.tensor([[0.0, 1.0]])
        >>> Diagonal(2.0).flow(x, dL.double()).log()
        tensor([[0., 2.]], dtype=torch.float64)
    """

    scale: ArrayLike | Tensor

    def __post_init__(self) -> None:
        _set_real(self, "scale", (0, 1))

    @property
    def c(self) -> Tensor:
        """The scale as a tensor."""
        return _tensor(self.scale)

    def width(self, x: Tensor) -> int:
        """Return d."""
        if self.c.dim() and len(self.c) != x.shape[1]:
            raise ValueError(f"Diagonal has {len(self.c)} scales, but d = {x.shape[1]}")
        return x.shape[1]

    def add(self, out: Tensor, x: Tensor, v: Tensor) -> None:
        """Add c x v in place."""
        out.addcmul_(x * self.c, v)

    def flow(self, x: Tensor, dL: Tensor) -> Tensor:
        """Return x exp(c dL)."""
        return (dL * self.c).exp_().mul_(x)


@dataclass(frozen=True, eq=False)
class Linear:
    """b(x) = M x, one driver for all coordinates; M is (d, d).

    A normal M = S + A, with S symmetric and A skew, has exp(t M) = exp(t S) exp(t A), each by a
    unitary eigenbasis: a rotation stays one for any t. Other M take `torch.linalg.matrix_exp`.

    Examples:
        >>> J = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
        >>> x = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
        >>> turned = Linear(J).flow(x, torch.tensor([[1000.0]], dtype=torch.float64))
        >>> abs(float(turned.norm()) - 1.0) < 1e-12
        True
    """

    matrix: ArrayLike | Tensor

    def __post_init__(self) -> None:
        _set_real(self, "matrix", (2,))
        if self.M.shape[0] != self.M.shape[1]:
            raise ValueError(f"Linear needs a square matrix, got shape {tuple(self.M.shape)}")

    @property
    def M(self) -> Tensor:
        """The matrix as a tensor."""
        return _tensor(self.matrix)

    @cached_property
    def _eigenbases(self) -> list[tuple[Tensor, Tensor]] | None:
        """(eigenvalues, eigenvectors) of S and of A, or None if M is not normal."""
        S, A = (self.M + self.M.T) / 2.0, (self.M - self.M.T) / 2.0
        if (S @ A - A @ S).norm() > 1e-14 * self.M.norm() ** 2:
            return None
        parts = [(part, factor) for part, factor in ((S, 1.0), (A, 1j)) if part.any()]
        bases = [(torch.linalg.eigh(part / factor), factor) for part, factor in parts]
        return [(w * factor, Q) for (w, Q), factor in bases]

    def width(self, x: Tensor) -> int:
        """Return 1."""
        if len(self.M) != x.shape[1]:
            raise ValueError(f"Linear has a matrix {tuple(self.M.shape)}, but d = {x.shape[1]}")
        return 1

    def add(self, out: Tensor, x: Tensor, v: Tensor) -> None:
        """Add M x v in place."""
        out.addcmul_(x @ self.M.T, v)

    def flow(self, x: Tensor, dL: Tensor) -> Tensor:
        """Return exp(M dL) x."""
        if self._eigenbases is None:
            moved: Tensor = torch.linalg.matrix_exp(self.M * dL[:, :, None]) @ x[:, :, None]
            return moved[:, :, 0]
        for w, Q in self._eigenbases:
            x = (((x.to(Q.dtype) @ Q.conj()) * torch.exp(w * dL)) @ Q.T).real
        return x


@dataclass(frozen=True, eq=False)
class Field:
    """Any b, a function of x (path, coordinate) that treats every path alone.

    It returns (path, d), the diagonal of b, or (path, d, r), the whole matrix. It is called with
    any number of paths.

    Examples:
        >>> x = torch.ones(1, 1, dtype=torch.float64)
        >>> round(float(Field(lambda z: z).flow(x, x)), 6)
        2.718282
    """

    function: VectorField

    def width(self, x: Tensor) -> int:
        """Return r as the function's result shows it."""
        b = self.function(x)
        fits = isinstance(b, Tensor) and b.dim() in (2, 3) and b.shape[:2] == x.shape
        if not fits:
            got = f"shape {tuple(b.shape)}" if isinstance(b, Tensor) else repr(type(b).__name__)
            raise ValueError(
                f"b(x) must be a tensor (paths, d) or (paths, d, r) for x of shape "
                f"{tuple(x.shape)}, got {got}"
            )
        return b.shape[-1]

    def add(self, out: Tensor, x: Tensor, v: Tensor) -> None:
        """Add b(x) v in place."""
        out.add_(_times(self.function(x), v))

    def flow(self, x: Tensor, dL: Tensor) -> Tensor:
        """Return the end of dz/dr = b(z) dL by an adaptive method."""
        return integrate(lambda z, rows: _times(self.function(z), dL[rows]), x)


@dataclass(frozen=True, eq=False)
class Along:
    """b(x) u for a fixed direction u (r,): r components of one driver become one driver.

    Examples:
        >>> x, dL = torch.zeros(1, 2, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
        >>> Along(Constant(1.0), [2.0, -1.0]).flow(x, dL)
        tensor([[ 2., -1.]], dtype=torch.float64)
    """

    b: Coupling
    direction: ArrayLike | Tensor

    def __post_init__(self) -> None:
        _set_real(self, "direction", (1,))

    def width(self, x: Tensor) -> int:
        """Return 1."""
        if self.b.width(x) != len(self._u):
            raise ValueError(
                f"a direction of {len(self._u)} components does not fit {self.b.width(x)} drivers"
            )
        return 1

    def add(self, out: Tensor, x: Tensor, v: Tensor) -> None:
        """Add b(x) u v in place."""
        self.b.add(out, x, v * self._u)

    def flow(self, x: Tensor, dL: Tensor) -> Tensor:
        """Return where the flow of b takes ``x`` along u dL."""
        return self.b.flow(x, dL * self._u)

    @property
    def _u(self) -> Tensor:
        return _tensor(self.direction)


def as_coupling(b: CouplingLike) -> Coupling:
    """Return ``b`` as a coupling: a number or an array is constant, a function a field.

    Examples:
        >>> as_coupling(0.5).width(torch.zeros(4, 3)), type(as_coupling(torch.sin)).__name__
        (3, 'Field')
    """
    if isinstance(b, Coupling):
        return b
    return Field(b) if callable(b) else Constant(b)


def _times(b: Tensor, v: Tensor) -> Tensor:
    return b * v if b.dim() == 2 else torch.einsum("pdr,pr->pd", b, v)


def _set_real(owner: object, name: str, dims: tuple[int, ...]) -> None:
    """Replace an attribute of a frozen dataclass by a finite float64 tensor."""
    given = getattr(owner, name)
    try:
        value = torch.as_tensor(given, dtype=torch.float64).detach().cpu().clone()
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"a coupling must be numbers or a function, got {given!r}") from None
    if value.dim() not in dims or value.numel() == 0:
        kind = f"{type(owner).__name__} {name}"
        raise ValueError(f"{kind} must have {dims} axes, got shape {tuple(value.shape)}")
    if not torch.isfinite(value).all():
        raise ValueError(f"{type(owner).__name__} {name} must be finite, got {given!r}")
    object.__setattr__(owner, name, value)


def _tensor(value: object) -> Tensor:
    assert isinstance(value, Tensor)
    return value
