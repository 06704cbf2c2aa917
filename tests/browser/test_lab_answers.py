"""The lab in a real browser: while numbers are computed, with wrong ones, and what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from mpgd import ChaoticNoise
from mpgd_lab.lab.server import Lab
from tests.browser.test_lab_page import (
    COLOURS,
    NOISE_PLOTS,
    SLIDE,
    WELLS,
    changed,
    pictures,
    settle,
    visit,
)

if TYPE_CHECKING:
    from tests.browser.conftest import Browser


def test_an_empty_box_says_that_its_numbers_are_computed(browser: Browser, lab: Lab) -> None:
    browser.look(still=True)
    seen = "return getComputedStyle(document.querySelector('[data-plot=map]')).backgroundImage"
    with lab.computing:  # nothing is answered meanwhile
        browser.open(f"{lab.address}#steps=400")
        assert browser.run(seen) == f'url("{lab.address}computing.svg")'
    settle(browser)
    assert browser.run(seen) == "none"
    assert browser.errors() == []


def test_an_old_picture_stays_dimmed_until_the_new_one_is_there(browser: Browser, lab: Lab) -> None:
    browser.look(still=True)
    visit(browser, lab)
    before = pictures(browser, (*WELLS, *NOISE_PLOTS))
    with lab.computing:  # nothing is answered meanwhile
        browser.run(SLIDE, "force", 4.0)
        assert {opacity(browser, name) for name in WELLS} == {0.45}
        assert {opacity(browser, name) for name in NOISE_PLOTS} == {1.0}  # a force changes none
        assert changed(browser, before) == set()
    settle(browser)
    assert {opacity(browser, name) for name in (*WELLS, *NOISE_PLOTS)} == {1.0}
    assert changed(browser, before) >= {"wells-mpgd", "wells-telegraph", "slope", "share"}


def opacity(browser: Browser, name: str) -> float:
    return float(browser.find(f"[data-plot={name}]").value_of_css_property("opacity"))


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


def test_a_number_out_of_range_is_explained(browser: Browser, lab: Lab) -> None:
    browser.look(still=True)
    visit(browser, lab, "gamma=2&steps=200")
    problem = browser.find("#problem")
    assert problem.is_displayed()
    assert problem.text == "gamma must lie in (0.5, 0.99], got 2.0"
    assert opacity(browser, "wells-mpgd") == 1.0  # there is none to dim
    browser.run(SLIDE, "gamma", 0.7)
    settle(browser)
    assert not problem.is_displayed()


def test_a_mistake_of_one_source_outlives_the_answers_of_others(browser: Browser, lab: Lab) -> None:
    browser.look(still=True)
    visit(browser, lab, "force=30&steps=200")
    assert browser.find("#problem").text == "force must lie in [0, 20], got 30.0"
    assert browser.run(COLOURS, "map") > 8


@pytest.mark.parametrize(
    ("name", "typed", "text", "good"),
    [
        ("gamma", "2", "tail must be from 0.501 to 0.99", "0.65"),
        ("force", "-1", "force must be from 0 to 20", "3"),
        ("steps", "300.5", "steps must be a whole number from 10 to 8,000", "300"),
        ("dwell", "", "dwell must be from 1 to 1,000", "5"),
    ],
)
def test_a_number_that_cannot_be_taken_is_told_the_range(
    name: str, typed: str, text: str, good: str, browser: Browser, lab: Lab
) -> None:
    browser.look(still=True)
    visit(browser, lab)
    before = browser.run("return location.hash")
    number = browser.find(f"#{name}-number")
    wrong = browser.find(f".slider:has(#{name}) .wrong")
    assert not wrong.is_displayed()
    enter(browser, name, typed)
    assert wrong.text == text
    assert number.get_attribute("aria-invalid") == "true"
    browser.run(SLIDE, "seed", 3)  # another slider does not take it away
    settle(browser)
    assert (wrong.text, number.get_property("value")) == (text, typed)
    assert browser.run("return location.hash") == before.replace("seed=0", "seed=3")
    enter(browser, name, good)
    assert not wrong.is_displayed()
    assert f"{name}={good}" in browser.run("return location.hash")
    assert browser.errors() == []


def enter(browser: Browser, name: str, text: str) -> None:
    """Put a text into the number beside a slider, as someone does who leaves the field then."""
    browser.run(
        "const number = document.getElementById(`${arguments[0]}-number`);"
        "number.value = arguments[1]; number.dispatchEvent(new Event('change'))",
        name,
        text,
    )


@pytest.mark.parametrize("scheme", ["plain", "symmetric", "product"])
def test_the_code_of_the_page_runs(scheme: str, browser: Browser, lab: Lab) -> None:
    browser.look(still=True)
    visit(browser, lab, f"steps=200&scheme={scheme}&dwell=7.5&beta=0.25&landscape=valley")
    names: dict[str, Any] = {"model": torch.nn.Linear(3, 1)}
    exec(browser.find("#code").text, names)
    c0 = names["noise"].laminar_value
    shown = (
        "return fetch('api/orbit?steps=200&dwell=7.5&beta=0.25').then((answer) => answer.json())"
    )
    rivals = browser.run(shown)["rivals"]
    assert rivals["telegraph"] == (c0 * names["telegraph"].path(200)).tolist()
    assert rivals["coloured"] == (c0 * names["coloured"].path(200)).tolist()
    assert names["optimizer"].param_groups[0]["force"] == 0.211


def test_the_page_holds_the_librarys_numbers(browser: Browser, lab: Lab) -> None:
    """JSON and JavaScript keep every bit of a double."""
    visit(browser, lab)
    served = browser.run(
        "return fetch('api/orbit?gamma=0.63&beta=0.2&seed=3&steps=200')"
        ".then((answer) => answer.json()).then((numbers) => numbers.v)"
    )
    assert served == ChaoticNoise(0.63, 0.2).path(200, seed=3).tolist()
