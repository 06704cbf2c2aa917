"""Notebooks as pages of the site, with the outputs they were committed with.

A page takes what is in the file and runs nothing, so the site builds in seconds. `make notebooks`
runs every notebook and compares, so that what is shown is what the code does.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig


HOSTED: Final = "https://colab.research.google.com/github"


def pages(config: MkDocsConfig, folder: Path) -> Iterator[File]:
    """Yield the page of every notebook of a folder, the notebook itself and its pictures."""
    for path in sorted(folder.glob("*.ipynb")):
        page, pictures = converted(json.loads(path.read_text()), path.stem, config.repo_url)
        yield File.generated(config, f"examples/{path.stem}.md", content=page)
        yield File.generated(config, f"examples/{path.name}", content=path.read_text())
        for name, content in pictures.items():
            yield File.generated(config, f"examples/{name}", content=content)


def converted(
    notebook: dict[str, Any], stem: str, repository: str | None = None
) -> tuple[str, dict[str, bytes]]:
    """Return the Markdown of a notebook and the files of its pictures.

    Once the repository has an address, ``repo_url`` in mkdocs.yml, a link runs it elsewhere.
    """
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"]).replace("](../docs/", "](../")
        parts.append(source if cell["cell_type"] == "markdown" else fenced(source, "python"))
        for output in cell.get("outputs", ()):
            parts.append(shown(output, stem, pictures))
    note = f"*This page is [`examples/{stem}.ipynb`]({stem}.ipynb) with its outputs.*"
    if repository:
        place = repository.removeprefix("https://github.com/").strip("/")
        note += f" [Run it in Colab]({HOSTED}/{place}/blob/main/examples/{stem}.ipynb)"
    title, *rest = parts
    return "\n\n".join([title, note, *rest]), pictures


def shown(output: dict[str, Any], stem: str, pictures: dict[str, bytes]) -> str:
    """Return the Markdown of one output: a picture, or what was printed."""
    if "image/png" in output.get("data", {}):
        name = f"{stem}-{len(pictures) + 1}.png"
        pictures[name] = base64.b64decode("".join(output["data"]["image/png"]))
        return f"![{''.join(output['data']['text/plain'])}]({name})"
    printed = output.get("text") or output["data"]["text/plain"]
    return fenced("".join(printed).rstrip(), "output")


def fenced(code: str, language: str) -> str:
    """Return code between fences."""
    return f"```{language}\n{code}\n```"
