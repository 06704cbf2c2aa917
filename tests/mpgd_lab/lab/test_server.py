"""The lab's server as a browser, a stranger and a user with Ctrl-C meet it."""

from __future__ import annotations

import gc
import http.client
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tracemalloc
from contextlib import ExitStack, closing, suppress

import pytest

from mpgd import ChaoticNoise
from mpgd_lab.lab.server import ENDPOINTS, MOST, Lab, make_server
from tests.conftest import hear_interrupts

COMMAND = [sys.executable, "-m", "mpgd_lab.cli", "lab", "--no-browser"]


def connect(port: int) -> closing[http.client.HTTPConnection]:
    return closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60))


def get(
    lab: Lab, path: str, method: str = "GET", body: str | None = None, **headers: str
) -> tuple[int, bytes]:
    with connect(lab.server_address[1]) as connection:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def test_the_perturbation_served_is_chaotic_noise_to_the_last_bit(lab: Lab) -> None:
    status, body = get(lab, "/api/orbit?gamma=0.63&beta=-0.35&seed=11&steps=500")
    assert status == 200
    assert json.loads(body)["v"] == ChaoticNoise(0.63, -0.35).path(500, seed=11).tolist()
    assert json.loads(body)["v"] != ChaoticNoise(0.63, -0.35).path(500, seed=12).tolist()


@pytest.mark.parametrize("path", ENDPOINTS)
def test_every_endpoint_answers_in_json(lab: Lab, path: str) -> None:
    status, body = get(lab, f"{path}?steps=100")
    assert status == 200
    assert json.loads(body)


def test_several_requests_on_one_connection(lab: Lab) -> None:
    with connect(lab.server_address[1]) as connection:
        for path in ("/", "/lab.js", "/api/orbit?steps=10"):
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == 200
            assert answer.read()
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


def test_the_page_names_nothing_outside_this_machine(lab: Lab) -> None:
    for path, content in lab.assets.items():
        addresses = re.findall(rb"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"']*", content)
        assert [a for a in addresses if a != b"http://www.w3.org/2000/svg"] == [], path


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/api/orbit?gamma=2", 400, "gamma must lie in (0.5, 0.99], got 2.0"),
        ("/api/sums?steps=9000", 400, "steps must be an integer in [10, 8000], got 9000"),
        ("/api/descent?eta=x", 400, "eta must be a number, got 'x'"),
        ("/api/nothing", 404, "there is no /api/nothing"),
        ("/../server.py", 404, "there is no /../server.py"),
        ("/%2e%2e/server.py", 404, "there is no /%2e%2e/server.py"),
        ("/?" + "x" * 2000, 414, "at most 1000 characters"),
    ],
)
def test_a_mistake_is_answered_in_json(lab: Lab, path: str, status: int, text: str) -> None:
    assert get(lab, path) == (status, json.dumps({"error": text}, separators=(",", ":")).encode())


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_there_is_nothing_to_change(lab: Lab, method: str) -> None:
    status, body = get(lab, "/api/orbit", method)
    assert status == 501
    assert "error" in json.loads(body)


def test_a_body_is_refused(lab: Lab) -> None:
    assert get(lab, "/api/orbit", body="x" * 10)[0] == 400


def test_head_has_no_body(lab: Lab) -> None:
    assert get(lab, "/", "HEAD") == (200, b"")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Host": "127.0.0.1"},  # another port
        {"Host": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_strangers_are_refused(lab: Lab, headers: dict[str, str]) -> None:
    assert get(lab, "/", **headers)[0] == 403
    assert get(lab, "/api/orbit?steps=10", **headers)[0] == 403
    assert get(lab, "/", Host=f"LocalHost:{lab.server_address[1]}")[0] == 200


def test_it_listens_on_this_machine_alone(lab: Lab) -> None:
    assert lab.server_address[0] == "127.0.0.1"
    with socket.socket() as outside:
        outside.settimeout(2)
        assert outside.connect_ex(("127.0.0.2", lab.server_address[1])) != 0


@pytest.mark.parametrize(
    "text",
    [b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00\xff\r\n\r\n", b"GET " + b"/" * 70000],
)
def test_noise_on_the_line_does_no_harm(lab: Lab, text: bytes) -> None:
    with socket.create_connection(lab.server_address[:2], timeout=10) as line:
        line.sendall(text)
        line.shutdown(socket.SHUT_WR)
        while line.recv(65536):
            pass
    assert get(lab, "/")[0] == 200


def test_a_browser_that_hangs_up_is_not_missed(lab: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        with socket.create_connection(lab.server_address[:2]) as line:
            host = f"127.0.0.1:{lab.server_address[1]}"
            line.sendall(f"GET /api/descent?steps=200 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert get(lab, "/api/orbit?steps=10")[0] == 200
    assert capfd.readouterr().err == ""


def test_silent_connections_are_limited(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that says nothing, or never ends its request, gives way to one that asks."""
    monkeypatch.setattr(lab, "patience", 0.0)
    with ExitStack() as stack:
        place = lab.server_address[:2]
        lines = [
            stack.enter_context(socket.create_connection(place, timeout=60))
            for _ in range(MOST + 20)
        ]
        for line in lines[:10]:
            with suppress(ConnectionError):  # closed already
                line.sendall(b"GET / HTTP/1.1\r\nHost: ")
        assert get(lab, "/api/orbit?steps=10")[0] == 200
        assert len(lab.connections) <= MOST
        for line in lines[:21]:
            assert ended(line)


def ended(line: socket.socket) -> bool:
    """Wait until the other side has closed a connection."""
    try:
        return line.recv(1) == b""
    except ConnectionError:
        return True


def test_a_connection_that_is_being_answered_is_never_closed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "patience", 0.0)
    with ExitStack() as stack, lab.computing:
        place, host = lab.server_address[:2], f"127.0.0.1:{lab.server_address[1]}"
        asks = stack.enter_context(socket.create_connection(place, timeout=60))
        asks.sendall(f"GET /api/orbit?steps=10 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        while math.inf not in lab.connections.values():  # it waits for the computation
            time.sleep(0.001)
        for _ in range(2 * MOST):
            stack.enter_context(socket.create_connection(place, timeout=60))
        assert get(lab, "/")[0] == 200
        lab.computing.release()
        assert asks.recv(12) == b"HTTP/1.1 200"
        lab.computing.acquire()


def test_fifty_browsers_may_knock_at_once(lab: Lab) -> None:
    """Nobody takes a connection meanwhile; the kernel keeps them all."""
    with ExitStack() as stack:
        with lab.room:
            place, host = lab.server_address[:2], f"127.0.0.1:{lab.server_address[1]}"
            lines = [
                stack.enter_context(socket.create_connection(place, timeout=60)) for _ in range(50)
            ]
        for line in lines:
            line.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert [line.recv(12) for line in lines] == [b"HTTP/1.1 200"] * 50


def test_requests_leave_nothing_in_memory(lab: Lab) -> None:
    """`python -m tools.attack` asks ten thousand times."""
    ask(lab, 100)
    gc.collect()
    tracemalloc.start()
    ask(lab, 200)
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 100_000  # 500 bytes a request


def ask(lab: Lab, count: int) -> None:
    """Ask for the page, for numbers one time in twenty, and for what there is not."""
    with connect(lab.server_address[1]) as connection:
        for number in range(count):
            others = ("/", "/lab.js", f"/api/orbit?steps={10**6 + number}", f"/{number}")
            numbers = f"/api/orbit?steps=10&seed={number}"
            connection.request("GET", numbers if number % 20 == 0 else others[number % 4])
            assert connection.getresponse().read()


def test_a_taken_port_is_an_error_and_without_a_port_another_is_found() -> None:
    with make_server(None) as first, make_server(None) as second:
        assert first.server_address != second.server_address
        port = second.server_address[1]
        done = subprocess.run([*COMMAND, "--port", str(port)], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == f"mpgd: port {port} is taken; without --port a free one is found\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_the_command_serves_and_ends_cleanly(number: int, code: int) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_interrupts,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
    assert found, line
    with connect(int(found[1])) as connection:
        connection.request("GET", "/")
        assert b"<title>mpgd lab</title>" in connection.getresponse().read()
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == code
    assert "Traceback" not in errors
