"""A library is loaded only if it was compiled from the sources beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import mpgd.library
from mpgd.library import load

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
hatch_build = pytest.importorskip("hatch_build", reason='needs hatchling: pip install "mpgd[dev]"')

SOURCE = """
#include "answer.h"
#ifndef MPGD_SOURCE
#define MPGD_SOURCE ""
#endif
const char mpgd_source[17] = MPGD_SOURCE;
int mpgd_answer(void) { return ANSWER; }
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a C file with its library beside it."""
    (tmp_path / "answer.h").write_text("#define ANSWER 42\n")
    path = tmp_path / "answer.c"
    path.write_text(SOURCE)
    assert hatch_build.compile_library(path, ("-O1",)) == tmp_path / "libanswer.so"
    return path


def test_a_library_of_these_sources_is_loaded(source: Path) -> None:
    loaded = load(source)
    assert loaded.library is not None
    assert loaded.library.mpgd_answer() == 42
    assert loaded.reason == ""
    assert [path.name for path in sorted(source.parent.iterdir())] == [
        "answer.c",
        "answer.h",
        "libanswer.so",
    ]


@pytest.mark.parametrize("name", ["answer.c", "answer.h"])
def test_a_library_of_other_sources_is_not(source: Path, name: str) -> None:
    changed = source.with_name(name)
    changed.write_text(changed.read_text() + "\n")
    loaded = load(source)
    assert loaded.library is None
    assert loaded.reason == "libanswer.so was compiled from other sources: install mpgd again"


def test_a_library_without_its_sources_is_loaded(source: Path) -> None:
    source.unlink()
    assert load(source).library is not None


def test_what_is_no_library_is_not(source: Path) -> None:
    source.with_name("libanswer.so").write_bytes(b"no library")
    loaded = load(source)
    assert loaded.library is None
    assert loaded.reason.startswith("libanswer.so cannot be loaded (")
    assert loaded.reason.endswith(f"): {mpgd.library.CURE}")


def test_a_source_that_does_not_compile_leaves_nothing(source: Path) -> None:
    source.write_text("int mpgd_answer(void) { return }")
    before = source.with_name("libanswer.so").read_bytes()
    with pytest.raises(hatch_build.subprocess.CalledProcessError) as problem:
        hatch_build.compile_library(source, ("-O1",))
    assert "no compiled kernels (answer.c:1:" in hatch_build.explain(problem.value)
    assert source.with_name("libanswer.so").read_bytes() == before  # `load` refuses it
    assert not list(source.parent.glob("*.tmp"))
