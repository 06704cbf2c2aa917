"""Perturbations of many runs at once: m and n of every step, from the noise that a run names.

    none               plain descent
    chaotic            MPGD with ``gamma``, ``beta``, ``symmetric``, ``signs``, ``first_sign``
    matched            Gaussian with the prefactor and the per-step variance of that MPGD, or its
                       displacement over ``matched_over`` steps; of the authors' ``switches`` it
                       can have one_driver and same_seeds
    langevin           Gaussian with prefactor eta^(1/2) and unit variance
    switched           the authors' noise with ``switches`` on, see `perturbations.released`
    released_gaussian  the authors' Gaussian, prefactor eta

Runs with the same driver share its orbits, so one more scheme costs little. The noise of a run is
bit-identical whatever the batch holds.

A run with seed s is perturbed as `mpgd.MPGD(..., seed=s)` would perturb it: element i of its t-th
tensor has the drivers of (s, t, driver, i).
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from math import prod
from typing import Final, Protocol

import numpy as np
import torch
from torch import Tensor

from mpgd.noise import ChaoticNoise, ColouredNoise, GaussianNoise, NoiseState, StableNoise
from mpgd.noise.counter_hash import make_key, step_key_tensor
from mpgd.noise.engines import cpu, tensor, use_cpu_kernels
from mpgd.noise.phased import PhasedNoise
from mpgd.optim.displacement.reference import strengths, term
from mpgd.parameters import check_choice
from mpgd_lab.nets.layout import Layout
from mpgd_lab.perturbations.released import SwitchedNoise, released_gaussian
from mpgd_lab.store import Run

Noise = PhasedNoise | ColouredNoise | GaussianNoise | StableNoise
Shapes = Sequence[tuple[int, ...]]
Rows = Sequence[tuple[int, Run]]

NOISES: Final = ("none", "chaotic", "matched", "langevin", "switched", "released_gaussian")


class Source(Protocol):
    """The perturbations of some of the runs."""

    rows: Tensor

    def next(self) -> tuple[Tensor, Tensor]:
        """Return m and n of this step, each (row, element)."""


def perturbations(
    runs: Sequence[Run], shapes: Shapes, dtype: torch.dtype, layout: Layout | None = None
) -> list[Source]:
    """Return the sources of perturbation, one for all runs with the same drivers."""
    groups: dict[tuple[Hashable, ...], list[tuple[int, Run]]] = defaultdict(list)
    for row, run in enumerate(runs):
        check_choice("noise", run.hyperparameters.get("noise", "none"), NOISES)
        groups[driver(run)].append((row, run))
    kinds: dict[Hashable, Callable[..., Source]] = {
        "chaotic": Orbits,
        "gaussian": Normals,
        "switched": Tables,
        "released_gaussian": partial(ReleasedNormals, layout),
    }
    sources = [(kinds[name], rows) for (name, *_), rows in groups.items() if name != "none"]
    return [make(rows, shapes, dtype) for make, rows in sources]


def driver(run: Run) -> tuple[Hashable, ...]:
    """Return the key of runs that share orbits, draws or tables.

    Examples:
        >>> driver(Run("x", "paper", "mpgd", {"noise": "chaotic", "gamma": 0.6, "beta": 0.5}, 1))
        ('chaotic', 0.6, 0.5, None, None)
    """
    h = run.hyperparameters
    noise = h.get("noise", "none")
    if noise in ("matched", "langevin"):
        return ("gaussian", *h.get("switches", ()))
    names = {
        "chaotic": ("gamma", "beta", "signs", "first_sign"),
        "switched": ("gamma", "beta", "symmetric", "switches"),
    }
    parts = (h.get(name) for name in names.get(str(noise), ()))
    return noise, *(tuple(part) if isinstance(part, list) else part for part in parts)


def levels(run: Run) -> tuple[float, float]:
    """Return what multiplies v1 and v2: mu eta^gamma and sigma eta^gamma, by the run's noise.

    Examples:
        >>> h = {"noise": "langevin", "eta": 0.25, "mu": 2.0, "sigma": 3.0}
        >>> levels(Run("x", "paper", "langevin", h, seed=1))
        (1.0, 1.5)
    """
    h = run.hyperparameters
    if h["noise"] == "none":
        return 0.0, 0.0
    exponent = {"langevin": 0.5, "released_gaussian": 1.0}.get(h["noise"]) or h["gamma"]
    pair = strengths(h["eta"], h["mu"], h["sigma"], (exponent, exponent))
    scale = 1.0
    if h["noise"] == "matched" and "matched_over" in h:
        scale = _spread_over(h["gamma"], h["beta"], h["matched_over"], h["symmetric"])
    elif h["noise"] == "matched":
        scale = ChaoticNoise(h["gamma"]).spread(h["symmetric"])
    return float(pair[0]) * scale, float(pair[1]) * scale


@lru_cache(maxsize=64)
def _spread_over(gamma: float, beta: float, steps: int, symmetric: bool) -> float:
    """Return the standard deviation of the Gaussian that moves as far in so many steps."""
    noise = ChaoticNoise(gamma, beta)
    return GaussianNoise.matched(noise, steps=steps, symmetric=symmetric).spread()


def _columns(rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows, and the two levels as columns."""
    pairs = torch.tensor([levels(run) for _, run in rows], dtype=torch.float64)
    return torch.tensor([row for row, _ in rows]), pairs[:, :1], pairs[:, 1:]


def _places(rows: Rows) -> tuple[list[int], Tensor]:
    """Return the different seeds, and where among them each row's is."""
    seeds = sorted({run.seed for _, run in rows})
    return seeds, torch.tensor([seeds.index(run.seed) for _, run in rows])


class NoiseBank:
    """Some drivers of every element of every run: multiplicative, additive, and their twins.

    They are numbered 0 to 3. After ``step`` steps ``words`` holds the states of a chaotic noise,
    (driver, run, element).

    Examples:
        >>> bank = NoiseBank(ChaoticNoise(0.6), seeds=[1, 2], shapes=[(3, 4), (3,)], drivers=[0, 1])
        >>> bank.next().shape
        torch.Size([2, 2, 15])
    """

    def __init__(
        self, noise: Noise, seeds: Sequence[int], shapes: Shapes, drivers: Sequence[int]
    ) -> None:
        self.noise, self.step = noise, 0
        sizes = [prod(shape) for shape in shapes]
        self._sizes = torch.tensor(sizes)
        self._index = torch.cat([torch.arange(size) for size in sizes])
        every = product(drivers, seeds, range(len(sizes)))
        keys = [make_key(seed, ordinal, driver) for driver, seed, ordinal in every]
        self._keys = torch.tensor(keys).view(len(drivers), len(seeds), -1)
        self.words: Tensor | None = None
        if isinstance(noise, PhasedNoise | ColouredNoise):
            lengths = sizes * (len(drivers) * len(seeds))
            pairs = zip(lengths, keys, strict=True)
            words = [noise.start(torch.arange(length), key) for length, key in pairs]
            self.words = torch.cat(words).view(len(drivers), len(seeds), -1)

    def next(self) -> Tensor:
        """Return the values at this step, (driver, run, element) float64, and advance."""
        noise = self.noise
        engine = noise.engine if isinstance(noise, PhasedNoise) else None
        others = isinstance(noise, StableNoise | ColouredNoise)
        if others or not use_cpu_kernels(engine, self._keys.device):
            value = self._by_tensors()
        else:
            value = self._by_kernels(noise)  # type: ignore[arg-type]
        self.step += 1
        return value

    def _by_kernels(self, noise: PhasedNoise | GaussianNoise) -> Tensor:
        shape = (*self._keys.shape[:2], len(self._index))
        value = torch.empty(shape, dtype=torch.float64)
        keys = self._keys.view(-1).numpy()
        sizes = np.resize(self._sizes.numpy(), len(keys))
        cpu.advance_tensors(noise.driver, self.words, value, sizes, keys, self.step)
        return value

    def _by_tensors(self) -> Tensor:
        now = torch.tensor(self.step)
        if isinstance(self.noise, ColouredNoise) and self.words is not None:
            keys = self._keys.repeat_interleave(self._sizes, dim=-1)
            state = NoiseState(self.words, now, keys)
            value, later = self.noise.step(state, index=self._index.expand_as(keys))
            self.words = later.word
            return value
        keys = step_key_tensor(self._keys, now).repeat_interleave(self._sizes, dim=-1)
        index = self._index.expand_as(keys)
        if self.words is None or not isinstance(self.noise, PhasedNoise):
            return self.noise.draw(index, keys)  # type: ignore[union-attr]
        flat = (self.words.view(-1), keys.view(-1), index.reshape(-1))
        value, following = tensor.advance(self.noise.driver, *flat)
        self.words = following.view_as(self.words)
        return value.view_as(self.words)


class Orbits:
    """MPGD's drivers of one gamma and beta; the symmetric variant takes their twins off."""

    def __init__(self, rows: Rows, shapes: Shapes, dtype: torch.dtype) -> None:
        h = rows[0][1].hyperparameters
        self.rows, self.mu, self.sigma = _columns(rows)
        self.symmetric = torch.tensor([run.hyperparameters["symmetric"] for _, run in rows])
        seeds, self.places = _places(rows)
        drivers = range(4 if self.symmetric.any() else 2)
        rules = {name: h[name] for name in ("signs", "first_sign") if name in h}
        noise = ChaoticNoise(h["gamma"], h["beta"], **rules)
        self.bank = NoiseBank(noise, seeds, shapes, drivers)
        self.dtype = dtype

    def next(self) -> tuple[Tensor, Tensor]:
        """Return m and n of this step."""
        values = self.bank.next()
        m = self._term(self.mu, values[0], values[-2])
        return m, self._term(self.sigma, values[1], values[-1])

    def _term(self, level: Tensor, v: Tensor, twin: Tensor) -> Tensor:
        off = twin[self.places] * self.symmetric[:, None]
        return term(level, v[self.places], off, self.dtype)


class Normals:
    """Gaussian noise; the level holds its standard deviation, so all schemes share the draws.

    Two of the authors' switches mean something for it: with one_driver both terms get the same
    draw, with same_seeds element i of any tensor in run s gets draw s + i.
    """

    def __init__(self, rows: Rows, shapes: Shapes, dtype: torch.dtype) -> None:
        self.rows, self.mu, self.sigma = _columns(rows)
        switches = rows[0][1].hyperparameters.get("switches", ())
        drivers = (0,) if "one_driver" in switches else (0, 1)
        seeds, self.places = _places(rows)
        self.columns: Tensor | None = None
        if "same_seeds" in switches:
            sizes = [prod(shape) for shape in shapes]
            element = torch.cat([torch.arange(size) for size in sizes])
            self.columns = torch.tensor([run.seed for _, run in rows])[:, None] + element
            seeds, shapes = [0], [(max(seeds) + max(sizes),)]
        self.bank, self.dtype = NoiseBank(GaussianNoise(1.0), seeds, shapes, drivers), dtype

    def next(self) -> tuple[Tensor, Tensor]:
        """Return m and n of this step."""
        drawn = self.bank.next()
        v = drawn[:, self.places] if self.columns is None else drawn[:, 0, self.columns]
        return term(self.mu, v[0], None, self.dtype), term(self.sigma, v[-1], None, self.dtype)


class Tables:
    """The authors' noise, tabulated over the perturbed steps, for one set of switches.

    The values of step k are entries ``first + k stride`` of flat tables, (row, element).
    """

    def __init__(self, rows: Rows, shapes: Shapes, dtype: torch.dtype) -> None:
        h = rows[0][1].hyperparameters
        key = (h["gamma"], h["beta"], h["symmetric"], frozenset(h["switches"]))
        noise, steps = SwitchedNoise(*key), h.get("stop") or h["steps"]
        self.rows, self.mu, self.sigma = _columns(rows)
        self.dtype, self.step = dtype, 0
        seeds, sizes = [run.seed for _, run in rows], [prod(shape) for shape in shapes]
        shared = noise.has("same_seeds") and noise.has("constant_sign")
        tabulate = _shared_tables if shared else _own_tables
        self.tables, self.first, self.stride = tabulate(noise, seeds, sizes, steps)

    def next(self) -> tuple[Tensor, Tensor]:
        """Return m and n of this step."""
        place = self.first + self.step * self.stride
        self.step += 1
        v1, v2 = (table.take(place) for table in self.tables)
        return term(self.mu, v1, None, self.dtype), term(self.sigma, v2, None, self.dtype)


Tabulated = tuple[tuple[Tensor, Tensor], Tensor, Tensor]


def _own_tables(noise: SwitchedNoise, seeds: list[int], sizes: list[int], steps: int) -> Tabulated:
    """Return the tables of all runs, one after the other."""
    width = sum(sizes)
    v1, v2 = torch.empty(2, len(seeds), steps, width, dtype=torch.float64)
    for row, seed in enumerate(seeds):
        v1[row], v2[row] = noise.tables(seed, [(n,) for n in sizes], steps)
    rows = steps * width * torch.arange(len(seeds))
    return (v1, v2), rows[:, None] + torch.arange(width), torch.tensor(width)


def _shared_tables(
    noise: SwitchedNoise, seeds: list[int], sizes: list[int], steps: int
) -> Tabulated:
    """Return one table for all runs: with same seeds, element i of run s is column s + i of it."""
    transposed = replace(noise, switches=noise.switches - {"reshaped"})
    width = max(sizes) + max(seeds) - min(seeds)
    v1, v2 = transposed.tables(min(seeds), [(width,)], steps)
    columns = (torch.tensor(seeds) - min(seeds))[:, None]
    element = torch.cat([torch.arange(n) for n in sizes])
    if not noise.has("reshaped"):
        return (v1.reshape(-1), v2.reshape(-1)), columns + element, torch.tensor(width)
    # Step k reads consecutive times of one orbit across elements.
    stride = torch.cat([torch.full((n,), n) for n in sizes])
    return (v1.T.reshape(-1), v2.T.reshape(-1)), columns * steps + element, stride


class ReleasedNormals:
    """The authors' Gaussian: from torch's generator as the initialisation of the net left it."""

    def __init__(
        self, layout: Layout | None, rows: Rows, shapes: Shapes, dtype: torch.dtype
    ) -> None:
        if layout is None:
            raise ValueError("released_gaussian follows the initialisation of a net, got no layout")
        self.rows, self.mu, self.sigma = _columns(rows)
        self.shapes, self.dtype = shapes, dtype
        self.states = []
        with torch.random.fork_rng():
            for _, run in rows:
                layout.seeded(run.seed, dtype)
                self.states.append(torch.random.get_rng_state())

    def next(self) -> tuple[Tensor, Tensor]:
        """Return m and n of this step; the additive term enters with -sigma."""
        v1, v2 = [], []
        with torch.random.fork_rng():
            for row, state in enumerate(self.states):
                torch.random.set_rng_state(state)
                multiplicative, additive = released_gaussian(self.shapes, self.dtype)
                self.states[row] = torch.random.get_rng_state()
                v1.append(multiplicative)
                v2.append(-additive)
        m, n = (torch.stack(v).double() for v in (v1, v2))
        return term(self.mu, m, None, self.dtype), term(self.sigma, n, None, self.dtype)
