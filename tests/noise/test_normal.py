"""Normal numbers from the table: the law, far into the tails, and the pinned bits."""

from __future__ import annotations

import numpy as np
import torch
from scipy.stats import kstest, norm

from mpgd import GaussianNoise, files
from mpgd.maps import normal as table
from mpgd.noise.counter_hash import flat_index
from mpgd.noise.engines.tensor import lookup
from mpgd.noise.memoryless import UNIT, integers, normal_driver
from tests.conftest import LEVEL


def test_the_table_is_computed_with_the_pinned_bits() -> None:
    rows = table.compute_rows()
    assert table.fingerprint(rows) == table.FINGERPRINT
    assert np.array_equal(rows, table.normal_rows())


def test_a_damaged_file_is_computed_again(monkeypatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("MPGD_CACHE", str(tmp_path))
    monkeypatch.setattr(table, "compute_rows", lambda: rows)
    rows = table.normal_rows()
    monkeypatch.setattr(files, "SHIPPED", tmp_path / "nothing")
    table.normal_rows.cache_clear()
    assert np.array_equal(table.normal_rows(), rows)
    path = tmp_path / f"normal-{table.GAUSSIAN_VERSION}.npy"
    assert np.array_equal(np.load(path), rows)
    changed = rows.copy()
    changed[40, 0] += 1
    np.save(path, changed)
    table.normal_rows.cache_clear()
    assert np.array_equal(table.normal_rows(), rows)
    table.normal_rows.cache_clear()


def test_the_table_is_the_inverse_of_the_law_to_eight_deviations() -> None:
    g = np.random.default_rng(0)
    U = np.concatenate([g.integers(1 << k, 2 << k, 200) for k in range(4, 50)]) | 1
    found = lookup(normal_driver(1.0).returns, torch.tensor(U)).double().numpy() * 2.0**-32
    exact = norm.isf(U / 2.0**51)
    assert np.abs(found - exact).max() < 2e-7
    assert found.max() > 7


def test_values_are_normal() -> None:
    v = (integers(flat_index((400_000,)), 5).double() * UNIT).numpy()
    assert kstest(v, norm.cdf).pvalue > LEVEL
    assert kstest(v * 1.03, norm.cdf).pvalue < LEVEL
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        z = (np.mean(v**power) - moment) / (variance / len(v)) ** 0.5
        assert 2 * norm.sf(abs(z)) > LEVEL / 4
        shifted = (np.mean((v + 0.02) ** power) - moment) / (variance / len(v)) ** 0.5
        assert power > 1 or 2 * norm.sf(abs(shifted)) < LEVEL / 4


def test_the_unit_of_a_noise_is_its_deviation() -> None:
    noise = GaussianNoise(4.0)
    v, _ = noise.step(noise.init(1000, seed=3))
    w, _ = GaussianNoise(1.0).step(GaussianNoise(1.0).init(1000, seed=3))
    assert torch.equal(v, 2 * w)
