"""The lab's server: files of the page, and numbers as JSON, for this machine alone.

    GET /                                          the page, its colours from content/colors.py
    GET /api/orbit, /sums, /descent, /wells        numbers, for the settings in the query

It listens on 127.0.0.1 and answers only to that name or localhost, so that a web site whose name
has been pointed here is refused. Every mistake is answered with ``{"error": text}``. Connections
are limited: when there are too many, the one that has been silent longest is closed.
"""

import errno
import json
import math
import os
import signal
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from typing import Any, Final

import torch

from mpgd.maps.tables import thaler_tables
from mpgd_lab.lab import descent, simulation, wells
from mpgd_lab.lab.settings import from_query
from mpgd_lab.lab.static_page import page

USUAL_PORT: Final = 8642
WAITING: Final = 128  # connections that the kernel keeps until they are taken
MOST: Final = 64  # connections at a time; a browser opens six
LONGEST: Final = 1000  # characters of a request's path and query
HOSTS: Final = ("127.0.0.1", "localhost")
GAMMAS: Final = [round(0.51 + 0.01 * k, 2) for k in range(45)]  # of the slider

ENDPOINTS: Final = {
    "/api/orbit": simulation.orbit,
    "/api/sums": simulation.sums,
    "/api/descent": descent.descent,
    "/api/wells": wells.wells,
}
TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Lab(ThreadingHTTPServer):
    """The server; one computation at a time, since sliders ask faster than a core computes."""

    daemon_threads = True
    request_queue_size = WAITING
    patience = 2.0  # seconds that a connection may be silent though others want its place

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.assets = {f"/{name}": content for name, content in page().items()}
        self.assets["/"] = self.assets["/index.html"]
        self.computing = threading.Lock()
        self.connections: dict[socket.socket, float] = {}  # and since when each is silent
        self.room = threading.Condition()

    @property
    def address(self) -> str:
        """Where a browser finds the page."""
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take a connection when there is room; until then others wait in the kernel's queue."""
        with self.room:
            while len(self.connections) >= MOST and not self._close_silent():
                self.room.wait(0.1)
            self.connections[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection and close it."""
        with self.room:
            self.connections.pop(request, None)
            self.room.notify()
        super().shutdown_request(request)

    def note(self, connection: socket.socket, silent_since: float) -> None:
        """Note since when a connection has been silent: infinity while it is being answered."""
        with self.room:
            if connection in self.connections:  # else it has been closed
                self.connections[connection] = silent_since

    def _close_silent(self) -> bool:
        """Close the connection that has been silent longest, if that is long; return whether."""
        longest = min(self.connections, key=self.connections.__getitem__)
        if time.monotonic() - self.connections[longest] < self.patience:
            return False
        del self.connections[longest]
        with suppress(OSError):
            longest.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for a word
        return True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that has hung up."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """The answer to one request."""

    server: Lab
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "mpgd", ""
    timeout = 60  # seconds, of a silent connection
    disable_nagle_algorithm = True  # else a body waits 40 ms until its header is acknowledged

    def do_GET(self) -> None:
        """Answer, and keep the connection meanwhile."""
        self.server.note(self.connection, math.inf)
        try:
            self._answer()
        finally:
            self.server.note(self.connection, time.monotonic())

    do_HEAD = do_GET  # noqa: N815

    def _answer(self) -> None:
        """Send a file of the page, numbers, or what is wrong."""
        path, _, query = self.path.partition("?")
        if not self._is_from_here():
            self.send_error(HTTPStatus.FORBIDDEN, "this page is for this machine alone")
        elif len(self.path) > LONGEST:
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG, f"at most {LONGEST} characters")
        elif "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.send_error(HTTPStatus.BAD_REQUEST, "a request must have no body")
        elif path in self.server.assets:
            kind = TYPES[path.rpartition(".")[2] if path != "/" else "html"]
            self._send(HTTPStatus.OK, kind, self.server.assets[path])
        elif path in ENDPOINTS:
            self._compute(ENDPOINTS[path], query)
        else:
            self.send_error(HTTPStatus.NOT_FOUND, f"there is no {path}")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send the error as JSON, and end the connection: what follows may be no request."""
        self.close_connection = True
        self._send_json(code, {"error": message or HTTPStatus(code).phrase})

    def log_message(self, format: str, *args: Any) -> None:
        """Keep no log of requests."""

    def _is_from_here(self) -> bool:
        port = self.server.server_address[1]
        host = self.headers.get("Host", "").lower()
        host = f"{host}:80" if host in HOSTS else host  # browsers leave out the usual port
        site = self.headers.get("Sec-Fetch-Site", "none")  # browsers tell which page is asking
        return host in [f"{name}:{port}" for name in HOSTS] and site in ("none", "same-origin")

    def _compute(self, work: Callable[..., Mapping[str, Any]], query: str) -> None:
        try:
            settings = from_query(query)
            with self.server.computing:
                numbers = work(settings)
        except (ValueError, TypeError) as mistake:
            self.send_error(HTTPStatus.BAD_REQUEST, str(mistake))
        except Exception as problem:
            self.send_error(
                HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(problem).__name__}: {problem}"
            )
        else:
            self._send_json(HTTPStatus.OK, numbers)

    def _send_json(self, code: int, numbers: Mapping[str, Any]) -> None:
        body = json.dumps(numbers, allow_nan=False, separators=(",", ":")).encode()
        self._send(code, "application/json", body)

    def _send(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": len(body)}.items():
            self.send_header(name, str(value))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def serve(port: int | None, say: Callable[[str], None], open_browser: bool = True) -> None:
    """Serve the lab until Ctrl-C; ``say`` is told the address, and the end.

    Without a port it is the usual one, or any free one if that is taken.
    """
    torch.set_num_threads(1)  # on arrays this small more threads wait for each other
    with make_server(port) as server, tables_in_background():
        say(f"the lab is at {server.address}    (Ctrl-C ends it)")
        if open_browser and has_screen():
            threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
        try:
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            say("the lab is closed")


def make_server(port: int | None) -> Lab:
    """Return a server that listens; OSError says so if the port is taken."""
    try:
        return Lab(USUAL_PORT if port is None else port)
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE and port is None:
            return Lab(0)
        reason = "is taken" if problem.errno == errno.EADDRINUSE else f"cannot be used: {problem}"
        raise OSError(f"port {port} {reason}; without --port a free one is found") from None


def has_screen() -> bool:
    """Return whether a browser would open a window rather than take over the terminal."""
    windows = sys.platform in ("win32", "darwin")
    return windows or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


@contextmanager
def tables_in_background() -> Iterator[None]:
    """Make the tables of all gammas of the slider meanwhile, with the lowest priority.

    A new gamma takes a second, once; a slider should not.
    """
    process = get_context("spawn").Process(target=_make_tables, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _make_tables() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    if hasattr(os, "nice"):
        os.nice(19)
    for gamma in sorted(GAMMAS, key=lambda gamma: abs(gamma - 0.7)):
        thaler_tables(gamma)
