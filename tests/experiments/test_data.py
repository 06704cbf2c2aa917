from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mpgd.experiments import data
from mpgd.experiments.data import AIRFOIL, DataError, airfoil, digits, ecg5000, locate, read_numbers


def test_airfoil_has_the_papers_split(data_folder: Path) -> None:
    split = airfoil(data_folder)
    assert split.x_train.shape == (1202, 5)
    assert split.x_test.shape == (301, 5)
    assert np.allclose(split.x_train.mean(0), 0.0, atol=1e-12)
    assert np.allclose(split.y_train.std(correction=0), 1.0)


def test_ecg_has_the_authors_split(data_folder: Path) -> None:
    split = ecg5000(data_folder)
    assert split.x_train.shape == (500, 140)
    assert split.x_test.shape == (4500, 140)
    assert float(split.x_train.min()) == 0.0
    assert float(split.x_train.max()) == 1.0
    # Always answering "normal" is right this often: the printed accuracy of gradient descent.
    assert round(100 * float((split.y_test == 0).double().mean()), 2) == 58.38


def test_digits_need_no_download() -> None:
    split = digits()
    assert len(split.x_train) + len(split.x_test) == 1797
    assert set(split.y_test.tolist()) == set(range(10))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty data folder that is the only one looked at."""
    monkeypatch.setenv("MPGD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MPGD_DATA", raising=False)
    (tmp_path / "airfoil").mkdir()
    return tmp_path


def test_a_missing_file_names_itself_its_hash_its_address_and_the_option(elsewhere: Path) -> None:
    with pytest.raises(DataError, match=r"airfoil_self_noise.dat was not found") as caught:
        locate(AIRFOIL, "airfoil_self_noise.dat", elsewhere)
    for part in (AIRFOIL.address, "--data", AIRFOIL.files["airfoil_self_noise.dat"]):
        assert part in str(caught.value)
    assert not data.is_available(AIRFOIL, elsewhere)


def test_a_damaged_file_is_refused(elsewhere: Path) -> None:
    (elsewhere / "airfoil" / "airfoil_self_noise.dat").write_text("800\t0\n")
    with pytest.raises(DataError, match=r"has sha256 .* expected 74c75fd7"):
        airfoil(elsewhere)


@pytest.mark.parametrize("row", ["1 2", "1 2 x", "1 2 nan"])
def test_a_malformed_row_is_named_by_its_line(tmp_path: Path, row: str) -> None:
    path = tmp_path / "table.txt"
    path.write_text(f"1 2 3\n\n{row}\n")
    with pytest.raises(DataError, match=r"table.txt, line 3: "):
        read_numbers(path, 3)
