"""The tasks on which methods are compared: what is descended, how far, how it is scored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from mpgd_lab.verdicts import Direction

WALKERS: Final = 50  # starts of a run on a test function
FEWER: Final = {"kind": "examples", "walkers": 20}  # of those with examples, which cost more
QUARTER, HALF = 10**0.25, 10**0.5  # of a decade, between two levels
SHARES: Final = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05)  # of the hidden neurons that are kept
PRUNED: Final = SHARES[1:]  # those whose mean accuracy is the score of pruning


@dataclass(frozen=True)
class Task:
    """What is descended, and the grids on which methods are tuned."""

    name: str
    title: str
    kind: Literal["function", "examples", "pruning"]
    lr: float  # the middle of the step sizes
    steps: int
    first: Mapping[str, float]  # the lowest level of each knob
    step_sizes: Sequence[float]  # in units of ``lr``
    ratio: float = HALF  # of neighbouring levels
    configurations: int = 6  # of every method
    tuning: int = 5  # seeds
    report: int = 20  # fresh seeds
    score: str = "accuracy, %"
    better: Direction = "higher"
    worst: float = 0.0  # the score of a run that diverged
    digits: int = 1  # of a score in a table
    examples: int = 1  # of training
    batches: tuple[int, ...] = ()  # sizes of mini-batches
    walkers: int = 1  # independent starts in one run
    validation: int = 0  # rows
    flipped: float = 0.0  # share of training labels that are replaced
    widths: tuple[int, ...] = field(default=())  # of the net

    @property
    def is_function(self) -> bool:
        """Whether it has a known global minimum that starts reach or not."""
        return self.walkers > 1


def _function(name: str, title: str, lr: float, force: float, **more: object) -> Task:
    """Return a test function; ``force`` is the lowest level of the additive noises."""
    first = {"force": force, "decay": force / 2, "anti": 3 * force, "weight_decay": 0.001}
    first |= {"rho": 0.01, "adam_lr": 0.001, "adam_force": 0.1}
    sizes = [10 ** ((k - 8) / 4) for k in range(12)]
    given = {"kind": "function", "steps": 2000, "score": "success, %", "tuning": 3}
    given |= {"walkers": WALKERS} | more
    return Task(
        name=name,
        title=title,
        lr=lr,
        first=first,
        step_sizes=sizes,
        ratio=QUARTER,
        configurations=12,
        **given,  # type: ignore[arg-type]
    )


def _data(name: str, title: str, lr: float, steps: int, **more: object) -> Task:
    """Return a task with a data set."""
    first = {"force": 0.001, "decay": 0.003, "anti": 0.03, "weight_decay": 0.0003}
    first |= {"rho": 0.01, "adam_lr": 0.0003, "adam_force": 0.003}
    sizes = [2.0 ** (k - 3) for k in range(6)]
    given = {"kind": "examples"} | more
    return Task(name, title, lr=lr, steps=steps, first=first, step_sizes=sizes, **given)  # type: ignore[arg-type]


TASKS: Final = (
    _function("rastrigin", "Rastrigin", 0.002, 3.0),
    _function("ackley", "Ackley", 0.01, 0.3),
    _function("wide well", "two wells, wide is lower", 0.02, 0.1),
    _function("sharp well", "two wells, sharp is lower", 0.02, 0.1),
    _function("rugged tied", "rugged, sharper is deeper", 0.001, 0.3, steps=4000, report=80),
    _function("rugged independent", "rugged, depth is random", 0.001, 0.3, steps=4000, report=80),
    _function("frequency", "frequency", 0.02, 0.03, **FEWER, examples=64, batches=(8, 16)),
    _function("xor", "XOR", 0.5, 0.003, **FEWER, examples=4, batches=(1, 2)),
    _data(
        "airfoil",
        "airfoil, 100 rows",
        0.1,
        3000,
        score="RMSE",
        better="lower",
        worst=1.0,
        digits=4,
        examples=100,
        batches=(10, 25),
        validation=300,
        widths=(5, 16, 1),
    ),
    _data(
        "digits",
        "digits, 200 rows",
        0.2,
        1000,
        examples=200,
        batches=(20, 50),
        validation=300,
        flipped=0.2,
        widths=(64, 32, 10),
        worst=10.0,
    ),
    _data(
        "ecg",
        "ECG5000, 60 rows",
        0.2,
        1000,
        examples=60,
        batches=(10, 20),
        validation=300,
        widths=(140, 32, 1),
        worst=50.0,
    ),
    _data(
        "plateau",
        "plateau of ECG5000",
        0.05,
        1000,
        examples=250,
        batches=(25, 50),
        validation=250,
        widths=(140, 32, 32, 1),
        worst=50.0,
        tuning=3,
    ),
    _data(
        "pruning",
        "pruning, digits",
        0.2,
        600,
        kind="pruning",
        examples=200,
        validation=300,
        widths=(64, 128, 10),
        worst=10.0,
        tuning=3,
    ),
)
BY_NAME: Final = {task.name: task for task in TASKS}
