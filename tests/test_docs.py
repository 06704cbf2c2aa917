"""The examples of the README and of every page run, and the pages name what there is."""

from __future__ import annotations

import re
import shlex
import warnings
from importlib import import_module
from inspect import ismodule
from pathlib import Path

import pytest
import yaml

from mpgd.optim import PerturbationWarning
from mpgd_lab import cli, exit_codes
from mpgd_lab.catalogue import EXPERIMENTS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
NOTEBOOKS = [f"examples/{path.stem}.md" for path in (ROOT / "examples").glob("*.ipynb")]
FOLDERS = ("optim", "noise", "stable", "maps", "limits", "curvature", "theory")
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
NAMED_FILE = re.compile(r"`(\w+/[\w/]*\.py)`")
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+|(?<![\w-])-o\b")
EVERYWHERE = {"--help", "--version"}
COMMAND_LINE = (DOCS / "command-line.md").read_text()


@pytest.mark.parametrize(
    "page",
    # tests/jax and tests/clients run these, where jax and the clients are
    [page for page in PAGES if page.name not in ("jax.md", "integrations.md")],
    ids=lambda page: page.name,
)
def test_the_examples_of_a_page_run_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for number, code in enumerate(EXAMPLE.findall(page.read_text()), start=1):
        with warnings.catch_warnings():  # what a page silences is heard again after the example
            warnings.simplefilter("error", PerturbationWarning)
            exec(compile(code, f"{page.name}, example {number}", "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_of_a_page_exist(page: Path) -> None:
    targets = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    targets = [target for target in targets if target not in NOTEBOOKS]  # pages made of notebooks
    assert [target for target in targets if not (page.parent / target).is_file()] == []


def test_every_page_is_in_the_contents() -> None:
    """The pages of docs/results/ are added when the site is built, by the links of their index."""
    index = DOCS / "results" / "index.md"
    links = dict.fromkeys(LINK.findall(index.read_text()))
    results = [f"results/{link}" for link in links if link.endswith(".md")]
    contents = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    pages = [page.relative_to(DOCS).as_posix() for page in PAGES[1:]]
    assert sorted([*listed(contents), *results]) == sorted([*pages, *NOTEBOOKS])


def listed(entry: object) -> list[str]:
    """Return the files of the contents, which are nested."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [file for part in parts for file in listed(part)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_reference_of_a_folder_has_its_public_names_once_each(folder: str) -> None:
    page = (DOCS / "api" / f"{folder}.md").read_text()
    shown = re.findall(rf"^::: mpgd\.{folder}\.(\w+)$", page, re.MULTILINE)
    module = import_module(f"mpgd.{folder}")
    public = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if name[0] != "_" and not ismodule(value)
    ]
    assert sorted(shown) == sorted(public)


def section(command: str) -> str:
    """Return what the page of the command line says of one command."""
    return COMMAND_LINE.split(f"\n## mpgd {command}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_the_page_of_the_command_line_has_every_option_and_no_other(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main([command, "--help"])
    assert options(section(command)) == options(capsys.readouterr().out)


def options(text: str) -> set[str]:
    """Return all options a text names, but for those of every command."""
    return set(OPTION.findall(text)) - EVERYWHERE


def test_the_page_of_the_command_line_has_every_experiment_code_and_variable() -> None:
    assert all(f"| `{name}` |" in section("reproduce") for name in EXPERIMENTS)
    codes = (cli.OK, cli.FAILED, cli.USAGE, cli.INTERRUPTED, cli.PIPE_CLOSED, exit_codes.TERMINATED)
    assert all(f"| {code} |" in COMMAND_LINE for code in codes)
    variables = re.findall(r"MPGD_[A-Z]+|NO_COLOR", cli.HELP)
    assert variables
    assert all(f"| `{name}` |" in COMMAND_LINE for name in variables)


def test_mistakes_are_answered_as_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    shown = COMMAND_LINE.split("\n## Mistakes\n")[1].split("```")[1].splitlines()[1:]
    for command, answer in zip(shown[::2], shown[1::2], strict=True):
        assert cli.main(shlex.split(command)[2:]) == cli.USAGE
        assert capsys.readouterr().err == f"{answer}\n"


def test_the_noise_command_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    command, shown = section("noise").split("```console\n$ ")[1].split("```")[0].split("\n", 1)
    assert cli.main(shlex.split(command)[1:]) == cli.OK
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    places = (ROOT, ROOT / "src", ROOT / "src" / "mpgd")
    named = set(NAMED_FILE.findall(page.read_text()))
    assert {name for name in named if not any((place / name).exists() for place in places)} == set()
