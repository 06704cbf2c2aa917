"""Every notebook of examples/ runs, and prints what it was committed with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason='these need pip install "mpgd[notebooks]"')

from tools.notebooks import EXAMPLES, alike, printed  # noqa: E402

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted(path.stem for path in EXAMPLES.glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 5


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_prints_what_it_was_committed_with(name: str) -> None:
    """In a process of its own: Jupyter's sockets and loops are no part of this one."""
    command = [sys.executable, "-m", "tools.notebooks", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{name}.ipynb\n"), done.stderr


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_committed_with_pictures_and_without_warnings(name: str) -> None:
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    shown = "".join(printed(notebook))
    assert "picture" in shown
    assert "Warning" not in shown


def test_what_differs_is_seen() -> None:
    assert alike("left 0.82, 3 walkers", "left 0.81, 3 walkers")
    assert not alike("left 0.82", "left 0.6")
    assert not alike("supported", "undecided")
    assert not alike("picture", "")
