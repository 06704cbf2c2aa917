"""The examples of the page of integrations train, and resume with the bits of an unbroken run."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from tests.clients import page

LIBRARIES = {  # sections of the page, and the library that they are about
    "Lightning": "lightning",
    "accelerate": "accelerate",
    "Hugging Face Trainer": "transformers",
    "skorch": "skorch",
    "schedulefree": "schedulefree",
    "pytorch_optimizer": "pytorch_optimizer",
}
PROCESSES = [
    "DistributedDataParallel",
    "FSDP2 and distributed checkpoints",
    "ZeroRedundancyOptimizer",
]
SCRIPTS = ["train_with_lightning", "train_with_accelerate", "train_with_trainer"]


@pytest.mark.parametrize("title", list(LIBRARIES))
def test_an_example_resumes_in_bits(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page.resumes(page.example(title))


@pytest.mark.parametrize("title", PROCESSES)
def test_an_example_resumes_in_bits_on_two_processes(title: str, tmp_path: Path) -> None:
    page.resumes_on_two_processes(title, tmp_path)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs(name: str, tmp_path: Path) -> None:
    assert page.script(name, tmp_path).startswith("loss after two epochs: ")


@pytest.mark.parametrize("title", [*LIBRARIES, "LightningCLI"])
def test_the_page_names_the_version(title: str) -> None:
    assert page.version(title) == version({**LIBRARIES, "LightningCLI": "jsonargparse"}[title])
