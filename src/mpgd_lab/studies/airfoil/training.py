"""How airfoil's nets are trained: many at once, or one at a time as the authors' script does."""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from mpgd_lab.batched_training import Problem, Result, nudged
from mpgd_lab.batched_training import train as train_nets
from mpgd_lab.data.sources import AUTHORS, Split
from mpgd_lab.data.sources import airfoil as load_split
from mpgd_lab.experiment import MAX_BATCH
from mpgd_lab.nets.layout import Layout, mean_square
from mpgd_lab.schemes import is_scripted
from mpgd_lab.store import Run
from mpgd_lab.studies.airfoil.runs import FIXED, is_random


def max_batch(task: Run) -> int:
    """Return how many runs may be trained with this one."""
    return 1 if is_scripted(task) else MAX_BATCH


def train(runs: list[Run], data: Path | None = None) -> Iterator[Result]:
    """Yield the metrics and the curve of the training loss of each run."""
    split = load_split(data)
    for task in filter(is_scripted, runs):
        h = task.hyperparameters
        outputs = script(split, task.seed, h["steps"], h.get("mu", 0.0), h.get("sigma", 0.0))
        yield task, metrics(*outputs, _in(torch.float32, split)), {}
    together = [run for run in runs if not is_scripted(run)]
    if not together:
        return
    own = [load_split(data, run.hyperparameters.get("split", AUTHORS)) for run in together]
    split = stacked(own) if any(map(is_random, together)) else _in(torch.float64, split)
    problem = Problem(Layout(tuple(FIXED["widths"]), torch.relu), split, mean_square, torch.float32)
    trained = train_nets(problem, together)
    x = trained.before if together[0].protocol == "released" else trained.after
    for row, task in enumerate(together):
        net, mine = x[row : row + 1], own[row]
        on_train, on_test = (problem.layout.outputs(net, x) for x in (mine.x_train, mine.x_test))
        curves = {"step": trained.moments, "train_mse": trained.curve[:, row]}
        yield task, metrics(on_train[0], on_test[0], mine), curves


def stacked(splits: list[Split]) -> Split:
    """Return splits as one, in which every net has data of its own."""
    parts = zip(*((s.x_train, s.y_train, s.x_test, s.y_test) for s in splits), strict=True)
    return Split(*(torch.stack(part).contiguous() for part in parts))


def metrics(on_train: Tensor, on_test: Tensor, split: Split) -> dict[str, float]:
    """Return errors on the standardised scale, the true gap and the released scripts' one."""
    mse = float(mean_square(on_train, split.y_train))
    test = float(mean_square(on_test, split.y_test)) ** 0.5
    errors = {"train_mse": mse, "train_rmse": mse**0.5, "test_rmse": test}
    return errors | {"gap": test - mse**0.5, "released_gap": test - mse}


def script(split: Split, seed: int, steps: int, mu: float, sigma: float) -> tuple[Tensor, Tensor]:
    """Return outputs on train and test before the last step, as the authors' script trains.

    One net in float32. The Gaussian is a term of the loss: its draws come before the net's
    outputs, its terms are added to the loss one tensor after the other. Rounding follows that
    order, and after 3000 steps the fourth digit follows the rounding.
    """
    split = _in(torch.float32, split)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
        nn.utils.vector_to_parameters(nudged(_flat(net)), net.parameters())
        optimizer, loss_of = torch.optim.SGD(net.parameters(), lr=0.1), nn.MSELoss()
        for _ in range(steps - 1):
            terms = _terms(net) if mu or sigma else []
            loss = loss_of(net(split.x_train), split.y_train[:, None])
            for additive, multiplicative in terms:
                loss = loss + sigma * additive + mu * multiplicative
            optimizer.zero_grad()
            loss.backward()
            if terms:
                optimizer.step()
            else:
                _step(net, 0.1)
    with torch.no_grad():
        return net(split.x_train)[:, 0], net(split.x_test)[:, 0]


def _flat(net: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(net.parameters()).detach()


@torch.no_grad()
def _step(net: nn.Module, eta: float) -> None:
    """Take a step of descent; the product is rounded before the difference."""
    for w in net.parameters():
        if w.grad is not None:
            w.sub_(eta * w.grad)


def _terms(net: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """Return the additive and the multiplicative term of every tensor, in the drawing order."""
    pairs = []
    for w in net.parameters():
        additive = torch.matmul(torch.randn(w.shape), w.T if w.dim() == 2 else w).sum()
        multiplicative = (0.5 * torch.randn(w.shape) * w * w).sum()
        pairs.append((additive, multiplicative))
    return pairs


def _in(dtype: torch.dtype, split: Split) -> Split:
    parts = (split.x_train, split.y_train, split.x_test, split.y_test)
    return Split(*(part.to(dtype).contiguous() for part in parts))
