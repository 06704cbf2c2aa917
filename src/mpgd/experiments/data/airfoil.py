"""Airfoil self-noise in the paper's exact split."""

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
    "https://archive.ics.uci.edu/static/public/291/airfoil+self+noise.zip",
)


@lru_cache(maxsize=4)
def airfoil(data: Path | None = None) -> Split:
    """Return the airfoil data, standardised by the training part; 301 of 1503 rows are test."""
    table = read_numbers(locate(AIRFOIL, "airfoil_self_noise.dat", data), 6)
    order = np.random.RandomState(0).permutation(len(table))
    test, train = table[order[:301]], table[order[301:]]
    mean, std = train.mean(axis=0), train.std(axis=0)
    a, b = (torch.from_numpy((part - mean) / std) for part in (train, test))
    return Split(a[:, :5], a[:, 5], b[:, :5], b[:, 5])
