"""A scheme is what its run's hyperparameters say, and its text is the name of its row."""

from __future__ import annotations

import pytest

from mpgd_lab.catalogue import PROTOCOLS, load
from mpgd_lab.schemes import Scheme, gaussian_of, runs_of, sort_key
from mpgd_lab.store import Record, Run
from mpgd_lab.verdicts import schemes_of

NETS = ("airfoil", "ecg", "digits", "cifar10", "valley")
NAMES = {
    Scheme(): "gd",
    Scheme(note="same steps"): "gd same steps",
    Scheme(batch=32): "sgd",
    Scheme("mini-batches"): "sgd",
    Scheme("langevin"): "langevin",
    Scheme("langevin", True): "langevin symmetric",
    Scheme("released_gaussian"): "gaussian",
    Scheme("matched", gamma=0.6): "gaussian plain 0.6",
    Scheme("matched", True, 0.65): "gaussian symmetric 0.65",
    Scheme("chaotic", False, 0.7, 0.0): "mpgd plain 0.7 beta 0",
    Scheme("switched", True, 0.55, 0.25, switches=()): "mpgd symmetric 0.55 beta 0.25",
}


@pytest.mark.parametrize("scheme", NAMES, ids=str)
def test_the_text_of_a_scheme_is_its_name(scheme: Scheme) -> None:
    assert str(scheme) == NAMES[scheme]


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_run_s_scheme_is_made_again_from_its_hyperparameters(name: str, protocol: str) -> None:
    """What a run shares with all others of its study (the valley's levels) is in it too."""
    for run in load(name).runs(protocol, [1]):
        scheme = Scheme.of(run)
        assert scheme.hyperparameters.items() <= dict(run.hyperparameters).items()
        renamed = Scheme.of(
            Run(run.experiment, protocol, "a name of no use", run.hyperparameters, 1)
        )
        assert renamed == scheme
        kind = str(scheme).split()[0]
        assert run.scheme.startswith(kind)


def test_only_what_is_said_becomes_a_hyperparameter() -> None:
    scheme = Scheme("switched", False, 0.6, 0.5, switches=("reshaped",), note="never stored")
    (run,) = runs_of("x", "paper", [scheme], [7], {"eta": 0.1})
    assert run.hyperparameters == {
        "eta": 0.1,
        "noise": "switched",
        "symmetric": False,
        "gamma": 0.6,
        "beta": 0.5,
        "switches": ["reshaped"],
    }
    assert (run.scheme, run.seed) == ("mpgd plain 0.6 beta 0.5 never stored", 7)


def test_an_unknown_noise_is_named() -> None:
    with pytest.raises(ValueError, match=r"noise must be one of 'none', .* got 'typo'"):
        Scheme("typo")


def test_mpgd_is_compared_with_the_gaussian_of_its_variance_or_the_only_one() -> None:
    ours = Scheme("chaotic", True, 0.6, 0.5)
    plain, own, only = (
        Scheme("matched", False, 0.6),
        Scheme("matched", True, 0.6),
        Scheme("released_gaussian"),
    )
    assert gaussian_of(ours, [plain, own, only]) == own
    assert gaussian_of(ours, [plain, only]) == only
    assert gaussian_of(ours, [plain, Scheme()]) == plain
    assert gaussian_of(ours, [Scheme()]) is None


def test_rows_are_sorted_by_kind_skewness_variant_and_gamma() -> None:
    order = [
        Scheme(),
        Scheme("matched", False, 0.6),
        Scheme("matched", True, 0.55),
        Scheme("langevin", False),
        Scheme("chaotic", False, 0.6, 0.0),
        Scheme("chaotic", True, 0.55, 0.0),
        Scheme("chaotic", False, 0.55, 0.5),
        Scheme(batch=32),
    ]
    assert sorted(reversed(order), key=sort_key) == order
    runs = runs_of("x", "paper", reversed(order), [1], {})
    assert list(schemes_of(Record(run, {}, {}, 0.0, {}, None) for run in runs)) == [
        str(scheme) for scheme in order
    ]
