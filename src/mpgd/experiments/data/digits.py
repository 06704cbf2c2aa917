"""The digits of scikit-learn, which need no download."""

from functools import lru_cache

import numpy as np
import torch

from mpgd.experiments.data.sources import Split


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
