from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from tests.clients import page


def test_it_trains_and_resumes_in_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page.resumes(page.example("skorch"))


def test_the_page_names_this_version() -> None:
    assert page.version("skorch") == version("skorch")
