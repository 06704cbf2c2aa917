"""Fine-tune without gradients, and replay the whole run from a file of a few kilobytes.

    python examples/replay_zeroth_order.py

A step shifts the weights by +eps and -eps times normal numbers of a seed, takes the slope between
the two losses, and moves along that direction. So a step is one number, and the run is a list of
them: the weights it leads to come back from the start and the file, bit for bit.
"""

import copy
import os
import struct
import tempfile

import torch
from torch import nn

import mpgd

STEPS, EPS, LR = 400, 1e-2, 2e-3


def batch(k, shift):
    """Return inputs and whether they lie above a curve; fine-tuning moves the curve."""
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(k))
    return x, (x[:, 0] + x[:, 1].square() > 0.5 + shift).float()


def loss_of(model, k, shift):
    x, y = batch(k, shift)
    return nn.functional.binary_cross_entropy_with_logits(model(x.bfloat16())[:, 0].float(), y)


def pretrained():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)).bfloat16()
    optimizer = mpgd.stochastic_rounding(torch.optim.AdamW(model.parameters(), lr=1e-2))
    for k in range(200):
        optimizer.zero_grad()
        loss_of(model, k, shift=0.0).backward()
        optimizer.step()
    return model


@torch.no_grad()
def fine_tune(model):
    """Return the coefficient of each step."""
    coefficients = []
    for k in range(STEPS):
        losses = []
        for sign in (1, -1):
            with mpgd.shifted(model, seed=k, scale=sign * EPS):
                losses.append(float(loss_of(model, 1000 + k, shift=1.0)))
        coefficients.append(-LR * (losses[0] - losses[1]) / (2 * EPS))
        mpgd.add_normal_(model, seed=k, scale=coefficients[-1])
    return coefficients


def main():
    start = pretrained()
    model = copy.deepcopy(start)
    coefficients = fine_tune(model)
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(struct.pack(f"{STEPS}d", *coefficients))
    replayed = copy.deepcopy(start)
    with open(file.name, "rb") as saved:
        for k, scale in enumerate(struct.unpack(f"{STEPS}d", saved.read())):
            mpgd.add_normal_(replayed, seed=k, scale=scale)
    pairs = zip(model.parameters(), replayed.parameters(), strict=True)
    print(f"file: {os.path.getsize(file.name)} bytes")
    os.unlink(file.name)
    with torch.no_grad():
        losses = [
            sum(float(loss_of(net, 5000 + k, shift=1.0)) for k in range(20)) / 20
            for net in (start, model)
        ]
    print(f"loss before {losses[0]:.3f}, after {losses[1]:.3f}")
    print("replayed in bits:", all(torch.equal(a, b) for a, b in pairs))


if __name__ == "__main__":
    main()
