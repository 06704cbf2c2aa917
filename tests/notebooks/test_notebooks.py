"""Every notebook of examples/ runs, and prints what it was committed with."""

from __future__ import annotations

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason='these need pip install "mpgd[notebooks]"')

from tools.notebooks import EXAMPLES, alike, executed, printed  # noqa: E402

NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_was_committed_with(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    before, now = printed(notebook), printed(executed(notebook, tmp_path))
    assert any("picture" in text for text in before)
    different = [pair for pair in zip(before, now, strict=True) if not alike(*pair)]
    assert different == []


def test_what_differs_is_seen() -> None:
    assert alike("left 0.82, 3 walkers", "left 0.81, 3 walkers")
    assert not alike("left 0.82", "left 0.6")
    assert not alike("supported", "undecided")
    assert not alike("picture", "")
