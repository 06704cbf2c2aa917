"""Workflows name what exists, and their shell steps run here as they are."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from tools import workflow_steps
from tools.workflow_steps import WORKFLOWS, main, steps

ROOT = Path(__file__).parents[2]
FILES = sorted(WORKFLOWS.glob("*.yml"))
EXAMPLE = """
env: {GREETING: hello}
jobs:
  greet:
    strategy: {matrix: {name: [world, moon]}}
    steps:
      - uses: actions/checkout@v5.0.0
      - {name: Greet, run: 'echo "$GREETING ${{ matrix.name }}" | tee greeting'}
      - run: test "$(cat greeting)" = "hello moon"
      - run: touch done
"""


def test_the_steps_of_a_job_are_its_commands_with_the_matrix_filled_in() -> None:
    found = steps(yaml.safe_load(EXAMPLE), "greet", {})
    assert found[0] == ("actions/checkout@v5.0.0", "")
    assert found[1] == ("Greet", 'echo "$GREETING world" | tee greeting')


@pytest.mark.parametrize(("name", "code"), [("moon", 0), ("world", 1)])
def test_steps_run_until_one_fails(
    name: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "greet.yml").write_text(EXAMPLE)
    monkeypatch.setattr(workflow_steps, "WORKFLOWS", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main("greet.yml", "greet", f"name={name}") == code
    assert (tmp_path / "done").exists() == (code == 0)


def test_every_action_has_an_exact_version() -> None:
    for file in FILES:
        actions = re.findall(r"uses: (\S+)", file.read_text())
        assert [name for name in actions if not re.search(r"@v\d+\.\d+\.\d+$", name)] == []


def test_every_target_that_a_workflow_makes_exists() -> None:
    rules = re.findall(r"^([\w -]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    targets = {name for rule in rules for name in rule.split()}
    jobs = yaml.safe_load((WORKFLOWS / "tests.yml").read_text())["jobs"]
    legs = set(jobs["legs"]["strategy"]["matrix"]["leg"])
    made = {name for file in FILES for name in re.findall(r"run: make (\w+)", file.read_text())}
    assert {"test", "notebooks", "docs"} <= made
    assert {"jax", "clients", "gpu"} <= legs
    assert made | legs <= targets


def test_the_workflow_tests_the_pythons_that_are_promised() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    promised = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    jobs = yaml.safe_load((WORKFLOWS / "tests.yml").read_text())["jobs"]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == promised
    assert project["requires-python"] == f">={promised[0]}"
