"""The rows of the tables on airfoil self-noise, what the paper prints in them, its claims."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from mpgd_lab.content.tables import Comparison
from mpgd_lab.perturbations.released import SWITCHES
from mpgd_lab.schemes import PLAIN, SCRIPTED, SYMMETRIC, Scheme, chaotic, mpgd, runs_of
from mpgd_lab.store import Record, Run
from mpgd_lab.verdicts import Measure, grouped, printed_column

GAMMAS: Final = (0.55, 0.6, 0.65, 0.7)
BETAS: Final = (0.0, 0.25, 0.5)
CLAIMED: Final = 0.5  # the skewness of which the paper claims something
LEVELS: Final = {PLAIN: (0.01, 0.02), SYMMETRIC: (0.01, 0.01)}  # mu, sigma of the text
RELEASED_LOWER: Final = (0.01, 0.01)  # what plain rows with beta > 0 were run with
FIXED: Final[dict[str, Any]] = {"widths": [5, 16, 1], "eta": 0.1, "steps": 3000}
BATCH: Final = 32

PRINTED: Final = {  # scheme: test RMSE, gap; mean (sample std) of five seeds
    "gd": ("0.4309 (0.0595)", "0.2411 (0.0110)"),
    "gaussian": ("0.4279 (0.0980)", "0.2354 (0.0136)"),
    "mpgd plain 0.55 beta 0.5": ("0.3916 (0.1035)", "0.2256 (0.0201)"),
    "mpgd plain 0.6 beta 0.5": ("0.3810 (0.0375)", "0.2298 (0.0083)"),
    "mpgd plain 0.65 beta 0.5": ("0.3829 (0.0720)", "0.2407 (0.0295)"),
    "mpgd plain 0.7 beta 0.5": ("0.4600 (0.1091)", "0.2315 (0.0162)"),
    "mpgd symmetric 0.55 beta 0.5": ("0.3865 (0.0629)", "0.2305 (0.0162)"),
    "mpgd symmetric 0.6 beta 0.5": ("0.4092 (0.1266)", "0.2206 (0.0092)"),
    "mpgd symmetric 0.65 beta 0.5": ("0.3891 (0.0340)", "0.2307 (0.0083)"),
    "mpgd symmetric 0.7 beta 0.5": ("0.3754 (0.0094)", "0.2311 (0.0076)"),
    "mpgd plain 0.55 beta 0": ("", "0.2308 (0.0091)"),
    "mpgd plain 0.6 beta 0": ("", "0.2274 (0.0151)"),
    "mpgd plain 0.65 beta 0": ("", "0.2273 (0.0113)"),
    "mpgd plain 0.7 beta 0": ("", "0.2362 (0.0092)"),
    "mpgd symmetric 0.55 beta 0": ("", "0.2325 (0.0107)"),
    "mpgd symmetric 0.6 beta 0": ("", "0.2339 (0.0167)"),
    "mpgd symmetric 0.65 beta 0": ("", "0.2373 (0.0173)"),
    "mpgd symmetric 0.7 beta 0": ("", "0.2333 (0.0093)"),
    "mpgd plain 0.55 beta 0.25": ("", "0.2264 (0.0189)"),
    "mpgd plain 0.6 beta 0.25": ("", "0.2267 (0.0127)"),
    "mpgd plain 0.65 beta 0.25": ("", "0.2330 (0.0207)"),
    "mpgd plain 0.7 beta 0.25": ("", "0.2393 (0.0139)"),
    "mpgd symmetric 0.55 beta 0.25": ("", "0.2238 (0.0157)"),
    "mpgd symmetric 0.6 beta 0.25": ("", "0.2247 (0.0152)"),
    "mpgd symmetric 0.65 beta 0.25": ("", "0.2267 (0.0045)"),
    "mpgd symmetric 0.7 beta 0.25": ("", "0.2270 (0.0058)"),
}


def tasks(protocol: str, seeds: Sequence[int], steps: int = FIXED["steps"]) -> list[Run]:
    """Return every row of the paper's tables for these seeds, and further baselines.

    All are on the authors' split. Where the noise is not the scripts', the rows of which the paper
    claims something are also run on random splits, one for each seed.
    """
    fixed = FIXED | {"steps": steps}
    runs = runs_of("airfoil", protocol, schemes(protocol), seeds, fixed)
    for seed in seeds if protocol != "released" else ():
        runs += runs_of("airfoil", protocol, claimed(protocol), [seed], fixed | {"split": seed})
    return runs


def schemes(protocol: str) -> list[Scheme]:
    """Return the schemes of a protocol, in the order of its tables; ``text`` has no extras."""
    if protocol == "released":
        return _released()
    chaotics = [*map(_with_levels, mpgd(GAMMAS, BETAS, chaotic(protocol)))]
    if protocol == "text":
        return [Scheme(), *_gaussians(), *chaotics]
    levels = {variant == SYMMETRIC: level for variant, level in LEVELS.items()}
    langevin = [Scheme("langevin", sym, mu=mu, sigma=s) for sym, (mu, s) in levels.items()]
    return [Scheme(), *langevin, *_gaussians(), *chaotics, Scheme(batch=BATCH)]


def claimed(protocol: str) -> list[Scheme]:
    """Return the schemes on random splits: MPGD as the paper claims something of it, its rivals."""
    own = [scheme for scheme in schemes(protocol) if scheme.beta == CLAIMED]
    return [Scheme(), *_gaussians(), *own]


def _gaussians() -> list[Scheme]:
    return [
        Scheme("matched", variant == SYMMETRIC, gamma, mu=mu, sigma=sigma)
        for variant, (mu, sigma) in LEVELS.items()
        for gamma in GAMMAS
    ]


def _with_levels(scheme: Scheme) -> Scheme:
    mu, sigma = LEVELS[scheme.variant or PLAIN]
    if scheme.noise == "switched" and (scheme.symmetric or scheme.beta):
        mu, sigma = RELEASED_LOWER
    return replace(scheme, mu=mu, sigma=sigma)


def _released() -> list[Scheme]:
    mu, sigma = LEVELS[PLAIN]
    script = Scheme(how=SCRIPTED, dtype="float32")
    switched = mpgd(GAMMAS, BETAS, Scheme("switched", switches=SWITCHES))
    return [
        replace(script, step="rounded twice"),
        replace(script, noise="released_gaussian", mu=mu, sigma=sigma),
        *map(_with_levels, switched),
    ]


def measures(protocol: str) -> tuple[Measure, ...]:
    """Return what a protocol's tables show; the scripts' gap is another quantity."""
    gap = "released_gap" if protocol == "released" else "gap"
    return (
        Measure("test_rmse", "test RMSE", 4, printed_column(PRINTED, 0), "lower", "test RMSE"),
        Measure(gap, "RMSE gap", 4, printed_column(PRINTED, 1), "lower", "gap"),
    )


def groups(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return the records of each protocol, those on random splits apart."""
    return grouped(records, _group)


def _group(run: Run) -> str:
    return f"airfoil, {run.protocol}{', random splits' if is_random(run) else ''}"


def is_random(run: Run) -> bool:
    """Return whether a run's split is its own and not the authors'."""
    return "split" in run.hyperparameters


COMPARISON: Final = Comparison(groups, schemes, measures, 4, CLAIMED)
