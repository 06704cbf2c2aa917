"""Path functions: how the jumps of a step path are filled in, and the continuous path that gives.

A path function phi takes the two ends of a jump to a continuous path from one to the other. A step
path X with a phi that is defined at all of its jumps is an admissible pair. Slowing time down at
every jump, jump k by delta r_k, leaves room to follow phi:

    tau(t) = t + delta sum of r_k over the jumps up to t
    X^(phi, delta)(tau(t) / tau(1)) = X(t),   and phi(X(t_k-), X(t_k)) inside the room of jump k

Two pairs are the same if they have the same X and their jumps are filled in by reparametrisations
of the same curves. `linear_path` is the straight segment, which makes the SM1 topology. `FlowPath`
is the path function of an equation: while the driver jumps along a segment, the solution follows
the flow of b. It is needed because a limit of solutions knows more than where it jumps to.

Curves are sampled at points of [0, 1]; `PathPair.error` says how far the curve can be from the
polygon through the samples, measured halfway between them.

Reference: Lim, Wan & Simsekli (2022), Definitions B.4, B.5, B.6 and C.1.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike

from mpgd.limits.couplings import CouplingLike, as_coupling
from mpgd.limits.paths.checks import Array, checked_path, checked_times
from mpgd.parameters import check_integer, check_positive

POINTS: Final = 17  # samples of a curve, its ends included
ENDS: Final = 1e-8  # how far a curve may miss its ends, in units of the jump


class PathFunction(Protocol):
    """A map from two points and parameters in [0, 1] to the points of a curve."""

    def __call__(self, x: Array, y: Array, s: Array) -> Array:
        """Return the curve from ``x`` (d,) to ``y`` (d,) at ``s`` (k,), of shape (k, d)."""


def linear_path(x: Array, y: Array, s: Array) -> Array:
    """Return the segment from ``x`` to ``y``.

    Examples:
        >>> linear_path(np.zeros(2), np.array([2.0, 4.0]), np.array([0.0, 0.5, 1.0])).tolist()
        [[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]]
    """
    return np.asarray((1.0 - s)[:, None] * x + s[:, None] * y)


@dataclass(frozen=True)
class FlowPath:
    """The path function phi_b of pairs (driver, solution): the driver straight, x along the flow.

    It is defined between (w_1, x_1) and (w_2, x_2) only if the flow of b over w_2 - w_1 takes x_1
    to x_2. The drift has no part in it: time stands still in a jump.

    Args:
        b: the coupling, as in `MarcusSDE`.
        r: the number of drivers; the first r coordinates of a point are the driver's.

    Examples:
        >>> from mpgd.limits import Linear
        >>> phi = FlowPath(Linear([[0.0, -1.0], [1.0, 0.0]]), r=1)
        >>> ends = np.array([0.0, 1.0, 0.0]), np.array([np.pi, -1.0, 0.0])
        >>> phi(*ends, np.array([0.5])).round(6).tolist()  # half a turn, at half of it
        [[1.570796, 0.0, 1.0]]
    """

    b: CouplingLike
    r: int

    def __post_init__(self) -> None:
        check_integer("r", self.r, 1)

    def __call__(self, x: Array, y: Array, s: Array) -> Array:
        """Return driver and solution at ``s``."""
        w = linear_path(x[: self.r], y[: self.r], s)
        start = torch.as_tensor(np.tile(x[self.r :], (len(s), 1)))
        moved = as_coupling(self.b).flow(start, torch.as_tensor(w - x[: self.r]))
        return np.hstack([w, moved.numpy()])


@dataclass(frozen=True, eq=False)
class PathPair:
    """A step path with a path function for its jumps: an admissible pair.

    Args:
        x: values of axes (time,) or (time, coordinate); value i holds from time i on.
        times: strictly increasing; without them, uniform on [0, 1].
        phi: fills in the jumps, `linear_path` by default.
        points: samples of each jump's curve, both ends included.

    Raises:
        ValueError: a jump that phi does not span, so that the pair is not admissible.

    Examples:
        >>> pair = PathPair([0.0, 1.0, 1.0], [0.0, 0.5, 1.0], points=3)
        >>> pair.vertices[1].ravel().tolist()
        [0.0, 0.0, 0.5, 1.0, 1.0]
    """

    x: ArrayLike
    times: ArrayLike | None = None
    phi: PathFunction = linear_path
    points: int = POINTS

    def __post_init__(self) -> None:
        x = checked_path(self.x, "x")
        x = np.repeat(x, 2, axis=0) if len(x) == 1 else x
        given = np.linspace(0.0, 1.0, len(x)) if self.times is None else self.times
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "times", checked_times(given, len(x), "times"))
        check_integer("points", self.points, 2)
        for i, curve in zip(self.jumps, self.curves, strict=True):
            self._check_ends(int(i), curve)

    @property
    def values(self) -> Array:
        """The values of the step path, (time, coordinate)."""
        return np.asarray(self.x)

    @property
    def at(self) -> Array:
        """The times of the values."""
        return np.asarray(self.times)

    @cached_property
    def jumps(self) -> Array:
        """The i at which x_i differs from the value before."""
        return np.asarray(1 + np.flatnonzero((np.diff(self.values, axis=0) != 0.0).any(axis=1)))

    @cached_property
    def curves(self) -> list[Array]:
        """The samples (point, coordinate) of every jump's curve."""
        return self._sampled(self.points)

    @cached_property
    def error(self) -> float:
        """How far a jump's curve is from the polygon through its samples, at midpoints."""
        if self.phi is linear_path:
            return 0.0
        fine = self._sampled(2 * self.points - 1)
        middles = [c[1::2] - 0.5 * (c[:-1:2] + c[2::2]) for c in fine]
        return float(max((np.linalg.norm(gap, axis=1).max() for gap in middles), default=0.0))

    @cached_property
    def vertices(self) -> tuple[Array, Array]:
        """Times and values of the graph's polygon, jumps filled in: the limit of delta -> 0.

        A value that holds is the segment between two vertices, a curve many vertices at one time.
        """
        curves = dict(zip(self.jumps.tolist(), self.curves, strict=True))
        times, values = [self.at[:1]], [self.values[:1]]
        for i in range(1, len(self.at)):
            inside = curves[i] if i in curves else self.values[i : i + 1]
            times.append(np.full(len(inside), self.at[i]))
            values.append(inside)
        return np.concatenate(times), np.concatenate(values)

    def filled(self, delta: float = 1.0, rooms: ArrayLike | None = None) -> tuple[Array, Array]:
        """Return times in [0, 1] and values of the continuous path X^(phi, delta).

        Args:
            delta: how much time all jumps get.
            rooms: r_k of every jump, positive; equal ones that sum to 1 by default.

        Examples:
            >>> pair = PathPair([0.0, 1.0, 1.0], [0.0, 0.5, 1.0], points=2)
            >>> pair.filled(delta=1.0)[0].tolist()
            [0.0, 0.25, 0.75, 1.0]
        """
        count = len(self.jumps)
        r = np.full(count, 1.0 / max(count, 1)) if rooms is None else np.asarray(rooms, float)
        if r.shape != (count,) or not (r > 0.0).all():
            raise ValueError(f"rooms must be {count} positive numbers, one a jump, got {rooms!r}")
        times, values = self.vertices
        span = self.at[-1] - self.at[0]
        tau = (times - self.at[0]) / span
        shift = check_positive("delta", delta) * self._within(r)
        return (tau + shift) / (tau[-1] + shift[-1]), values

    def _within(self, r: Array) -> Array:
        """Return how much room has been used up at every vertex, for delta = 1."""
        used, parts = 0.0, [np.zeros(1)]
        rooms = dict(zip(self.jumps.tolist(), r.tolist(), strict=True))
        for i in range(1, len(self.at)):
            room = rooms.get(i, 0.0)
            parts.append(used + room * np.linspace(0.0, 1.0, self.points if room else 1))
            used += room
        return np.concatenate(parts)

    def _sampled(self, points: int) -> list[Array]:
        s, x = np.linspace(0.0, 1.0, points), self.values
        return [np.asarray(self.phi(x[i - 1], x[i], s), dtype=np.float64) for i in self.jumps]

    def _check_ends(self, i: int, curve: Array) -> None:
        x = self.values
        if curve.shape != (self.points, x.shape[1]):
            raise ValueError(
                f"phi must return shape {(self.points, x.shape[1])}, got {curve.shape}"
            )
        missed = max(np.abs(curve[0] - x[i - 1]).max(), np.abs(curve[-1] - x[i]).max())
        if not missed <= ENDS * max(1.0, float(np.abs(x[i - 1 : i + 1]).max())):
            raise ValueError(
                f"phi must join {x[i - 1].tolist()} to {x[i].tolist()} at time {self.at[i]:.6g}, "
                f"but goes from {curve[0].tolist()} to {curve[-1].tolist()}: not admissible"
            )
