"""CIFAR-10, read from the python pickles or from the binary archive.

    pickle:  {"labels": 10000 integers, "data": uint8 (10000, 3072)}
    binary:  10000 times one label byte and 3072 bytes: red, green, blue, each 32 x 32

The pickles go round with and without the names of the source images, so that a file's own hash
says little. What is checked is the SHA-256 of a batch in the binary layout, which is the hash of
the archive's binary file and pins every label and every pixel. A pickle is read before that can
be checked, by an unpickler that knows arrays and plain values and refuses all else.
"""

import hashlib
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import torch
from numpy._core.multiarray import _reconstruct
from numpy.typing import NDArray
from torch import Tensor

from mpgd_lab.data.sources import DataError, Source, folders, locate

COUNT: Final = 10_000  # images in a batch
PIXELS: Final = 3 * 32 * 32
MAX_BYTES: Final = 2**26  # bytes of a pickle: twice its labels and pixels

HASHES: Final = {  # SHA-256 of the binary files
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
BINARY: Final = Source(
    "cifar10",
    "cifar-10-batches-bin",
    {**HASHES},
    dict.fromkeys(HASHES, COUNT * (1 + PIXELS)),
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
)
PICKLES: Final = "cifar-10-batches-py"


@dataclass(frozen=True, eq=False)
class Images:
    """Images x, uint8 (example, 3, row, column), and their classes y (example,)."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def shrunk(self, pixels: int) -> Self:
        """Return the images with ``pixels`` rows and columns, means of equal squares."""
        side = self.x.shape[-1]
        if not 1 <= pixels <= side or side % pixels:
            raise ValueError(f"pixels must divide {side}, got {pixels}")
        if pixels == side:
            return self
        means = torch.nn.functional.avg_pool2d(self.x.float(), side // pixels)
        return replace(self, x=means.round().to(torch.uint8))

    def balanced(self, count: int) -> Self:
        """Return ``count`` images, the first of each class in turn."""
        rank = torch.zeros_like(self.y)
        for label in range(int(self.y.max()) + 1):
            mine = self.y == label
            rank[mine] = torch.arange(int(mine.sum()))
        order = torch.argsort(rank * (int(self.y.max()) + 1) + self.y)[:count]
        return replace(self, x=self.x[order], y=self.y[order])

    def to(self, device: torch.device) -> Self:
        """Return them on a device."""
        return replace(self, x=self.x.to(device), y=self.y.to(device))


def cifar10(
    train: int = 5 * COUNT, test: int = COUNT, data: Path | None = None
) -> tuple[Images, Images]:
    """Return the first training and test images, in the order of the data set.

    Only the batches that hold them are read.
    """
    *training, last = HASHES
    if not (1 <= train <= COUNT * len(training) and 1 <= test <= COUNT):
        raise ValueError(f"CIFAR-10 has 50000 + 10000 images, {train} + {test} were asked for")
    return _images(training[: -(-train // COUNT)], train, data), _images([last], test, data)


def _images(names: Sequence[str], count: int, data: Path | None) -> Images:
    table = np.concatenate([_batch(name, data) for name in names])[:count]
    x = torch.from_numpy(table[:, 1:].reshape(-1, 3, 32, 32).copy())
    return Images(x, torch.from_numpy(table[:, 0].astype(np.int64)))


def _batch(name: str, data: Path | None) -> NDArray[np.uint8]:
    """Return a batch in the binary layout, from the first folder that has it in either form."""
    for folder in folders(data):
        path = folder / PICKLES / Path(name).stem
        if path.is_file():
            return read_pickle(path, HASHES[name])
        if (folder / BINARY.folder / name).is_file():
            break
    return read_binary(locate(BINARY, name, data))


def read_binary(path: Path) -> NDArray[np.uint8]:
    """Return a batch (example, label and pixels) of the binary archive; its size is checked."""
    content = np.fromfile(path, dtype=np.uint8)
    if content.size != COUNT * (1 + PIXELS):
        raise DataError(f"{path}: {COUNT * (1 + PIXELS)} bytes expected, got {content.size}")
    return content.reshape(COUNT, 1 + PIXELS)


def read_pickle(path: Path, expected: str) -> NDArray[np.uint8]:
    """Return a batch of the pickles in the binary layout after checking that layout's SHA-256."""
    remedy = (
        f"expected labels and pixels with sha256 {expected}; get it again from {BINARY.address} "
        "or pass another folder as --data"
    )
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"larger than {MAX_BYTES:,} bytes")
        with path.open("rb") as file:
            table = _table(_Unpickler(file, encoding="latin1").load())
    except OSError as problem:
        raise DataError(f"{path} cannot be read ({problem.strerror}); {remedy}") from None
    except Exception as problem:  # a broken pickle can raise anything
        raise DataError(f"{path} is no CIFAR-10 batch ({problem}); {remedy}") from None
    digest = hashlib.sha256(table.tobytes()).hexdigest()
    if digest != expected:
        raise DataError(f"{path} holds labels and pixels with sha256 {digest}; {remedy}")
    return table


def _table(content: Any) -> NDArray[np.uint8]:
    if not isinstance(content, dict) or not {"labels", "data"} <= content.keys():
        raise ValueError("a dictionary with labels and data expected")
    pixels, labels = content["data"], content["labels"]
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8:
        raise ValueError("data must be an array of uint8")
    if pixels.shape != (COUNT, PIXELS) or not isinstance(labels, list) or len(labels) != COUNT:
        raise ValueError(
            f"{COUNT} labels and data of shape {(COUNT, PIXELS)} expected, got {pixels.shape}"
        )
    return np.concatenate([np.array(labels, dtype=np.uint8)[:, None], pixels], axis=1)


class _Unpickler(pickle.Unpickler):
    """Builds numpy arrays and plain values; a pickle that names anything else is refused."""

    ALLOWED: Final = {
        ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
    }

    def find_class(self, module: str, name: str) -> Any:
        """Return one of the allowed names."""
        try:
            return self.ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"refused: it asks for {module}.{name}, only arrays and plain values are read"
            ) from None
