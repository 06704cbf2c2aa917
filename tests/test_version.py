"""The version has one source, `mpgd.__version__`; what must repeat it agrees."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import mpgd

ROOT = Path(__file__).parents[1]
NUMBERED = re.compile(r"^## \[(\d[^\]]*)\]", re.MULTILINE)


def newest(changelog: str) -> str:
    """Return the first numbered version of a changelog; an [Unreleased] above it has no number."""
    found = NUMBERED.search(changelog)
    assert found, "the changelog names no version: head a section `## [0.1.0] - date`"
    return found[1]


def test_the_package_takes_its_version_from_the_source() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in settings["project"]["dynamic"]
    source = ROOT / settings["tool"]["hatch"]["version"]["path"]
    assert f'\n__version__ = "{mpgd.__version__}"\n' in source.read_text()


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == mpgd.__version__


def test_the_changelog_begins_with_this_version() -> None:
    assert newest((ROOT / "CHANGELOG.md").read_text()) == mpgd.__version__


def test_the_newest_version_of_a_changelog_is_found() -> None:
    assert newest("## [Unreleased]\n\n## [0.2.0] - day\n\n## [0.1.0] - day\n") == "0.2.0"
    with pytest.raises(AssertionError, match="names no version"):
        newest("## [Unreleased]\n")
