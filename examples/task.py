"""What the scripts of training stacks share: a small net, and batches known by their number."""

import torch
from torch import nn

EPOCH = 4  # batches


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))


def batch(k):
    x = torch.randn(32, 8, generator=torch.Generator().manual_seed(k))
    return x, x.sum(1, keepdim=True)


data = [batch(k) for k in range(EPOCH)]
