"""A release is refused while something is missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mpgd import __version__
from tools.release import PLACEHOLDER, ROOT, WITH_CONTACT, missing

TAG = f"v{__version__}"


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """Return a folder with the files of this repository, filled in for a release."""
    for name in (*WITH_CONTACT, "CHANGELOG.md", "pyproject.toml", "src/mpgd/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in WITH_CONTACT:
        replace(tmp_path / name, PLACEHOLDER, "security@example.org")
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## [{__version__}] - 2030-01-31\n")
    replace(tmp_path / "pyproject.toml", "[project.urls]", '[project.urls]\nRepository = "https:"')
    (tmp_path / "mkdocs.yml").write_text("repo_url: https://example.org\n")
    return tmp_path


def replace(file: Path, old: str, new: str) -> None:
    file.write_text(file.read_text().replace(old, new))


def test_nothing_is_missing_where_all_is_filled_in(ready: Path) -> None:
    assert missing(TAG, ready) == []


def test_a_contact_is_asked_for(ready: Path) -> None:
    replace(ready / "SECURITY.md", "security@example.org", PLACEHOLDER)
    assert missing(TAG, ready) == ["SECURITY.md: SECURITY_CONTACT must be an address"]


def test_the_tag_is_the_version(ready: Path) -> None:
    assert missing("v9.9.9", ready) == [f"the tag must be {TAG}, got v9.9.9"]


def test_the_changelog_has_a_date(ready: Path) -> None:
    replace(ready / "CHANGELOG.md", "2030-01-31", "Unreleased")
    (line,) = missing(TAG, ready)
    assert line.startswith(f"CHANGELOG.md must begin with [{__version__}] and its date, got")


def test_the_repository_has_an_address(ready: Path) -> None:
    replace(ready / "pyproject.toml", 'Repository = "https:"', "")
    assert missing(TAG, ready) == ["pyproject.toml: [project.urls] must name the Repository"]


def test_the_site_knows_the_address_too(ready: Path) -> None:
    shutil.copy(ROOT / "mkdocs.yml", ready)
    assert missing(TAG, ready) == ["mkdocs.yml: repo_url must be the address of the repository"]
