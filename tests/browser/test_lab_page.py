"""The lab in a real browser: what it shows, what moves it, and that it talks to nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mpgd import ChaoticNoise
from mpgd.lab.server import Lab

if TYPE_CHECKING:
    from tests.browser.conftest import Browser

WELLS = ("wells-mpgd", "wells-gaussian", "wells-stable", "slope", "share")
PLOTS = ("map", "orbit", "values", "sums", "law", "gd", "gaussian", "mpgd", "trace", *WELLS)
NOISE_PLOTS = ("map", "orbit", "values", "sums", "law")
DESCENTS = ("gaussian", "mpgd", "trace")
PICTURE = "return document.querySelector(`[data-plot=${arguments[0]}]`).toDataURL()"
COLOURS = """
const canvas = document.querySelector(`[data-plot=${arguments[0]}]`);
const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
return new Set(new Uint32Array(pixels.buffer)).size;
"""
SLIDE = """
const slider = document.getElementById(arguments[0]);
slider.value = arguments[1];
slider.dispatchEvent(new Event("input"));
"""


def visit(browser: Browser, lab: Lab, hash: str = "steps=400") -> None:
    browser.open(f"{lab.address}#{hash}")
    settle(browser)


def settle(browser: Browser) -> None:
    """Wait until the server has answered everything the page wants to know."""
    browser.run("return new Promise((done) => setTimeout(done, 120))")  # past the debounce
    browser.until(
        lambda: browser.find("#panels").get_attribute("aria-busy") == "false", "numbers", 60
    )


def pictures(browser: Browser, names: tuple[str, ...] = PLOTS) -> dict[str, str]:
    return {name: browser.run(PICTURE, name) for name in names}


def changed(browser: Browser, before: dict[str, str]) -> set[str]:
    return {name for name, picture in before.items() if browser.run(PICTURE, name) != picture}


def test_the_browser_sees_errors_and_strangers(browser: Browser, tmp_path: Path) -> None:
    """The checks below can fail."""
    page = tmp_path / "bad.html"
    page.write_text("<script>console.error('oh'); fetch('http://example.com/a')</script>")
    browser.open(page)
    assert any("oh" in text for text in browser.errors())
    assert browser.until(browser.strangers, "a request") == ["http://example.com/a"]


@pytest.mark.parametrize(
    ("width", "dark"), [(1280, False), (1280, True), (375, False), (375, True)]
)
def test_every_panel_is_drawn_and_nothing_leaves(
    width: int, dark: bool, browser: Browser, lab: Lab, tmp_path: Path
) -> None:
    browser.look(width=width, height=812, dark=dark, still=True)
    visit(browser, lab)
    for name in PLOTS:
        assert browser.run(COLOURS, name) > 8, f"{name} is empty"
        label = browser.find(f"[data-plot={name}]").get_attribute("aria-label")
        assert label
    for section in ("orbit", "perturbation", "sums", "descent", "wells", "python"):
        assert browser.find(f"#{section} h2").is_displayed()
    inside = browser.run("return document.documentElement.scrollWidth <= window.innerWidth")
    assert inside, "the page is wider than the window"
    assert browser.screenshot(tmp_path / "lab.png").stat().st_size > 50_000
    assert browser.errors() == []
    assert browser.strangers() == []
    assert any("/api/descent" in url for url in browser.requests())


@pytest.mark.parametrize(
    ("slider", "value", "moved", "kept"),
    [
        ("gamma", 0.6, tuple(name for name in PLOTS if name != "slope"), ()),
        ("beta", -0.5, ("values", "sums", "law", "mpgd", "trace"), ("map",)),
        ("seed", 5, ("map", "orbit", "values", "sums", "law", "gaussian", "mpgd", "trace"), ()),
        ("mu", 0.1, DESCENTS, (*NOISE_PLOTS, *WELLS)),
        ("sigma", 0.3, DESCENTS, (*NOISE_PLOTS, *WELLS)),
        ("eta", -2.5, (*DESCENTS, "wells-mpgd", "share"), (*NOISE_PLOTS, "slope")),
        ("force", 4.0, ("wells-mpgd", "wells-stable", "slope", "share"), (*NOISE_PLOTS, *DESCENTS)),
        ("steps", 600, ("orbit", "values", "sums", "law", "trace"), ()),
    ],
)
def test_a_slider_moves_its_plots_and_no_other(
    slider: str,
    value: float,
    moved: tuple[str, ...],
    kept: tuple[str, ...],
    browser: Browser,
    lab: Lab,
) -> None:
    browser.look(still=True)
    visit(browser, lab)
    before = pictures(browser)
    browser.run(SLIDE, slider, value)
    settle(browser)
    different = changed(browser, before)
    assert set(moved) - {"gd"} <= different
    assert not set(kept) & different
    assert f"{slider}=" in browser.run("return location.hash")
    assert browser.errors() == []


def test_scheme_buttons(browser: Browser, lab: Lab) -> None:
    browser.look(still=True)
    visit(browser, lab)
    for scheme in ("symmetric", "product", "plain"):
        before = pictures(browser, ("sums", "law", "mpgd"))
        browser.find(f"[name=scheme][value={scheme}]").click()
        settle(browser)
        assert changed(browser, before) == {"sums", "law", "mpgd"}
    assert browser.errors() == []


def test_play_moves_time_and_pause_stops_it(browser: Browser, lab: Lab) -> None:
    visit(browser, lab)  # plays by itself
    assert browser.find("#play").get_attribute("aria-label") == "Pause"
    before = pictures(browser, ("map", "orbit", "values", "sums", "mpgd", "trace"))
    browser.until(lambda: changed(browser, before) == set(before), "all to move")
    browser.find("#play").click()
    assert browser.find("#play").get_attribute("aria-label") == "Play"
    shown, still = browser.find("#step").text, pictures(browser)
    browser.run("return new Promise((done) => setTimeout(done, 300))")
    assert (browser.find("#step").text, changed(browser, still)) == (shown, set())
    browser.run(SLIDE, "time", 100)
    assert browser.find("#step").text == "step 100 of 400"


def test_who_asks_for_no_motion_sees_the_whole_run_at_once(browser: Browser, lab: Lab) -> None:
    browser.look(still=True)
    visit(browser, lab)
    assert browser.find("#step").text == "step 400 of 400"
    assert browser.find("#play").get_attribute("aria-label") == "Play"


def test_every_control_is_reached_and_moved_by_the_keyboard(browser: Browser, lab: Lab) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.look(still=True)
    visit(browser, lab)
    reached = set()
    for _ in range(40):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        reached.add(browser.run("return document.activeElement.id"))
    assert {
        "gamma",
        "beta",
        "steps",
        "seed",
        "eta",
        "mu",
        "sigma",
        "play",
        "time",
        "reset",
        "copy",
        "gamma-number",
    } <= reached
    browser.find("#beta").send_keys(Keys.ARROW_RIGHT)
    assert browser.find("#beta-number").get_property("value") == "0.55"
    settle(browser)
    assert "P" not in browser.find("#beta-formula").text
    assert "78 %" in browser.find("#beta-formula").text


def test_a_link_carries_the_settings_and_reset_takes_them_away(browser: Browser, lab: Lab) -> None:
    browser.look(still=True)
    visit(browser, lab, "gamma=0.65&beta=-0.25&steps=300&scheme=symmetric&seed=9")
    assert browser.find("#gamma-number").get_property("value") == "0.65"
    assert browser.find("[value=symmetric]").is_selected()
    assert "noise.path(300, (2,), seed=9)" in browser.find("#code").text
    browser.find("#reset").click()
    settle(browser)
    assert "gamma=0.7&beta=0.5" in browser.run("return location.hash")
    visit(browser, lab, "gamma=<b>x</b>&scheme=<img src=x onerror=alert(1)>&steps=250")
    assert browser.find("#gamma-number").get_property("value") == "0.7"
    assert browser.errors() == []


def test_a_number_out_of_range_is_explained(browser: Browser, lab: Lab) -> None:
    browser.look(still=True)
    visit(browser, lab, "gamma=2&steps=200")
    problem = browser.find("#problem")
    assert problem.is_displayed()
    assert problem.text == "gamma must lie in (0.5, 1), got 2.0"
    browser.run(SLIDE, "gamma", 0.7)
    settle(browser)
    assert not problem.is_displayed()


def test_the_page_holds_the_librarys_numbers(browser: Browser, lab: Lab) -> None:
    """JSON and JavaScript keep every bit of a double."""
    visit(browser, lab)
    served = browser.run(
        "return fetch('api/orbit?gamma=0.63&beta=0.2&seed=3&steps=200')"
        ".then((answer) => answer.json()).then((numbers) => numbers.v)"
    )
    assert served == ChaoticNoise(0.63, 0.2).path(200, seed=3).tolist()


def test_sliders_open_over_the_plots_on_a_phone(browser: Browser, lab: Lab) -> None:
    browser.look(width=375, height=812, still=True)
    visit(browser, lab)
    assert not browser.find("#gamma").is_displayed()
    browser.find("#sliders").click()
    assert browser.find("#gamma").is_displayed()
    assert browser.find("#sliders").get_attribute("aria-expanded") == "true"
    top = browser.run("return document.getElementById('controls').getBoundingClientRect().top")
    assert top > 300, "the plots must stay in view"
