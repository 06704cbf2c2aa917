"""Accuracy and speed of `mpgd.stable` beside scipy.stats.levy_stable.

    python -m benchmarks.stable [nolan] [oracle] [speed] [draws] [fit]

nolan   every quantile and density of Nolan's tables (needs MPGD_DATA, folder stable): the largest
        relative error in the smaller tail, cells above 1e-4 one by one with a 36-digit value, kept
        in tests/stable/nolan_cells.csv, and scipy on every n-th cell of the same table
oracle  500 random (alpha, beta, x), and 100 far in the tail, against the inverted characteristic
        function in 36 digits, which is kept in tests/stable/random_points.csv
speed   CPU microseconds per value on one law, of draws and of a fit, beside scipy
draws   10^8 values of the table at four laws: Kolmogorov distance and tail counts down to 1e-7 in
        standard errors, and nanoseconds per value beside other samplers
fit     coverage of the 95 % intervals, bias and root mean square at nine laws, samples of 1,000
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mpgd.stable import StableLaw
from mpgd.stable.sampling import quantile_rows
from mpgd.stable.standard import location

Array = NDArray[np.float64]

TOLERANCE: Final = 1e-4
BETAS: Final = np.arange(11) / 10.0
LAWS: Final = [(a, b) for a in (0.8, 1.2, 1.7) for b in (0.0, 0.5, 0.9)]
NAMES: Final = ("alpha", "beta", "loc", "scale")
ORACLE: Final = Path(__file__).parents[1] / "tests" / "stable" / "make_oracle.py"


def main() -> None:
    """Run the parts that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stable", description=__doc__)
    parts: dict[str, Callable[[argparse.Namespace], Iterator[str]]]
    parts = {
        "nolan": nolan,
        "oracle": oracle,
        "speed": speed,
        "draws": draws,
        "fit": fit,
    }
    parser.add_argument("parts", nargs="*", choices=[*parts, []], default=[])
    parser.add_argument("--count", type=int, default=100, help="samples of a law, for fit")
    parser.add_argument("--fits", type=Path, default=Path("fits.csv"), help="where fits are kept")
    parser.add_argument("--draws", type=int, default=10**8, help="values of a law, for draws")
    parser.add_argument("--scipy", type=int, default=200, help="cells between two of scipy's")
    options = parser.parse_args()
    for name in options.parts or parts:
        print(f"\n## {name}\n", flush=True)
        for line in parts[name](options):
            print(line, flush=True)


def quantile_table(path: Path) -> Array:
    """Return rows (alpha, beta, x, p) of Nolan's table of quantiles, S0."""
    rows, alpha = [], np.nan
    for line in path.read_text(encoding="latin-1").splitlines():
        if "alpha=" in line:
            alpha = float(line.split("=")[1].split()[0])
            continue
        words = line.split()
        try:
            numbers = [float(word) for word in words]
        except ValueError:
            continue
        if len(numbers) == 12 and 0.0 < numbers[0] < 1.0:
            rows += [(alpha, b, x, numbers[0]) for b, x in zip(BETAS, numbers[1:], strict=True)]
    return np.array(rows)


def density_table(path: Path) -> Array:
    """Return rows (alpha, beta, x, f) of the table of densities, S0."""
    lines = path.read_text(encoding="latin-1").splitlines()
    rows = []
    for k, line in enumerate(lines):
        if line.strip() == "alpha" and lines[k + 1].strip() == "x beta":
            x, f = lines[k + 4].split()[:2]
            rows.append((float(lines[k + 2]), float(lines[k + 3]), float(x), float(f)))
    return np.array(rows)


def nolan(options: argparse.Namespace) -> Iterator[str]:
    """Yield the errors on both tables."""
    folder = os.environ.get("MPGD_DATA")
    if folder is None:
        yield "MPGD_DATA is not set"
        return
    quantiles = quantile_table(Path(folder) / "stable" / "nolan_cdf_quantile.dat")
    densities = density_table(Path(folder) / "stable" / "nolan_pdf_quantile.dat")
    yield from _compare("quantiles", quantiles, _tail_errors, "cdf", options.scipy)
    yield from _compare("densities", densities, _density_errors, "pdf", options.scipy)


def _tail_errors(law: object, x: Array, p: Array) -> Array:
    """Return the relative errors in the smaller tail; the table's x are quantiles of p."""
    upper = p > 0.5
    errors = np.empty_like(p)
    errors[~upper] = law.cdf(x[~upper]) / p[~upper] - 1.0  # type: ignore[attr-defined]
    errors[upper] = law.sf(x[upper]) / (1.0 - p[upper]) - 1.0  # type: ignore[attr-defined]
    return np.abs(errors)


def _density_errors(law: object, x: Array, f: Array) -> Array:
    return np.asarray(np.abs(law.pdf(x) / f - 1.0))  # type: ignore[attr-defined]


def _compare(
    name: str, table: Array, errors_of: Callable[..., Array], function: str, every: int
) -> Iterator[str]:
    """Yield one table's errors, ours on all cells and scipy's on some."""
    errors, seconds = np.empty(len(table)), 0.0
    for alpha, beta in np.unique(table[:, :2], axis=0):
        rank = np.flatnonzero((table[:, 0] == alpha) & (table[:, 1] == beta))
        start = time.process_time()
        law = StableLaw(alpha, beta, parametrization="S0")
        errors[rank] = errors_of(law, table[rank, 2], table[rank, 3])
        seconds += time.process_time() - start
    good = int((errors < TOLERANCE).sum())
    each = 1e6 * seconds / len(table)
    yield f"{name}: {good} of {len(table)} within 1e-4; ours {each:.1f} us each"
    yield from _decide(table[~(errors < TOLERANCE)], function)
    some, elapsed, theirs = table[::every], 0.0, []
    for alpha, beta, x, value in some:
        start = time.process_time()
        theirs.append(errors_of(_scipy(alpha, beta), np.array([x]), np.array([value]))[0])
        elapsed += time.process_time() - start
    share = float((np.array(theirs) < TOLERANCE).mean())
    ratio = elapsed / len(some) / (seconds / len(table))
    yield f"scipy on {len(some)} cells: {100 * share:.1f} % within 1e-4; {ratio:.0f} times our time"


def _decide(cells: Array, function: str) -> Iterator[str]:
    """Yield cells of a table in S0 one by one, with our value and that in 36 digits."""
    wanted = [(a, b, x - location(a, b, 0.0, 1.0, "S0")) for a, b, x, _ in cells.tolist()]
    truths = _oracle().decided(wanted, ORACLE.with_name("nolan_cells.csv"))
    worst, errors = 0.0, []
    for (alpha, beta, x, value), (_, _, y, tail, density) in zip(cells, truths, strict=True):
        law = StableLaw(alpha, beta, parametrization="S0")
        ours, truth, printed, scale = law.pdf(x), density, value, density
        if function == "cdf":
            ours, truth = (law.sf(x) if y >= 0 else law.cdf(x)), tail
            printed = 1.0 - value if y >= 0 else value
            scale = min(printed, 1.0 - printed)
        worst = max(worst, abs(ours / truth - 1.0))
        errors.append(abs(printed - truth) / scale)
        cell = f"{alpha:g} {beta:g} x {x:.9g} table {printed:.9g}"
        yield f"    {cell} ours {ours:.12g} 36 digits {truth:.12g}"
    least = f"the table's error is at least {min(errors):.2g}" if errors else ""
    yield f"{len(cells)} cells decided: our largest error {worst:.1e}; {least}"


def _scipy(alpha: float, beta: float) -> object:
    from scipy.stats import levy_stable

    levy_stable.parameterization = "S0"
    warnings.simplefilter("ignore")
    return levy_stable(alpha, beta)


def _oracle() -> ModuleType:
    spec = importlib.util.spec_from_file_location("oracle", ORACLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def oracle(options: argparse.Namespace) -> Iterator[str]:
    """Yield the worst errors at random points; values below 1e-15 are left out."""
    truth = _oracle()
    worst: dict[tuple[str, str], tuple[int, float]] = {}
    points = truth.decided(truth.random_points(), ORACLE.with_name("random_points.csv"))
    for k, (alpha, beta, y, *expected) in enumerate(points):
        law = StableLaw(alpha, beta)
        for name, value in zip(("sf", "pdf"), expected, strict=True):
            where = "tail" if k >= 500 else "alpha >= 0.3" if alpha >= 0.3 else "alpha < 0.3"
            error = abs(getattr(law, name)(y) / value - 1.0) if value > 1e-15 else 0.0
            seen = worst.get((where, name), (0, 0.0))
            worst[where, name] = (seen[0] + 1, max(seen[1], float(error)))
    for (where, name), (count, error) in worst.items():
        yield f"{where}, {name}: {count} points, worst relative error {error:.1e}"


def speed(options: argparse.Namespace) -> Iterator[str]:
    """Yield CPU microseconds per value: ours on 10,000 points and on one, scipy's on 20 and on one.

    A fit is one of 50 values: scipy takes minutes for it.
    """
    yield "| alpha | beta | | ours | scipy | ratio | one number, ours | scipy | ratio |"
    yield "|---|---|---|---|---|---|---|---|---|"
    x, few, one = np.linspace(-10.0, 10.0, 10_000), np.linspace(-10.0, 10.0, 20), np.array(1.3)
    for alpha, beta in ((0.5, 0.5), (1.0, 0.5), (1.5, 0.5), (1.9, 0.0)):
        laws = StableLaw(alpha, beta, parametrization="S0"), _scipy(alpha, beta)
        for name in ("pdf", "cdf"):
            ours, theirs = (getattr(law, name) for law in laws)
            many = _microseconds(ours, x), _microseconds(theirs, few)
            alone = _microseconds(ours, one), _microseconds(theirs, one)
            cells = [f"{a:.3g} | {b:.3g} | {b / a:.0f}" for a, b in (many, alone)]
            yield f"| {alpha:g} | {beta:g} | {name} | {' | '.join(cells)} |"
    yield from _speed_of_draws()
    sample = StableLaw(1.5, 0.5, parametrization="S0").rvs(50, random_state=0)
    ours = _microseconds(StableLaw.fit, sample)
    start = time.process_time()
    _scipy(1.5, 0.5).dist.fit(sample)  # type: ignore[attr-defined]
    theirs = 1e6 * (time.process_time() - start) / 50
    both = f"ours {ours * 5e-5:.3g} s, scipy {theirs * 5e-5:.3g} s, ratio {theirs / ours:.0f}"
    yield f"fit of 50 values: {both}"


def _speed_of_draws() -> Iterator[str]:
    for alpha, beta in ((0.5, 0.5), (1.5, 0.5)):
        pair = StableLaw(alpha, beta), _scipy(alpha, beta)
        ours, theirs = (
            _microseconds(lambda z: law.rvs(size=z.size, random_state=0), np.zeros(10**6))  # type: ignore[attr-defined]  # noqa: B023
            for law in pair
        )
        yield f"rvs at {alpha:g}, {beta:g}: {1e3 * ours:.3g} ns a value, scipy {1e3 * theirs:.3g}"
    for alpha, beta in ((0.25, 1.0), (0.5, 0.5), (1.0, 0.5), (1.5, 0.5), (2.0, 0.0)):
        start = time.process_time()
        quantile_rows(alpha, beta)
        yield f"table at {alpha:g}, {beta:g}: built in {time.process_time() - start:.2f} s"


def _microseconds(function: Callable[..., object], x: Array) -> float:
    """Return the CPU time of a call per value, the best of three after a first one."""
    best = np.inf
    for k in range(4):
        start = time.process_time()
        function(x)
        best = min(best, time.process_time() - start) if k else best
    return float(1e6 * best / x.size)


def draws(options: argparse.Namespace) -> Iterator[str]:
    """Yield the distance and the tail counts of the noise of an optimizer, then times."""
    from mpgd import StableNoise

    tails = 10.0 ** -np.arange(1.0, 8.0)
    block = min(10**6, options.draws)
    yield "| alpha | beta | sqrt(n) KS | lower tail counts, standard errors | upper |"
    yield "|---|---|---|---|---|"
    for seed, (alpha, beta) in enumerate(((0.6, 0.5), (1.1, 0.5), (1.5, -1.0), (2.0, 0.0))):
        law, noise = StableLaw(alpha, beta), StableNoise(alpha, beta)
        p = np.linspace(0.001, 0.999, 999)
        edges = np.concatenate([law.ppf(tails[::-1]), law.ppf(p), law.isf(tails)])
        order = np.argsort(edges)
        below, state = np.zeros(edges.size), noise.init(block, seed=seed)
        for _ in range(options.draws // block):
            value, state = noise.step(state)
            found = np.searchsorted(edges[order], value.numpy(), side="left")
            below[order] += np.cumsum(np.bincount(found, minlength=edges.size + 1))[:-1]
        n = block * (options.draws // block)
        distance = np.abs(below[7:-7] / n - p).max() * np.sqrt(n)
        error = np.sqrt(n * tails * (1.0 - tails))
        lower = (below[:7][::-1] - n * tails) / error
        upper = (n - below[-7:] - n * tails) / error
        cells = [" ".join(f"{v:.1f}" for v in side) for side in (lower, upper)]
        yield f"| {alpha:g} | {beta:g} | {distance:.2f} | {cells[0]} | {cells[1]} |"
    yield from _times_of_draws()


def _times_of_draws() -> Iterator[str]:
    """Yield nanoseconds a value: interleaved, CPU time, on one thread, the best of nine."""
    import torch

    from mpgd import GaussianNoise, StableNoise, perturb

    torch.set_num_threads(1)
    stable, normal = StableNoise(1.5, 0.5), GaussianNoise()
    states = stable.init(10**6), normal.init(10**6)
    rng, theirs = np.random.default_rng(0), _scipy(1.5, 0.5)
    optimizers = []
    for seed, noise in enumerate((stable, normal)):
        x = torch.nn.Parameter(torch.zeros(10**6))
        x.grad = torch.zeros_like(x)
        sgd = torch.optim.SGD([x], lr=1e-3)
        optimizers.append(perturb(sgd, sigma=1e-3, noise=noise, seed=seed))
    tasks: dict[str, Callable[[], object]] = {
        "StableNoise": lambda: stable.step(states[0]),
        "GaussianNoise": lambda: normal.step(states[1]),
        "step of SGD in float32 with StableNoise": optimizers[0].step,
        "step of SGD in float32 with GaussianNoise": optimizers[1].step,
        "torch.randn": lambda: torch.randn(10**6, dtype=torch.float64),
        "rvs (Chambers, Mallows, Stuck in numpy)": lambda: StableLaw(1.5, 0.5).rvs(10**6, rng),
        "scipy": lambda: theirs.rvs(10**6, random_state=0),  # type: ignore[attr-defined]
    }
    best = dict.fromkeys(tasks, np.inf)
    for name in [*tasks] * 9:
        start = time.process_time()
        tasks[name]()
        best[name] = min(best[name], time.process_time() - start)
    for name, taken in best.items():
        yield f"{name}: {1e3 * taken:.2f} ns a value"


def fit(options: argparse.Namespace) -> Iterator[str]:
    """Yield coverage, bias and root mean square error for each parameter.

    Beside them stand those of scipy's quantile fit, McCulloch's, on the same samples; its maximum
    likelihood takes minutes a sample (see `speed`). Fits are kept in a file, so a second run goes
    on.
    """
    rows = {}
    if options.fits.exists():
        for line in np.loadtxt(options.fits, delimiter=",", ndmin=2):
            rows[line[0], (line[1], line[2])] = line[3:]
    for seed in range(options.count):
        for law in LAWS:
            if (seed, law) not in rows:
                rows[seed, law] = _one_fit(seed, law)
                with options.fits.open("a") as file:
                    file.write(",".join(f"{v:.9g}" for v in (seed, *law, *rows[seed, law])) + "\n")
    fits = {law: np.array([rows[seed, law] for seed in range(options.count)]) for law in LAWS}
    yield f"{options.count} samples of 1,000: how often 95 % intervals cover, per cent"
    yield from _fit_table(fits, ["profile", "1.96 errors"], _coverage, ".1f")
    yield "\nbias and root mean square"
    yield from _fit_table(fits, ["bias", "rms", "scipy's quantiles: bias", "rms"], _errors, ".3f")
    yield ""
    for law, some in fits.items():
        ends, taken = np.isnan(some[:, 4:8]).any(axis=1).mean(), some[:, 16].mean()
        yield f"{law}: {100.0 * ends:.1f} % at an end of a range, {1e3 * taken:.0f} CPU ms a fit"


def _fit_table(
    fits: dict[tuple[float, float], Array],
    groups: list[str],
    columns: Callable[[Array, Array], list[Array]],
    form: str,
) -> Iterator[str]:
    """Yield a table with four columns in a group and a row for each law."""
    heads = [f"{group}: {NAMES[0]} | " + " | ".join(NAMES[1:]) for group in groups]
    yield f"| alpha | beta | {' | '.join(heads)} |"
    yield "|---|---|" + "---|" * 4 * len(groups)
    for law, rows in fits.items():
        cells = np.concatenate(columns(rows, np.array([*law, 0.0, 1.0])))
        yield f"| {law[0]:g} | {law[1]:g} | " + " | ".join(f"{v:{form}}" for v in cells) + " |"


def _coverage(rows: Array, truth: Array) -> list[Array]:
    distance, off = rows[:, 8:12], np.abs(rows[:, :4] - truth)
    inside = distance < 1.96**2, off < 1.96 * rows[:, 4:8]
    return [100.0 * covered.mean(axis=0) for covered in inside]


def _errors(rows: Array, truth: Array) -> list[Array]:
    off = [rows[:, k : k + 4] - truth for k in (0, 12)]
    return [f for d in off for f in (d.mean(axis=0), np.sqrt((d**2).mean(axis=0)))]


def _one_fit(seed: int, law: tuple[float, float]) -> Array:
    """Return estimates, errors, profile distances at the truth, scipy's estimates, seconds."""
    x = StableLaw(*law, parametrization="S0").rvs(1000, random_state=seed)
    start = time.process_time()
    result = StableLaw.fit(x)
    taken = time.process_time() - start
    truth = zip(NAMES, (*law, 0.0, 1.0), strict=True)
    ours = [getattr(result.law, name) for name in NAMES]
    distances = [result.profile_distance(name, value) for name, value in truth]
    theirs = _scipy(*law).dist._fitstart(x)  # type: ignore[attr-defined]
    return np.array([*ours, *result.standard_errors, *distances, *theirs, taken])


if __name__ == "__main__":
    main()
