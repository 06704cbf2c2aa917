"""The schemes on digits, what is measured, and the claims put to the test."""

from collections.abc import Sequence
from typing import Any, Final

from mpgd_lab.content.tables import Comparison
from mpgd_lab.schemes import Scheme, matched, mpgd, runs_of
from mpgd_lab.store import Run
from mpgd_lab.verdicts import Measure

GAMMAS: Final = (0.55, 0.6, 0.65, 0.7)
BETA: Final = 0.5
LEVEL: Final[dict[str, Any]] = {"mu": 0.01, "sigma": 0.02}
FIXED: Final[dict[str, Any]] = {"widths": [64, 16, 10], "eta": 0.1, "steps": 1000}
BATCH: Final = 32
MEASURES: Final = (
    Measure("test_accuracy", "test accuracy, %", 2, better="higher", noun="test accuracy"),
    Measure("test_loss", "test loss", 4, noun="test loss"),
    Measure("gap", "gap: test loss - train loss", 4, noun="gap"),
)


def tasks(protocol: str, seeds: Sequence[int], steps: int = FIXED["steps"]) -> list[Run]:
    """Return the runs of every scheme for these seeds; there is one protocol only."""
    return runs_of("digits", "corrected", schemes(protocol), seeds, FIXED | {"steps": steps})


def schemes(protocol: str) -> list[Scheme]:
    """Return the schemes, in the order of the tables."""
    chaotic = mpgd(GAMMAS, [BETA], Scheme("chaotic", **LEVEL))
    baselines = [Scheme(), Scheme("langevin", **LEVEL), *matched(GAMMAS, **LEVEL)]
    return [*baselines, *chaotic, Scheme(batch=BATCH)]


COMPARISON: Final = Comparison(
    lambda records: {"digits": records}, schemes, lambda protocol: MEASURES, 4
)
