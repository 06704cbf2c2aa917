"""The documentation site in a real browser: formulas, code, figures, search; nobody is asked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from tests.browser.conftest import serve_folder

if TYPE_CHECKING:
    from tests.browser.conftest import Browser

pytest.importorskip("mkdocs", reason='these need pip install "mpgd[docs]"')

pytestmark = pytest.mark.timeout(900)  # the build computes the lab's numbers: a minute of one core
ROOT = Path(__file__).parents[2]
CLIPPED = """
return [...document.querySelectorAll("pre > code")]
    .filter((code) => code.scrollWidth > code.clientWidth)
    .map((code) => code.textContent.slice(0, 80));
"""
UNSEEN = """
return document.fonts.ready.then(() => [...document.querySelectorAll("article math")]
    .filter((math) => !math.checkVisibility() || math.getBoundingClientRect().width === 0)
    .map((math) => math.textContent));
"""
FONT = 'return document.fonts.load("16px Formulas", "γ").then((fonts) => fonts.length)'
# What a reader sees of an article, without code and formulas.
WORDS = """
const article = document.querySelector("article").cloneNode(true);
for (const other of article.querySelectorAll("pre, code, math, h1, h2, h3, h4, h5, script"))
    other.remove();
return article.textContent;
"""
PLAIN = re.compile(r"\w\^[\w(-]|\b(?:alpha|gamma|sigma|eta|chi|lambda_k)\b")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site, a warning being an error, as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Serve the site on this machine."""
    with serve_folder(site) as address:
        yield address


def pages(site: Path) -> list[str]:
    found = (page.parent.relative_to(site).as_posix() for page in site.rglob("index.html"))
    return sorted(page for page in found if page != "lab")  # which test_lab_page.py looks at


def test_every_page_shows_formulas_and_whole_lines_of_code(
    browser: Browser, site: Path, address: str
) -> None:
    browser.look(1400)
    formulas = 0
    for page in pages(site):
        browser.open(f"{address}/{page}/")
        browser.run("for (const folded of document.querySelectorAll('details')) folded.open = true")
        assert browser.run(CLIPPED) == [], page
        assert browser.run(UNSEEN) == [], page
        assert PLAIN.findall(browser.run(WORDS)) == [], page
        formulas += len(browser.all("article math"))
    assert formulas > 800
    assert browser.run(FONT) == 1
    assert browser.strangers() == []
    assert browser.errors() == []


def test_the_lab_stands_beside_the_pages(browser: Browser, site: Path, address: str) -> None:
    assert sum(file.stat().st_size for file in (site / "lab").rglob("*.*")) < 6e6
    browser.look(1400, still=True)
    browser.open(f"{address}/command-line/")
    browser.open(browser.find("article a[href*='lab/']").get_attribute("href"))
    drawn = "return document.querySelector('[data-plot=wells-mpgd]').hasAttribute('aria-label')"
    browser.until(lambda: browser.run(drawn), "the wells", 60)
    assert browser.errors() == []
    assert browser.strangers() == []


def test_the_checks_of_a_page_can_fail(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    code = f"<pre style='width: 90px; overflow: auto'><code>{'long ' * 40}</code></pre>"
    page.write_text(
        "<style>pre > code { display: block; overflow: auto }</style>"
        f"<article>{code}<p>eta^gamma</p><math style='display: none'><mi>x</mi></math></article>"
    )
    browser.open(page)
    assert browser.run(CLIPPED)
    assert browser.run(UNSEEN) == ["x"]
    assert PLAIN.findall(browser.run(WORDS))


def test_a_figure_opens_large_and_pages_lead_on(browser: Browser, site: Path, address: str) -> None:
    browser.look(1400)
    browser.open(f"{address}/phases/")
    figures = browser.until(lambda: browser.all("article a.figure img"), "figures")
    for figure in figures:
        link = figure.find_element("xpath", "..").get_attribute("href")
        assert (site / link.removeprefix(f"{address}/")).is_file()
    assert len(browser.all(".md-footer__link")) == 2  # previous and next


@pytest.mark.parametrize("dark", [False, True])
def test_figures_have_the_paper_of_their_page(browser: Browser, address: str, dark: bool) -> None:
    """Drawn figures and pictures of pixels alike; the corner of a figure is its paper."""
    browser.look(1400, dark=dark)
    browser.open(f"{address}/phases/")
    figures = browser.until(lambda: browser.all("article a.figure img"), "figures")
    first = {one.get_attribute("src").rsplit(".", 1)[1]: one for one in reversed(figures)}
    assert first.keys() == {"svg", "png"}
    for kind, figure in first.items():
        browser.run("arguments[0].scrollIntoView({block: 'center'})", figure)
        with Image.open(BytesIO(figure.screenshot_as_png)) as shown:
            light = sum(shown.convert("RGB").getpixel((9, 9))) / 3
        assert light < 60 if dark else light > 250, kind


def test_code_on_a_phone_shows_that_it_goes_on(browser: Browser, address: str) -> None:
    """By a shadow that paper covers which scrolls along."""
    browser.look(390)
    browser.open(f"{address}/quickstart/")
    ends = """
        return [...document.querySelectorAll("article pre > code")].map((code) =>
            [code.scrollWidth > code.clientWidth, getComputedStyle(code).backgroundAttachment])
    """
    found = browser.run(ends)
    assert {wide for wide, _ in found} == {True, False}
    assert {attached for _, attached in found} == {"local, scroll, scroll"}


def test_a_phone_can_show_every_character_of_a_line_of_code(browser: Browser, address: str) -> None:
    """None ends under the button that copies."""
    browser.look(390)
    browser.open(f"{address}/api/limits/")
    hidden = """
        return [...document.querySelectorAll("article pre > code")].filter((code) => {
            const button = code.parentElement.querySelector(".md-code__nav");
            if (!button?.checkVisibility()) return false;
            code.scrollLeft = 1e4;
            const text = document.createRange();
            text.selectNodeContents(code);
            return text.getBoundingClientRect().right > button.getBoundingClientRect().left + 1;
        }).map((code) => code.textContent)
    """
    browser.until(lambda: browser.all("article .md-code__nav"), "buttons")
    assert browser.run(hidden) == []


def test_no_line_ends_within_a_small_number(site: Path) -> None:
    page = (site / "results/noise/index.html").read_text()
    cells = re.findall(r"<td[^>]*>([^\n]*\de-\d[^\n]*)</td>", page)
    assert cells
    assert all('<span class="option">' in cell for cell in cells)


@pytest.mark.parametrize("words", ["learning rate", "escape", "sharpness", "GPU", "JAX"])
def test_the_search_finds(browser: Browser, address: str, words: str) -> None:
    browser.look(1400)
    browser.open(f"{address}/faq/?q={words.replace(' ', '%20')}")
    found = browser.until(lambda: browser.all(".md-search-result__item"), f"results for {words}")
    assert any(words.lower() in item.get_attribute("textContent").lower() for item in found)


def test_the_reference_shows_public_names_only(site: Path) -> None:
    for page in (site / "api").rglob("index.html"):
        names = re.findall(r'<h\d id="([\w.]+)" class="doc doc-heading"', page.read_text())
        assert [name for name in names if name.split(".")[-1].startswith("_")] == []
        assert len(names) == len(set(names))
