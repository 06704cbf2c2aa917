from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from tests.clients import page
from tests.clients.every_optimizer import EXACT, outcomes


def test_it_trains_and_resumes_in_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page.resumes(page.example("pytorch_optimizer"))


def test_the_page_names_this_version() -> None:
    assert page.version("pytorch_optimizer") == version("pytorch_optimizer")


def test_every_optimizer_that_runs_alone_resumes_in_bits() -> None:
    found = outcomes()
    assert not {name: text for name, text in found.items() if text.startswith("WRONG")}
    assert sum(text == EXACT for text in found.values()) >= 112
