"""The same noise and the same update for JAX, as optax transformations.

    import mpgd.jax

    optimizer = mpgd.jax.mpgd(0.1, force=0.006, gamma=0.6, stop=750)

The driver is made of 32-bit integers, so its words are torch's words in every bit, with x64 and
without. Parameters agree with torch to rounding only: XLA contracts multiplications and additions
of floating-point numbers as it likes.
"""

try:
    import jax
    import optax
except ImportError as error:
    raise ImportError(
        f'mpgd.jax needs jax and optax, but {error}; install them with: pip install "mpgd[jax]"'
    ) from error

from mpgd.jax import stable as stable
from mpgd.jax.elements import element_index as element_index
from mpgd.jax.perturbation import PerturbationState as PerturbationState
from mpgd.jax.round_updates import stochastic_round as stochastic_round
from mpgd.jax.source import Noise as Noise
from mpgd.jax.source import NoiseState as NoiseState
from mpgd.jax.source import noise as noise
from mpgd.jax.transformations import PerturbedState as PerturbedState
from mpgd.jax.transformations import mpgd as mpgd
from mpgd.jax.transformations import perturb as perturb

__all__ = [
    "Noise",
    "NoiseState",
    "PerturbationState",
    "PerturbedState",
    "element_index",
    "mpgd",
    "noise",
    "perturb",
    "stable",
    "stochastic_round",
]
