"""What is built installs into an empty environment and says what an index's page needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import mpgd

pytest.importorskip("hatchling", reason='these need hatchling: pip install "mpgd[dev]"')
metadata = pytest.importorskip("packaging.metadata")

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder outside the repository, without its paths."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(cwd), "LANG": "C"}
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True
    )


def build(folder: Path, out: Path, *targets: str, **environment: str) -> list[Path]:
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(out), *targets]
    own = os.environ | environment
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, env=own)
    out.with_suffix(".log").write_text(done.stdout + done.stderr)
    return sorted(out.iterdir())


def unpack(archive: Path, folder: Path) -> Path:
    """Return the folder that a source archive holds."""
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (found,) = folder.iterdir()
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the wheel and the source archive."""
    wheel, archive = build(ROOT, tmp_path_factory.mktemp("built"))
    return wheel, archive


def pip(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run our pip without an index."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    environment = os.environ | {"PIP_NO_INDEX": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def empty(
    request: pytest.FixtureRequest,
    built: tuple[Path, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Return a folder, with a space and an umlaut, of an environment that holds mpgd alone."""
    folder = tmp_path_factory.mktemp("ganz für sich")
    wheel = built[0]
    if request.param == "sdist":
        made = ("--no-deps", "--no-build-isolation", "--wheel-dir", folder)
        assert pip("wheel", *made, built[1]).returncode == 0
        (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=False)
    done = pip("--python", folder / "venv/bin/python", "install", "--no-deps", wheel)
    assert done.returncode == 0, done.stderr
    return folder


@contextmanager
def lent(folder: Path) -> Iterator[None]:
    """Let an environment see torch and the rest of ours, but not the mpgd that is there."""
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (site / "lent.pth").write_text(f"{Path(torch.__file__).parents[1]}\n")
    yield
    (site / "lent.pth").unlink()


def test_version_and_short_help_need_nothing_else(empty: Path) -> None:
    """Not even torch and numpy, which are not there."""
    for command in ([empty / "venv/bin/mpgd"], [empty / "venv/bin/python", "-m", "mpgd_lab"]):
        assert run(*command, "--version", cwd=empty).stdout == f"mpgd {mpgd.__version__}\n"
        for asked in ([], ["--help"], ["-h"]):
            shown = run(*command, *asked, cwd=empty)
            assert shown.returncode == 0
            assert 'pip install "mpgd[lab]"' in shown.stdout
    refused = run(empty / "venv/bin/mpgd", "reproduce", cwd=empty)
    assert refused.returncode == 1
    assert refused.stderr == 'mpgd reproduce needs the extra `lab`: pip install "mpgd[lab]"\n'


def test_the_command_of_a_missing_extra_needs_no_index_that_has_mpgd(empty: Path) -> None:
    """In a clone too: pip takes the mpgd that is installed and adds what the extra needs."""
    done = pip("--python", empty / "venv/bin/python", "install", "mpgd[lab]")
    assert "Requirement already satisfied: mpgd[lab]" in done.stdout
    assert re.search(r"No matching distribution found for (?!mpgd)", done.stderr)  # what it lacks


def test_what_is_installed_is_the_wheel_and_it_works(empty: Path) -> None:
    code = "import sys, mpgd; mpgd.MPGD; print('mpgd_lab' in sys.modules, mpgd.__file__)"
    with lent(empty):
        shown = run(empty / "venv/bin/python", "-c", code, cwd=empty)
        facts = run(empty / "venv/bin/mpgd", "info", "--json", cwd=empty)
    has_lab, place = shown.stdout.strip().split(maxsplit=1)
    assert has_lab == "False"
    assert Path(place).is_relative_to(empty)
    assert facts.returncode == 0, facts.stderr
    assert f'"mpgd": "{mpgd.__version__}"' in facts.stdout


def test_the_wheel_has_all_modules_the_page_of_the_lab_and_the_licence(
    built: tuple[Path, Path],
) -> None:
    names = zipfile.ZipFile(built[0]).namelist()
    source = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert source <= set(names)
    assert {"mpgd/py.typed", "mpgd_lab/py.typed", "mpgd_lab/lab/page/index.html"} <= set(names)
    assert any(name.endswith("LICENSE") for name in names)
    assert not [name for name in names if name.startswith("tests")]


def test_the_source_archive_builds_the_same_wheel(built: tuple[Path, Path], tmp_path: Path) -> None:
    folder = unpack(built[1], tmp_path / "unpacked")
    (again,) = build(folder, tmp_path / "again", "--target", "wheel")
    contents = [
        {name: archive.read(name) for name in archive.namelist()}
        for archive in map(zipfile.ZipFile, (built[0], again))
    ]
    assert contents[0] == contents[1]


LIBRARIES = {
    "mpgd/noise/engines/libkernels.so",
    "mpgd/limits/paths/libpaths.so",
    "mpgd_lab/nets/libshallow.so",
}


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_the_wheel_has_compiled_kernels_for_this_platform_and_any_python(
    built: tuple[Path, Path],
) -> None:
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert built[0].name.endswith(f"-py3-none-{system}.whl")
    assert set(zipfile.ZipFile(built[0]).namelist()) >= LIBRARIES
    with tarfile.open(built[1]) as archive:
        names = archive.getnames()
    assert not [name for name in names if name.endswith(".so")]
    assert [name for name in names if name.endswith("lanes.h")]


def test_without_a_compiler_the_wheel_is_pure_and_one_line_says_so(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    folder, out = unpack(built[1], tmp_path / "unpacked"), tmp_path / "pure"
    (wheel,) = build(folder, out, "--target", "wheel", CC="no-such-compiler")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not LIBRARIES & set(zipfile.ZipFile(wheel).namelist())
    said = out.with_suffix(".log").read_text()
    assert said.count("no compiled kernels") == 1
    assert "no-such-compiler" in said
    with pytest.raises(subprocess.CalledProcessError):  # who needs them can ask for them
        build(folder, out, CC="no-such-compiler", MPGD_REQUIRE_KERNELS="1")


def test_the_metadata_are_valid_and_the_description_stands_alone(built: tuple[Path, Path]) -> None:
    archive = zipfile.ZipFile(built[0])
    (name,) = [name for name in archive.namelist() if name.endswith("METADATA")]
    found = metadata.Metadata.from_email(archive.read(name), validate=True)  # raises if it is not
    assert found.description_content_type == "text/markdown"
    assert str(found.version) == mpgd.__version__
    links = LINK.findall(found.description)
    assert links
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert "![" not in found.description  # a picture would be a broken one there
    assert "Quickstart ·" in found.description  # a link became its words
    assert found.project_urls == PROJECT["urls"]


def test_the_links_of_the_description_lead_to_files_and_headings_that_exist() -> None:
    page = (ROOT / "README.md").read_text()
    relative = [link for link in LINK.findall(page) if "//" not in link]
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    anchors = {f"#{heading.lower().replace(' ', '-')}" for heading in headings}
    assert [link for link in relative if link[0] == "#" and link not in anchors] == []
    files = [link.split("#")[0] for link in relative if link[0] != "#"]
    assert files
    assert [file for file in files if not (ROOT / file).is_file()] == []
