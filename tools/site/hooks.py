"""The hooks of mkdocs: formulas, their font, figures that open, notebooks, lab, tables of names."""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from fontTools import subset
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # mkdocs loads this file by its path

from tools.site import notebooks, text  # noqa: E402

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ARTICLE = re.compile(r"(<article\b[^>]*>)(.*)(</article>)", re.DOTALL)
IMAGE = re.compile(r'(?<!">)<img\b[^>]*\bsrc="([^"]+)"[^>]*>')
ENTRY = re.compile(
    r'<h3 id="([^"]+)" class="doc doc-heading">.*?doc-object-name[^>]*>(\w+)<.*?<p>(.*?)</p>',
    re.DOTALL,
)
OPTION = re.compile(r"<code>(?=--?[\w-]+</code>)")  # which a line must not end in
CELL = re.compile(r"<td\b[^>]*>.*?</td>", re.DOTALL)
SMALL = re.compile(r"[-+]?\d[\d.]*e-\d+|\d[\d.]* / \d[\d.]*")  # nor in 4.15e-01 or 0.14 / 0.18
NAME = re.compile(r"(?<=<code>)[^<]{16,}(?=</code>)")  # may end a line after these signs
LONG = 10  # letters of a cell that is more than a number
BREAK = re.compile(r"(?<=[.(/=])(?=[A-Za-z])(?!py\b)")
DEFAULT = re.compile(r"(?<=</code>)\s+\)")  # mkdocstrings leaves a blank before the bracket
RESULTS = "results/index.md"
LINK = re.compile(r"\]\(([\w-]+\.md)\)")
LAB = "src/mpgd_lab/lab/page/index.html"
NOTEBOOK = re.compile(r"\]\(\.\./examples/(\w+)\.ipynb\)")
SCRIPT = re.compile(r"^(.*)\[([^\]]+)\]\(\.\./(examples/\w+\.py)\)(.*)$", re.MULTILINE)
# Letters, Greek, arrows, operators, brackets, and the slanted alphabet of MathML's letters.
CHARACTERS = (
    "U+20-7E,U+A0-FF,U+370-3FF,U+2000-230F,U+239B-23B4,U+25C7,U+27E8-27E9,"
    "U+1D434-1D467,U+1D6E2-1D71B"
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let the pages of docs/results/ follow its index, in the order in which that links to them."""
    for heading in config.nav or ():
        for name, pages in heading.items():
            if RESULTS in pages:
                index = (Path(config.docs_dir) / RESULTS).read_text()
                linked = [f"results/{page}" for page in dict.fromkeys(LINK.findall(index))]
                place = pages.index(RESULTS) + 1
                heading[name] = [*pages[:place], *linked, *pages[place:]]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page and its pictures for every notebook of examples/, and the lab."""
    for file in notebooks.pages(config, ROOT / "examples"):
        files.append(file)
    for name, content in lab():
        files.append(File.generated(config, f"lab/{name}", content=content))
    return files


@cache  # `mkdocs serve` builds after every change, and this takes most of a minute
def lab() -> list[tuple[str, bytes]]:
    """Return the files of the lab that needs no server."""
    from mpgd_lab.lab.static_page import static_files

    return list(static_files())


def on_page_markdown(markdown: str, **_: object) -> str:
    """Lead links to notebooks and lab to their pages; put a script below the link to it."""

    def script(found: re.Match[str]) -> str:
        before, name, file, after = found.groups()
        return f"{before}{name}{after}\n\n```python\n{(ROOT / file).read_text()}```"

    markdown = markdown.replace(f"](../{LAB})", "](lab/index.html)")
    return SCRIPT.sub(script, NOTEBOOK.sub(r"](examples/\1.md)", markdown))


def on_page_content(html: str, page: Page, **_: object) -> str:
    """Open a page of the reference with its names and what each is."""
    entries = ENTRY.findall(html) if page.file.src_uri.startswith("api/") else []
    if len(entries) < 4:
        return html
    rows = "".join(
        f'<tr><td><a href="#{anchor}"><code>{name}</code></a></td><td>{first}</td></tr>'
        for anchor, name, first in entries
    )
    first = html.find("<h2") if "<h2" in html else html.index('<div class="doc ')
    return f"{html[:first]}<table><tbody>{rows}</tbody></table>\n{html[first:]}"


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Render the formulas and let figures be opened. The search has seen the plain text by now."""

    def shown(found: re.Match[str]) -> str:
        page = OPTION.sub('<code class="option">', figures(text.rendered(found[2])))
        return found[1] + CELL.sub(whole, DEFAULT.sub(")", page)) + found[3]

    return ARTICLE.sub(shown, output, count=1)


def on_post_build(config: MkDocsConfig) -> None:
    """Write the font of the formulas: of STIX Two Math, which ziamath carries, what they use."""
    package = find_spec("ziamath")
    assert package
    assert package.origin
    source = Path(package.origin).parent / "fonts" / "STIXTwoMath-Regular.ttf"
    target = Path(config.site_dir) / "assets" / "formulas.woff"
    options = [f"--unicodes={CHARACTERS}", "--flavor=woff", "--layout-features=*"]
    subset.main([str(source), f"--output-file={target}", *options])


def whole(cell: re.Match[str]) -> str:
    """Return a cell of a table whose lines end in no small number, and in a long name at a sign.

    A cell of words has a class, for which a phone keeps room.
    """
    broken = NAME.sub(lambda name: BREAK.sub("<wbr>", name[0]), cell[0])
    parts = text.TAG.split(broken)
    if len("".join(parts[::2])) > LONG:
        parts[1] = parts[1].replace("<td", '<td class="words"')
    parts[::2] = [SMALL.sub(r'<span class="option">\g<0></span>', part) for part in parts[::2]]
    return "".join(parts)


def figures(page: str) -> str:
    """Return a page whose figures are links to themselves, so that they open large."""
    return IMAGE.sub(r'<a class="figure" href="\1" title="Open the figure">\g<0></a>', page)
