"""The versions of the noises of a run; a record of another version is of another run.

Every run names that of the chaotic driver. Those of Gaussian and stable noise are named by runs
that draw from `mpgd.GaussianNoise` and `mpgd.StableNoise`, which the name of a run's noise tells.
"""

from collections.abc import Mapping
from typing import Any, Final

from mpgd.maps.normal import GAUSSIAN_VERSION
from mpgd.maps.tables import DRIVER_VERSION

STABLE_VERSION: Final = 1  # raise it when draws change: tests/mpgd_lab/test_catalogue.py pins them
FIRST_VERSION: Final = 1  # of each noise in records that name none
NOISES: Final = {  # the present versions, by the field of a run
    "driver": DRIVER_VERSION,
    "gaussian": GAUSSIAN_VERSION,
    "stable": STABLE_VERSION,
}
GAUSSIANS: Final = ("gaussian", "matched", "langevin", "anti", "annealed", "coloured")
# Parts of `limit` that solve the Marcus equation, which stable noise drives.
EQUATIONS: Final = ("law", "rotation", "two drivers", "gamma", "points", "paths")


def versions_of(experiment: str, scheme: str, hyperparameters: Any) -> dict[str, int | None]:
    """Return the versions of Gaussian and stable noise, None where a run has none.

    Examples:
        >>> versions_of("compare", "stable", {"noise": "stable"})
        {'gaussian': None, 'stable': 1}
        >>> versions_of("limit", "fresh", {"part": "law", "kind": "additive"})
        {'gaussian': None, 'stable': 1}
    """
    h = hyperparameters if isinstance(hyperparameters, Mapping) else {}
    noise = h.get("noise", h.get("kind", scheme))
    # The authors' Gaussian comes from torch's or numpy's generator, but for CIFAR-10.
    ours = noise in GAUSSIANS or (noise == "released_gaussian" and experiment == "cifar10")
    solves = experiment == "limit" and h.get("part") in EQUATIONS
    return {
        "gaussian": GAUSSIAN_VERSION if ours else None,
        "stable": STABLE_VERSION if solves or noise == "stable" else None,
    }
