"""The report in a real browser: nothing wrong, nothing fetched, sorting, themes, a phone."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests import results
from tests.results import PARTS

from mpgd import report
from mpgd.experiments.valley import runs as valley

if TYPE_CHECKING:
    from tests.browser.conftest import Browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    store = results.fill(folder, ("valley", "airfoil", "digits"))
    path = store.load(next(run for run in valley.landscape("released", 40) if run.scheme == "gd"))
    assert path is not None
    u = [*path.curves["u"][:5], inf, *path.curves["u"][6:]]  # it leaves the valley
    store.save(path.run, path.metrics, {**path.curves, "u": u}, seconds=1.0)
    return report.write(folder, folder / "report.html").file


def test_every_section_is_shown_without_an_error_or_a_request(browser: Browser, page: Path) -> None:
    browser.open(page)
    for name in ("summary", "runs", *PARTS):
        assert browser.find(f"#{name}").is_displayed()
    assert browser.find("#limit pre").text == "mpgd reproduce limit"
    assert len(browser.all(".panel svg")) > 10
    assert browser.errors() == []
    assert browser.strangers() == []


def test_tables_sort_by_mouse_and_by_keyboard(browser: Browser, page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.look(still=True)  # a click does not wait for a page that glides
    browser.open(page)
    browser.run("document.querySelector('#digits .scroll:has(.groups)').id = 'chosen'")
    assert not browser.find("#chosen table").is_displayed()
    browser.find("details:has(#chosen) summary").send_keys(Keys.ENTER)
    assert browser.find("#chosen table").is_displayed()

    def column() -> list[float]:
        rows = "[...document.querySelector('#chosen table').tBodies[0].rows]"
        return list(browser.run(f"return {rows}.map(row => Number(row.cells[1].dataset.order))"))

    before = column()
    button = browser.find("#chosen thead tr:last-child th:nth-child(2) button")
    button.click()
    assert column() == sorted(before) != before
    assert button.find_element("xpath", "..").get_attribute("aria-sort") == "ascending"
    button.send_keys(Keys.ENTER)
    assert column() == sorted(before, reverse=True)
    assert button.find_element("xpath", "..").get_attribute("aria-sort") == "descending"


def test_dark_follows_the_system_and_the_button(browser: Browser, page: Path) -> None:
    def background() -> str:
        return str(browser.run("return getComputedStyle(document.body).backgroundColor"))

    browser.open(page)
    light = background()
    browser.look(dark=True)
    assert background() != light
    for theme, wanted in (("light", light), ("dark", None)):
        browser.find("#theme").click()
        assert theme in browser.find("#theme").text
        assert (background() == light) == (wanted == light)
    browser.run("localStorage.clear()")


def test_the_valley_turns_and_hides_paths(browser: Browser, page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.look(still=True)
    browser.open(page)
    canvas = browser.find("#figure-valley-corrected canvas")

    def drawn() -> str:
        pixels = "return document.querySelector('#figure-valley-corrected canvas').toDataURL()"
        return str(browser.run(pixels))

    pictures = [drawn()]
    canvas.send_keys(Keys.ARROW_LEFT)
    pictures.append(drawn())
    browser.find("#figure-valley-corrected [data-route]:checked").click()
    pictures.append(drawn())
    assert len(set(pictures)) == 3
    assert browser.errors() == []


def test_a_path_that_leaves_the_valley_ends_there(browser: Browser, page: Path) -> None:
    browser.open(page)
    figure = "document.querySelector('#figure-valley-released')"
    routes = json.loads(browser.run(f"return {figure}.querySelector('script').textContent"))
    (gone,) = [place for place, route in enumerate(routes) if None in route["u"]]
    assert routes[gone]["u"].index(None) == 5
    ends = f"""
        const pen = CanvasRenderingContext2D.prototype, lines = [];
        const line = pen.lineTo, move = pen.stroke;
        let count = 0;
        pen.lineTo = function (x, y) {{ count += 1; line.call(this, x, y); }};
        pen.stroke = function () {{ lines.push(count); count = 0; move.call(this); }};
        const boxes = [...{figure}.querySelectorAll('[data-route]')];
        for (const box of boxes) box.checked = false;
        boxes[{gone}].click();
        return lines.at(-2)"""
    assert browser.run(ends) == 5
    assert browser.errors() == []


def test_folded_tables_are_printed(browser: Browser, page: Path) -> None:
    def seen() -> bool:
        return bool(browser.run(f"return {table}.checkVisibility() && {table}.offsetHeight > 0"))

    table = "document.querySelector('#digits details table')"
    browser.open(page)
    assert not seen()
    for media, shown in (("print", True), ("", False)):
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media})
        assert seen() == shown
    browser.run("dispatchEvent(new Event('beforeprint'))")  # what older browsers go by
    assert seen()
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert not seen()


def test_the_first_column_stays_while_a_table_scrolls(browser: Browser, page: Path) -> None:
    browser.open(page)
    place = """
        const box = document.querySelector('#airfoil details:has(.groups) .scroll');
        box.closest('details').open = true;
        box.scrollLeft = 200;
        return [...box.querySelectorAll('tr > :first-child')].map(
            (cell) => cell.getBoundingClientRect().left - box.getBoundingClientRect().left)"""
    assert set(browser.run(place)) == {1}  # the border


def test_a_phone_scrolls_tables_but_not_the_page(browser: Browser, page: Path) -> None:
    browser.look(width=375, height=812)
    browser.open(page)
    assert browser.run("return document.documentElement.scrollWidth") == 375
    wide = (
        "return [...document.querySelectorAll('.scroll')].some(b => b.scrollWidth > b.clientWidth)"
    )
    assert browser.run(wide)
    assert browser.run("return parseFloat(getComputedStyle(document.body).fontSize)") >= 16
