"""Run the shell steps of one job of a workflow on this computer.

    python -m tools.workflow_steps tests.yml legs leg=jax

A step that is an action (`uses:`) is named and skipped. `KEY=VALUE` chooses from the job's matrix;
without it the first value is taken. Variables that are set here keep their values.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import yaml

WORKFLOWS: Final = Path(__file__).parents[1] / ".github" / "workflows"
MATRIX: Final = re.compile(r"\$\{\{\s*matrix\.([\w-]+)\s*\}\}")


def steps(workflow: dict[str, Any], job: str, chosen: dict[str, str]) -> list[tuple[str, str]]:
    """Return (name, command) of every step of a job; the command of an action is empty."""
    task = workflow["jobs"][job]
    matrix = task.get("strategy", {}).get("matrix", {})
    values = {key: str(options[0]) for key, options in matrix.items() if key != "include"} | chosen

    def filled(text: str) -> str:
        return MATRIX.sub(lambda found: values[found[1]], text)

    return [
        (filled(step.get("name") or step.get("uses") or step["run"]), filled(step.get("run", "")))
        for step in task["steps"]
    ]


def main(file: str, job: str, *settings: str) -> int:
    """Run the job's steps, in the shell that GitHub uses, until one fails; return its exit code."""
    workflow = yaml.safe_load((WORKFLOWS / file).read_text())
    variables = workflow.get("env", {}) | workflow["jobs"][job].get("env", {})
    environment = {name: str(value) for name, value in variables.items()} | os.environ
    for name, command in steps(workflow, job, dict(pair.split("=", 1) for pair in settings)):
        print(f"-- {name.strip()}{'' if command else ' (an action: skipped)'}", flush=True)
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command]
        if command and (code := subprocess.run(shell, env=environment).returncode):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
