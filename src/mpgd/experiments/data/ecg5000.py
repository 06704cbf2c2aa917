"""ECG5000 in the authors' exact split."""

from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import torch

from mpgd.experiments.data.sources import Source, Split, locate, read_numbers

ECG5000: Final = Source(
    "ecg5000",
    "ecg5000",
    {
        "ECG5000_TRAIN.txt": "0d96aff193311a6dc6111bf0dbd2f7d2313987fbf7a1da4a383d92563876057b",
        "ECG5000_TEST.txt": "baf4ad57d28daa5e79050edd4185968181762bc83d45a757753015b4ba8ab295",
    },
    "https://www.timeseriesclassification.com/aeon-toolkit/ECG5000.zip",
)


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
