"""The report in a real browser: nothing wrong, nothing fetched, sorting, themes, a phone."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mpgd_lab import report
from mpgd_lab.content import colors
from mpgd_lab.studies.valley import runs as valley
from tests import fake_results
from tests.fake_results import PARTS

if TYPE_CHECKING:
    from mpgd_lab.lab.server import Lab
    from tests.browser.conftest import Browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    store = fake_results.fill(folder, ("valley", "airfoil", "digits"))
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


def test_the_question_is_answered_first(browser: Browser, page: Path) -> None:
    browser.open(page)
    (answer,) = browser.all("#summary h1")
    assert answer.text.startswith("These runs do not tell: ")
    assert answer.text.count(".") == 1  # a sentence
    counted = browser.find(".counted").text
    numbers = [int(tile.text) for tile in browser.all(".tiles strong")]
    assert counted == f"MPGD said to be better, to the letter: {sum(numbers)} comparisons"


def test_a_study_shows_its_answer_then_a_figure_and_folds_the_rest(
    browser: Browser, page: Path
) -> None:
    browser.open(page)
    # an answer in a sentence, claims, and a paragraph that is short
    texts = {"valley": ["ul", "p"], "airfoil": ["ul"], "digits": ["p", "ul", "p"]}
    for name, first in texts.items():
        shown = [one.tag_name for one in browser.all(f"#{name} > *") if one.is_displayed()]
        assert shown == ["h2", *first, "figure", "details"], name
        assert name == "digits" or browser.all(f"#{name} .more > p:not(.rule)")
        assert browser.all(f"#{name} .more table")
        assert not browser.find(f"#{name} .more table").is_displayed()


def test_panels_keep_rows_and_columns_on_a_phone(browser: Browser, page: Path) -> None:
    def places() -> list[list[int]]:
        """The columns in which the panels of airfoil stand, and the rows."""
        script = """
            const panels = [...document.querySelectorAll('#airfoil figure .panel:not(.key)')];
            const boxes = panels.map((one) => one.getBoundingClientRect());
            return ["x", "y"].map((way) => boxes.map((box) => Math.round(box[way])))"""
        found = browser.run(script)
        return [[sorted(set(each)).index(one) for one in each] for each in found]

    browser.look(width=1400)
    browser.open(page)
    wide = places()
    assert wide == [[0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 2, 2]]
    key, card = browser.find("#airfoil .key").rect, browser.find("#airfoil figure").rect
    last = browser.all("#airfoil figure .panel:not(.key)")[1].rect
    assert key["y"] + key["height"] <= last["y"] + 1  # the legend is above the data,
    assert last["x"] + last["width"] > card["x"] + card["width"] - 30  # which fills its card
    browser.look(width=390, height=844)
    assert places() == wide
    assert browser.run("return document.documentElement.scrollWidth") == 390


def test_the_picture_at_the_top_is_whole_on_a_phone(browser: Browser, page: Path) -> None:
    browser.look(width=390, height=844)
    browser.open(page)
    box = "#figure-overview .panels"
    sizes = f"const b = document.querySelector('{box}'); return [b.scrollWidth, b.clientWidth]"
    whole, shown = browser.run(sizes)
    assert whole <= shown + 1


def test_a_study_takes_few_screens_of_a_phone(browser: Browser, page: Path) -> None:
    browser.look(width=390, height=844)
    browser.open(page)
    tall = "return [...document.querySelectorAll('section')].map((one) => one.offsetHeight / 844)"
    assert max(browser.run(tall)) < 2.5


@pytest.mark.parametrize("dark", [False, True])
def test_schemes_have_one_colour_in_report_and_lab(
    dark: bool, browser: Browser, page: Path, lab: Lab
) -> None:
    script = """
        const style = getComputedStyle(document.documentElement);
        return arguments[0].map((name) => style.getPropertyValue(`--${name}`).trim())"""
    schemes, found = list(colors.SCHEMES), []
    browser.look(dark=dark, still=True)
    for place in (page, f"{lab.address}#steps=100"):
        browser.open(place)
        found.append(browser.run(script, schemes))
    assert found[0] == found[1]
    assert found[0] == [colors.PALETTE[colors.SCHEMES[name]][dark] for name in schemes]
    assert len(set(found[0])) == len(schemes)


def test_a_figure_draws_a_scheme_in_its_colour(browser: Browser, page: Path) -> None:
    browser.open(page)
    drawn = browser.find("#airfoil figure").get_attribute("innerHTML")
    for scheme in ("mpgd", "symmetric", "gaussian", "gd"):
        assert f"var(--{colors.SCHEMES[scheme]})" in drawn, scheme
    for light, _ in colors.PALETTE.values():
        assert light.lower() not in drawn.lower()


def test_tables_sort_by_mouse_and_by_keyboard(browser: Browser, page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.look(still=True)  # a click does not wait for a page that glides
    browser.open(page)
    browser.run("document.querySelector('#digits .scroll:has(.groups)').id = 'chosen'")
    assert not browser.find("#chosen table").is_displayed()
    browser.find("#digits .more > summary").send_keys(Keys.ENTER)
    assert not browser.find("#chosen table").is_displayed()
    browser.find("details:has(> #chosen) > summary").send_keys(Keys.ENTER)
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
    browser.run("document.querySelector('#valley .more').open = true")
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


def test_every_table_that_is_unfolded_is_named_once(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.run("for (const each of document.querySelectorAll('details')) each.open = true")
    named = """
        return [...document.querySelectorAll('.scroll')].map((box) =>
            [box.querySelector('caption').checkVisibility(), box.matches('details:not(.more) > *')])
    """
    found = browser.run(named)
    assert all(seen != folded for seen, folded in found)
    assert {folded for _, folded in found} == {True, False}


def test_the_first_column_stays_while_a_table_scrolls(browser: Browser, page: Path) -> None:
    browser.open(page)
    place = """
        const box = document.querySelector('#airfoil details:has(.groups) .scroll');
        box.closest('.more').open = box.closest('details').open = true;
        box.scrollLeft = 200;
        return [...box.querySelectorAll('tr > :first-child')].map(
            (cell) => cell.getBoundingClientRect().left - box.getBoundingClientRect().left)"""
    assert set(browser.run(place)) == {1}  # the border


def test_a_phone_scrolls_tables_but_not_the_page(browser: Browser, page: Path) -> None:
    browser.look(width=375, height=812)
    browser.open(page)
    browser.run("for (const each of document.querySelectorAll('details')) each.open = true")
    assert browser.run("return document.documentElement.scrollWidth") == 375
    wide = (
        "return [...document.querySelectorAll('.scroll')].some(b => b.scrollWidth > b.clientWidth)"
    )
    assert browser.run(wide)
    assert browser.run("return parseFloat(getComputedStyle(document.body).fontSize)") >= 16
