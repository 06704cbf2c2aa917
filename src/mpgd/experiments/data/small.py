"""Three small data sets in their exact splits: airfoil self-noise, ECG5000, and digits."""

from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import torch

from mpgd.experiments.data.sources import Source, Split, locate, read_numbers

AIRFOIL: Final = Source(
    "airfoil",
    "airfoil",
    {
        "airfoil_self_noise.dat": (
            "74c75fd71783f1e6b71f8a622b993dc592897a97cd689c5090a07147a1b097b3"
        )
    },
    {"airfoil_self_noise.dat": 59_984},
    "https://archive.ics.uci.edu/static/public/291/airfoil+self+noise.zip",
)
ECG5000: Final = Source(
    "ecg5000",
    "ecg5000",
    {
        "ECG5000_TRAIN.txt": "0d96aff193311a6dc6111bf0dbd2f7d2313987fbf7a1da4a383d92563876057b",
        "ECG5000_TEST.txt": "baf4ad57d28daa5e79050edd4185968181762bc83d45a757753015b4ba8ab295",
    },
    {"ECG5000_TRAIN.txt": 1_128_500, "ECG5000_TEST.txt": 10_156_500},
    "https://www.timeseriesclassification.com/aeon-toolkit/ECG5000.zip",
)


AUTHORS: Final = 0  # the seed of the split that the authors used


@lru_cache(maxsize=128)
def airfoil(data: Path | None = None, split: int = AUTHORS) -> Split:
    """Return the airfoil data, standardised by the training part; 301 of 1503 rows are test.

    ``split`` seeds the choice of the test rows; by default it is the authors' own.
    """
    table = read_numbers(locate(AIRFOIL, "airfoil_self_noise.dat", data), 6)
    order = np.random.RandomState(split).permutation(len(table))
    test, train = table[order[:301]], table[order[301:]]
    mean, std = train.mean(axis=0), train.std(axis=0)
    a, b = (torch.from_numpy((part - mean) / std) for part in (train, test))
    return Split(a[:, :5], a[:, 5], b[:, :5], b[:, 5])


@lru_cache(maxsize=4)
def ecg5000(data: Path | None = None) -> Split:
    """Return ECG5000 as normal (0) or not (1), scaled by one global range of the training part.

    The paper's text says 4000 test series; the authors' split has 4500.
    """
    parts = [read_numbers(locate(ECG5000, name, data), 141) for name in ECG5000.files]
    table = np.concatenate(parts)
    order = np.arange(len(table))
    np.random.RandomState(22).shuffle(order)
    order = order[np.random.RandomState(22).permutation(len(table))]
    test, train = table[order[:4500]], table[order[4500:]]
    low, high = train[:, 1:].min(), train[:, 1:].max()
    x_train, x_test = (torch.from_numpy((p[:, 1:] - low) / (high - low)) for p in (train, test))
    y_train, y_test = (torch.from_numpy((p[:, 0] != 1).astype(float)) for p in (train, test))
    return Split(x_train, y_train, x_test, y_test)


@lru_cache(maxsize=1)
def digits() -> Split:
    """Return scikit-learn's 1797 digits, scaled to [0, 1]; 300 are training data, the rest test."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ImportError('digits need scikit-learn: pip install "mpgd[lab]"') from None
    bunch = load_digits()
    x, y = torch.from_numpy(bunch.data / 16.0), torch.from_numpy(bunch.target).long()
    order = torch.from_numpy(np.random.RandomState(0).permutation(len(x)))
    train, test = order[:300], order[300:]
    return Split(x[train], y[train], x[test], y[test])
