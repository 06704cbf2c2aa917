from math import exp, inf, nan, sqrt

import pytest

from mpgd.theory.generalization.bound import WorstGap, generalization_bound, worst_gap

GIVEN = {"lipschitz": 3.0, "bound": 2.0, "constant": 0.5, "mutual_information": 2.0}


def test_bound_in_expectation() -> None:
    result = generalization_bound(1.5, 600, **GIVEN)
    assert result.alpha_term == pytest.approx(0.5 * 3.0 * sqrt(1.5 / 600))
    assert result.information_term == pytest.approx(0.5 * 3.0 * sqrt(2.0 / 600))
    assert result.value == result.alpha_term + result.information_term


def test_bound_with_probability_adds_the_delta_term_to_the_information() -> None:
    result = generalization_bound(1.5, 600, **GIVEN, delta=exp(-3.0))
    assert result.information_term == pytest.approx(0.5 * 3.0 * sqrt((3.0 + 2.0) / 600))
    assert result.alpha_term == generalization_bound(1.5, 600, **GIVEN).alpha_term


def test_the_larger_of_b_and_l_counts() -> None:
    swapped = GIVEN | {"lipschitz": 2.0, "bound": 3.0}
    assert generalization_bound(1.5, 600, **swapped) == generalization_bound(1.5, 600, **GIVEN)


def test_quarter_of_the_data_doubles_the_bound_and_smaller_alpha_lowers_it() -> None:
    full = generalization_bound(1.5, 400, **GIVEN).value
    assert generalization_bound(1.5, 100, **GIVEN).value == pytest.approx(2.0 * full)
    assert generalization_bound(1.2, 400, **GIVEN).value < full


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"alpha": 2.1}, r"alpha must lie in \(0, 2\], got 2.1"),
        ({"alpha": nan}, r"alpha must lie in \(0, 2\], got nan"),
        ({"n": 0}, "n must be at least 1, got 0"),
        ({"delta": 1.0}, r"delta must lie in \(0, 1\) or be None, got 1.0"),
        ({"lipschitz": -1.0}, "lipschitz must be finite and at least 0, got -1.0"),
        ({"bound": inf}, "bound must be finite and at least 0, got inf"),
        ({"constant": nan}, "constant must be finite and at least 0, got nan"),
        (
            {"mutual_information": -0.5},
            "mutual_information must be finite and at least 0, got -0.5",
        ),
    ],
)
def test_bad_arguments(change: dict[str, float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        generalization_bound(**({"alpha": 1.5, "n": 10} | GIVEN | change))


def test_unknown_constants_have_no_default() -> None:
    with pytest.raises(TypeError, match="constant"):
        generalization_bound(1.5, 10, lipschitz=1.0, bound=1.0, mutual_information=0.0)


def test_worst_gap_is_the_first_largest_of_either_sign() -> None:
    assert worst_gap([1.0, 2.0, 0.0, 2.0], [1.0, 1.5, 1.0, 1.0]) == WorstGap(1.0, 2)


@pytest.mark.parametrize(
    ("train", "test", "text"),
    [
        ([1.0], [1.0, 2.0], r"equal length, got shapes \(1,\) and \(2,\)"),
        ([], [], r"one entry per step and equal length, got shapes \(0,\)"),
        ([[1.0]], [[1.0]], r"got shapes \(1, 1\)"),
        ([1.0, nan], [1.0, 1.0], "losses must be finite, first failure at step 1"),
        ([1.0, inf], [1.0, 1.0], "losses must be finite, first failure at step 1"),
    ],
)
def test_bad_losses(train: list[float], test: list[float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        worst_gap(train, test)
