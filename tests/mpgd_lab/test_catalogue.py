"""The catalogue: keys that never change, and records of earlier noise."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from mpgd.maps.normal import GAUSSIAN_VERSION
from mpgd.maps.tables import DRIVER_VERSION
from mpgd.noise import StableNoise
from mpgd_lab import report, verification
from mpgd_lab.archive import pack
from mpgd_lab.catalogue import EXPERIMENTS, PROTOCOLS, catalogue, load
from mpgd_lab.perturbations.noise_versions import STABLE_VERSION
from mpgd_lab.store import Record, Run, Store
from mpgd_lab.studies.cifar10.runs import FULL, tasks

RECORDS = Path(__file__).parents[1] / "data" / "records"
DIGESTS = {  # how many runs an experiment has for three seeds, SHA-256 of their sorted keys
    "noise": (13, "efb1074df962f40181d6066eec3f23a04511ec3690f886bb7bd9090ed755f92d"),
    "valley": (80, "dc04ab3a3ad5744ffa72dd44ae2131b1996cccf68b75f60f57eb67044bcd6c78"),
    "airfoil": (387, "9c653543ec45fe7bfdafd210dbcd5dff271411e72cf57c63ede5abb2731bbf9c"),
    "ecg": (282, "32b5e3d0be978ba03faca1442983590fd2d35af964794e7f751fe6fe8f7e64ef"),
    "digits": (57, "eb6fc844f187117738cdbdfa732426e0d5a5405b46eb2d2aca2c43cc52eba832"),
    "audit": (291, "039bec4cc37c71e26348a77932cf2613861a0a89c421f22580bc669611816524"),
    "cifar10": (141, "82abe04bfaf51a1cc28b2631fcafc3dd8701509cba7771246ff08a4197253c92"),
    "cifar10_step": (1, "1fca1dc704e821598633a409874ce17be71e8bf2b7784c5af567ce6d6b99fe43"),
    "limit": (269, "86f315b7451f3fb706314ab67f6759331eb12cf529eb9775ab45f926ea0696f5"),
    "implicit": (52, "61f946b0e8ed9b420cffd2d8289049a3c911d2dd5a7ebba4a1a904fb679a603f"),
    "generalization": (12, "2b5b22524ed7cedf4431794adde89e0a3ebadaa27b5d0056ce4ae26bb8587c8d"),
    "displacement": (148, "c120c6b86a970ba7c3d6b27de4eafebdff308ea70fc998755e569c0f52b565c3"),
    "escape": (75, "32977c0e7906eb70df1c900bfc93f48b5ed1256c858536bd17efad92890f4e78"),
    "compare": (990, "363237d6ffe7dfde1748738fbb0cce61c584680ecac6b7f1f18b22407b3c596a"),
    "levels": (1410, "3c24d1e98df25ea489aff03fc2002eac59071c0507ce304b55bea12e2110d66c"),
    "steps": (339, "ae13ad45f5d8f4cb396b63c9d362d7edc79f7f5268fd2db49df88ea4220872f2"),
    "lyapunov": (33, "bfd5d03d89cbd18ddab79f17d233902985b461d7243de76c1ede892599027591"),
}
GPU = (141, "2fb1c8967c94a6f05aaf098b5cca889f6852a7f44fb86651357ddd13055adddc")


GAUSSIANS = {  # how many of them draw from `mpgd.GaussianNoise`
    "valley": 28,
    "airfoil": 102,
    "ecg": 78,
    "digits": 27,
    "audit": 78,
    "cifar10": 54,
    "generalization": 2,
    "displacement": 74,
    "escape": 10,
    "steps": 12,
}


STABLES = {"limit": 220, "escape": 10}  # how many of them draw from `mpgd.StableNoise`
STABLE_DRAWS = {  # by alpha and beta: the first, last, median and largest of 10,000
    (5 / 3, 0.0): (2.05955132, 1.75310833, -0.0143004199, 171.435083),
    (5 / 3, 0.5): (2.10027196, 1.72873431, -0.207417997, 218.623122),
    (1.25, 0.5): (2.49762607, 1.69500043, -1.0389743, 2158.70405),
}


def first(run: Run) -> Run:
    """Return the run with the first version of its noises."""
    return replace(run, driver=1, gaussian=1, stable=1)


def digest(runs: Iterable[Run]) -> tuple[int, str]:
    """Return the number of runs and a digest of the keys they had with the first noises."""
    keys = sorted({first(run).key for run in runs})
    return len(keys), hashlib.sha256("\n".join(keys).encode()).hexdigest()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_keys_of_all_runs_are_what_they_were(name: str) -> None:
    """Results on a user's disk stay results: another key would train everything again."""
    assert digest(run for p in PROTOCOLS for run in load(name).runs(p, (1, 2, 3))) == DIGESTS[name]


def test_the_keys_of_the_full_cifar10_are_what_they_were() -> None:
    study = FULL | {"device": "cuda"}
    assert digest(run for p in PROTOCOLS for run in tasks(p, (1, 2, 3), study)) == GPU


def test_a_run_of_another_driver_is_another_run() -> None:
    run = load("airfoil").runs("corrected", (1,))[0]
    assert run.driver == DRIVER_VERSION == 2
    assert replace(run, driver=1).key != run.key
    assert '"driver":2' in run.canonical


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_only_runs_with_gaussian_noise_name_its_version(name: str) -> None:
    runs = {run.key: run for p in PROTOCOLS for run in load(name).runs(p, (1, 2, 3))}
    named = [run for run in runs.values() if run.gaussian is not None]
    assert len(named) == GAUSSIANS.get(name, 0)
    assert all('"gaussian":2' in run.canonical for run in named)
    assert all(replace(run, gaussian=1).key != run.key for run in named)
    others = [run for run in runs.values() if run.gaussian is None]
    assert not any('"gaussian":' in run.canonical for run in others)
    assert all(replace(run, gaussian=1) == run for run in others)


@pytest.mark.parametrize(
    ("experiment", "scheme", "hyperparameters", "version"),
    [
        ("compare", "gaussian neuron", {"noise": "gaussian"}, GAUSSIAN_VERSION),
        ("compare", "anti", {"noise": "anti"}, GAUSSIAN_VERSION),
        ("compare", "stable", {"noise": "stable"}, None),
        ("cifar10", "gaussian", {"noise": "released_gaussian"}, GAUSSIAN_VERSION),
        ("ecg", "gaussian", {"noise": "released_gaussian"}, None),
        ("generalization", "gaussian", {}, GAUSSIAN_VERSION),
    ],
)
def test_the_name_of_a_noise_tells_whether_it_is_ours(
    experiment: str, scheme: str, hyperparameters: dict[str, str], version: int | None
) -> None:
    run = Run(experiment, "paper", scheme, hyperparameters, seed=1)
    assert run.gaussian == version
    assert run.is_current
    assert replace(run, hyperparameters={"noise": "chaotic"}).gaussian is None


def test_records_of_earlier_gaussian_noise_are_kept_apart(tmp_path: Path) -> None:
    runs = load("digits").runs("corrected", (1,))
    gaussian = next(run for run in runs if run.gaussian)
    chaotic = next(run for run in runs if run.hyperparameters["noise"] == "chaotic")
    store = Store(tmp_path / "runs")
    store.save(replace(gaussian, gaussian=1), {"loss": 1.0}, {}, seconds=1.0)
    store.save(chaotic, {"loss": 1.0}, {}, seconds=1.0)
    assert store.load(gaussian) is None
    assert {(r.run.gaussian, r.run.is_current) for r in store.records()} == {
        (1, False),
        (None, True),
    }
    assert not store.unreadable
    written = report.write(tmp_path, tmp_path / "results.md")
    text = written.file.read_text()
    assert (
        "1 records were made with an earlier chaotic driver or earlier Gaussian or stable" in text
    )
    assert f"| digits | {gaussian.protocol} | 2, Gaussian 1 | 1 |" in text


def test_records_of_other_stable_noise_are_kept_apart(tmp_path: Path) -> None:
    run = Run("compare", "own", "stable", {"noise": "stable"}, seed=1)
    store = Store(tmp_path / "runs")
    store.save(replace(run, stable=2), {"score": 1.0}, {}, seconds=1.0)
    assert store.load(run) is None
    assert "| compare | own | 2, stable 2 | 1 |" in (
        report.write(tmp_path, tmp_path / "results.md").file.read_text()
    )


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_only_runs_with_stable_noise_name_its_version(name: str) -> None:
    runs = {run.key: run for p in PROTOCOLS for run in load(name).runs(p, (1, 2, 3))}
    named = [run for run in runs.values() if run.stable is not None]
    assert len(named) == STABLES.get(name, 0)
    assert all(replace(run, stable=2).key != run.key for run in named)
    assert all(not replace(run, stable=2).is_current for run in named)
    assert all(replace(run, stable=2) == run for run in runs.values() if run.stable is None)


@pytest.mark.parametrize(("alpha", "beta"), STABLE_DRAWS)
def test_stable_draws_are_those_of_their_version(alpha: float, beta: float) -> None:
    """A change of draws makes published records stale: raise STABLE_VERSION and train them again.

    The last bits of a table depend on the C library, which no record notices.
    """
    assert STABLE_VERSION == 1
    v = StableNoise(alpha, beta).path(200, (50,), seed=7).flatten()
    found = (float(v[0]), float(v[-1]), float(v.median()), float(v.max()))
    assert found == pytest.approx(STABLE_DRAWS[alpha, beta], rel=1e-7, abs=1e-8)


def test_published_records_of_other_stable_noise_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [Run("compare", "own", "stable", {"noise": "stable"}, seed) for seed in (1, 2)]
    runs = [replace(runs[0], stable=2), runs[1]]
    file = tmp_path / "records.jsonl.xz"
    pack([Record(run, {"score": 1.0}, {}, 1.0, {}, None) for run in runs], file)
    monkeypatch.setattr(verification, "PUBLISHED", file)
    verification.published_records.cache_clear()
    try:
        assert [one.run.seed for one in verification.published_records()["compare"]] == [2]
    finally:
        verification.published_records.cache_clear()


def test_every_line_of_the_catalogue_holds_its_experiment() -> None:
    assert [study.name for study in catalogue()] == list(EXPERIMENTS)
    assert {study.title for study in catalogue()} == {e.title for e in EXPERIMENTS.values()}
    places = [study.section.place for study in catalogue() if study.section]
    assert len(set(places)) == len(places)


@pytest.fixture
def earlier(tmp_path: Path) -> Store:
    """Return a store of records made with the first driver, which name no version of it."""
    shutil.copytree(RECORDS, tmp_path / "runs")
    return Store(tmp_path / "runs")


def test_records_that_name_no_driver_are_read_as_those_of_the_first(earlier: Store) -> None:
    records = list(earlier.records())
    assert len(records) == 50
    assert not earlier.unreadable
    assert {record.run.driver for record in records} == {1}
    for record in records:
        assert earlier.load(record.run) == record
        present = replace(record.run, driver=DRIVER_VERSION, gaussian=None, stable=None)
        assert earlier.load(present) is None


def test_the_page_counts_records_of_an_earlier_driver_and_shows_none(earlier: Store) -> None:
    folder = earlier.folder.parent
    written = report.write(folder, folder / "results.md")
    assert (written.records, written.unusable) == (0, ())
    text = written.file.read_text()
    assert "50 records were made with an earlier chaotic driver" in text
    for run in (record.run for record in earlier.records()):
        assert f"| {run.experiment} | {run.protocol} | 1 | " in text
