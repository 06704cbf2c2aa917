"""What the authors' scripts do otherwise than the paper's text says: names, and runs that do it.

Deviations of the noise are switches of `perturbations.released`, those of the valley are in
`valley.switches`. The others change a net's run here.
"""

from collections.abc import Collection
from dataclasses import replace
from math import sqrt
from typing import Any, Final

from mpgd.noise import ChaoticNoise
from mpgd_lab.perturbations.released import SWITCHES
from mpgd_lab.store import Run
from mpgd_lab.studies.airfoil.runs import RELEASED_LOWER
from mpgd_lab.studies.ecg.runs import DEPTHS

OF_A_GAUSSIAN: Final = ("same_seeds", "one_driver")  # switches that mean something for it
DEVIATIONS: Final = {
    "control": "none: the corrected noise, with orbits computed by powers",
    "iterated_start": "orbits start at a uniform draw iterated 10,000 times",
    "constant_sign": "an orbit flips its sign at every visit or never",
    "early_sign": "the sign changes at the visit, not after it",
    "same_delta": "both orbits of the symmetric variant draw the same signs",
    "reshaped": "one step reads successive times of one orbit across coordinates",
    "same_seeds": "all tensors have the same orbits, and neighbouring runs almost the same",
    "one_driver": "one driver serves the multiplicative and the additive term",
    "minus_sigma": "the additive term enters with the other sign",
    "lower_sigma": "sigma is 0.01 where the text says 0.02",
    "bare_gaussian": "the Gaussian has prefactor eta (in the valley 1) and unit variance",
    "shared_rows": "all rows of a matrix get the same additive noise, the sums of its columns",
    "gaussian_means": "the Gaussian has mean 10 on u and 1 elsewhere",
    "one_layer": "one hidden layer, as the text says; the scripts have two",
    "float32": "float32, one net at a time, measured before the last step",
    "early_metrics": "measured before the last step",
    "mse_gap": "the gap is the test RMSE minus the train MSE",
    "scalar_u": "u is one number, 17.28 at the start",
    "u_first": "u moves before v, whose step sees the new u",
    "noise_times_u": "v's multiplicative noise multiplies u",
    "one_multiplier": "one multiplicative driver serves u and v",
}


def deviate(task: Run, on: Collection[str]) -> Run:
    """Return a net's run of protocol ``corrected`` with deviations switched on.

    Examples:
        >>> from mpgd_lab.studies.airfoil.runs import tasks
        >>> task = tasks("corrected", [1])[-2]
        >>> deviate(task, ["early_sign"]).hyperparameters["switches"]
        ['early_sign']
    """
    h = dict(task.hyperparameters)
    possible = SWITCHES if h["noise"] == "chaotic" else OF_A_GAUSSIAN
    switches = [name for name in possible if name in on]
    if h["noise"] == "chaotic" and (switches or "control" in on):
        h["noise"] = "switched"
    if switches or "control" in on:
        h["switches"] = switches
    if "lower_sigma" in on:
        h["sigma"] = RELEASED_LOWER[1]
    if "one_layer" in on:
        h["widths"] = DEPTHS["one hidden layer"]
    if h["noise"] == "matched":
        h |= _gaussian(h, on)
    protocol = "released" if "early_metrics" in on else task.protocol
    return replace(task, protocol=protocol, hyperparameters=h)


def _gaussian(h: dict[str, Any], on: Collection[str]) -> dict[str, Any]:
    """Return the Gaussian and the mu and sigma that give each draw the right standard deviation.

    That is mu eta^gamma sd(v) for the text's Gaussian, mu eta for the bare one.
    """
    twice = 2.0 if h["symmetric"] else 1.0
    ratio = h["eta"] ** (h["gamma"] - 1.0) * sqrt(ChaoticNoise(h["gamma"]).variance * twice)
    if "shared_rows" in on:  # training gives this noise the prefactor eta
        noise, factor = "released_gaussian", 1.0 if "bare_gaussian" in on else ratio
    else:
        noise, factor = "matched", 1.0 / ratio if "bare_gaussian" in on else 1.0
    return {"noise": noise, "mu": h["mu"] * factor, "sigma": h["sigma"] * factor}
