"""ResNet-18 for images of 32 x 32 pixels, initialised as the paper's text says.

    stem:    3 x 3 convolution, batch norm, ReLU; no max-pool
    stages:  2 residual blocks each, of width w, 2w, 4w, 8w; all but the first halve the image
    head:    mean over the pixels, linear

A block adds its branch (convolution, norm, ReLU, convolution, norm) to its input. Where shapes
change the input is average-pooled, then mixed by a 1 x 1 convolution and a norm. Convolutions are
Kaiming-normal by fan-out, the linear layer has torch's default. The last norm of every branch
starts at zero, so that each block starts as the identity.

Reference: He et al. (2016); Lim, Wan & Simsekli (2022), Section 5.3.
"""

import torch
from torch import Tensor, nn

WIDTH = 64  # of the real network


class Block(nn.Module):
    """relu(shortcut(x) + branch(x))."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(inner, outer, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outer),
            nn.ReLU(),
            nn.Conv2d(outer, outer, 3, padding=1, bias=False),
            nn.BatchNorm2d(outer),
        )
        self.shortcut: nn.Module = nn.Identity()
        if inner != outer or stride != 1:
            self.shortcut = nn.Sequential(
                nn.AvgPool2d(stride), nn.Conv2d(inner, outer, 1, bias=False), nn.BatchNorm2d(outer)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output for ``x`` (example, channel, row, column)."""
        return torch.relu(self.shortcut(x) + self.branch(x))


class ResNet18(nn.Module):
    """The network; ``stem`` is the input layer and ``norm`` the first batch norm.

    ``width`` is that of the first stage, ``zero_init`` starts the last norm of each branch at zero.
    Torch's global generator is put back afterwards.

    Examples:
        >>> sum(p.numel() for p in ResNet18().parameters())
        11173962
        >>> ResNet18(width=4)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self, width: int = WIDTH, classes: int = 10, zero_init: bool = True, seed: int = 0
    ) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
            self.norm = nn.BatchNorm2d(width)
            self.stages = nn.Sequential(*_blocks(width))
            self.head = nn.Linear(8 * width, classes)
            _initialise(self, zero_init)

    def forward(self, x: Tensor) -> Tensor:
        """Return the classes' scores for images (example, 3, row, column)."""
        h = self.stages(torch.relu(self.norm(self.stem(x))))
        scores: Tensor = self.head(h.mean((2, 3)))
        return scores


def _blocks(width: int) -> list[Block]:
    blocks, inner = [], width
    for stage in range(4):
        outer = width * 2**stage
        blocks += [Block(inner, outer, 1 if stage == 0 else 2), Block(outer, outer, 1)]
        inner = outer
    return blocks


def _initialise(net: nn.Module, zero_init: bool) -> None:
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif zero_init and isinstance(module, Block):
            last = module.branch[-1]
            assert isinstance(last, nn.BatchNorm2d)
            nn.init.zeros_(last.weight)
