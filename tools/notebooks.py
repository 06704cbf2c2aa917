"""Run the notebooks of examples/ and compare what they print with what they were committed with.

    python -m tools.notebooks           run all, fail where one prints something else
    python -m tools.notebooks --write   run all and keep their outputs

Outputs are committed, so that the site and a reader without Jupyter see them. Numbers may differ
between processors in their last digits, and training makes more of it: they are compared roughly.
"""

from __future__ import annotations

import argparse
import copy
import math
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config

EXAMPLES = Path(__file__).parents[1] / "examples"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def executed(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """Return a copy with fresh outputs, run in ``folder``; an error of a cell is raised."""
    fresh = copy.deepcopy(notebook)
    resources = {"metadata": {"path": str(folder)}}
    with TemporaryDirectory() as sockets:  # in files: two runs on one machine cannot meet at a port
        place = {"transport": "ipc", "ip": str(Path(sockets) / "kernel")}
        NotebookClient(
            fresh,
            config=Config({"KernelManager": place}),
            kernel_name="python3",
            timeout=300,
            coalesce_streams=True,
            resources=resources,
        ).execute()
    for cell in fresh.cells:
        cell.metadata.clear()  # times
    fresh.metadata = notebook.metadata
    return fresh


def printed(notebook: NotebookNode) -> list[str]:
    """Return what each cell shows: its text, and a word for each picture."""
    return ["".join(map(_text, cell.get("outputs", ()))) for cell in notebook.cells]


def _text(output: NotebookNode) -> str:
    if output.output_type == "stream":
        return str(output.text)
    return "picture" if "image/png" in output.data else str(output.data["text/plain"])


def alike(first: str, second: str) -> bool:
    """Return whether two texts have the same words, and numbers within a tenth or 0.05.

    Example:
        >>> alike("97.1 % right", "97.4 % right"), alike("97.1 % right", "80.0 % right")
        (True, False)
    """
    ours, theirs = (list(map(float, NUMBER.findall(text))) for text in (first, second))
    if NUMBER.sub("#", first) != NUMBER.sub("#", second):
        return False
    return all(
        math.isclose(a, b, rel_tol=0.1, abs_tol=0.05) for a, b in zip(ours, theirs, strict=True)
    )


def main() -> None:
    """Run the notebooks named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="notebooks of examples/, without .ipynb")
    parser.add_argument("--write", action="store_true", help="keep the outputs")
    asked = parser.parse_args()
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        if asked.names and path.stem not in asked.names:
            continue
        notebook = nbformat.read(path, as_version=4)
        fresh = executed(notebook, EXAMPLES)
        if asked.write:
            nbformat.write(fresh, path)
        elif not all(map(alike, printed(notebook), printed(fresh))):
            raise SystemExit(f"{path.name} prints something else than it was committed with")
        print(path.name)


if __name__ == "__main__":
    main()
