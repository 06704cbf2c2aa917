"""The lab's settings, as a query names them."""

from __future__ import annotations

import pytest

from mpgd_lab.lab.settings import Settings, from_query


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("gamma=0.5", r"gamma must lie in \(0.5, 0.99\], got 0.5"),
        ("gamma=nan", r"gamma must lie in \(0.5, 0.99\], got nan"),
        ("beta=1.5", r"beta must lie in \[-1, 1\], got 1.5"),
        ("dwell=0.5", r"dwell must lie in \[1, 1000\], got 0.5"),
        ("decay=-1", r"decay must lie in \[0, 20\], got -1.0"),
        ("force=inf", r"force must lie in \[0, 20\], got inf"),
        ("mu=0.02", "there is no parameter 'mu'; there are: gamma, beta, force, decay"),
        ("landscape=moon", "landscape must be one of 'valley', 'rastrigin', got 'moon'"),
        ("eta=0", r"eta must lie in \(0, 1\], got 0.0"),
        ("steps=100000000", r"steps must be an integer in \[10, 8000\], got 100000000"),
        ("steps=10.5", "steps must be an integer, got '10.5'"),
        ("seed=-1", "seed must be an integer in"),
        ("gamma=", "gamma must be a number, got ''"),
        ("gama=0.6", "there is no parameter 'gama'; there are: gamma, beta"),
        ("gamma=0.6&gamma=0.7", "gamma must be given once"),
        ("scheme=best", "scheme must be one of 'plain', 'symmetric', 'product', got 'best'"),
        ("a=1&b=2&c=3&d=4&e=5&f=6&g=7&h=8&i=9&j=10&k=11", "Max number of fields exceeded"),
    ],
)
def test_a_wrong_query_is_explained(query: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        from_query(query)


def test_a_query_is_the_settings_it_names() -> None:
    assert from_query("") == Settings()
    assert from_query("gamma=0.6&beta=-0.25&scheme=symmetric&seed=4294967295&steps=10") == Settings(
        gamma=0.6, beta=-0.25, scheme="symmetric", seed=2**32 - 1, steps=10
    )
