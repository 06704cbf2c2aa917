from __future__ import annotations

import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mpgd_lab.data import cifar10 as data_cifar10
from mpgd_lab.data.cifar10 import BINARY, HASHES, cifar10, read_binary, read_pickle
from mpgd_lab.data.sources import DataError

HASH = HASHES["test_batch.bin"]


@pytest.fixture(scope="module")
def batch(data_folder: Path) -> Any:
    """Return the content of the real test batch."""
    with (data_folder / "cifar-10-batches-py" / "test_batch").open("rb") as file:
        return pickle.load(file, encoding="latin1")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a data folder that is the only one looked at; nothing can be downloaded."""
    monkeypatch.setenv("MPGD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MPGD_DATA", raising=False)
    nowhere = replace(BINARY, address="http://127.0.0.1:9/cifar-10-binary.tar.gz")
    monkeypatch.setattr(data_cifar10, "BINARY", nowhere)
    for folder in ("cifar-10-batches-py", "cifar-10-batches-bin"):
        (tmp_path / folder).mkdir()
    return tmp_path


def written(folder: Path, content: Any, protocol: int = 4) -> Path:
    path = folder / "test_batch"
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path


def test_the_images_are_the_known_ones(data_folder: Path) -> None:
    train, test = cifar10(data=data_folder)
    assert train.x.shape == (50_000, 3, 32, 32)
    assert train.y.bincount().tolist() == [5000] * 10
    assert test.y.bincount().tolist() == [1000] * 10
    means = train.x.view(50_000, 3, -1).double().mean((0, 2)) / 255
    assert means.tolist() == pytest.approx([0.49139968, 0.48215841, 0.44653091], abs=1e-8)


def test_a_part_is_the_beginning_of_the_whole(data_folder: Path, batch: Any) -> None:
    train, test = cifar10(7, 5, data_folder)
    assert len(train) == 7
    assert test.y.tolist() == batch["labels"][:5]
    assert torch.equal(test.x.reshape(5, -1), torch.from_numpy(batch["data"][:5]))
    with pytest.raises(ValueError, match=r"50000 \+ 10000 images, 50001 \+ 5 were asked for"):
        cifar10(50_001, 5, data_folder)


def test_shrunk_images_are_means_of_squares(data_folder: Path) -> None:
    _, test = cifar10(1, 3, data_folder)
    small = test.shrunk(16)
    corner = test.x[2, 1, 4:6, 6:8].double().mean()
    assert abs(float(small.x[2, 1, 2, 3]) - float(corner)) <= 0.5
    assert test.shrunk(32) is test
    with pytest.raises(ValueError, match="pixels must divide 32, got 12"):
        test.shrunk(12)


def test_the_binary_archive_gives_the_same_images(elsewhere: Path, batch: Any) -> None:
    table = np.concatenate([np.array(batch["labels"], np.uint8)[:, None], batch["data"]], axis=1)
    path = elsewhere / "cifar-10-batches-bin" / "test_batch.bin"
    path.write_bytes(table.tobytes())
    assert np.array_equal(read_binary(path), table)
    found = data_cifar10._batch("test_batch.bin", elsewhere)
    assert np.array_equal(found, table)
    path.write_bytes(table.tobytes()[:-1])
    with pytest.raises(DataError, match=r"test_batch.bin: 30730000 bytes expected, got 30729999"):
        read_binary(path)
    with pytest.raises(DataError, match=f"test_batch.bin has sha256 .* expected.* {HASH}"):
        data_cifar10._batch("test_batch.bin", elsewhere)


@pytest.mark.parametrize("protocol", [3, 4])
def test_pickles_with_the_names_of_the_source_images_are_the_same_data(
    tmp_path: Path, batch: Any, protocol: int
) -> None:
    path = written(tmp_path, batch | {"filenames": ["a.png"] * 10_000}, protocol)
    assert np.array_equal(read_pickle(path, HASH)[:, 1:], batch["data"])


class Malicious:
    """Unpickling this runs a command."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_pickle_with_anything_but_arrays_and_plain_values_is_refused(
    tmp_path: Path, batch: Any, protocol: int
) -> None:
    mark = tmp_path / "mark"
    command_text = f"__import__('os').mkdir({str(mark)!r})"
    commands = [
        Malicious(os.mkdir, str(mark)),
        Malicious(eval, command_text),
        Malicious(getattr, "", "join"),
        Malicious(np.load, str(mark)),
    ]
    for command in commands:
        path = written(tmp_path, {"labels": batch["labels"], "data": command}, protocol)
        with pytest.raises(DataError, match=r"test_batch is no CIFAR-10 batch \(refused: it asks"):
            read_pickle(path, HASH)
        assert not mark.exists()
    pickle.loads(pickle.dumps(commands[0], protocol))  # the command does run where it may
    assert mark.exists()


def test_a_truncated_a_changed_and_a_malformed_pickle_are_refused(
    tmp_path: Path, batch: Any
) -> None:
    whole = written(tmp_path, batch).read_bytes()
    changed = batch | {"data": batch["data"].copy()}
    changed["data"][9999, 17] ^= 1
    contents = {
        "is no CIFAR-10 batch": whole[:100_000],
        "holds labels and pixels with sha256": pickle.dumps(changed, 4),
        "a dictionary with labels and data expected": pickle.dumps([1, 2]),
        "data must be an array of uint8": pickle.dumps(batch | {"data": [1]}),
        r"data of shape \(10000, 3072\) expected, got \(5, 3072\)": pickle.dumps(
            batch | {"data": batch["data"][:5]}, 4
        ),
    }
    for said, content in contents.items():
        (tmp_path / "test_batch").write_bytes(content)
        with pytest.raises(DataError, match=said) as caught:
            read_pickle(tmp_path / "test_batch", HASH)
        for part in (str(tmp_path / "test_batch"), HASH, BINARY.address, "--data"):
            assert part in str(caught.value)


def test_a_missing_file_offline_names_itself_its_hash_its_address_and_the_option(
    elsewhere: Path,
) -> None:
    with pytest.raises(DataError, match=r"data_batch_1\.bin") as caught:
        cifar10(10, 10, elsewhere)
    for part in ("127.0.0.1:9", "--data", HASHES["data_batch_1.bin"], "cifar-10-batches-bin"):
        assert part in str(caught.value)
    assert not any((elsewhere / "cache").rglob("*.bin"))
