import numpy as np
import pytest

from mpgd.limits import Diagonal, FlowPath, Linear, PathPair, linear_path, p_variation

ROTATION = Linear([[0.0, -1.0], [1.0, 0.0]])


def arc(x: np.ndarray, y: np.ndarray, s: np.ndarray) -> np.ndarray:
    """A detour: the segment plus a half wave along the first axis."""
    away = np.zeros_like(x)
    away[0] = 1.0
    return linear_path(x, y, s) + np.sin(np.pi * s)[:, None] * away


def random_path(seed: int, n: int = 12, d: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).standard_t(1.5, (n, d)).cumsum(axis=0)


def test_the_filled_path_is_continuous_and_ends_where_the_path_does() -> None:
    x = random_path(0)
    for delta in (0.01, 1.0, 5.0):
        times, values = PathPair(x, phi=arc, points=201).filled(delta)
        assert times[0] == 0.0
        assert times[-1] == pytest.approx(1.0)
        assert (np.diff(times) >= 0.0).all()
        np.testing.assert_array_equal(values[[0, -1]], x[[0, -1]])
        steps = np.linalg.norm(np.diff(values, axis=0), axis=1)
        assert steps.max() < 0.02 * np.linalg.norm(np.diff(x, axis=0), axis=1).max() + 0.02


def test_the_room_of_a_jump_is_its_own() -> None:
    """The times follow tau(t) = t + delta sum r_k, divided by its end."""
    pair = PathPair([0.0, 1.0, 3.0, 3.0], [0.0, 0.25, 0.5, 1.0], points=2)
    times, values = pair.filled(2.0, rooms=[0.5, 1.5])
    expected = np.array([0.0, 0.25, 1.25, 1.5, 4.5, 5.0]) / 5.0
    np.testing.assert_allclose(times, expected)
    assert values.ravel().tolist() == [0.0, 0.0, 1.0, 1.0, 3.0, 3.0]
    with pytest.raises(
        ValueError, match=r"rooms must be 2 positive numbers, one a jump, got \[1\]"
    ):
        pair.filled(1.0, rooms=[1])
    with pytest.raises(ValueError, match=r"delta must lie in \(0, inf\), got -1"):
        pair.filled(-1)


@pytest.mark.parametrize("p", [1.2, 1.7, 2.5])
def test_lemma_of_p_variation(p: float) -> None:
    """Lemma C.1: delta does not matter, segments add nothing, detours add something."""
    for seed in range(20):
        x = random_path(seed)
        straight, detour = PathPair(x), PathPair(x, phi=arc)
        sizes = [
            p_variation(pair.filled(delta)[1], p)
            for pair in (straight, detour)
            for delta in (0.1, 1.0)
        ]
        assert sizes[0] == sizes[1] == pytest.approx(p_variation(x, p), rel=1e-12)
        assert sizes[2] == sizes[3]
        assert sizes[2] >= sizes[0] * (1.0 - 1e-12)
    assert sizes[2] > 1.001 * sizes[0]


def test_the_path_function_of_an_equation() -> None:
    """Definition C.1: the driver straight, the solution along the flow."""
    phi, s = FlowPath(ROTATION, r=1), np.linspace(0.0, 1.0, 9)
    start, stop = np.array([0.3, 1.0, 0.0]), np.array([2.3, np.cos(2.0), np.sin(2.0)])
    curve = phi(start, stop, s)
    expected = np.stack([0.3 + 2.0 * s, np.cos(2.0 * s), np.sin(2.0 * s)], axis=1)
    np.testing.assert_allclose(curve, expected, atol=1e-12)
    growth = FlowPath(Diagonal(1.0), r=1)
    np.testing.assert_allclose(
        growth(np.array([0.0, 2.0]), np.array([1.0, 2.0 * np.e]), s)[:, 1], 2.0 * np.exp(s)
    )


def test_what_is_not_admissible_is_refused() -> None:
    wrong = np.array([[0.0, 1.0, 0.0], [1.0, 5.0, 5.0]])
    with pytest.raises(ValueError, match=r"phi must join .* at time 1, but goes from .*admissible"):
        PathPair(wrong, phi=FlowPath(ROTATION, r=1))
    right = np.array([[0.0, 1.0, 0.0], [1.0, np.cos(1.0), np.sin(1.0)]])
    assert len(PathPair(right, phi=FlowPath(ROTATION, r=1)).jumps) == 1
    with pytest.raises(ValueError, match=r"phi must return shape \(17, 1\), got \(17,\)"):
        PathPair([0.0, 1.0], phi=lambda x, y, s: s)  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match="points must be an integer >= 2, got 1"):
        PathPair([0.0, 1.0], points=1)
    with pytest.raises(ValueError, match="x must be finite, got nan"):
        PathPair([0.0, np.nan])
    with pytest.raises(ValueError, match="r must be an integer >= 1, got 0"):
        FlowPath(ROTATION, r=0)


def test_the_error_of_sampling_falls_with_its_points() -> None:
    pairs = [PathPair([[0.0, 0.0], [0.0, 1.0]], phi=arc, points=n) for n in (5, 9, 17)]
    errors = [pair.error for pair in pairs]
    assert errors[0] > 3.0 * errors[1] > 9.0 * errors[2] > 0.0
    assert PathPair([0.0, 1.0]).error == 0.0
