"""What the sliders of the lab say: ranges, and how a query string becomes numbers."""

from dataclasses import dataclass
from typing import Any, Final, get_type_hints
from urllib.parse import parse_qsl

from mpgd.parameters import check_beta, check_choice, check_gamma, check_integer, check_real

SCHEMES: Final = ("plain", "symmetric", "product")
LANDSCAPE_NAMES: Final = ("valley", "rastrigin")  # from above
MOST_STEPS: Final = 8000
LONGEST_DWELL: Final = 1000.0
MAX_SEED: Final = 2**32 - 1  # the valley's start comes from numpy's RandomState
WORDS: Final = {float: "a number", int: "an integer", str: "a word"}


@dataclass(frozen=True)
class Settings:
    """The parameters of one picture; the defaults are the paper's valley, in units of a phase."""

    gamma: float = 0.7  # the intermittency exponent, in (0.5, 0.99]
    beta: float = 0.5  # the skewness, in [-1, 1]
    force: float = 0.211  # of a phase, in units of the gradient: F = sigma c0 eta^(gamma-1)
    decay: float = 0.0844  # of a phase, in units of curvature: M = mu c0 eta^(gamma-1)
    eta: float = 0.01  # the step size
    dwell: float = 20.0  # mean steps of a telegraph phase; coloured noise forgets in as many
    seed: int = 0  # of the orbits and of the start
    steps: int = 2000  # of the orbit and of the descent
    landscape: str = "valley"  # of the descent that is seen from above
    scheme: str = "plain"  # symmetric: differences of two drivers; product: signs as printed

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        check_beta(self.beta)
        check_real("eta", self.eta, "(0, 1]", 0.0, 1.0, "(]")
        check_real("force", self.force, "[0, 20]", 0.0, 20.0, "[]")
        check_real("decay", self.decay, "[0, 20]", 0.0, 20.0, "[]")
        check_real("dwell", self.dwell, "[1, 1000]", 1.0, LONGEST_DWELL, "[]")
        check_choice("landscape", self.landscape, LANDSCAPE_NAMES)
        check_integer("seed", self.seed, 0, MAX_SEED)
        check_integer("steps", self.steps, 10, MOST_STEPS)
        check_choice("scheme", self.scheme, SCHEMES)


def from_query(query: str) -> Settings:
    """Return the settings a query string names, the rest as they are by default.

    Examples:
        >>> from_query("gamma=0.6&scheme=symmetric").gamma
        0.6
        >>> from_query("gamma=2")
        Traceback (most recent call last):
        ValueError: gamma must lie in (0.5, 0.99], got 2.0
    """
    kinds = get_type_hints(Settings)
    values: dict[str, Any] = {}
    for name, text in parse_qsl(query, keep_blank_values=True, max_num_fields=len(kinds)):
        if name not in kinds:
            raise ValueError(f"there is no parameter {name!r}; there are: {', '.join(kinds)}")
        if name in values:
            raise ValueError(f"{name} must be given once")
        try:
            values[name] = kinds[name](text)
        except ValueError:
            raise ValueError(f"{name} must be {WORDS[kinds[name]]}, got {text!r}") from None
    return Settings(**values)
