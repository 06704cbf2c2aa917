"""Theorem 4.2: how far empirical and population risk can differ along a trajectory.

For the symmetric heavy-tailed limit trained on n examples, R the population and Rhat the empirical
risk (Lim, Wan & Simsekli 2022):

    with probability 1 - delta
        sup |Rhat - R| <= K max(B, L) (sqrt(alpha / n) + sqrt((log(1/delta) + I) / n))
    in expectation
        E sup |Rhat - R| <= K max(B, L) (sqrt(alpha / n) + sqrt(I_1 / n))

alpha is the tail index, B bounds the loss and L its Lipschitz constant, I and I_1 are the mutual
information, of infinite and of first order, between data and trajectory. K and I are unknown: they
are arguments without a default, so that no number here claims more than the theorem does. What can
be measured is the gap itself: ``worst_gap``.
"""

from dataclasses import dataclass
from math import isfinite, log, sqrt

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class GeneralizationBound:
    """The two summands of Theorem 4.2, each with the factor K max(B, L), and their sum.

    Examples:
        >>> GeneralizationBound(alpha_term=0.25, information_term=0.5).value
        0.75
    """

    alpha_term: float
    information_term: float

    @property
    def value(self) -> float:
        """The bound: the sum of the two terms."""
        return self.alpha_term + self.information_term


@dataclass(frozen=True)
class WorstGap:
    """The largest |train - test| along a trajectory and the first step that has it.

    Examples:
        >>> WorstGap(value=0.5, step=3).step
        3
    """

    value: float
    step: int


def generalization_bound(
    alpha: float,
    n: int,
    *,
    lipschitz: float,
    bound: float,
    constant: float,
    mutual_information: float,
    delta: float | None = None,
) -> GeneralizationBound:
    """Return Theorem 4.2's bound: with probability 1 - delta, or in expectation if delta is None.

    Args:
        alpha: Tail index, in (0, 2].
        n: Number of training examples.
        lipschitz: L, the loss's Lipschitz constant in the parameters.
        bound: B, the largest value of the loss.
        constant: K, which the theorem leaves unknown.
        mutual_information: I of infinite order with delta, I_1 (Shannon's) without.
        delta: Chance that the bound fails, in (0, 1); None for the bound on the expectation.

    Examples:
        >>> result = generalization_bound(
        ...     1.0, 100, lipschitz=1.0, bound=2.0, constant=1.0, mutual_information=4.0
        ... )
        >>> result.alpha_term, result.information_term
        (0.2, 0.4)
    """
    if not 0.0 < alpha <= 2.0:
        raise ValueError(f"alpha must lie in (0, 2], got {alpha!r}")
    if not n >= 1:
        raise ValueError(f"n must be at least 1, got {n!r}")
    if delta is not None and not 0.0 < delta < 1.0:
        raise ValueError(f"delta must lie in (0, 1) or be None, got {delta!r}")
    B = _at_least_zero("bound", bound)
    L = _at_least_zero("lipschitz", lipschitz)
    I = _at_least_zero("mutual_information", mutual_information)  # noqa: E741
    factor = _at_least_zero("constant", constant) * max(B, L)
    risk = 0.0 if delta is None else -log(delta)
    return GeneralizationBound(factor * sqrt(alpha / n), factor * sqrt((risk + I) / n))


def worst_gap(train_losses: ArrayLike, test_losses: ArrayLike) -> WorstGap:
    """Return the largest |train - test| over the steps of a trajectory and the first such step.

    Args:
        train_losses: One loss per step, shape (step,).
        test_losses: The same steps on other data.

    Examples:
        >>> worst_gap([1.0, 0.5, 0.25], [1.0, 0.75, 1.0])
        WorstGap(value=0.75, step=2)
    """
    train = np.asarray(train_losses, dtype=np.float64)
    test = np.asarray(test_losses, dtype=np.float64)
    if train.ndim != 1 or train.size == 0 or train.shape != test.shape:
        raise ValueError(
            "train_losses and test_losses must have one entry per step and equal length, "
            f"got shapes {train.shape} and {test.shape}"
        )
    gaps = np.abs(train - test)
    if not np.isfinite(gaps).all():
        raise ValueError(
            f"losses must be finite, first failure at step {np.argmin(np.isfinite(gaps))}"
        )
    step = int(np.argmax(gaps))
    return WorstGap(float(gaps[step]), step)


def _at_least_zero(name: str, value: float) -> float:
    if not (isfinite(value) and value >= 0.0):
        raise ValueError(f"{name} must be finite and at least 0, got {value!r}")
    return float(value)
