"""The lab without a server, as a host of files shows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from mpgd_lab.lab import static_page
from tests.browser.conftest import serve_folder
from tests.browser.test_lab_answers import enter
from tests.browser.test_lab_page import (
    COLOURS,
    NOISE_PLOTS,
    SHOWN,
    SLIDE,
    changed,
    pictures,
    settle,
)

if TYPE_CHECKING:
    from tests.browser.conftest import Browser

ONE = static_page.EVERYWHERE | {"gamma": [0.7], "dwell": [20]}
STOPS = {
    name: stops | ONE | {"force": stops["force"][1:3] if name == "wells" else stops["force"][1:2]}
    for name, stops in static_page.STOPS.items()
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the files of a grid of fewer settings, but for that whole and as it is."""
    folder = tmp_path_factory.mktemp("static") / "lab"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(static_page, "STOPS", STOPS)
        static_page.export(folder)
    with serve_folder(folder) as address:
        yield address


@pytest.mark.parametrize("landscape", SHOWN)
@pytest.mark.parametrize(("width", "dark"), [(1400, False), (390, True)])
def test_what_a_page_shows_first_is_in_the_files(
    width: int, dark: bool, landscape: str, browser: Browser, address: str
) -> None:
    browser.look(width=width, dark=dark, still=True)
    browser.open(f"{address}/#landscape={landscape}")
    settle(browser)
    for name in (*SHOWN[landscape], *NOISE_PLOTS):
        assert browser.run(COLOURS, name) > 8, f"{name} is empty"
    assert not browser.find("#problem").is_displayed()
    assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth")
    assert browser.errors() == []
    assert browser.strangers() == []
    assert not any("/api/" in url for url in browser.requests())


def test_sliders_stop_where_there_are_numbers(browser: Browser, address: str) -> None:
    browser.look(still=True)
    browser.open(f"{address}/")
    settle(browser)
    assert browser.find("#no-server").is_displayed()
    assert not browser.find("[value=symmetric]").is_enabled()
    assert not browser.find("#gamma").is_enabled()
    low, high = STOPS["wells"]["force"]
    assert browser.find("#force-number").get_property("value") == str(high)
    before = pictures(browser, ("wells-mpgd", "slope", "map"))
    browser.run(SLIDE, "force", 0)
    settle(browser)
    assert browser.find("#force-number").get_property("value") == str(low)
    assert changed(browser, before) == {"wells-mpgd", "slope"}
    enter(browser, "force", "1.5")
    said = browser.find(".slider:has(#force) .wrong").text
    assert said == f"force must be {low} or {high} on this page"
    browser.find("[name=landscape][value=valley]").click()
    settle(browser)
    assert browser.find("#force-number").get_property("value") == "0.211"
    assert browser.errors() == []


def test_a_link_to_another_setting_is_explained(browser: Browser, address: str) -> None:
    browser.look(still=True)
    browser.open(f"{address}/#gamma=0.65")
    settle(browser)
    expected = "gamma must be 0.7 on this page, got 0.65; mpgd lab takes any value"
    assert browser.find("#problem").text == expected
    browser.find("#reset").click()
    settle(browser)
    assert not browser.find("#problem").is_displayed()
    assert browser.run(COLOURS, "wells-telegraph") > 8
