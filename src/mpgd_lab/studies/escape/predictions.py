"""What theory says of the walkers: exit rates, time in the wide well, rotated wells, diffusion.

Two wells: phases carry x over the barrier both ways, so the chain of phases is taken on the whole
line and nothing is killed. Its stationary law gives the time spent on the right in the long run;
from a given start, the mean over the first cycles gives it over a finite time.

Rotated wells with a driver for each coordinate: a phase of driver i pushes along the axis e_i, and
towards wall j with force F |Q_ji| only. It leaves at the first wall, so n*_i is the crossing time
at the force F max_j |Q_ji|, and the rate is the sum over the drivers of P(Z) P(N >= n*_i).

Gaussian noise with the variance V of a step is a diffusion of temperature T = V / (2 eta) as
eta -> 0. Its mean time to leave has a closed form, which tends to Kramers' law as T -> 0.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpgd.theory.phases.crossing import crossing_time
from mpgd.theory.phases.exits import exit_rate, levy_rate
from mpgd.theory.phases.laminar import constants, force_of, phase_tail
from mpgd.theory.phases.phase_kernel import Chain, Recursion, chain
from mpgd_lab.studies.escape.well_shapes import (
    NARROW,
    SIDES,
    WELLS,
    WIDE,
    Well,
    rotation,
    two_slopes,
)

Array = NDArray[np.float64]

POINTS: Final = 1001  # of the grid of two wells
FEW: Final = 64  # cycles that are added up one by one; then sums are doubled
FINE: Final = 4001  # points of the diffusion's integrals


def rates(h: Any) -> dict[str, float]:
    """Return force, threshold, burst and the exit rates per unit of time, of the well in ``h``.

    ``theory`` goes from phase to phase, ``one_phase`` from the minimum; both are for MPGD only.
    """
    well = WELLS[h["well"]]
    given = {name: h[name] for name in ("sigma", "gamma", "beta", "longest")} | {"lr": h["eta"]}
    one = exit_rate(well.slope, well.walls, start=well.minimum, **given)
    c = constants(h["gamma"], h["longest"])
    kick = h["sigma"] * h["eta"] ** h["gamma"]
    predictions = {"force": one.force, "threshold": one.threshold, "burst": -kick * c.burst_value}
    predictions["levy"] = one.levy
    predictions["kramers"] = diffusion_rate(well, kick**2 * c.variance / (2.0 * h["eta"]))
    if h["kind"] == "mpgd":
        predictions["theory"] = exit_rate(well.slope, well.walls, **given).per_time
        predictions["one_phase"] = one.per_time
    return predictions


def diffusion_rate(well: Well, T: float) -> float:
    """Return one over the mean time in which a diffusion of temperature T leaves a well."""
    x = np.linspace(*well.walls, FINE)
    slope, h = well.slope(x), x[1] - x[0]
    R = np.concatenate([[0.0], np.cumsum((slope[1:] + slope[:-1]) / 2.0)]) * h
    R -= R.min()
    up, down = np.exp((R - R.max()) / T), np.exp(-R / T)
    with np.errstate(under="ignore"):
        inner = np.concatenate([[0.0], np.cumsum((down[1:] + down[:-1]) / 2.0)]) * h
        outer = np.concatenate([[0.0], np.cumsum((up[1:] + up[:-1]) / 2.0)]) * h
        both = up * inner
        double = np.concatenate([[0.0], np.cumsum((both[1:] + both[:-1]) / 2.0)]) * h
    m = int(np.argmin(np.abs(x - well.minimum)))
    time = outer[m] / outer[-1] * double[-1] - double[m]
    return float(T * np.exp(-R.max() / T) / time)


def boxes(h: Any) -> dict[str, float]:
    """Return force and rates in a box; aligned, it is left as often as all its sides are."""
    given = {"lr": h["eta"], "sigma": h["sigma"], "gamma": h["gamma"]}
    predictions = {
        "one_phase": rotated_rate(h),
        "levy": rotated_levy(h),
        "force": force_of(**given),
    }
    if h["rotation"] == "aligned":
        predictions["theory"] = (
            h["dimension"] * exit_rate(lambda x: x, (-1.0, 1.0), **given).per_time
        )
    return predictions


def rotated_rate(h: Any) -> float:
    """Return the rate per unit of time, one phase from the minimum, in rotated wells."""
    Q, eta, gamma = rotation(h["dimension"], h["rotation"]), h["eta"], h["gamma"]
    F, P = force_of(lr=eta, sigma=h["sigma"], gamma=gamma), constants(gamma).burst_probability
    reach = F * np.abs(Q).max(axis=0)
    n = [crossing_time(lambda x: x, 0.0, 1.0, lr=eta, force=f) for f in reach]
    return float(sum(P * phase_tail(k, gamma) for k in n if np.isfinite(k)) / eta)


def rotated_levy(h: Any) -> float:
    """Return its limit: a jump along the axis i passes the first wall at 1 / max_j |Q_ji|."""
    reach = 1.0 / np.abs(rotation(h["dimension"], h["rotation"])).max(axis=0)
    return sum(levy_rate(h["sigma"], h["gamma"], a, a, (0.5, 0.5)) for a in reach)


def shares(h: Any) -> dict[str, float]:
    """Return the force, and for MPGD the burst and the share of time in the wide well.

    ``theory`` over the time of the walk, ``long_run`` for ever, ``by_rates`` for ever from the two
    exit rates alone, ``levy`` for ever in the limit of small steps and small sigma.
    """
    c, eta, gamma, sigma = constants(h["gamma"]), h["eta"], h["gamma"], h["sigma"]
    force = force_of(lr=eta, sigma=sigma, gamma=gamma)
    if h["kind"] != "mpgd":
        return {"force": force}
    recursion = Recursion(two_slopes, eta, sigma * eta**gamma, gamma, None, c)
    grid = np.linspace(*SIDES, POINTS)
    phases = chain(recursion, grid, 0.0, "fresh", where=lambda x: x > 0.0)
    start = sum(np.eye(POINTS)[np.argmin(np.abs(grid - m))] for m in (-NARROW, WIDE)) / 2.0
    cycles = round(h["time"] / eta * c.burst_probability)
    law = phases.quasi_stationary()
    given: Any = {"lr": eta, "sigma": sigma, "gamma": gamma}
    leaves = [exit_rate(two_slopes, w, **given) for w in ((SIDES[0], 0.0), (0.0, SIDES[1]))]
    narrow, wide = leaves
    jumps = [levy_rate(sigma, gamma, w, w, (0.5, 0.0)) for w in (NARROW, WIDE)]
    return {
        "force": force,
        "burst": -sigma * eta**gamma * c.burst_value,
        "theory": _share(phases, first_cycles(phases.matrix, np.asarray(start), cycles)),
        "long_run": _share(phases, law),
        "by_rates": narrow.per_time / (narrow.per_time + wide.per_time),
        "levy": jumps[0] / sum(jumps),
        "leaves_narrow": narrow.per_time,
        "leaves_wide": wide.per_time,
    }


def _share(phases: Chain, law: Array) -> float:
    return float(law @ phases.counted / (law @ phases.steps))


def first_cycles(matrix: Array, start: Array, count: int) -> Array:
    """Return the sum of the laws of the first ``count`` cycles, their number rounded to 2 %."""
    doublings = max(0, int(np.log2(max(1, count / FEW))))
    few = max(1, round(count / 2**doublings))
    total, law = np.zeros_like(start), start
    for _ in range(few):
        total, law = total + law, law @ matrix
    power = np.linalg.matrix_power(matrix, few) if doublings else matrix
    for k in range(doublings):
        total = total + total @ power
        power = power @ power if k < doublings - 1 else power
    return total
