"""A subnormal, huge or empty input is answered right, or refused with a reason."""

from __future__ import annotations

import pytest

from tests.extreme_numbers import ANSWERS, REFUSALS


@pytest.mark.parametrize("case", ANSWERS)
def test_an_extreme_input_is_answered_right(case: str) -> None:
    function, expected = ANSWERS[case]
    assert function() == pytest.approx(expected, rel=1e-9, abs=0.0)


@pytest.mark.parametrize("case", REFUSALS)
def test_an_input_without_an_answer_is_refused_with_a_reason(case: str) -> None:
    function, kind, text = REFUSALS[case]
    with pytest.raises(kind, match=text):
        function()
