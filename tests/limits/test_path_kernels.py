"""The functions of paths.c have the bits of those in Python, which run where it is not compiled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mpgd.library import Loaded
from mpgd.limits.paths import path_kernels
from mpgd.limits.paths.path_metrics import sigma_p_variation
from mpgd.limits.paths.skorokhod import skorokhod_distance
from mpgd.limits.paths.variation import p_variation
from mpgd.theory.tails.dimension import spanning_tree_edges

Array = np.ndarray
KINDS = ["normal", "heavy", "ties"]
FUNCTIONS: dict[str, Callable[[Array, Array], list[float]]] = {
    "p-variation": lambda x, y: [p_variation(x, p) for p in (1.3, 2, 2.5, 40.0)],
    "partition": lambda x, y: p_variation(x, 1.7, partition=True)[1].tolist(),
    "J1": lambda x, y: [skorokhod_distance(x, y, "J1", band=band) for band in (None, 3)],
    "SM1": lambda x, y: [skorokhod_distance(x, y, "SM1", band=band) for band in (None, 3)],
    "steps": lambda x, y: list(ends(sigma_p_variation(x, y, 1.6))),
    "tree": lambda x, y: spanning_tree_edges(x.reshape(len(x), -1)).tolist(),
}

pytestmark = pytest.mark.skipif(
    path_kernels._LOADED.library is None, reason="needs kernels, a C compiler"
)


def ends(interval: object) -> tuple[float, float]:
    return interval.low, interval.high  # type: ignore[attr-defined]


def draw(kind: str, n: int, d: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    steps = {
        "normal": rng.standard_normal,
        "heavy": lambda size: rng.standard_t(1.4, size),
        "ties": lambda size: rng.integers(-1, 2, size).astype(float),
    }[kind]((n, d))
    path = steps.cumsum(axis=0)
    return path[:, 0] if d == 1 else path


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_both_give_the_same_bits(
    name: str, kind: str, d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [(2, 3), (3, 2), (14, 11), (25, 30)]
    paths = [(draw(kind, n, d, n), draw(kind, m, d, 100 + m)) for n, m in pairs]
    compiled = [FUNCTIONS[name](x, y) for x, y in paths]
    monkeypatch.setattr(path_kernels, "_LOADED", Loaded(None, "hidden"))
    assert [FUNCTIONS[name](x, y) for x, y in paths] == compiled


def test_arrays_in_another_order_of_memory_are_read_right() -> None:
    x, y = draw("heavy", 40, 3, 1), draw("heavy", 30, 3, 2)
    for name in ("p-variation", "J1", "SM1", "tree"):
        expected = FUNCTIONS[name](x, y)
        assert FUNCTIONS[name](np.asfortranarray(x), y[::-1][::-1]) == expected


def test_graphs_are_aligned_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    from mpgd.limits.paths.warping import align

    x, y = draw("heavy", 20, 2, 3), draw("heavy", 24, 2, 4)
    one, two = (np.linspace(0.0, 1.0, 20), x), (np.linspace(0.0, 1.0, 24), y)
    for steps in (False, True):
        for window in (0.01, 0.3):
            i, j, late = align(one, two, window, 1.5, steps)
            with monkeypatch.context() as patch:
                patch.setattr(path_kernels, "_LOADED", Loaded(None, "hidden"))
                a, b, other = align(one, two, window, 1.5, steps)
            assert i.tolist() == a.tolist()
            assert j.tolist() == b.tolist()
            assert late == other
