"""A small transformer whose parameters may be halves, on sequences made by a fixed rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

LETTERS, LENGTH, WIDTH = 12, 16, 32


class Model(nn.Module):
    """One block of attention and a feed-forward layer, for the next letter."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.mix = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, LETTERS)

    def forward(self, text: Tensor) -> Tensor:
        """Return the logits of the next letters."""
        x = self.letters(text) + self.places(torch.arange(text.shape[1]))
        q, k, v = (layer(self.first(x)) for layer in self.mix[:3])
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mix[3](seen)
        return self.out(x + self.down(torch.relu(self.up(self.second(x)))))


def batch(k: int, size: int = 16) -> Tensor:
    """Return sequences whose next letter is the sum of the last two plus one, nine times of ten."""
    g = torch.Generator().manual_seed(k)
    text = torch.randint(LETTERS, (size, LENGTH + 1), generator=g)
    follows = torch.rand(size, LENGTH + 1, generator=g) < 0.9
    for i in range(2, LENGTH + 1):
        text[:, i] = torch.where(
            follows[:, i], (text[:, i - 1] + text[:, i - 2] + 1) % LETTERS, text[:, i]
        )
    return text


def losses(
    make: Callable[[list[nn.Parameter]], torch.optim.Optimizer], dtype: torch.dtype, steps: int
) -> Tensor:
    """Return the loss at every step.

    The parameters are of ``dtype`` and the net computes in float32, so that only the rounding of
    parameters tells the runs apart.
    """
    torch.manual_seed(0)
    model = Model().to(torch.bfloat16).to(dtype)  # all start at the same numbers
    optimizer, found = make(list(model.parameters())), []
    for k in range(steps):
        text = batch(k)
        wide: dict[str, Any] = {name: p.float() for name, p in model.named_parameters()}
        guess = functional_call(model, wide, (text[:, :-1],))
        loss = nn.functional.cross_entropy(guess.reshape(-1, LETTERS), text[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return torch.stack(found)
