"""The page about JAX runs, and every public name of `mpgd.jax` shows an example that runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

import mpgd.jax

PAGE = Path(__file__).parents[2] / "docs" / "jax.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
SOURCE = Path(mpgd.jax.__file__).parent
MODULES = ["mpgd.jax", *(f"mpgd.jax.{path.stem}" for path in sorted(SOURCE.glob("[a-z]*.py")))]


def test_the_examples_of_the_page_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    examples = EXAMPLE.findall(PAGE.read_text())
    assert examples
    for number, code in enumerate(examples, start=1):
        exec(compile(code, f"jax.md, example {number}", "exec"), names)


@pytest.mark.parametrize("module", MODULES)
def test_doctests_run(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0


@pytest.mark.parametrize("name", mpgd.jax.__all__)
def test_every_public_name_has_a_docstring_with_a_runnable_example(name: str) -> None:
    documented = inspect.getdoc(getattr(mpgd.jax, name)) or ""
    assert "Examples:" in documented
    assert ">>> " in documented
