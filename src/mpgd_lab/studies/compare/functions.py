"""Test functions whose global minimum is known; many starts of many runs are one tensor.

    Rastrigin   sum of z^2 + 10 (1 - cos 2 pi z)
    Ackley      -20 exp(-|z| / (5 sqrt d)) - exp(mean of cos 2 pi z) + 20 + e
    two wells   a (1 - cos(pi (z + 0.5) / 0.5)) / 2 for z < 0,  b (1 - cos(pi (z - 1.5) / 1.5)) / 2
                else; quadratic outside the minima; the deeper one has amplitude 1.2, the other 1
    rugged      8 wells side by side, of depth d_i: -d_i (1 + cos(pi (z - m_i) / w_i)) / 2
    frequency   mean of (sin(w t + p) - sin(w* t + p*))^2 over 64 points t of [0, 4]

z = x - c: the minimum c lies off the origin, so that weight decay knows nothing of it. Positions
are (run, start, coordinate), and so are the ``secrets`` a run draws, such as c.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import pi
from typing import Final

import numpy as np
import torch
from torch import Tensor

Rng = np.random.Generator

POINTS: Final = torch.linspace(0.0, 4.0, 64, dtype=torch.float64)
FITTED: Final = 0.05  # mean square error of a found frequency
DEEPER: Final = 1.2  # amplitude of the lower of two wells
NEAR: Final = 0.05  # the distance from the minimum of a well that counts as there
SHARP, WIDE = 0.5, 1.5  # half the widths of the two wells
WELLS: Final = 8  # of a rugged landscape
OUTSIDE: Final = 50.0  # slope beyond its ends, in units of the distance
WALLS: Final = (24.0, 6.0)  # slopes outside, in units of the distance to the minimum


class Function(ABC):
    """A function with a known global minimum."""

    dimension: int

    @abstractmethod
    def draw(self, rng: Rng, starts: int) -> tuple[Tensor, Tensor]:
        """Return starts and secrets, each (start, coordinate)."""

    @abstractmethod
    def gradient(self, x: Tensor, secrets: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Return the gradient, on the examples ``chosen`` (run, example) if there are any."""

    @abstractmethod
    def reached(self, x: Tensor, secrets: Tensor) -> Tensor:
        """Return which starts are at the global minimum, (run, start)."""


@dataclass(frozen=True)
class Rastrigin(Function):
    """Wells 1 apart on a wide bowl.

    Examples:
        >>> Rastrigin().gradient(torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[1.0, 0.0]]]))
        tensor([[[0., 0.]]])
    """

    dimension: int = 2
    near: float = 0.05  # the distance from the minimum that counts as there

    def draw(self, rng: Rng, starts: int) -> tuple[Tensor, Tensor]:
        """Return starts within 4 of the minimum, which is about 1 from the origin."""
        return _around(rng, starts, self.dimension, 4.0)

    def gradient(self, x: Tensor, secrets: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Return 2 z + 20 pi sin(2 pi z)."""
        z = x - secrets
        return 2.0 * z + 20.0 * pi * torch.sin(2.0 * pi * z)

    def reached(self, x: Tensor, secrets: Tensor) -> Tensor:
        """Return which starts are near the minimum in every coordinate."""
        return ((x - secrets).abs() < self.near).all(-1)


@dataclass(frozen=True)
class Ackley(Rastrigin):
    """Wells 1 apart on a funnel; its tip is a cone, around which steps of descent oscillate."""

    near: float = 0.1

    def gradient(self, x: Tensor, secrets: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Return the gradient; at the minimum itself, a cone's tip, it is zero."""
        z, d = x - secrets, self.dimension
        r = z.square().mean(-1, keepdim=True).sqrt()
        funnel = 4.0 * torch.exp(-0.2 * r) * z / (d * r.clamp(min=1e-12))
        ripple = torch.exp(torch.cos(2.0 * pi * z).mean(-1, keepdim=True))
        return funnel + ripple * 2.0 * pi * torch.sin(2.0 * pi * z) / d


@dataclass(frozen=True)
class TwoWells(Function):
    """A sharp well and a wide one; starts lie in the higher one.

    Examples:
        >>> at = torch.tensor([[[-0.5], [1.5], [0.0]]])  # both minima and the hill between
        >>> TwoWells("wide").gradient(at, torch.zeros(1, 3, 1)).abs().max() < 1e-6
        tensor(True)
    """

    lower: str  # sharp or wide
    dimension: int = 1

    def draw(self, rng: Rng, starts: int) -> tuple[Tensor, Tensor]:
        """Return starts near the minimum of the higher well."""
        _, centre = _around(rng, starts, 1, 0.0)
        minimum = -SHARP if self.lower == "wide" else WIDE
        shaken = torch.from_numpy(0.02 * rng.standard_normal((starts, 1)))
        return centre + minimum + shaken, centre

    def gradient(self, x: Tensor, secrets: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Return the slope."""
        z = x - secrets
        a, b = (1.0, DEEPER) if self.lower == "wide" else (DEEPER, 1.0)
        sharp = a * pi / (2.0 * SHARP) * torch.sin(pi * (z + SHARP) / SHARP)
        wide = b * pi / (2.0 * WIDE) * torch.sin(pi * (z - WIDE) / WIDE)
        inside = torch.where(z < 0.0, sharp, wide)
        left = torch.where(z < -SHARP, WALLS[0] * (z + SHARP), inside)
        return torch.where(z > WIDE, WALLS[1] * (z - WIDE), left)

    def reached(self, x: Tensor, secrets: Tensor) -> Tensor:
        """Return which starts are at the minimum of the lower well."""
        minimum = WIDE if self.lower == "wide" else -SHARP
        return ((x - secrets)[..., 0] - minimum).abs() < NEAR


@dataclass(frozen=True)
class Rugged(Function):
    """Wells of random widths side by side; every start has a landscape of its own.

    Half widths are between 0.1 and 1, uniform in their logarithm. Depths are between 0.6 and 1.4:
    the sharper the deeper, or independent of the widths. The steepest slope of a well is
    pi d / (2 w), from 1 to 22.
    """

    depth: str  # tied or independent
    dimension: int = 1

    def draw(self, rng: Rng, starts: int) -> tuple[Tensor, Tensor]:
        """Return starts anywhere in the landscape, and middles, half widths and depths."""
        logs = rng.uniform(-1.0, 0.0, (starts, WELLS))
        drawn = rng.uniform(0.6, 1.4, (starts, WELLS))
        widths, depths = 10.0**logs, 0.6 - 0.8 * logs if self.depth == "tied" else drawn
        first = rng.uniform(0.5, 1.5, (starts, 1)) * rng.choice([-1.0, 1.0], (starts, 1))
        ends = first + np.cumsum(2.0 * widths, axis=1)
        x = rng.uniform(first, ends[:, -1:])
        secrets = np.concatenate([ends - widths, widths, depths], axis=1)
        return torch.from_numpy(x), torch.from_numpy(secrets)

    def gradient(self, x: Tensor, secrets: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Return the slope; beyond the ends it leads back."""
        middle, width, depth = _parts(secrets)
        u = (x - middle) / width
        slope = depth * (0.5 * pi) / width * torch.sin(pi * u)
        inside = torch.where(u.abs() < 1.0, slope, 0.0).sum(-1, keepdim=True)
        left, right = (middle - width)[..., :1], (middle + width)[..., -1:]
        return inside + OUTSIDE * ((x - right).clamp(min=0.0) + (x - left).clamp(max=0.0))

    def reached(self, x: Tensor, secrets: Tensor) -> Tensor:
        """Return which starts are in the inner fifth of the deepest well."""
        middle, width, depth = _parts(secrets)
        deepest = depth.argmax(-1, keepdim=True)
        far = (x - middle.gather(-1, deepest)).abs() / width.gather(-1, deepest)
        return far[..., 0] < 0.2


@dataclass(frozen=True)
class Frequency(Function):
    """Frequency w and phase p of a sine."""

    dimension: int = 2

    def draw(self, rng: Rng, starts: int) -> tuple[Tensor, Tensor]:
        """Return starts of frequency 0.5 to 10; the sought one is between 3 and 6."""
        phases = rng.uniform(-pi, pi, (2, starts))
        start = np.stack([rng.uniform(0.5, 10.0, starts), phases[0]], 1)
        sought = np.stack([rng.uniform(3.0, 6.0, starts), phases[1]], 1)
        return torch.from_numpy(start), torch.from_numpy(sought)

    def gradient(self, x: Tensor, secrets: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Return the gradient of the mean square error by frequency and phase."""
        t = POINTS if chosen is None else POINTS[chosen][:, None]
        inner = x[..., :1] * t + x[..., 1:]
        rest = torch.sin(inner) - torch.sin(secrets[..., :1] * t + secrets[..., 1:])
        slope = 2.0 * rest * torch.cos(inner)
        return torch.stack([(slope * t).mean(-1), slope.mean(-1)], -1)

    def reached(self, x: Tensor, secrets: Tensor) -> Tensor:
        """Return which starts fit."""
        curves = (torch.sin(each[..., :1] * POINTS + each[..., 1:]) for each in (x, secrets))
        ours, sought = curves
        return (ours - sought).square().mean(-1) < FITTED


def _parts(secrets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return middles, half widths and depths of the wells of rugged landscapes."""
    return secrets[..., :WELLS], secrets[..., WELLS:-WELLS], secrets[..., -WELLS:]


def _around(rng: Rng, starts: int, d: int, reach: float) -> tuple[Tensor, Tensor]:
    """Return points within ``reach`` of a centre, and the centres, off the origin."""
    centre = rng.uniform(0.5, 1.5, (starts, d)) * rng.choice([-1.0, 1.0], (starts, d))
    start = centre + rng.uniform(-reach, reach, (starts, d))
    return torch.from_numpy(start), torch.from_numpy(centre)


FUNCTIONS: Final[dict[str, Function]] = {
    "rastrigin": Rastrigin(),
    "ackley": Ackley(),
    "wide well": TwoWells("wide"),
    "sharp well": TwoWells("sharp"),
    "rugged tied": Rugged("tied"),
    "rugged independent": Rugged("independent"),
    "frequency": Frequency(),
}
