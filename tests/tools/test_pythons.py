"""Interpreters are found by their version, and one that does not start is passed over."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tools import pythons

HERE = "{}.{}".format(*sys.version_info)


def interpreter(file: Path, script: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def test_a_broken_shim_gives_way_to_an_installed_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter(tmp_path / "shims" / f"python{HERE}", "exit 127")
    real = tmp_path / "versions" / f"{HERE}.0" / "bin" / "python"
    interpreter(real, f'exec "{sys.executable}" "$@"')
    monkeypatch.setenv("PATH", str(tmp_path / "shims"), prepend=os.pathsep)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert pythons.find(HERE) == str(real)


def test_none_found_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pythons, "find", lambda version: None)
    assert pythons.main("3.98", "3.99") == 1
    assert capsys.readouterr().out == "Python 3.98: not found\nPython 3.99: not found\n"
