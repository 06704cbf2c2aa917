from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from tests.clients import page


def test_it_trains_and_resumes_in_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page.resumes(page.example("accelerate"))


def test_the_page_names_this_version() -> None:
    assert page.version("accelerate") == version("accelerate")


def test_the_script_runs(tmp_path: Path) -> None:
    assert page.script("train_with_accelerate", tmp_path).startswith("loss after two epochs: ")
