"""The catalogue of studies: their names, one line about each, and how one is loaded."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from mpgd_lab.experiment import Experiment


@dataclass(frozen=True)
class Entry:
    """A line of the catalogue: what an experiment is about, and its folder if named otherwise."""

    title: str
    module: str | None = None


EXPERIMENTS: Final = {
    "noise": Entry("Figure 1: an orbit, its values and their sums, for both sign rules", "driver"),
    "valley": Entry("Section 5.1: descent in a widening valley, the trace of the Hessian"),
    "airfoil": Entry("Tables on airfoil self-noise: test RMSE and RMSE gap"),
    "ecg": Entry("Tables on ECG5000: test accuracy"),
    "digits": Entry(
        "A small net on scikit-learn's digits, all schemes: real training, no download"
    ),
    "audit": Entry("What each deviation of the authors' scripts does to airfoil, ecg and valley"),
    "cifar10": Entry("Table on CIFAR-10: accuracy of a full-batch ResNet-18; see --size"),
    "cifar10_step": Entry("One step of that table's full recipe, timed", "cifar10.one_step"),
    "limit": Entry("Theorem 4.1: convergence of MPGD to its Marcus equation as m grows"),
    "implicit": Entry(
        "Theorem 4.3: the coefficient of eps^2, as printed and completed, against simulation"
    ),
    "generalization": Entry(
        "Theorem 4.2: gap, tail index, dimension and Hessian trace against gamma"
    ),
    "displacement": Entry("Equal displacement beside equal variance, on four of these studies"),
    "escape": Entry(
        "Wells left at a finite step: force, threshold, rates, and which of two wells is preferred"
    ),
    "compare": Entry("Where does noise help? Tuned methods on functions, small data, pruning"),
    "levels": Entry("The paper's settings as force and decay, what they do, and a recipe"),
    "steps": Entry("Section 5's remark on step sizes, and F.1's on lower levels, put to the test"),
    "lyapunov": Entry("Section 5: is descent with large steps chaotic? Lyapunov exponents"),
}
PROTOCOLS: Final = ("text", "corrected", "released")
USUAL: Final = ("corrected", "released")  # those that are run where none is named


def find(names: Sequence[str]) -> list[str]:
    """Return the experiments of these names, all of them for no name, in their usual order.

    A name that ends in ``.py`` is a file that holds an experiment; files come last.
    """
    files = [name for name in names if is_file(name)]
    for name in names:
        if name not in EXPERIMENTS and name not in files:
            raise ValueError(f"no experiment is named {name!r}; {suggestion(name, EXPERIMENTS)}")
    return [name for name in EXPERIMENTS if name in names or not names] + files


def suggestion(name: str, names: Collection[str]) -> str:
    """Return the name that was probably meant, or all names.

    Examples:
        >>> suggestion("nosie", ["noise", "valley"]), suggestion("x", ["noise", "valley"])
        ("did you mean 'noise'?", 'there are: noise, valley')
    """
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(names)}"


def is_file(name: str) -> bool:
    """Return whether a name is that of a Python file."""
    return name.endswith(".py")


def load(name: str) -> Experiment:
    """Return an experiment of the catalogue or of a file; only now is its module imported."""
    if is_file(name):
        return load_file(Path(name))
    place = EXPERIMENTS[name].module or name
    experiment: Experiment = import_module(f"mpgd_lab.studies.{place}").EXPERIMENT
    return experiment


def load_file(path: Path) -> Experiment:
    """Return the ``EXPERIMENT`` in a Python file, which workers can import too."""
    path = path.resolve()
    if not path.is_file():
        raise ValueError(f"an experiment's file must exist, got {str(path)!r}")
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        module = import_module(path.stem)
    except SyntaxError as mistake:
        raise ValueError(f"{path}, line {mistake.lineno}: {mistake.msg}") from mistake
    except SystemExit as leaving:
        raise ValueError(f"{path} must not end the program, got {leaving!r}") from leaving
    if Path(module.__file__ or "").resolve() != path:
        raise ValueError(f"{path} has the name of another module; give it a name of its own")
    experiment: Any = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, import_module("mpgd_lab.experiment").Experiment):
        raise ValueError(
            f"{path} must define EXPERIMENT, an mpgd_lab.experiment.Experiment, got {experiment!r}"
        )
    if experiment.name != path.stem or experiment.name in EXPERIMENTS:
        raise ValueError(
            f"{path}: its experiment must be named {path.stem!r}, got {experiment.name!r}"
        )
    return cast("Experiment", experiment)


def catalogue() -> list[Experiment]:
    """Return all experiments of this package."""
    return [load(name) for name in EXPERIMENTS]
