"""A headless Chromium for tests: what a page shows, what it complains about, what it asks for.

Debian's packages chromium and chromium-driver are all that is needed; nothing is downloaded.
"""

from __future__ import annotations

import base64
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)
LOGS = {"browser": "ALL", "performance": "ALL"}
HERE = ("127.0.0.1", "localhost")  # hosts of this machine


class Browser:
    """One page in Chromium.

    Attributes:
        driver: the selenium driver, for everything not offered here.
    """

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver
        self._messages: list[dict[str, Any]] = []
        self._console: list[dict[str, Any]] = []
        self._drain()  # what an earlier page left
        self._messages, self._console = [], []

    def look(
        self,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        still: bool = False,
        scale: float = 1.0,
    ) -> None:
        """Set the window, light or dark, and whether the reader asks for no motion."""
        screen = {"width": width, "height": height, "deviceScaleFactor": scale}
        self._ask("Emulation.setDeviceMetricsOverride", screen | {"mobile": width < 600})
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        motion = {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"}
        self._ask("Emulation.setEmulatedMedia", {"features": [scheme, motion]})

    def open(self, page: str | Path) -> None:
        """Load an address or a file and wait until it is loaded."""
        self.driver.get(page.resolve().as_uri() if isinstance(page, Path) else page)

    def run(self, script: str, *arguments: Any) -> Any:
        """Return the value of a JavaScript body, such as ``return document.title``."""
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> WebElement:
        """Return the first element of a CSS selector."""
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[WebElement]:
        """Return all elements of a CSS selector."""
        return self.driver.find_elements("css selector", selector)

    def until(self, condition: Callable[[], Any], what: str, seconds: float = 20.0) -> Any:
        """Wait until ``condition`` returns something true, and return it."""
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, seconds, 0.05).until(lambda _: condition(), what)

    def screenshot(self, path: Path, whole: bool = True) -> Path:
        """Write a PNG of the whole page, or of what the window shows."""
        options: dict[str, Any] = {"format": "png"}
        if whole:
            height = self.run("return document.documentElement.scrollHeight")
            width = self.run("return document.documentElement.clientWidth")
            clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
            options |= {"captureBeyondViewport": True, "clip": clip}
        path.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot", options)["data"]))
        return path

    def errors(self) -> list[str]:
        """Return what the console has shown of errors and warnings since the test began."""
        self._drain()
        return [
            entry["message"] for entry in self._console if entry["level"] in ("SEVERE", "WARNING")
        ]

    def requests(self) -> list[str]:
        """Return the addresses the page has asked for since the test began."""
        self._drain()
        return [
            message["params"]["request"]["url"]
            for message in self._messages
            if message["method"] == "Network.requestWillBeSent"
        ]

    def strangers(self) -> list[str]:
        """Return the addresses asked for that are not on this machine."""
        return [
            url
            for url in self.requests()
            if urlsplit(url).scheme not in ("file", "data", "blob", "about", "chrome")
            and urlsplit(url).hostname not in HERE
        ]

    def _drain(self) -> None:
        self._console += self.driver.get_log("browser")
        entries = self.driver.get_log("performance")
        self._messages += [json.loads(entry["message"])["message"] for entry in entries]

    def _ask(self, command: str, options: dict[str, Any]) -> Any:
        return self.driver.execute_cdp_cmd(command, options)


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that prints nothing."""

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine, at a port that the system chooses; give its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """Start Chromium with an empty profile, or skip where there is none."""
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason='browser tests need selenium: pip install "mpgd[dev]"'
    )
    program = shutil.which("chromium") or shutil.which("google-chrome")
    helper = shutil.which("chromedriver")
    if not program or not helper:
        pytest.skip("browser tests need Debian's packages chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", LOGS)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    # An explicit driver: selenium then looks for none on the network.
    driver = webdriver.Chrome(options, webdriver.ChromeService(executable_path=helper))
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium: Chrome) -> Iterator[Browser]:
    """Return an empty page with nothing logged yet, 1280 x 900, light."""
    chromium.get("about:blank")
    page = Browser(chromium)
    page.look()
    yield page
    chromium.get("about:blank")
