"""The lab in a real browser: what it shows, what moves it, and that it talks to nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mpgd import ChaoticNoise
from mpgd_lab.content import colors
from mpgd_lab.lab.server import Lab

if TYPE_CHECKING:
    from tests.browser.conftest import Browser

WELLS = ("wells-mpgd", "wells-gaussian", "wells-stable", "slope", "share")
LAND = ("gd", "gaussian", "mpgd", "curve")
NOISE_PLOTS = ("map", "orbit", "values", "sums", "law")
SHOWN = {"wells": WELLS, "valley": LAND, "rastrigin": LAND}
CONTROLS = ("gamma", "beta", "steps", "seed", "eta", "force", "decay")
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


def pictures(browser: Browser, names: tuple[str, ...]) -> dict[str, str]:
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


@pytest.mark.parametrize("landscape", SHOWN)
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (375, True)])
def test_every_panel_is_drawn_and_nothing_leaves(
    width: int, dark: bool, landscape: str, browser: Browser, lab: Lab, tmp_path: Path
) -> None:
    browser.look(width=width, height=812, dark=dark, still=True)
    visit(browser, lab, f"steps=400&landscape={landscape}")
    for name in (*SHOWN[landscape], *NOISE_PLOTS):
        assert browser.run(COLOURS, name) > 8, f"{name} is empty"
        label = browser.find(f"[data-plot={name}]").get_attribute("aria-label")
        assert label
    for section in ("descent", "orbit", "perturbation", "sums", "python"):
        assert browser.find(f"#{section} h2").is_displayed()
    inside = browser.run("return document.documentElement.scrollWidth <= window.innerWidth")
    assert inside, "the page is wider than the window"
    assert browser.screenshot(tmp_path / "lab.png").stat().st_size > 50_000
    assert browser.errors() == []
    assert browser.strangers() == []
    source = "wells" if landscape == "wells" else "descent"
    assert any(f"/api/{source}" in url for url in browser.requests())


def test_an_empty_box_says_that_its_numbers_are_computed(browser: Browser, lab: Lab) -> None:
    browser.look(still=True)
    seen = "return getComputedStyle(document.querySelector('[data-plot=map]')).backgroundImage"
    with lab.computing:  # nothing is answered meanwhile
        browser.open(f"{lab.address}#steps=400")
        assert browser.run(seen) == f'url("{lab.address}computing.svg")'
    settle(browser)
    assert browser.run(seen) == "none"
    assert browser.errors() == []


def test_the_payoff_comes_first(browser: Browser, lab: Lab) -> None:
    browser.look(width=1366, height=660, still=True)
    visit(browser, lab)
    sections = [one.get_attribute("id") for one in browser.all("section")]
    assert sections == ["descent", "orbit", "perturbation", "sums", "python"]
    bottom = browser.run(
        "return document.querySelector('[data-plot=wells-mpgd]').getBoundingClientRect().bottom"
    )
    top = browser.run("return document.querySelector('.player').getBoundingClientRect().top")
    assert bottom < top, "the first picture must be seen without scrolling"


def test_every_slider_is_in_sight_on_a_small_laptop(browser: Browser, lab: Lab) -> None:
    browser.look(width=1366, height=660, still=True)
    visit(browser, lab)
    player = browser.run("return document.querySelector('.player').getBoundingClientRect().top")
    for name in CONTROLS:
        box = browser.find(f"#{name}").rect
        assert 0 <= box["y"] < box["y"] + box["height"] < player, name
        assert browser.run(
            "const {x, y, width, height} = arguments[0].getBoundingClientRect();"
            "return document.elementFromPoint(x + width / 2, y + height / 2) === arguments[0]",
            browser.find(f"#{name}"),
        ), name


@pytest.mark.parametrize(
    ("landscape", "slider", "value", "moved", "kept"),
    [
        ("wells", "gamma", 0.6, ("wells-mpgd", "share", *NOISE_PLOTS), ()),
        ("valley", "gamma", 0.6, ("mpgd", "curve"), ()),
        ("valley", "beta", -0.5, ("values", "sums", "law", "mpgd", "curve"), ("map",)),
        ("wells", "seed", 5, ("wells-mpgd", "share", *NOISE_PLOTS), ()),
        ("valley", "decay", 0.5, ("gaussian", "mpgd", "curve"), NOISE_PLOTS),
        ("valley", "force", 1.0, ("gaussian", "mpgd", "curve"), NOISE_PLOTS),
        ("rastrigin", "force", 6.0, ("gaussian", "mpgd", "curve"), NOISE_PLOTS),
        ("valley", "eta", -2.5, ("gaussian", "mpgd", "curve"), NOISE_PLOTS),
        ("wells", "eta", -2.5, ("wells-mpgd", "share"), NOISE_PLOTS),
        ("wells", "force", 4.0, ("wells-mpgd", "wells-stable", "slope", "share"), NOISE_PLOTS),
        ("valley", "steps", 600, ("orbit", "values", "sums", "law", "curve"), ()),
    ],
)
def test_a_slider_moves_its_plots_and_no_other(
    landscape: str,
    slider: str,
    value: float,
    moved: tuple[str, ...],
    kept: tuple[str, ...],
    browser: Browser,
    lab: Lab,
) -> None:
    browser.look(still=True)
    visit(browser, lab, f"steps=400&landscape={landscape}")
    before = pictures(browser, (*SHOWN[landscape], *NOISE_PLOTS))
    browser.run(SLIDE, slider, value)
    settle(browser)
    different = changed(browser, before)
    assert set(moved) <= different
    assert not set(kept) & different
    assert f"{slider}=" in browser.run("return location.hash")
    assert browser.errors() == []


def test_each_landscape_keeps_its_own_sliders(browser: Browser, lab: Lab) -> None:
    browser.look(still=True)
    visit(browser, lab)

    def value(name: str) -> float:
        return float(browser.find(f"#{name}-number").get_property("value"))

    browser.run(SLIDE, "force", 4.0)
    browser.find("[name=landscape][value=valley]").click()
    settle(browser)
    assert browser.find("[data-plot=mpgd]").is_displayed()
    assert not browser.find("[data-plot=wells-mpgd]").is_displayed()
    assert (value("force"), value("decay")) == (0.211, 0.0844)
    assert "= 0.05" in browser.find("#force-formula").text  # the paper's sigma
    assert "= 0.02" in browser.find("#decay-formula").text  # and mu
    browser.find("[name=landscape][value=wells]").click()
    settle(browser)
    assert value("force") == 4.0
    assert not browser.find("#decay").is_enabled()
    browser.find("#reset").click()
    assert value("force") == 2.0


def test_the_walkers_in_the_wells_move(browser: Browser, lab: Lab) -> None:
    browser.look(still=True)
    visit(browser, lab)
    seen = []
    for step in (0, 100, 200, 400):
        browser.run(SLIDE, "time", step)
        seen.append(pictures(browser, WELLS))
    for name in WELLS:
        count = 1 if name == "slope" else 4  # the slopes stay
        assert len({picture[name] for picture in seen}) == count, name


def test_a_path_that_runs_off_says_at_which_step(browser: Browser, lab: Lab) -> None:
    browser.look(still=True)
    visit(browser, lab, "landscape=valley&eta=0.5&force=0.7&decay=0.7&steps=200")
    off = browser.run(
        "return fetch('api/descent?eta=0.5&force=0.7&decay=0.7&steps=200')"
        ".then((answer) => answer.json()).then((numbers) => numbers.schemes.mpgd.off)"
    )
    label = browser.find("[data-plot=mpgd]").get_attribute("aria-label")
    assert label.endswith(f"It runs off at step {off}.")
    assert f"the one drawn at step {off}" in browser.find("#verdict").text
    assert "runs off" not in browser.find("[data-plot=gd]").get_attribute("aria-label")


def test_a_formula_beside_a_slider_is_one_whole_line(browser: Browser, lab: Lab) -> None:
    browser.look(width=1366, height=660, still=True)
    visit(browser, lab, "landscape=valley&steps=200")
    for one in browser.all(".slider .formula"):
        wide, shown, tall = browser.run(
            "const one = arguments[0]; return [one.scrollWidth, one.clientWidth, one.offsetHeight]",
            one,
        )
        assert wide <= shown, one.text
        assert tall < 32, one.text
    assert browser.find(".slider:has(#force)").get_attribute("title").endswith("of the slope")


def test_a_line_is_explained_where_it_is_in_view(browser: Browser, lab: Lab) -> None:
    browser.look(still=True)
    for eta, seen in ((0.01, False), (0.05, True)):
        visit(browser, lab, f"landscape=valley&eta={eta}&steps=200")
        assert browser.find("#land-note").text.startswith("Dotted") is seen


def test_a_section_is_saved_as_png(browser: Browser, lab: Lab, tmp_path: Path) -> None:
    browser.look(still=True)
    visit(browser, lab)
    options = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.driver.execute_cdp_cmd("Page.setDownloadBehavior", options)
    before = pictures(browser, WELLS)
    browser.find("#descent .save").click()
    file = tmp_path / "mpgd-descent.png"
    browser.until(file.exists, "the file")
    content = file.read_bytes()
    assert content.startswith(b"\x89PNG")
    shown = browser.find("#descent .three").size["width"]
    assert int.from_bytes(content[16:20], "big") >= 2 * shown  # sharp enough for paper
    assert changed(browser, before) == set()  # the page is as it was
    assert browser.errors() == []


def test_schemes_have_the_colours_of_the_report(browser: Browser, lab: Lab) -> None:
    browser.look(still=True)
    visit(browser, lab)
    for dark in (False, True):
        browser.look(still=True, dark=dark)
        for scheme, name in colors.SCHEMES.items():
            assert shade(browser, scheme) == colors.PALETTE[name][dark], scheme
    browser.find("[name=scheme][value=symmetric]").click()
    settle(browser)
    assert shade(browser, "mpgd") == colors.PALETTE["green"][1]


def shade(browser: Browser, name: str) -> str:
    """Return a colour as the plots read it."""
    script = "return getComputedStyle(document.documentElement).getPropertyValue(arguments[0])"
    return str(browser.run(script, f"--{name}")).strip()


def test_scheme_buttons(browser: Browser, lab: Lab) -> None:
    browser.look(still=True)
    visit(browser, lab)
    for scheme in ("symmetric", "product", "plain"):
        before = pictures(browser, ("sums", "law", "wells-mpgd"))
        browser.find(f"[name=scheme][value={scheme}]").click()
        settle(browser)
        assert changed(browser, before) == {"sums", "law", "wells-mpgd"}
    assert browser.errors() == []


def test_play_moves_time_and_pause_stops_it(browser: Browser, lab: Lab) -> None:
    visit(browser, lab)
    browser.until(lambda: browser.find("#step").text != "step 0 of 400", "to play by itself")
    browser.run(SLIDE, "time", 0)
    assert browser.find("#play").get_attribute("aria-label") == "Play"
    # At a tenth of the speed a run lasts for minutes, so that no slow machine finds it at its end.
    browser.run("document.getElementById('speed').value = '0.1'")
    before = pictures(browser, ("map", "orbit", "values", "sums", "wells-mpgd", "share"))
    browser.find("#play").click()
    assert browser.find("#play").get_attribute("aria-label") == "Pause"
    browser.until(lambda: changed(browser, before) == set(before), "all to move", 60)
    browser.find("#play").click()
    assert browser.find("#play").get_attribute("aria-label") == "Play"
    shown, still = browser.find("#step").text, pictures(browser, (*WELLS, *NOISE_PLOTS))
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
        "force",
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
    visit(
        browser, lab, "gamma=0.65&beta=-0.25&steps=300&scheme=symmetric&seed=9&landscape=rastrigin"
    )
    assert browser.find("#gamma-number").get_property("value") == "0.65"
    assert browser.find("[value=symmetric]").is_selected()
    assert browser.find("[value=rastrigin]").is_selected()
    assert "noise.path(300, (2,), seed=9)" in browser.find("#code").text
    browser.find("#reset").click()
    settle(browser)
    assert "gamma=0.7&beta=0.5" in browser.run("return location.hash")
    visit(browser, lab, "gamma=<b>x</b>&scheme=<img src=x onerror=alert(1)>&steps=250&landscape=x")
    assert browser.find("#gamma-number").get_property("value") == "0.7"
    assert browser.errors() == []


def test_a_number_out_of_range_is_explained(browser: Browser, lab: Lab) -> None:
    browser.look(still=True)
    visit(browser, lab, "gamma=2&steps=200")
    problem = browser.find("#problem")
    assert problem.is_displayed()
    assert problem.text == "gamma must lie in (0.5, 0.99], got 2.0"
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


def test_code_on_a_phone_shows_that_it_goes_on(browser: Browser, lab: Lab) -> None:
    browser.look(width=375, height=812, still=True)
    visit(browser, lab)
    code = browser.find("#python pre")
    assert code.value_of_css_property("background-attachment") == "local, scroll, scroll"


def test_sliders_open_over_the_plots_on_a_phone(browser: Browser, lab: Lab) -> None:
    browser.look(width=375, height=812, still=True)
    visit(browser, lab)
    assert not browser.find("#gamma").is_displayed()
    browser.find("#sliders").click()
    assert browser.find("#gamma").is_displayed()
    assert browser.find("#sliders").get_attribute("aria-expanded") == "true"
    top = browser.run("return document.getElementById('controls').getBoundingClientRect().top")
    assert top > 300, "the plots must stay in view"
